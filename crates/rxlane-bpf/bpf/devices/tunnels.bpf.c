// SPDX-License-Identifier: GPL-2.0
/*
 * The witness at the entries of tunnels: says of outer packets that the express lane has asked for whether Linux takes
 * them out of their tunnel, which is after the firewall has let them in (witness.h). What leaves is seen by
 * witness.bpf.c.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "lib/shared.h"
#include "lib/bounds.h"
#include "lib/kernel.h"
#include "classify/tags.h"
#include "trust/witness.h"
#include "devices/outer.h"
#include "devices/outer_of_skb.h"

const volatile __u64 netns_cookie = 0;

static __always_inline int taken(const struct sk_buff *skb)
{
	struct outer_headers outer;
	struct tunnel_key key = {};
	struct witnessed_key flow;
	const struct device_over *device;
	struct inner_flow carried = {};
	struct witness *witness;
	struct witnessed *seen;
	__u32 room, print;
	__u64 now, v6;

	witness = who_asks();
	if (!witness)
		return 0;
	room = outer_of(skb, &outer, &key, &v6);
	if (!room)
		return 0;
	device = bpf_map_lookup_elem(&tunnels, &key);
	if (!device)
		return 0;
	if (outer.ip.protocol == IPPROTO_UDP) {
		carried.remote = outer.ip.saddr;
		if (!carried_by(skb, room, v6, &carried))
			return 0;
		tunnel_flow(&flow, device->ifindex, WITNESS_TUNNEL_IN, outer.ip.tos, 0, hash_of(&carried));
		print = port_print(outer.vxlan.udp.source);
	} else {
		tunnel_flow(&flow, device->ifindex, WITNESS_TUNNEL_IN, outer.ip.tos, outer.ip.ttl, 0);
		print = device->ifindex;
	}
	seen = bpf_map_lookup_elem(&witnessed_flows, &flow);
	if (!seen || seen->flow != print || seen->tos != outer.ip.tos || seen->ttl != outer.ip.ttl)
		return 0;
	now = bpf_ktime_get_ns();
	if (now - seen->asked_ns > WITNESS_ANSWER_NS || seen->ingress != (__u32)skb->dev->ifindex ||
	    skb->dev->nd_net.net->net_cookie != netns_cookie)
		return 0;
	answer(witness, seen);
	seen->seen_ns = now;
	return 0;
}

/* IP in IP, and GRE. */
SEC("fentry/ip_tunnel_rcv")
int BPF_PROG(tunnel_takes, const void *tunnel, const struct sk_buff *skb)
{
	return taken(skb);
}

/* IPv6 in IPv4. */
SEC("fentry/ipip6_rcv")
int BPF_PROG(sit_takes, const struct sk_buff *skb)
{
	return taken(skb);
}

SEC("fentry/vxlan_rcv")
int BPF_PROG(vxlan_takes, const void *socket, const struct sk_buff *skb)
{
	return taken(skb);
}

char LICENSE[] SEC("license") = "GPL";
