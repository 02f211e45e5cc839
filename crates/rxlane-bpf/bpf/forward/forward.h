/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The express lane: a packet forwarded inside the driver's poll, with the kernel's own routes and
 * neighbours. Nothing is written before it is certain that the packet can leave.
 */
#ifndef RXLANE_FORWARD_H
#define RXLANE_FORWARD_H

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} egress SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct next_hops);
} next_hops SEC(".maps");

static __always_inline int reason_of_fib(long ret)
{
	switch (ret) {
	case BPF_FIB_LKUP_RET_NO_NEIGH:
		return REASON_NO_NEIGHBOUR;
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
		return REASON_MTU;
	case BPF_FIB_LKUP_RET_FWD_DISABLED:
		return REASON_FORWARDING_OFF;
	case BPF_FIB_LKUP_RET_UNSUPP_LWT:
		return REASON_TUNNEL;
	default:
		return REASON_NOT_ROUTED;
	}
}

static __always_inline void fib_key(const struct packet *p, __u32 ip_bytes, const struct departure *t,
				    struct bpf_fib_lookup *fib)
{
	fib->tot_len = ip_bytes;
	fib->ifindex = p->ingress;
	fib->l4_protocol = p->protocol;
	if (p->src_port != NO_PORT) {
		fib->sport = bpf_htons(p->src_port);
		fib->dport = t->nat.translated ? t->nat.dst_port : bpf_htons(p->dst_port);
	}
	/* Routing comes after destination and before source translation, as in the stack. */
	if (!p->v6) {
		fib->family = 2; /* AF_INET */
		fib->tos = p->ip4->tos;
		fib->ipv4_src = p->ip4->saddr;
		fib->ipv4_dst = t->nat.translated ? t->nat.dst_ip.ip4 : p->ip4->daddr;
	} else {
		fib->family = 10; /* AF_INET6 */
		fib->flowinfo = *(__be32 *)p->ip6 & bpf_htonl(0x0fffffff);
		__builtin_memcpy(fib->ipv6_src, &p->ip6->saddr, 16);
		if (t->nat.translated)
			__builtin_memcpy(fib->ipv6_dst, t->nat.dst_ip.ip6, 16);
		else
			__builtin_memcpy(fib->ipv6_dst, &p->ip6->daddr, 16);
	}
}

/* BPF_FIB_LOOKUP_SKIP_NEIGH, where the kernel has it (Linux 6.3): nothing is sent back to a source. */
const volatile __u32 fib_of_sources = 0;

/*
 * Whether Linux would take the packet from where it came (fib_validate_source in net/ipv4/fib_frontend.c, RFC 3704):
 * the way back to its source must be a route to somebody else, and with a strict check lead through the same interface.
 * What fails here Linux judges; it knows cases in which such a packet is right.
 */
static __always_inline int source_holds(struct xdp_md *ctx, const struct packet *p, const struct departure *t)
{
	struct bpf_fib_lookup fib = {};
	long ret;

	fib.ifindex = p->ingress;
	fib.l4_protocol = p->protocol;
	/* As it is after destination and before source translation. */
	if (p->src_port != NO_PORT) {
		fib.sport = t->nat.translated ? t->nat.dst_port : bpf_htons(p->dst_port);
		fib.dport = bpf_htons(p->src_port);
	}
	if (!p->v6) {
		fib.family = 2; /* AF_INET */
		fib.tos = p->ip4->tos;
		fib.ipv4_src = t->nat.translated ? t->nat.dst_ip.ip4 : p->ip4->daddr;
		fib.ipv4_dst = p->ip4->saddr;
	} else {
		fib.family = 10; /* AF_INET6 */
		fib.flowinfo = *(__be32 *)p->ip6 & bpf_htonl(0x0fffffff);
		__builtin_memcpy(fib.ipv6_src, &p->ip6->daddr, 16);
		__builtin_memcpy(fib.ipv6_dst, &p->ip6->saddr, 16);
	}
	ret = bpf_fib_lookup(ctx, &fib, sizeof(fib), fib_of_sources);
	if (ret != BPF_FIB_LKUP_RET_SUCCESS && ret != BPF_FIB_LKUP_RET_NO_NEIGH)
		return 0;
	return t->source == SOURCE_ROUTED || fib.ifindex == p->ingress;
}

/*
 * Cuts off what follows the IP packet, as Linux does (ip_rcv_core). What the frame needs to be as long as Ethernet
 * wants it, once it has other tags, becomes zeros.
 */
