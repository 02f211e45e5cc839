/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The outer header of a packet that the kernel has, for those who watch it taking packets out of tunnels and sending
 * them.
 */
#ifndef RXLANE_OUTER_OF_SKB_H
#define RXLANE_OUTER_OF_SKB_H

struct outer_headers {
	struct iphdr ip;
	union {
		__be32 gre[2];
		struct vxlan_headers vxlan;
	};
};

/* Reads them, with what finds the tunnel of a packet that comes in. Returns the bytes before the inner one; 0: there is
 * none. */
static __always_inline __u32 outer_of(const struct sk_buff *skb, struct outer_headers *outer, struct tunnel_key *key,
				      __u64 *v6)
{
	if (bpf_probe_read_kernel(outer, sizeof(*outer), skb->head + skb->network_header) || outer->ip.version != 4 ||
	    outer->ip.ihl != 5 || !(is_tunneled(outer->ip.protocol) || outer->ip.protocol == IPPROTO_UDP))
		return 0;
	return tunnel_of(&outer->ip, outer + 1, key, v6);
}

/* The flow of the packet that is `room` bytes behind the outer header; 0: there is none, or not in what can be read at
 * once. */
static __always_inline int carried_by(const struct sk_buff *skb, __u32 room, __u64 v6, struct inner_flow *carried)
{
	struct {
		union {
			struct iphdr v4;
			struct ipv6hdr v6;
		};
		__be16 ports[2];
	} inner = {};
	const void *at = skb->head + skb->network_header + room;
	__u32 length = v6 ? sizeof(inner.v6) : sizeof(inner.v4);

	if (skb->network_header + room + length + sizeof(inner.ports) > skb->tail)
		return 0;
	if (bpf_probe_read_kernel(inner.ports, sizeof(inner.ports), at + length))
		return 0;
	if (v6) {
		if (bpf_probe_read_kernel(&inner.v6, sizeof(inner.v6), at))
			return 0;
		carried->protocol = inner.v6.nexthdr;
		__builtin_memcpy(carried->source, &inner.v6.saddr, 16);
		__builtin_memcpy(carried->destination, &inner.v6.daddr, 16);
	} else {
		if (bpf_probe_read_kernel(&inner.v4, sizeof(inner.v4), at) || inner.v4.ihl != 5)
			return 0;
		carried->protocol = inner.v4.protocol;
		carried->source[0] = inner.v4.saddr;
		carried->destination[0] = inner.v4.daddr;
	}
	carried->src_port = inner.ports[0];
	carried->dst_port = inner.ports[1];
	return 1;
}

/* Of a VXLAN, what tells outer packets of one other end, and of different flows, apart; 0 elsewhere. */
static __always_inline __be16 source_port_of(const struct outer_headers *outer)
{
	return outer->ip.protocol == IPPROTO_UDP ? outer->vxlan.udp.source : 0;
}

static __always_inline __be32 end_of(const struct outer_headers *outer, __be32 address)
{
	return outer->ip.protocol == IPPROTO_UDP ? address : 0;
}

#endif
