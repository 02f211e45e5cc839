// SPDX-License-Identifier: GPL-2.0
/*
 * The end of the fast lane at tc ingress of ports that are served in XDP. There was decided that a packet may pass by
 * firewall and routing, and where it leaves; here it is an skb, merged with others of its flow (GRO), that becomes what
 * the next hop gets and leaves through the egress port's queueing discipline, as what Linux forwards does. Packets that
 * XDP has not handed over are nobody's business here. Loaded once, for all configurations.
 */
#define ON_SKB 1
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>

#include "lib/shared.h"
#include "lib/bounds.h"
#include "lib/skb.h"
#include "lib/kernel.h"
#include "lib/ports.h"
#include "lib/tcx.h"
#include "classify/parse.h"
#include "forward/rewrite.h"
#include "forward/send_skb.h"

const volatile __u64 netns_cookie = 0;

SEC("tcx/ingress")
int rxlane_fast(struct __sk_buff *skb)
{
	struct handed_over *found = packet_pointer(skb->data_meta);
	struct translation nat = {};
	struct handed_over over;
	const struct port *port;
	struct packet p = {};
	int parsed;

	if ((void *)(found + 1) > packet_pointer(skb->data) || found->magic != (HANDED_OVER ^ (__u32)netns_cookie))
		return TCX_NEXT;
	over = *found;
	/* It stays with the packet, wherever that goes from here. */
	found->magic = 0;
	port = egress_port(over.egress);
	/* It was one a moment ago. The packet is as it came, and the stack's. */
	if (!port)
		return TCX_NEXT;
	p.data = packet_pointer(skb->data);
	p.data_end = packet_pointer(skb->data_end);
	if (p.data + ETH_HLEN > p.data_end)
		return TCX_NEXT;
	parsed = parse(skb, &p);
	if ((parsed != PARSED_IPV4 && parsed != PARSED_IPV6) || p.l2 != ETH_HLEN)
		return TCX_NEXT;
	if (over.translated) {
		nat.translated = 1;
		nat.src_port = over.src_port;
		nat.dst_port = over.dst_port;
		nat.src_ip.ip4 = over.source;
		nat.dst_ip.ip4 = over.destination;
		if (p.v6)
			return TCX_NEXT;
	}
	if (rewrite_skb(skb, &p, &nat, over.translated, over.to, port->mac))
		return TCX_DROP;
	return send_skb(skb, over.egress, over.urgent, p.v6, p.dscp) == XDP_REDIRECT ? TCX_REDIRECT : TCX_DROP;
}

char LICENSE[] SEC("license") = "GPL";