static __always_inline int trim(struct xdp_md *ctx, struct packet *p, __u32 l2_after)
{
	__u64 l2 = masked(p->l2, MAX_L2), len = l2 + ip_length(p), least = ON_SKB ? 0 : ETH_ZLEN + l2 - l2_after;
	__u64 l4 = offset_of_l4(p);
	/* Numbers, kept apart from pointers: Linux 6.1 follows no sum of both. */
	__s64 excess = (__s64)(ON_SKB ? bpf_xdp_get_buff_len(ctx) : readable(p)) - (__s64)masked(len, 0x1ffff);

	/* What follows the last piece is too rare to be cut off here. */
	if (excess < 0)
		return bpf_xdp_get_buff_len(ctx) == len ? 0 : -1;
	/* A frame that was long enough stays so without its tags; shorter ones come from veths, which want no padding.
	 */
	if (!excess && (len >= least || len < ETH_ZLEN))
		return 0;
	if (excess && bpf_xdp_adjust_tail(ctx, -excess))
		return -1;
	if (len < least && bpf_xdp_adjust_tail(ctx, least - len))
		return -1;
	return point_again(ctx, p, l4);
}

/* bpf_fib_lookup knows the MTU of a device, but not that of a route, which Linux heeds (ip_dst_mtu_maybe_forward). */
static __always_inline int is_longer_than_routes(const struct packet *p, __u32 ip_bytes)
{
	const struct gates *g = find_gates();
	__u32 mtu;

	if (!g)
		return 1;
	mtu = p->v6 ? g->route_mtu[1] : g->route_mtu[0];
	return mtu && ip_bytes > mtu;
}

/*
 * For the daemon, which tells the kernel: a neighbour that nobody seems to use is never asked whether it is still
 * there.
 */
static __always_inline void note_next_hop(const struct bpf_fib_lookup *fib)
{
	__u32 zero = 0, hash, v6 = fib->family != 2; /* AF_INET; an IPv4 route may have an IPv6 gateway */
	struct next_hops *hops = bpf_map_lookup_elem(&next_hops, &zero);
	struct next_hop *hop;

	if (!hops || observes)
		return;
	hash = v6 ? fib->ipv6_dst[0] ^ fib->ipv6_dst[1] ^ fib->ipv6_dst[2] ^ fib->ipv6_dst[3] : fib->ipv4_dst;
	hop = &hops->at[masked((hash * 0x9e3779b1) >> 26, NEXT_HOPS - 1)];
	hop->ifindex = fib->ifindex;
	hop->v6 = v6;
	if (v6)
		__builtin_memcpy(hop->address, fib->ipv6_dst, 16);
	else
		hop->address[0] = fib->ipv4_dst;
	hop->used_ticks = bpf_jiffies64();
}

const volatile __u64 netns_cookie = 0;

/* No action of XDP: what comes in is to leave through the queueing discipline of its egress. */
#define BY_QDISC 65

/*
 * Leaves the rest to the program at tc ingress, where the packet is an skb that may be merged with others and wait:
 * BY_QDISC, or REFUSED.
 */
static __always_inline int to_tc(struct xdp_md *ctx, const struct packet *p, const struct translation *nat,
				 const struct hop *hop, __u32 class)
{
#if !ON_SKB
	struct handed_over *over;

	if (p->v6 && any_conntrack && nat->translated)
		return REFUSED(REASON_NAT);
	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*over)))
		return REFUSED(REASON_QDISC);
	over = packet_pointer(ctx->data_meta);
	if ((void *)(over + 1) > packet_pointer(ctx->data))
		return REFUSED(REASON_QDISC);
	over->magic = HANDED_OVER ^ (__u32)netns_cookie;
	over->egress = hop->egress;
	__builtin_memcpy(over->to, hop->to, ETH_ALEN);
	over->urgent = !class && n_classes > 1;
	over->translated = any_conntrack && nat->translated;
	over->source = nat->src_ip.ip4;
	over->destination = nat->dst_ip.ip4;
	over->src_port = nat->src_port;
	over->dst_port = nat->dst_port;
	return BY_QDISC;
#else
	return REFUSED(REASON_QDISC);
#endif
}

/*
 * Makes of the packet what the next hop gets, for an egress that has been redirected to: XDP_REDIRECT, or REFUSED
 * with the reason for leaving the packet, unchanged but for its padding, to the kernel. `leaves` as choose_way() says;
 * what BY_QDISC is left to the program at tc ingress.
 */
