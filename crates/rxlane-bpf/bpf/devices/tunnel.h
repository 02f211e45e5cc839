/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets in tunnels. One that came in a tunnel came in by that tunnel's device; what a route sends through the device
 * gets an outer header, and leaves where the kernel's routes send that. Linux decides about outer packets by
 * themselves: as those to the router and those of it.
 */
#ifndef RXLANE_TUNNEL_H
#define RXLANE_TUNNEL_H

/* `net.ipv4.route.min_pmtu`, as it is unless changed. */
#define LEAST_LEARNED_MTU 552
/* As locally made packets are routed: by no device. */
#define LOOPBACK_IFINDEX 1

static __always_inline __u8 tos_of(const struct packet *p)
{
	return p->v6 ? p->ip6->priority << 4 | p->ip6->flow_lbl[0] >> 4 : p->ip4->tos;
}

/*
 * Whether Linux would deliver the outer packet that the one in hand came in to the router itself, as far as its routes
 * and rp_filter say. `strictly`: it must come from where its tunnel's other end is, whatever rp_filter is.
 */
__noinline int outer_is_delivered(struct xdp_md *ctx, struct core *core, int strictly)
{
	struct bpf_fib_lookup fib = {};
	const struct iphdr *ip;
	__be32 source, destination;
	__u8 protocol;
	long ret;

	if (!core)
		return 0;
	ip = packet_pointer(ctx->data) + masked(core->came_in.at, MAX_L2);
	if ((void *)(ip + 1) > packet_pointer(ctx->data_end))
		return 0;
	source = ip->saddr;
	destination = ip->daddr;
	fib.family = 2; /* AF_INET */
	protocol = ip->protocol;
	fib.l4_protocol = protocol;
	fib.ifindex = core->came_in.device;
	fib.tos = core->came_in.tos;
	fib.ipv4_src = source;
	fib.ipv4_dst = destination;
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_NOT_FWDED)
		return 0;
	if (!strictly && !(core->packet.port_flags & (PORT_STRICT | PORT_LOOSE)))
		return 1;
	__builtin_memset(&fib, 0, sizeof(fib));
	fib.family = 2;
	fib.l4_protocol = protocol;
	fib.ifindex = core->came_in.device;
	fib.tos = core->came_in.tos;
	fib.sport = core->came_in.to_port;
	fib.dport = core->came_in.port;
	fib.ipv4_src = destination;
	fib.ipv4_dst = source;
	ret = bpf_fib_lookup(ctx, &fib, sizeof(fib), fib_of_sources);
	if (ret != BPF_FIB_LKUP_RET_SUCCESS && ret != BPF_FIB_LKUP_RET_NO_NEIGH)
		return 0;
	return fib.ifindex == core->came_in.device || (!strictly && !(core->packet.port_flags & PORT_STRICT));
}

/*
 * The same by the strictest of Linux's rules. Asked of express packets only: others are Linux's to judge, and two
 * look-ups are a third of what the program takes for one.
 */
static __always_inline int outer_is_ours(struct xdp_md *ctx, struct core *core)
{
	if (!core->came_in.ours)
		core->came_in.ours = outer_is_delivered(ctx, core, 1);
	return core->came_in.ours;
}

/* The flow of a packet as it is. */
static __always_inline void flow_of_packet(const struct packet *p, struct inner_flow *flow)
{
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->protocol = p->protocol;
	flow->src_port = bpf_htons(p->src_port);
	flow->dst_port = bpf_htons(p->dst_port);
	if (!p->v6) {
		flow->source[0] = p->ip4->saddr;
		flow->destination[0] = p->ip4->daddr;
	} else {
		__builtin_memcpy(flow->source, &p->ip6->saddr, 16);
		__builtin_memcpy(flow->destination, &p->ip6->daddr, 16);
	}
}

/* What enter_tunnel() says of a packet that stays the outer one, whose frame is of a station that Linux believes
 * elsewhere.
 */
#define HEARD_ELSEWHERE 2

/*
 * Of such a packet, in hand. What Linux drops before it learns says nothing about the station, as far as that can be
 * known: the firewall is not asked.
 */
