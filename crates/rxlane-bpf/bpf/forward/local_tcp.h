/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TCP at tc ingress. Hosts of this machine share its cores: a router that is faster than they are makes them wait for
 * each other, so TCP is the stack's, which paces them. Where a link is the bottleneck the router's time is theirs.
 */
#ifndef RXLANE_LOCAL_TCP_H
#define RXLANE_LOCAL_TCP_H

#include "forward/standing.h"

enum local_tcp { TCP_NEVER, TCP_WHERE_FULL, TCP_ALWAYS };

/* When it may pass by the stack. Never: no express class takes TCP. Always: a class is fast. */
const volatile __u32 local_tcp = TCP_NEVER;

/* Whether it is TCP at tc ingress. */
static __always_inline int is_of_local_tcp(struct xdp_md *ctx)
{
#if ON_SKB
	const struct ethhdr *eth = packet_pointer(ctx->data);
	const void *end = packet_pointer(ctx->data_end);
	const struct ipv6hdr *ip6 = (const void *)(eth + 1);
	const struct iphdr *ip4 = (const void *)(eth + 1);

	if ((const void *)(ip4 + 1) > end)
		return 0;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return ip4->protocol == IPPROTO_TCP;
	return eth->h_proto == bpf_htons(ETH_P_IPV6) && ip6->nexthdr == IPPROTO_TCP;
#else
	return 0;
#endif
}

/* Whether the driver of the port that a packet came in by takes none to send just now, which wait in its qdisc. */
static __always_inline int is_off(struct xdp_md *ctx)
{
#if ON_SKB
	const struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	const struct netdev_queue *queue = skb->dev->_tx;

	return queue->state & TX_QUEUE_IS_OFF && queue->qdisc->enqueue;
#else
	return 0;
#endif
}

/*
 * Whether it is to be looked at at all: forward() knows where it leaves. What acknowledges a download comes in by the
 * port that the download leaves by, so that is where its link is looked at.
 */
static __always_inline int may_be_fast(struct xdp_md *ctx, struct core *core, const struct port *port)
{
	struct port_counters *count;
	__u32 slot;

	if (local_tcp != TCP_WHERE_FULL)
		return local_tcp;
	slot = port->slot;
	if (!observes && port->may_wait && is_off(ctx) && !word_of(slot) && !(port->flags & PORT_QDISC) &&
	    !is_seen_at_egress() && stands(&core->standing, bpf_ktime_get_coarse_ns()) &&
	    begins_to_be_full(slot, LINK_ALONE)) {
		count = bpf_map_lookup_elem(&port_counts, &slot);
		if (count)
			count->link_full++;
	}
	return word_of(ANY_PORT) & ANY_IS_FULL;
}

#endif