static __always_inline int hand_over(struct xdp_md *ctx, const struct core *core, struct packet *p, int leaves,
				     const struct translation *nat, const struct hop *hop, const struct vlan_way *way,
				     __u32 room, const int full)
{
	struct ethhdr *eth;

	if (leaves == BY_QDISC && (way || room || p->l2 != ETH_HLEN))
		return REFUSED(REASON_QDISC);
	if (observes)
		return leaves;
	if (trim(ctx, p, l2_of_way(way) + room) < 0)
		return REFUSED(REASON_MALFORMED);
	if (leaves == BY_QDISC)
		return to_tc(ctx, p, nat, hop, core->asked);
	if (ON_SKB)
		return rewrite_skb(ctx, p, nat, any_conntrack && nat->translated, hop->to, hop->from) ? XDP_ABORTED
												      : XDP_REDIRECT;
	if (full && any_conntrack && nat->translated && translate(p, nat) < 0)
		return REFUSED(REASON_NAT);
	eth = p->data;
	if ((void *)(eth + 1) > p->data_end)
		return REFUSED(REASON_MALFORMED);
	if (!p->v6)
		age_ipv4(p->ip4);
	else
		p->ip6->hop_limit--;
	if (p->l2 != ETH_HLEN || way || room) {
		/* It is not the packet any more that the kernel should have. */
		if (retag(ctx, p, way, room))
			return XDP_ABORTED;
		eth = p->data;
	}
	if (way && way->session.there) {
		__builtin_memcpy(eth->h_dest, way->session.to, ETH_ALEN);
		__builtin_memcpy(eth->h_source, way->session.from, ETH_ALEN);
	} else {
		__builtin_memcpy(eth->h_dest, hop->to, ETH_ALEN);
		__builtin_memcpy(eth->h_source, hop->from, ETH_ALEN);
	}
	return XDP_REDIRECT;
}

static __always_inline int port_has(__u32 ifindex, __u8 flag)
{
	const struct port *port = egress_port(ifindex);

	return port && port->flags & flag;
}

/* Whether what comes in by that port is served at tc ingress. */
static __always_inline int is_at_tc(__u32 ifindex)
{
	const struct port *port = egress_port(ifindex);

	return port && port->at_tc;
}

/* Whether more packets of the class in hand leave by a port than its link sends. */
static __always_inline int fills(const struct core *core, __u32 ifindex)
{
	const struct port *port = word_of(ANY_PORT) & ANY_IS_FULL ? egress_port(ifindex) : 0;

	return port && is_full_for(port->slot, core->asked == first_express);
}

/* Preamble, checksum and gap, which a frame takes on the wire. */
#define WIRE_BYTES 24

/* Whether what leaves there shall wait behind what waits there already. If not, it may be counted once it is ready. */
static __always_inline int must_wait(struct core *core, __u32 ifindex)
{
	__u32 any = word_of(ANY_PORT);
	const struct port *port;

	core->sends_to = 0;
	if (!any)
		return 0;
	port = egress_port(ifindex);
	if (!port)
		return 0;
	if (any & ANY_IS_FULL && is_full_for(port->slot, core->asked == first_express))
		return 1;
	if (any & (ANY_IS_COUNTED | ANY_HAS_REFUSED))
		core->sends_to = port->slot + 1;
	return 0;
}

/* The packet in hand is ready, and leaves by the express lane. */
static __always_inline void count_express(struct core *core, __u32 class)
{
	__u32 slot = core->sends_to - 1;
	struct port_counters *count;

	class = class_index(class);
	core->classes[class].express++;
	if (ON_SKB || observes || !core->sends_to)
		return;
	count = bpf_map_lookup_elem(&port_counts, &slot);
	if (!count)
		return;
	count->unsent_bytes += core->packet.length + WIRE_BYTES;
	redirects(count, class);
}

/* Whether filters or hooks of any port see what leaves by it. */
static __always_inline int is_seen_at_egress(void)
{
	const struct gates *g = find_gates();

	return !g || g->seen_at_egress;
}

/* Through the queueing discipline of a port: BY_QDISC, or REFUSED. */
static __always_inline int by_qdisc_of(const struct core *core, __u32 ifindex)
{
	const struct port *port = egress_port(ifindex);

	if (!port || port->device != ifindex || port_of_slot[masked(port->slot, MAX_PORTS - 1)] == BY_VLAN)
		return REFUSED(REASON_EGRESS);
	/* What tells packets apart there by marks and connections finds none on these. */
	if (port->flags & PORT_QDISC || is_seen_at_egress() || !(ON_SKB || observes || core->packet.hands_over))
		return REFUSED(REASON_QDISC);
	return BY_QDISC;
}

/* To a port: XDP_REDIRECT or BY_QDISC, or REFUSED. */
static __always_inline int to_port(struct core *core, __u32 ifindex)
{
	/* Sent by send_skb(), when the packet is ready. */
	if (ON_SKB) {
		int ret = by_qdisc_of(core, ifindex);

		return ret == BY_QDISC ? XDP_REDIRECT : ret;
	}
	if (classes[class_index(core->asked)].lane == LANE_FAST)
		return by_qdisc_of(core, ifindex);
	if (bpf_redirect_map(&egress, ifindex, 0) != XDP_REDIRECT)
		return port_has(ifindex, PORT_QDISC) ? REFUSED(REASON_QDISC) : REFUSED(REASON_EGRESS);
	if (core->packet.multi_buffer && !port_has(ifindex, PORT_XDP_FRAGS))
		return REFUSED(REASON_MTU);
	if (must_wait(core, ifindex))
		return by_qdisc_of(core, ifindex) == BY_QDISC ? BY_QDISC : REFUSED(REASON_QDISC);
	return XDP_REDIRECT;
}

