/* SPDX-License-Identifier: GPL-2.0 */
/* Sending an skb that is ready for its next hop through the queueing discipline of the port that it leaves by. */
#ifndef RXLANE_SEND_SKB_H
#define RXLANE_SEND_SKB_H

#include <linux/if_packet.h>

#include "lib/port_counts.h"

/*
 * With the priority that Linux gives what it forwards (ip_forward; none to IPv6), but that of its first band to the
 * highest class, where pfifo_fast would let it wait behind others. XDP_REDIRECT, or XDP_ABORTED.
 */
static __always_inline int send_skb(struct __sk_buff *skb, __u32 egress, int urgent, int v6, __u8 dscp)
{
	const struct port *port = egress_port(egress);
	/* ip_tos2prio of net/ipv4/route.c, by the two bits that count: besteffort, bulk, interactive, both. */
	__u32 of_tos = 0x4620 >> (dscp >> 1 & 3) * 4 & 15;
	struct port_counters *count;
	__u32 slot;

	if (!port)
		return XDP_ABORTED;
	slot = port->slot;
	count = bpf_map_lookup_elem(&port_counts, &slot);
	if (count)
		count->by_qdisc += skb->gso_segs ? skb->gso_segs : 1;
	if (port->has_bands && urgent)
		skb->priority = 6; /* TC_PRIO_INTERACTIVE */
	else
		skb->priority = v6 ? 0 : of_tos;
	/* What Linux forwards is always to this host (ip_forward), so the witness takes nothing of this for Linux's. */
	if (bpf_skb_change_type(skb, PACKET_OTHERHOST))
		return XDP_ABORTED;
	return bpf_redirect(egress, 0) < 0 ? XDP_ABORTED : XDP_REDIRECT;
}

#endif
