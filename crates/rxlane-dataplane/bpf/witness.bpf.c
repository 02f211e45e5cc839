// SPDX-License-Identifier: GPL-2.0
/*
 * The witness: looks at packets as the kernel gives them to a driver, after firewall, routing, IPsec and queues, and
 * says of flows that the express lane has asked for where they left. Express packets do not come by here.
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

#include "shared.h"
#include "bounds.h"
#include "kernel.h"
#include "tags.h"
#include "witness.h"
#include "outer.h"
#include "outer_of_skb.h"

/* include/linux/skbuff.h, include/net/netfilter/nf_conntrack_common.h: how an skb names its flow. */
#define NFCT_INFOMASK 7UL
#define IP_CT_ESTABLISHED 0
#define IP_CT_ESTABLISHED_REPLY 3
/* include/uapi/linux/if.h */
#define IFF_SLAVE 0x800
/* include/uapi/linux/if_arp.h */
#define ARPHRD_PPP 512
#define ARPHRD_TUNNEL 768
#define ARPHRD_SIT 776
#define ARPHRD_IPGRE 778
/* The first letters of a kind of device as one number, as memory has it. */
#define KIND(a, b, c, d, e) ((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32)

const volatile __u64 netns_cookie = 0;

/*
 * Whether a packet is as the express lane would make it of the one that asked: with its type of service (RFC 791) or
 * traffic class (RFC 8200), and one less to live. A firewall may set either.
 */
static __always_inline int is_as_it_came(const struct sk_buff *skb, const struct witnessed *seen)
{
	__be16 type = skb->protocol;
	__u8 ip[9];

	/* Of a tag that is in the frame the type is the protocol, but the network header is still the packet's. */
	if (type != bpf_htons(ETH_P_IP) && type != bpf_htons(ETH_P_IPV6) && !is_vlan(type))
		return 0;
	if (bpf_probe_read_kernel(ip, sizeof(ip), skb->head + skb->network_header))
		return 0;
	if (ip[0] >> 4 == 4)
		return ip[1] == seen->tos && ip[8] == (__u8)(seen->ttl - 1);
	if (ip[0] >> 4 == 6)
		return (__u8)((ip[0] & 0xf) << 4 | ip[1] >> 4) == seen->tos && ip[7] == (__u8)(seen->ttl - 1);
	return 0;
}

/* The outer tag, beside the frame or in it. */
static __always_inline __u32 tag_of(const struct sk_buff *skb)
{
	__be16 tci;
	int beside;

	if (bpf_core_field_exists(skb->vlan_all))
		beside = skb->vlan_all != 0;
	else
		beside = BPF_CORE_READ_BITFIELD(skb, vlan_present);
	if (beside)
		return WITNESS_TAGGED | skb->vlan_tci;
	if (!is_vlan(skb->protocol) || bpf_probe_read_kernel(&tci, sizeof(tci), skb->data + ETH_HLEN))
		return 0;
	return WITNESS_TAGGED | bpf_ntohs(tci);
}

/* What leaves through a device over others is seen once more where it leaves the machine: with a tag, or by a member.
 */
enum over { OVER_NONE, OVER_WITH_TAG, OVER_MEMBERS };

static __always_inline enum over over_others(const struct net_device *dev)
{
	const struct rtnl_link_ops *ops = dev->rtnl_link_ops;
	__u64 kind = 0;

	if (!ops || bpf_probe_read_kernel(&kind, 5, BPF_CORE_READ(ops, kind)))
		return OVER_NONE;
	if (kind == KIND('v', 'l', 'a', 'n', 0))
		return OVER_WITH_TAG;
	if (kind == KIND('b', 'o', 'n', 'd', 0) || kind == KIND('t', 'e', 'a', 'm', 0) ||
	    kind == KIND('b', 'r', 'i', 'd', 'g'))
		return OVER_MEMBERS;
	return OVER_NONE;
}

/* Whether a bridge, bond or team sends through it. */
static __always_inline int is_member(const struct net_device *dev)
{
	return dev->flags & IFF_SLAVE || BPF_CORE_READ_BITFIELD(dev, priv_flags) & (IFF_BRIDGE_PORT | IFF_TEAM_PORT);
}

/*
 * Whether IPsec took the packet out of another one. It came in by the same interface and belongs to the same connection
 * as one that was never encrypted, which Linux may well refuse (xfrm_policy_check in net/xfrm/xfrm_policy.c).
 */