__noinline int heard_elsewhere(struct xdp_md *ctx, struct core *core)
{
	const struct ethhdr *eth;
	__u8 mac[ETH_ALEN];
	__u32 device, at;

	if (!core)
		return 0;
	device = core->came_in.tunnel;
	core->came_in.tunnel = 0;
	if (!outer_is_delivered(ctx, core, 0) || !outer_sum_holds(ctx, core))
		return 0;
	at = core->came_in.at + sizeof(struct iphdr) + __builtin_offsetof(struct vxlan_headers, eth);
	eth = packet_pointer(ctx->data) + masked(at, MAX_L2);
	if ((void *)(eth + 1) > packet_pointer(ctx->data_end))
		return 0;
	__builtin_memcpy(mac, eth->h_source, ETH_ALEN);
	doubt_end(device, mac, core->came_in.remote);
	return 1;
}

/*
 * Of the packet in hand, which may be the outer one of a tunnel: if it is, and the tunnel is served, the core has the
 * inner one from here on. Whether it comes from where it should is asked later (outer_is_ours). Marks of congestion
 * that the inner packet would get are left to Linux (RFC 6040).
 */
__noinline int enter_tunnel(struct xdp_md *ctx, struct core *core)
{
	const struct device_over *device;
	const struct gates *g = find_gates();
	struct tunnel_key key = {};
	struct packet p;
	__u32 room, outer_length;
	__u64 v6;
	__u8 ecn;
	int parsed, takes;

	if (!core || engine || core->master || from_numbers(ctx, &core->packet, &p) < 0 || p.v6 || obstacle(&p) >= 0)
		return 0;
	if ((void *)(p.ip4 + 1) > p.data_end)
		return 0;
	room = tunnel_of(p.ip4, p.data_end, &key, &v6);
	if (!room)
		return 0;
	/* The router's own addresses are those of the main table, which no other may take for none's. */
	if (core->packet.seen_as != core->packet.ingress)
		return 0;
	device = bpf_map_lookup_elem(&tunnels, &key);
	if (!device || !g || !is_watched(g))
		return 0;
	core->came_in.remote = 0;
	core->came_in.port = 0;
	core->came_in.to_port = 0;
	core->came_in.summed = 0;
	core->came_in.ours = 0;
	core->came_in.at = p.l2;
	core->came_in.device = core->packet.seen_as;
	core->came_in.tos = p.ip4->tos;
	core->came_in.ttl = p.ip4->ttl;
	core->came_in.unfollowed = device->unfollowed;
	if (key.protocol == IPPROTO_UDP) {
		takes = takes_frame(&p, device->ifindex, p.l2 + room - ETH_HLEN);
		if (takes == TAKES_NOT)
			return 0;
		core->came_in.remote = p.ip4->saddr;
		core->came_in.port = bpf_htons(p.src_port);
		core->came_in.to_port = key.port;
		core->came_in.summed = has_sum(p.ip4, p.data_end);
		core->came_in.length = ip_length(&p);
		if (takes == TAKES_AND_LEARNS) {
			core->came_in.tunnel = device->ifindex;
			return HEARD_ELSEWHERE;
		}
	}
	ecn = p.ip4->tos & ECN_MASK;
	outer_length = ip_length(&p);
	p.l2 += room;
	p.l4 = 0;
	p.l4_len = 0;
	if (v6)
		parsed = parse_ipv6(ctx, &p, p.data + masked(p.l2, MAX_L2));
	else
		parsed = parse_ipv4(ctx, &p, p.data + masked(p.l2, MAX_L2));
	if (parsed == PARSED_MALFORMED || room + ip_length(&p) > outer_length)
		return 0;
	if (ecn && ecn != (tos_of(&p) & ECN_MASK))
		return 0;
	if (key.protocol == IPPROTO_UDP) {
		flow_of_packet(&p, &core->inner);
		core->inner.remote = core->came_in.remote;
		core->came_in.flow = hash_of(&core->inner);
	}
	core->came_in.tunnel = device->ifindex;
	p.ingress = device->ifindex;
	p.port_flags = device->flags | (p.port_flags & PORT_PRIORITY);
	core->packet.seen_as = device->seen_as;
	to_core(&p, core);
	return 1;
}

