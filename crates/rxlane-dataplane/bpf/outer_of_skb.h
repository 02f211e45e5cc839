/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The outer header of a packet that the kernel has, for those who watch it taking packets out of tunnels and sending
 * them.
 */
#ifndef RXLANE_OUTER_OF_SKB_H
#define RXLANE_OUTER_OF_SKB_H

struct outer_headers {
	struct iphdr ip;
	__be32 gre[2];
};

/* Reads them, with what finds the tunnel of a packet that comes in. Returns the bytes before the inner one; 0: there is
 * none. */
static __always_inline __u32 outer_of(const struct sk_buff *skb, struct outer_headers *outer, struct tunnel_key *key,
				      __u64 *v6)
{
	if (bpf_probe_read_kernel(outer, sizeof(*outer), skb->head + skb->network_header) || outer->ip.version != 4 ||
	    outer->ip.ihl != 5 || !is_tunneled(outer->ip.protocol))
		return 0;
	return tunnel_of(&outer->ip, outer + 1, key, v6);
}

#endif