static __always_inline int was_encrypted(const struct sk_buff *skb)
{
	if (!bpf_core_enum_value_exists(enum skb_ext_id, SKB_EXT_SEC_PATH))
		return 0;
	return skb->active_extensions >> bpf_core_enum_value(enum skb_ext_id, SKB_EXT_SEC_PATH) & 1;
}

/* Links without addresses. */
static __always_inline int has_no_addresses(const struct net_device *dev)
{
	return dev->type == ARPHRD_PPP || dev->type == ARPHRD_TUNNEL || dev->type == ARPHRD_SIT ||
	       dev->type == ARPHRD_IPGRE;
}

/* Whether it is the outer packet of a tunnel that the router has made, and which; with its source port of UDP. */
static __always_inline int is_of_tunnel(const struct sk_buff *skb, struct witnessed_key *flow, __be16 *port)
{
	struct outer_headers outer;
	struct inner_flow carried = {};
	struct tunnel_key key = {};
	const struct device_over *device;
	__u32 local, room;
	__u64 v6;

	room = outer_of(skb, &outer, &key, &v6);
	if (!room)
		return 0;
	local = outer.ip.saddr;
	if (key.remote)
		key.remote = outer.ip.daddr;
	key.local = local;
	device = bpf_map_lookup_elem(&tunnels, &key);
	if (!device)
		return 0;
	if (!carried_by(skb, room, v6, &carried))
		return 0;
	carried.remote = end_of(&outer, outer.ip.daddr);
	*port = source_port_of(&outer);
	tunnel_flow(flow, device->ifindex, WITNESS_TUNNEL_OUT, outer.ip.tos, outer.ip.ttl, hash_of(&carried));
	return 1;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(linux_forwards, const struct sk_buff *skb, const struct net_device *dev)
{
	struct witness *witness;
	struct witnessed *seen;
	struct witnessed_key key;
	__u32 info, tag, egress;
	__be16 port = 0;
	int tunneled;
	__u64 now;

	witness = who_asks();
	if (!witness)
		return 0;
	tunneled = is_of_tunnel(skb, &key, &port);
	if (!tunneled) {
		key.conntrack = skb->_nfct & ~NFCT_INFOMASK;
		info = skb->_nfct & NFCT_INFOMASK;
		if (!key.conntrack || (info != IP_CT_ESTABLISHED && info != IP_CT_ESTABLISHED_REPLY))
			return 0;
		key.direction = info == IP_CT_ESTABLISHED_REPLY;
	}
	seen = bpf_map_lookup_elem(&witnessed_flows, &key);
	if (!seen)
		return 0;
	/* The coarse clock, by which it was asked, may be a tick behind this one. */
	now = bpf_ktime_get_ns();
	if (now - seen->asked_ns > WITNESS_ANSWER_NS || dev->nd_net.net->net_cookie != netns_cookie)
		return 0;
	if (was_encrypted(skb))
		return 0;
	if (!tunneled && (seen->ingress != (__u32)skb->skb_iif || !is_as_it_came(skb, seen)))
		return 0;
	tag = tag_of(skb);
	switch (over_others(dev)) {
	case OVER_WITH_TAG:
		/* Of several on top of each other the first is where the route leads. */
		if (!tag)
			seen->through = dev->ifindex;
		return 0;
	case OVER_MEMBERS:
		/* Of a bridge over a bond, too, the first is where the route leads. */
		if (!seen->over)
			seen->over = dev->ifindex;
		return 0;
	case OVER_NONE:
		break;
	}
	egress = dev->ifindex;
	if (is_member(dev)) {
		/* Sent by itself it would be another way than that of its bridge or bond. */
		if (!seen->over)
			return 0;
		egress = seen->over;
	}
	/* Who gave it the tag? A filter, or a device that nobody saw it pass without: no way that the lane knows. */
	if (tag && !seen->through)
		return 0;
	/*
	 * At this place the frame is complete: its data begin with the address of the next hop. A link of PPP and a
	 * tunnel have no addresses, and what is below them sees another packet: its flow is forgotten.
	 */
	if (has_no_addresses(dev))
		__builtin_memset(seen->next_hop, 0, sizeof(seen->next_hop));
	else if (bpf_probe_read_kernel(seen->next_hop, sizeof(seen->next_hop), skb->data))
		return 0;
	answer(witness, seen);
	seen->tag = tag;
	seen->port = port;
	/* Read by itself: the compiler would read one or the other by one instruction, which the verifier refuses. */
	barrier_var(egress);
	if (tag)
		egress = seen->through;
	seen->egress = egress;
	/* Whatever goes another way after this must say so itself. */
	seen->through = 0;
	seen->over = 0;
	seen->seen_ns = now;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