/* The mark "don't fragment" that an outer packet has from the inner one. */
static __always_inline __be16 inherited_flags(const struct packet *p, __u8 inherits)
{
	if (p->v6)
		return inherits & INHERITS_V6 ? bpf_htons(IP_DF) : 0;
	return inherits & INHERITS_DF ? p->ip4->frag_off & bpf_htons(IP_DF) : 0;
}

/* Writes the outer headers, for which there is room behind `l2` bytes. */
static __always_inline int write_outer(struct xdp_md *ctx, const struct core *core, const struct tunnel_way *out,
				       __u32 l2, __u64 v6)
{
	struct iphdr *ip = packet_pointer(ctx->data) + masked(l2, MAX_L2);
	void *end = packet_pointer(ctx->data_end);
	__be16 *gre = (void *)(ip + 1);

	/* At least a header of the inner packet is behind it. */
	if ((void *)gre + 8 > end)
		return -1;
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = core->leaves.tos;
	ip->tot_len = bpf_htons(core->leaves.length);
	/* Linux, too, takes some number of which nobody knows the next. */
	ip->id = bpf_get_prandom_u32();
	ip->frag_off = core->leaves.flags;
	ip->ttl = core->leaves.ttl;
	ip->protocol = out->key.protocol;
	ip->check = 0;
	ip->saddr = out->key.local;
	ip->daddr = core->leaves.remote ? core->leaves.remote : out->key.remote;
	ip->check = ~ipv4_sum(ip);
	if (out->key.protocol == IPPROTO_UDP)
		return write_vxlan((void *)(ip + 1), end, core, out, v6);
	if (out->key.protocol != IPPROTO_GRE)
		return 0;
	gre[0] = out->key.keyed ? bpf_htons(GRE_KEY) : 0;
	gre[1] = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	if (out->key.keyed)
		*(__be32 *)(gre + 2) = out->key.key;
	return 0;
}

/* Whether a packet in hand that came in a tunnel, and whose flow nobody witnesses, passes by rules about outer packets.
 */
static __always_inline int passes_by_rules(const struct core *core)
{
	const struct gates *g = find_gates();

	return core->came_in.tunnel && (!g || g->tunnels & TUNNELS_RULED);
}

/* The flow of a packet as it leaves: after translation. */
static __always_inline void inner_flow_of(const struct packet *p, const struct translation *nat,
					  struct inner_flow *flow)
{
	flow_of_packet(p, flow);
	if (!nat->translated)
		return;
	flow->src_port = nat->src_port;
	flow->dst_port = nat->dst_port;
	if (!p->v6) {
		flow->source[0] = nat->src_ip.ip4;
		flow->destination[0] = nat->dst_ip.ip4;
	} else {
		__builtin_memcpy(flow->source, nat->src_ip.ip6, 16);
		__builtin_memcpy(flow->destination, nat->dst_ip.ip6, 16);
	}
}

/*
 * Sends the packet in hand through the tunnel that its route leads into, if that is one and served: as forward(), to
 * which it is the second half. What Linux makes of a packet in a tunnel is in ip_tunnel_xmit (net/ipv4/ip_tunnel.c) and
 * ipip6_tunnel_xmit (net/ipv6/sit.c), and of one in a VXLAN in vxlan_xmit_one (drivers/net/vxlan).
 */
