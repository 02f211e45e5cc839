/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets of flows that are known (table.h), of any kind: tagged, out of tunnels, merged, in pieces, with padding, for
 * a queueing discipline. What is plain has been served before (fast.h).
 */
#ifndef RXLANE_KNOWN_AGAIN_H
#define RXLANE_KNOWN_AGAIN_H

static __always_inline int is_same_key(const struct flow_key *a, const struct flow_key *b)
{
	const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;
	__u64 differ = 0;

	UNROLLED
	for (__u32 i = 0; i < sizeof(*a) / sizeof(__u64); i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

/* No action of XDP: the class of the packet is known, which leaves through a tunnel. */
#define KNOWN_BY_TUNNEL 64

/*
 * The verdict about a packet of a flow that is known, or -1: then everything is looked up, and `core` has what
 * remember() needs. A function of its own, which the verifier follows once.
 */
__noinline int by_known_flow(struct xdp_md *ctx, struct core *core)
{
	__u32 zero = 0, class, index;
	struct class_counters *count;
	const struct witness *witness;
	const struct gates *g = find_gates();
	struct known_flow *flow;
	struct packet p;
	__u64 bytes, now;
	const struct vlan_way *way;
	int ret, leaves;

	if (!core || !may_be_known())
		return -1;
	witness = bpf_map_lookup_elem(&witnesses, &zero);
	if (!witness || !g || core->master || from_numbers(ctx, &core->packet, &p) < 0 || obstacle(&p) >= 0 ||
	    goes_on(&p, 0) != TRUSTED)
		return -1;
	if (g->by_sender) {
		const struct ethhdr *eth = p.data;

		if ((void *)(eth + 1) > p.data_end)
			return -1;
		__builtin_memcpy(core->sender, eth->h_source, ETH_ALEN);
	}
	core->generation = witness->generation;
	core->routes = witness->routes;
	make_key(&p, &core->key);
	now = bpf_ktime_get_coarse_ns();
	core->place = known_place(known_hash(&core->key), now);
	if (!core->place)
		return -1;
	index = core->place - 1;
	flow = bpf_map_lookup_elem(&known_flows, &index);
	if (!flow || !is_same_key(&flow->key, &core->key) || flow->generation != (__u16)core->generation ||
	    flow->routes != (__u16)core->routes || now - flow->checked_ns >= KNOWN_FRESH_NS)
		return -1;
	if (lacks_checksum(ctx, core) || (counts_flows && !is_at_place(core)))
		return -1;
	class = class_index(flow->class);
	if (is_closed(g, class) || !is_watched_at(g, now) ||
	    (g->by_sender && !is_same_mac(flow->sender, core->sender)) || core->packet.ip_bytes > flow->mtu ||
	    is_longer_than_routes(&p, core->packet.ip_bytes))
		return -1;
	if (core->came_in.tunnel && !entry_is_witnessed(core))
		return -1;
	/* Its lane and its place among the others decide by which way it leaves. */
	core->asked = class;
	leaves = choose_way(core, &p, 0, flow->egress, flow->to, &way);
	if (leaves < 0 && leaves != REFUSED(REASON_QDISC) && (ON_SKB || leaves != REFUSED(REASON_EGRESS)))
		return -1;
	bytes = core->packet.length;
	count = &core->classes[class];
	if (any_police && classes[class].polices && !conforms(class, bytes))
		return -1;
	count->packets++;
	count->bytes += bytes;
	core->express = 1;
	core->named = class;
	if (is_guarded(core) && class && !may_pass(class, 0, core->taken - 1)) {
		count->early_drops++;
		return XDP_DROP;
	}
	if (leaves == REFUSED(REASON_QDISC))
		return to_qdisc(core, class);
	core->hop.egress = flow->egress;
	__builtin_memcpy(core->hop.to, flow->to, ETH_ALEN);
	__builtin_memcpy(core->hop.from, flow->from, ETH_ALEN);
	/* It was remembered, so it leaves through a tunnel. */
	if (leaves < 0) {
		core->place = 0;
		core->departure.flow = 1;
		core->departure.nat = flow->nat;
		return KNOWN_BY_TUNNEL;
	}
	/* Global functions may have changed the packet, for all that the verifier knows. */
	if (from_numbers(ctx, &core->packet, &p) < 0)
		return XDP_DROP;
	ret = hand_over(ctx, core, &p, leaves, &flow->nat, &core->hop, way, 0, 1);
	if (counts_flows && (ret == BY_QDISC || ret == XDP_REDIRECT))
		count_at_place(core);
	if (ret == BY_QDISC) {
		count->fast++;
		return XDP_PASS;
	}
	if (ret == REFUSED(REASON_QDISC))
		return to_qdisc(core, class);
	if (ret < 0)
		return to_kernel(core, REASON_MALFORMED);
	if (ret == XDP_ABORTED) {
		count_reason(core, REASON_MALFORMED);
		return ret;
	}
	if (ON_SKB && classes[class].lane == LANE_FAST)
		count->fast++;
	else
		count_express(core, class);
	return ret;
}

/* What a translation adds to the sum of an IPv4 header, and to that of TCP and UDP, with the hop (RFC 1624). */
static __always_inline void sum_changes(struct known_flow *flow)
{
	const struct flow_key *key = &flow->key;
	const struct translation *nat = &flow->nat;
	__u64 addresses = 0, hop = (__u16)~bpf_htons(0x0100);

	if (nat->translated) {
		UNROLLED
		for (__u32 i = 0; i < 4; i++) {
			if (i && !(key->v6 & 1))
				break;
			addresses += after(key->source[i], nat->src_ip.ip6[i]);
			addresses += after(key->destination[i], nat->dst_ip.ip6[i]);
		}
		flow->nat.l4_change = folded_sum(addresses + (__u16)~key->src_port + nat->src_port +
						 (__u16)~key->dst_port + nat->dst_port);
	}
	flow->ip_change = folded_sum(addresses + hop);
}

/* The packet in hand was forwarded: what was found is true for the next one. */
static __always_inline void remember(struct core *core, __u32 class)
{
	__u32 index = core->place - 1, at = index / KNOWN_WAYS;
	const struct port *port;
	struct known_flow *flow;
	struct known_set *set;

	/* Not by its rules' class, but by that below, as the rate of the first was exceeded. */
	if (!core->place || core->named != class)
		return;
	flow = bpf_map_lookup_elem(&known_flows, &index);
	set = bpf_map_lookup_elem(&known_sets, &at);
	if (!flow || !set)
		return;
	flow->key = core->key;
	flow->generation = core->generation;
	flow->routes = core->routes;
	flow->class = class;
	flow->mtu = core->hop.mtu;
	flow->nat = core->departure.nat;
	flow->egress = core->hop.egress;
	port = egress_port(flow->egress);
	flow->port = port && port->device == flow->egress ? port->slot + 1 : 0;
	__builtin_memcpy(flow->to, core->hop.to, ETH_ALEN);
	__builtin_memcpy(flow->from, core->hop.from, ETH_ALEN);
	__builtin_memcpy(flow->sender, core->sender, ETH_ALEN);
	sum_changes(flow);
	flow->checked_ns = bpf_ktime_get_coarse_ns();
	if (counts_flows)
		hand_on_place(core, index);
	set->seen[index & (KNOWN_WAYS - 1)] |= 1;
}

#endif
