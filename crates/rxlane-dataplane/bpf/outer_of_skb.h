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