__noinline int by_tunnel(struct xdp_md *ctx, struct core *core)
{
	struct bpf_fib_lookup *fib;
	const struct tunnel_way *out;
	const struct vlan_way *way;
	const struct gates *g = find_gates();
	struct packet p;
	__u32 room, l2, device;
	__be32 remote;
	__u8 tos, ecn;
	int leaves;
	long ret;

	if (!core || engine || from_numbers(ctx, &core->packet, &p) < 0)
		return REFUSED(REASON_EGRESS);
	device = core->hop.egress;
	out = bpf_map_lookup_elem(&tunnel_ways, &device);
	if (!out || !g || !is_watched(g) || g->tunnels & TUNNELS_SEVERAL_HOPS)
		return REFUSED(REASON_EGRESS);
	/* SIT may carry IPv4, too, in packets of another protocol; IPIP carries no IPv6. */
	if (out->key.protocol == (p.v6 ? IPPROTO_IPIP : IPPROTO_IPV6))
		return REFUSED(REASON_EGRESS);
	if (!core->departure.flow && g->tunnels & TUNNELS_RULED)
		return REFUSED(REASON_OBJECTION);
	if (out->by_qdisc)
		return REFUSED(REASON_QDISC);
	remote = out->key.remote;
	core->leaves.remote = 0;
	core->leaves.port = 0;
	core->leaves.summed = out->sums;
	inner_flow_of(&p, &core->departure.nat, &core->inner);
	if (out->key.protocol == IPPROTO_UDP) {
		remote = end_behind(device, core->hop.to, out);
		if (!remote)
			return REFUSED(REASON_EGRESS);
		core->leaves.remote = core->inner.remote = remote;
		core->leaves.port = port_of_flow(&core->inner, out);
	}
	room = out->room;
	core->leaves.length = room + ip_length(&p);
	tos = out->tos == 1 ? tos_of(&p) : out->tos;
	ecn = tos_of(&p) & ECN_MASK;
	core->leaves.tunnel = core->hop.egress;
	core->leaves.tos = (tos & ~ECN_MASK) | (ecn == ECN_CE ? ECN_ECT_0 : ecn);
	core->leaves.ttl = out->ttl ? out->ttl : (p.v6 ? p.ip6->hop_limit : p.ip4->ttl) - 1;
	core->leaves.flags = out->flags | inherited_flags(&p, out->inherits);
	fib = &core->outer_route;
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = 2; /* AF_INET */
	fib->l4_protocol = out->key.protocol;
	fib->tot_len = core->leaves.length;
	fib->tos = tos;
	fib->ipv4_src = out->key.local;
	fib->ipv4_dst = remote;
	fib->sport = core->leaves.port;
	fib->dport = out->key.port;
	fib->ifindex = out->link ? out->link : LOOPBACK_IFINDEX;
	ret = bpf_fib_lookup(ctx, fib, sizeof(*fib), out->link ? BPF_FIB_LOOKUP_OUTPUT : 0);
	if (ret != BPF_FIB_LKUP_RET_SUCCESS)
		return REFUSED(reason_of_fib(ret));
	leaves = choose_way(core, &p, room, fib->ifindex, fib->dmac, &way);
	if (leaves == REFUSED(REASON_SESSION))
		left_by_linux(fib->ifindex);
	if (leaves < 0)
		return leaves;
	/* As little as Linux learns, and no less: then it lets be fragmented whatever the tunnel says (ip_mtu_locked).
	 */
	if (fib->mtu_result <= LEAST_LEARNED_MTU ||
	    (out->sums && core->leaves.length > SUMMED_AT_ONCE * SUMMED_TIMES) ||
	    (g->route_mtu[0] && core->leaves.length > g->route_mtu[0]) ||
	    (out->key.protocol == IPPROTO_IPV6 && fib->mtu_result < IPV6_MIN_MTU + sizeof(struct iphdr)))
		return REFUSED(REASON_MTU);
	core->leaves.device = fib->ifindex;
	core->leaves.tag = tag_by(&p, way);
	__builtin_memcpy(core->outer_hop.to, fib->dmac, ETH_ALEN);
	__builtin_memcpy(core->outer_hop.from, fib->smac, ETH_ALEN);
	if (any_conntrack && core->departure.flow && !exit_is_witnessed(core))
		return REFUSED(REASON_UNSEEN);
	/* Global functions may have changed the packet, for all that the verifier knows. */
	if (from_numbers(ctx, &core->packet, &p) < 0)
		return REFUSED(REASON_EGRESS);
	if (!way || !way->session.there)
		note_next_hop(fib);
	l2 = l2_of_way(way);
	core->leaves.at = l2;
	ret = hand_over(ctx, core, &p, leaves, &core->departure.nat, &core->outer_hop, way, room, 1);
	if (ret == XDP_REDIRECT && !observes && write_outer(ctx, core, out, l2, p.v6))
		return XDP_ABORTED;
	return ret;
}

#endif
