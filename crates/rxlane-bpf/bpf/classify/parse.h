/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One pass over the headers. The reference is rxlane-policy/src/headers.rs; a test holds the two to the
 * same answer on generated and mutated frames.
 */
#ifndef RXLANE_PARSE_H
#define RXLANE_PARSE_H

#include "lib/skb.h"
#include "classify/tags.h"

#define NO_VLAN 4096
#define NO_PCP 8
#define NO_PORT 65536

enum parsed { PARSED_IPV4, PARSED_IPV6, PARSED_NOT_IP, PARSED_MALFORMED };

struct packet {
	void *data;
	void *data_end;
	__u64 v6; /* which of the two headers it has; the verifier follows a number, not a null pointer */
	union {
		struct iphdr *ip4;
		struct ipv6hdr *ip6;
	};
	__u32 ingress; /* ifindex of the port or, of a tagged packet, of the VLAN device over it */
	__u32 tags; /* TAG_* and id of the outer tag in the low half, of the inner one in the high half; 0: none */
	__u32 l2; /* bytes before the packet: Ethernet, tags, and what it is encapsulated in */
	__u32 src_port; /* host order or NO_PORT */
	__u32 dst_port;
	__u16 vlan; /* id of the outer tag or NO_VLAN */
	__be16 type; /* of what the frame carries, behind tags; in a session its protocol of PPP */
	__u8 pcp;
	__u8 port; /* ingress port */
	__u8 dscp;
	__u8 protocol;
	__u8 fragment;
	__u8 port_flags; /* of the ingress port */
	void *l4; /* transport header, where the packet carries ports */
	__u32 l4_len; /* bytes from there to the end of the IP packet, which padding may follow */
};

/* Bytes of the IP packet with its header, which padding may follow. */
static __always_inline __u32 ip_length(const struct packet *p)
{
	return p->v6 ? bpf_ntohs(p->ip6->payload_len) + sizeof(struct ipv6hdr) : bpf_ntohs(p->ip4->tot_len);
}

/*
 * What a driver cannot receive into one page comes in several pieces (multi-buffer XDP), of which the first can be
 * read. That must have all headers; an skb that a local sender made often has no more than these there, with ports.
 */
#define FIRST_PIECE(header) (ON_SKB ? sizeof(header) + 8 : 64)

/* Whether a packet of that length is there, after its first piece. */
static __always_inline int is_there(struct xdp_md *ctx, const struct packet *p, void *l3, __u64 len, __u64 first)
{
	if (l3 + len <= p->data_end)
		return 1;
	return l3 + first <= p->data_end && bpf_xdp_get_buff_len(ctx) >= p->l2 + len;
}

/* Bytes of the frame that can be read. */
static __always_inline __u64 readable(const struct packet *p)
{
	/* As a 64-bit number: a 32-bit copy of a pointer is none to Linux 6.1. */
	return masked(p->data_end - p->data, 0x1ffff);
}

static __always_inline int is_in_pieces(const struct packet *p)
{
	return p->l2 + ip_length(p) > readable(p);
}

static __always_inline void parse_ports(struct packet *p, void *l4, __u32 len)
{
	__be16 *ports = l4;

	switch (p->protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_DCCP:
	case IPPROTO_SCTP:
	case IPPROTO_UDPLITE:
		break;
	default:
		return;
	}
	/* len: to the end of the IP packet; data_end: of what the verifier lets us read. */
	if (len < 4 || l4 + 4 > p->data_end)
		return;
	p->src_port = bpf_ntohs(ports[0]);
	p->dst_port = bpf_ntohs(ports[1]);
	p->l4 = l4;
	p->l4_len = len;
}