/*
 * How a packet, with `room` for outer headers, to a neighbour leaves through an interface, a port, a VLAN device or a
 * session over one or a bridge over some: XDP_REDIRECT, with the target set, BY_QDISC, or REFUSED. `way` is that of the
 * VLAN device or session, or null.
 */
static __always_inline int choose_way(struct core *core, const struct packet *p, __u32 room, __u32 ifindex,
				      const __u8 *to, const struct vlan_way **way)
{
	int ret = to_port(core, ifindex);

	*way = 0;
	if (ON_SKB || ret != REFUSED(REASON_EGRESS))
		return ret;
	*way = bpf_map_lookup_elem(&vlan_ways, &ifindex);
	if (!*way)
		return to_port(core, port_behind(ifindex, to, 0));
	if (l2_of_way(*way) + room + ip_length(p) > (*way)->mtu + FRAME_ROOM)
		return REFUSED(REASON_MTU);
	if (has_other_priority(p, *way))
		return REFUSED(REASON_VLAN);
	if ((*way)->session.there && !may_send_in_session(ifindex))
		return REFUSED(REASON_SESSION);
	if ((*way)->by_qdisc)
		return REFUSED(REASON_QDISC);
	return to_port(core, (*way)->port);
}

/* Asks the kernel's routes and neighbours: XDP_REDIRECT or BY_QDISC, or REFUSED as above. */
static __always_inline int forward(struct xdp_md *ctx, const struct core *core, struct packet *p,
				   const struct departure *t, struct hop *hop, const int full)
{
	struct bpf_fib_lookup fib = {};
	const struct vlan_way *way;
	int leaves;
	long ret;

	hop->egress = 0;
	fib_key(p, core->packet.ip_bytes, t, &fib);
	ret = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	if (ret != BPF_FIB_LKUP_RET_SUCCESS)
		return REFUSED(reason_of_fib(ret));
	/* Back where it came from: the kernel also sends the ICMP redirect. */
	if (fib.ifindex == p->ingress)
		return REFUSED(REASON_EGRESS);
	leaves = choose_way(core, p, 0, fib.ifindex, fib.dmac, &way);
	if (leaves == REFUSED(REASON_SESSION))
		left_by_linux(fib.ifindex);
	/* Where it is no port, nor anything over one, it may be a tunnel. */
	if (leaves < 0 && leaves != REFUSED(REASON_QDISC) && leaves != REFUSED(REASON_EGRESS))
		return leaves;
	/*
	 * Linux sends this flow another way: a mark chose the route, or it has just changed; or its priority is
	 * another. What most tunnels have for an address of a neighbour says nothing.
	 */
	if (full && t->egress &&
	    (t->egress != fib.ifindex || t->tag != tag_by(p, way) ||
	     !((leaves < 0 && is_nobody(t->next_hop)) || is_same_mac(t->next_hop, fib.dmac))))
		return REFUSED(REASON_UNSEEN);
	/* Asked of both ways alike: the tracker is to see both directions, or neither. */
	if (p->protocol == IPPROTO_TCP && (ON_SKB || (full && t->egress && is_at_tc(fib.ifindex))) &&
	    classes[class_index(core->asked)].lane != LANE_FAST && !fills(core, fib.ifindex) &&
	    !fills(core, p->ingress))
		return REFUSED(REASON_LOCAL_TCP);
	if (is_longer_than_routes(p, core->packet.ip_bytes))
		return REFUSED(REASON_MTU);
	hop->egress = fib.ifindex;
	hop->mtu = fib.mtu_result;
	__builtin_memcpy(hop->to, fib.dmac, ETH_ALEN);
	__builtin_memcpy(hop->from, fib.smac, ETH_ALEN);
	/* Known from here on as any other hop: the port may be sent to directly before the flow is forgotten. */
	if (leaves < 0) {
		if (leaves == REFUSED(REASON_EGRESS) && bpf_map_lookup_elem(&tunnel_ways, &fib.ifindex))
			note_next_hop(&fib);
		return leaves;
	}
	/* The other end of a session is nobody's neighbour. */
	if (!way || !way->session.there)
		note_next_hop(&fib);
	return hand_over(ctx, core, p, leaves, &t->nat, hop, way, 0, full);
}

#endif
