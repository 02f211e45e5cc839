// SPDX-License-Identifier: GPL-2.0
/*
 * The witness: looks at packets as the kernel gives them to a driver, after firewall, routing, IPsec and queues, and
 * says of flows that the express lane has asked for where they left. Express packets do not come by here, or, from tc
 * ingress, without a connection.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
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
#include "trust/kept.h"
#include "trust/sender.h"
#include "devices/outer.h"
#include "devices/outer_of_skb.h"

/* include/linux/skbuff.h, include/net/netfilter/nf_conntrack_common.h: how an skb names its flow. */
#define NFCT_INFOMASK 7UL
#define IP_CT_ESTABLISHED 0
#define IP_CT_ESTABLISHED_REPLY 3
#define IP_CT_UNTRACKED 7
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

/* A packet where it leaves: what the express lane would make of the one that came. */
struct leaving {
	__be32 source[4], destination[4]; /* the first words, if IPv4 */
	__be16 from_port, to_port;
	__u8 v6, tos, ttl, protocol;
};

/* Reads it; whether it has no more headers than what the lane forwards. */
static __always_inline int read_leaving(const struct sk_buff *skb, struct leaving *p)
{
	const unsigned char *at = skb->head + skb->network_header;
	__be16 type = skb->protocol;
	__u32 head[10]; /* of IPv6; half of that is IPv4's */

	/* Of a tag that is in the frame the type is the protocol, but the network header is still the packet's. */
	if (type != bpf_htons(ETH_P_IP) && type != bpf_htons(ETH_P_IPV6) && !is_vlan(type))
		return 0;
	if (bpf_probe_read_kernel(head, 20, at))
		return 0;
	__builtin_memset(p, 0, sizeof(*p));
	head[0] = bpf_ntohl(head[0]);
	if (head[0] >> 24 == 0x45) {
		p->tos = head[0] >> 16;
		head[2] = bpf_ntohl(head[2]);
		p->ttl = head[2] >> 24;
		p->protocol = head[2] >> 16;
		p->source[0] = head[3];
		p->destination[0] = head[4];
		return !bpf_probe_read_kernel(&p->from_port, 4, at + 20);
	}
	if (head[0] >> 28 != 6 || bpf_probe_read_kernel(&head[5], 20, at + 20))
		return 0;
	p->v6 = 1;
	p->tos = head[0] >> 20;
	head[1] = bpf_ntohl(head[1]);
	p->protocol = head[1] >> 8;
	p->ttl = head[1];
	__builtin_memcpy(p->source, &head[2], 16);
	__builtin_memcpy(p->destination, &head[6], 16);
	return !bpf_probe_read_kernel(&p->from_port, 4, at + 40);
}