static __always_inline int parse_ipv4(struct xdp_md *ctx, struct packet *p, void *l3)
{
	struct iphdr *ip = l3;
	__u64 header_len, total_len;
	__u32 fragmentation;

	if (l3 + sizeof(*ip) > p->data_end)
		return PARSED_MALFORMED;
	header_len = masked(ip->ihl * 4, 15 * 4);
	total_len = masked(bpf_ntohs(ip->tot_len), 0xffff);
	if (ip->version != 4 || header_len < sizeof(*ip) || total_len < header_len)
		return PARSED_MALFORMED;
	if (!is_there(ctx, p, l3, total_len, FIRST_PIECE(struct iphdr)))
		return PARSED_MALFORMED;
	fragmentation = bpf_ntohs(ip->frag_off) & 0x3fff;
	p->v6 = told(0);
	p->ip4 = ip;
	p->dscp = ip->tos >> 2;
	p->protocol = ip->protocol;
	p->fragment = fragmentation != 0;
	if (!(fragmentation & 0x1fff))
		parse_ports(p, l3 + header_len, total_len - header_len);
	return PARSED_IPV4;
}

static __always_inline int parse_ipv6(struct xdp_md *ctx, struct packet *p, void *l3)
{
	struct ipv6hdr *ip = l3;
	__u64 payload_len;

	if (l3 + sizeof(*ip) > p->data_end)
		return PARSED_MALFORMED;
	payload_len = masked(bpf_ntohs(ip->payload_len), 0xffff);
	if (ip->version != 6 || !is_there(ctx, p, l3, sizeof(*ip) + payload_len, FIRST_PIECE(struct ipv6hdr)))
		return PARSED_MALFORMED;
	p->v6 = told(1);
	p->ip6 = ip;
	p->dscp = (ip->priority << 2) | (ip->flow_lbl[0] >> 6);
	p->protocol = ip->nexthdr;
	p->fragment = ip->nexthdr == IPPROTO_FRAGMENT;
	parse_ports(p, l3 + sizeof(*ip), payload_len);
	return PARSED_IPV6;
}

