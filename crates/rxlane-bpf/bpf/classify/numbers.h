/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A parsed packet as numbers and back. Pointers into a packet do not survive the call of a global function; offsets do.
 */
#ifndef RXLANE_NUMBERS_H
#define RXLANE_NUMBERS_H

#include <linux/tcp.h>
#include <linux/udp.h>

/* Bytes of the longest IP packet that a frame leaves as; what is merged is cut into pieces again. */
static __always_inline __u32 longest_packet(const struct packet *p, __u32 merged)
{
	const struct tcphdr *tcp = p->l4;
	__u32 header = sizeof(struct udphdr);

	if (!merged || !tcp)
		return ip_length(p);
	if (p->protocol == IPPROTO_TCP) {
		if ((void *)(tcp + 1) > p->data_end)
			return ip_length(p);
		header = tcp->doff * 4;
	}
	return ip_length(p) - p->l4_len + header + merged;
}

static __always_inline void to_numbers(const struct packet *p, struct parsed_packet *n)
{
	n->multi_buffer = is_in_pieces(p);
	n->length = n->multi_buffer ? p->l2 + ip_length(p) : readable(p);
	n->l4_len = p->l4_len;
	n->ip_bytes = longest_packet(p, ON_SKB ? n->merged : 0);
	n->ingress = p->ingress;
	n->tags = p->tags;
	n->vlan = p->vlan;
	n->pcp = p->pcp;
	n->src_port = p->src_port;
	n->dst_port = p->dst_port;
	n->l3 = p->l2;
	n->l4 = p->l4 ? p->l4 - p->data : 0;
	n->v6 = p->v6;
	n->port = p->port;
	n->dscp = p->dscp;
	n->protocol = p->protocol;
	n->fragment = p->fragment;
	n->port_flags = p->port_flags;
}

/* The packet as it was, or -1: never, but the verifier cannot know. */
static __always_inline int from_numbers(struct xdp_md *ctx, const struct parsed_packet *n, struct packet *p)
{
	void *l3;

	p->data = packet_pointer(ctx->data);
	p->data_end = packet_pointer(ctx->data_end);
	p->l4_len = n->l4_len;
	p->ingress = n->ingress;
	p->tags = n->tags;
	p->l2 = n->l3;
	p->vlan = n->vlan;
	p->pcp = n->pcp;
	p->src_port = n->src_port;
	p->dst_port = n->dst_port;
	p->port = n->port;
	p->dscp = n->dscp;
	p->protocol = n->protocol;
	p->fragment = n->fragment;
	p->port_flags = n->port_flags;
	p->l4 = n->l4 ? p->data + masked(n->l4, 127) : 0;
	l3 = p->data + masked(n->l3, MAX_L2);
	if (n->v6) {
		p->v6 = told(1);
		p->ip6 = l3;
		return l3 + sizeof(*p->ip6) > p->data_end ? -1 : 0;
	}
	p->v6 = told(0);
	p->ip4 = l3;
	return l3 + sizeof(*p->ip4) > p->data_end ? -1 : 0;
}

#endif