static __always_inline int is_same_address(const __be32 *a, const __be32 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

/*
 * Whether it has the addresses and ports that connection tracking gives packets of that direction, which are those that
 * the lane sends: a rule may have written others after it, which nobody tracks.
 */
static __always_inline int is_as_tracked(const struct leaving *p, const struct nf_conntrack_tuple *other)
{
	struct nf_conntrack_tuple t;

	if (bpf_core_read(&t.src.u3, sizeof(t.src.u3), &other->src.u3) ||
	    bpf_core_read(&t.dst.u3, sizeof(t.dst.u3), &other->dst.u3) ||
	    bpf_core_read(&t.src.u.all, sizeof(t.src.u.all), &other->src.u.all) ||
	    bpf_core_read(&t.dst.u.all, sizeof(t.dst.u.all), &other->dst.u.all) ||
	    bpf_core_read(&t.dst.protonum, 1, &other->dst.protonum))
		return 0;
	return p->protocol == t.dst.protonum && p->from_port == t.dst.u.all && p->to_port == t.src.u.all &&
	       is_same_address(p->source, t.dst.u3.ip6) && is_same_address(p->destination, t.src.u3.ip6);
}

static __always_inline int is_within(const __be32 *address, const __be32 *net, const __be32 *mask)
{
	__u32 differ = 0;

	UNROLLED
	for (int i = 0; i < 4; i++)
		differ |= (address[i] ^ net[i]) & mask[i];
	return !differ;
}

static __always_inline int is_port_of(const __u16 *range, __be16 a, __be16 b)
{
	__u16 one = bpf_ntohs(a), other = bpf_ntohs(b);

	return (one >= range[0] && one <= range[1]) || (other >= range[0] && other <= range[1]);
}

/*
 * Whether the flow may meet one of the rules that are to see each of its packets: as it came or as it leaves, because
 * nobody knows here which of both the rule sees. An untracked one (`as_it_came` is null) leaves as it came.
 */
static __noinline int is_kept(const struct leaving *p, const struct nf_conntrack_tuple *as_it_came,
			      const struct witnessed *seen, __u32 device, __u32 kept)
{
	const __u8 others = as_it_came ? KEPT_UNTRACKED : KEPT_TRACKED;
	struct nf_conntrack_tuple t;

	if (!p || !seen)
		return 1;
	if (!as_it_came) {
		__builtin_memcpy(t.src.u3.ip6, p->source, sizeof(p->source));
		__builtin_memcpy(t.dst.u3.ip6, p->destination, sizeof(p->destination));
		t.src.u.all = p->from_port;
		t.dst.u.all = p->to_port;
	} else if (bpf_core_read(&t.src.u3, sizeof(t.src.u3), &as_it_came->src.u3) ||
		   bpf_core_read(&t.dst.u3, sizeof(t.dst.u3), &as_it_came->dst.u3) ||
		   bpf_core_read(&t.src.u.all, sizeof(t.src.u.all), &as_it_came->src.u.all) ||
		   bpf_core_read(&t.dst.u.all, sizeof(t.dst.u.all), &as_it_came->dst.u.all))
		return 1;
	for (__u32 i = 0; i < MAX_KEPT_FLOWS; i++) {
		const struct kept_flows *k;
		__u32 at = i;

		if (i >= kept)
			break;
		k = bpf_map_lookup_elem(&kept_flows, &at);
		if (!k)
			return 1;
		if (k->tracked != others && (!k->v6 || k->v6 == (p->v6 ? 6 : 4)) &&
		    (!k->protocol || k->protocol == p->protocol) && (!k->ingress || k->ingress == seen->ingress) &&
		    (!k->egress || k->egress == seen->egress || k->egress == device) &&
		    is_port_of(k->from_port, p->from_port, t.src.u.all) &&
		    is_port_of(k->to_port, p->to_port, t.dst.u.all) &&
		    (is_within(p->source, k->source, k->source_mask) ||
		     is_within(t.src.u3.ip6, k->source, k->source_mask)) &&
		    (is_within(p->destination, k->destination, k->destination_mask) ||
		     is_within(t.dst.u3.ip6, k->destination, k->destination_mask)))
			return 1;
	}
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

/* Whether the packet came from this address, as sender.bpf.c has noted it. */
static __always_inline int was_sent_by(const struct sk_buff *skb, const __u8 *mac, __u64 now)
{
	__u64 address = (__u64)(unsigned long)skb;
	const struct sender *sender = bpf_map_lookup_elem(&senders, &address);

	return sender && sender->head == (__u64)(unsigned long)skb->head && now - sender->seen_ns < SENDER_STALE_NS &&
	       !__builtin_memcmp(sender->mac, mac, ETH_ALEN);
}

/*
 * Whether Linux forwards it although connection tracking has not seen it: nobody tracks, or a rule said not to. What
 * the lane sends from tc ingress is not to this host (send_skb.h).
 */
static __always_inline int is_untracked(const struct sk_buff *skb)
{
	__u32 info = skb->_nfct & NFCT_INFOMASK;

	return (!info || info == IP_CT_UNTRACKED) && BPF_CORE_READ_BITFIELD(skb, pkt_type) == PACKET_HOST;
}

static __always_inline void key_of_untracked(struct witnessed_key *key, const struct leaving *p, __u32 ingress)
{
	untracked_flow(key, ingress, p->v6, p->protocol, p->tos, p->from_port, p->to_port);
	__builtin_memcpy(key->source, p->source, sizeof(key->source));
	__builtin_memcpy(key->destination, p->destination, sizeof(key->destination));
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(linux_forwards, const struct sk_buff *skb, const struct net_device *dev)
{
	const struct nf_conn *conntrack;
	struct witness *witness;
	struct witnessed *seen;
	struct witnessed_key key;
	const struct nf_conntrack_tuple *own, *other;
	__u32 info, tag, egress;
	struct leaving packet;
	__be16 port = 0;
	int tunneled;
	__u64 now;

	witness = who_asks();
	if (!witness)
		return 0;
	tunneled = is_of_tunnel(skb, &key, &port);
	if (!tunneled) {
		__builtin_memset(&key, 0, sizeof(key));
		key.conntrack = skb->_nfct & ~NFCT_INFOMASK;
		info = skb->_nfct & NFCT_INFOMASK;
		if (key.conntrack ? info != IP_CT_ESTABLISHED && info != IP_CT_ESTABLISHED_REPLY
				  : !witness->follows_untracked || !is_untracked(skb))
			return 0;
		if (!read_leaving(skb, &packet))
			return 0;
		/* A firewall may have set another type of service than that which it came with, for which it was asked.
		 */
		if (key.conntrack)
			key.direction = (info == IP_CT_ESTABLISHED_REPLY) | packet.tos << 8;
		else
			key_of_untracked(&key, &packet, skb->skb_iif);
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
	conntrack = (const struct nf_conn *)(unsigned long)key.conntrack;
	if ((__u8)key.direction == WITNESS_UNTRACKED)
		conntrack = 0;
	/* Relocated, which an index that is no constant is not. */
	own = key.direction & 1 ? &conntrack->tuplehash[1].tuple : &conntrack->tuplehash[0].tuple;
	other = key.direction & 1 ? &conntrack->tuplehash[0].tuple : &conntrack->tuplehash[1].tuple;
	if (!tunneled && (seen->ingress != (__u32)skb->skb_iif || packet.tos != seen->tos ||
			  packet.ttl != (__u8)(seen->ttl - 1) || (conntrack && !is_as_tracked(&packet, other))))
		return 0;
	if (!tunneled && witness->by_sender && !was_sent_by(skb, seen->sender, now))
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
	seen->kept =
		!tunneled && witness->kept && is_kept(&packet, conntrack ? own : 0, seen, dev->ifindex, witness->kept);
	/* Whatever goes another way after this must say so itself. */
	seen->through = 0;
	seen->over = 0;
	seen->seen_ns = now;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