/* Of a frame that is to us. */
static __always_inline int parse(struct xdp_md *ctx, struct packet *p)
{
	struct ethhdr *eth = p->data;
	void *l3 = p->data + sizeof(*eth);
	__be16 type;
	int i;

	if (l3 > p->data_end)
		return PARSED_MALFORMED;
	type = eth->h_proto;
	p->tags = 0;
	p->vlan = NO_VLAN;
	p->pcp = NO_PCP;
	p->src_port = NO_PORT;
	p->dst_port = NO_PORT;
	UNROLLED
	for (i = 0; i < 2; i++) {
		struct vlan_tag *tag = l3;

		if (!is_vlan(type))
			break;
		if ((void *)(tag + 1) > p->data_end)
			return PARSED_MALFORMED;
		p->tags |= tag_word(type, tag->tci) << 16 * i;
		if (i == 0) {
			p->vlan = bpf_ntohs(tag->tci) & 0xfff;
			p->pcp = bpf_ntohs(tag->tci) >> 13;
		}
		type = tag->inner;
		l3 = tag + 1;
	}
	p->type = type;
	p->l2 = l2_length(p->tags);
	if (type == bpf_htons(ETH_P_IP))
		return parse_ipv4(ctx, p, l3);
	if (type == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(ctx, p, l3);
	return PARSED_NOT_IP;
}

/*
 * The packet in a session, of a frame that has been parsed and carries one: what else is in it (links, addresses, keys
 * are agreed on there) is no IP packet. Only with all of the protocol's bytes, and no longer than the session says.
 */
static __always_inline int parse_session(struct xdp_md *ctx, struct packet *p)
{
	__u64 l2 = masked(p->l2, MAX_L2), length;
	struct session_header *session = p->data + l2;
	void *l3 = session + 1;
	int parsed;

	if (l3 > p->data_end)
		return PARSED_MALFORMED;
	length = bpf_ntohs(session->length);
	p->tags |= TAG_SESSION;
	p->l2 += sizeof(*session);
	p->type = session->protocol;
	if (session->version != SESSION_VERSION || session->code ||
	    bpf_xdp_get_buff_len(ctx) < l2 + __builtin_offsetof(struct session_header, protocol) + length)
		return PARSED_MALFORMED;
	if (session->protocol == bpf_htons(PPP_IPV4))
		parsed = parse_ipv4(ctx, p, l3);
	else if (session->protocol == bpf_htons(PPP_IPV6))
		parsed = parse_ipv6(ctx, p, l3);
	else
		return PARSED_NOT_IP;
	if (parsed == PARSED_MALFORMED || sizeof(session->protocol) + ip_length(p) > length)
		return PARSED_MALFORMED;
	return parsed;
}

/* RFC 1812 5.3.7 and 4.2.2.11: addresses that are never forwarded. */
static __always_inline int special_v4(__be32 address)
{
	__u32 a = bpf_ntohl(address);

	return a >> 24 == 0 || a >> 24 == 127 || a >= 0xe0000000 || a >> 16 == 0xa9fe;
}

/* Unspecified, loopback and v4-mapped (::/80), link-local (fe80::/10), multicast (ff00::/8). */
static __always_inline int special_v6(const struct in6_addr *address)
{
	const __be32 *a = address->in6_u.u6_addr32;

	return (a[0] == 0 && a[1] == 0 && (a[2] & bpf_htonl(0xffff0000)) == 0) ||
	       (a[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000) ||
	       (a[0] & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000);
}

/* A sum of 16-bit words, folded (RFC 1071). */
static __always_inline __u16 folded_sum(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* The sum over a header without options, of which the checksum is the complement while its own field is 0. */
static __always_inline __u16 ipv4_sum(const struct iphdr *ip)
{
	const __u32 *w = (const __u32 *)ip;
	__u64 sum = 0;

	UNROLLED
	for (__u32 i = 0; i < sizeof(*ip) / sizeof(*w); i++)
		sum += w[i];
	return folded_sum(sum);
}

static __always_inline int ipv4_checksum_holds(const struct iphdr *ip)
{
	return ipv4_sum(ip) == 0xffff;
}

/*
 * ICMP errors: destination unreachable, source quench, redirect, time exceeded, parameter problem (RFC 792), and those
 * of ICMPv6, whose types are below 128 (RFC 4443). Linux chooses among several next hops by the packet that an error is
 * about.
 */
static __always_inline int is_error_v4(const __u8 *type, const void *data_end)
{
	if ((void *)(type + 1) > data_end)
		return 0;
	return *type == 3 || *type == 4 || *type == 5 || *type == 11 || *type == 12;
}

static __always_inline int is_error_v6(const __u8 *type, const void *data_end)
{
	return (void *)(type + 1) <= data_end && *type < 128;
}

/* The first reason why the express lane cannot take the packet, or -1. */
static __always_inline int obstacle(const struct packet *p)
{
	if (p->port_flags & PORT_HIDES_TAGS)
		return REASON_VLAN;
	if (!p->v6) {
		if (p->ip4->ihl > 5)
			return REASON_OPTIONS;
		if (!ipv4_checksum_holds(p->ip4))
			return REASON_MALFORMED;
		if (special_v4(p->ip4->saddr) || special_v4(p->ip4->daddr))
			return REASON_SPECIAL_ADDRESS;
		if (p->ip4->ttl <= 1)
			return REASON_TTL;
		if (p->fragment)
			return REASON_FRAGMENT;
		return p->protocol == IPPROTO_ICMP && is_error_v4((void *)(p->ip4 + 1), p->data_end) ? REASON_ICMP_ERROR
												     : -1;
	}
	/* Behind these Linux looks for protocol and ports, by which policy rules and multipath routes go. */
	if (p->ip6->nexthdr == IPPROTO_HOPOPTS || p->ip6->nexthdr == IPPROTO_ROUTING ||
	    p->ip6->nexthdr == IPPROTO_DSTOPTS)
		return REASON_OPTIONS;
	if (special_v6(&p->ip6->saddr) || special_v6(&p->ip6->daddr))
		return REASON_SPECIAL_ADDRESS;
	if (p->ip6->hop_limit <= 1)
		return REASON_TTL;
	if (p->port_flags & PORT_NO_IPV6)
		return REASON_FORWARDING_OFF;
	if (p->fragment)
		return REASON_FRAGMENT;
	return p->protocol == IPPROTO_ICMPV6 && is_error_v6((void *)(p->ip6 + 1), p->data_end) ? REASON_ICMP_ERROR : -1;
}

#endif
