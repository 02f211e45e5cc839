/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The way of a packet through an ingress port: parse, classify, admit (trust, police), then the express lane or the
 * stack lane. lane.bpf.c makes an XDP program of it, and tc.bpf.c one of traffic control, which gets skbs (ON_SKB).
 */
#ifndef RXLANE_LANE_H
#define RXLANE_LANE_H

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
#include "lib/port_counts.h"

/*
 * What the configuration calls the port of a slot: slots outlive configurations. BY_VLAN: nothing, but it may name VLAN
 * devices over it (vlan.h).
 */
#define BY_VLAN 255
const volatile __u8 port_of_slot[MAX_PORTS] = {};

#include "overload/cpu.h"
#include "watch/latency.h"
#include "classify/parse.h"
#include "classify/numbers.h"
#include "lib/checksum.h"
#include "classify/classify.h"
#include "classify/police.h"
#include "classify/classes.h"
#include "classify/control.h"
#include "trust/witness.h"
#include "trust/tracker.h"
#include "forward/refusing.h"
#include "trust/trust.h"
#include "engine/engine.h"
#include "devices/vlan.h"
#include "devices/bridge.h"
#include "classify/admit.h"
#include "devices/outer.h"
#include "devices/tunnel_way.h"
#include "devices/vxlan.h"
#include "lib/sum.h"
#include "forward/rewrite.h"
#include "forward/forward.h"
#include "devices/macvlan.h"
#include "devices/session.h"
#include "devices/tunnel.h"
#include "overload/rings.h"
#include "overload/stack.h"
#include "overload/early.h"
#include "forward/local_tcp.h"
#include "forward/leave.h"
#include "known/table.h"
#include "known/flows.h"
#include "classify/apart.h"
#include "known/again.h"
#include "known/fast.h"
#include "watch/trace.h"
#include "watch/look.h"
#if ON_SKB
#include "forward/send_skb.h"
#endif

/* As by_tunnel(), with a checksum where there shall be one. */
static __always_inline int into_tunnel(struct xdp_md *ctx, struct core *core)
{
	int ret = by_tunnel(ctx, core);

	return ret == XDP_REDIRECT && core->leaves.summed && !observes ? sum_outer(ctx, core) : ret;
}

/*
 * Serves the packet that the core has: numbers in memory, of which the verifier knows nothing, so that all that the
 * packet could be up to here ends here. They are also what global functions get.
 */
static __always_inline int serve(struct xdp_md *ctx, struct core *core, const int full)
{
	struct packet p = {};
	struct departure own = {}, *t = full ? &core->departure : &own;
	const volatile struct class *c;
	struct class_counters *count;
	__u32 class;
	int ret;

	barrier();
	if (!full && from_numbers(ctx, &core->packet, &p) < 0)
		return XDP_PASS;
	if (full) {
		core->place = 0;
		__builtin_memset(core->sender, 0, sizeof(core->sender));
		if (may_be_known() && may_know(core->packet.dscp) &&
		    (!core->came_in.tunnel ||
		     (!core->came_in.unfollowed && outer_is_ours(ctx, core) && outer_sum_holds(ctx, core)))) {
			ret = by_known_flow(ctx, core);
			if (!ON_SKB && ret == KNOWN_BY_TUNNEL) {
				class = class_index(core->asked);
				c = &classes[class];
				count = &core->classes[class];
				ret = into_tunnel(ctx, core);
				goto forwarded;
			}
			if (ret >= 0)
				return ret;
		}
		__builtin_memset(t, 0, sizeof(*t));
		ret = admit_apart(ctx, core);
	} else {
		class = classify(&p, 0);
		if (core->look)
			core->named = class;
		ret = admit(ctx, &p, core, class, t, 0);
	}
	if (ret < 0)
		return leave(ctx, core, REFUSED(ret));
	class = class_index(ret);
	c = &classes[class];
	count = &core->classes[class];
	if (c->lane != LANE_STACK) {
		/* It has its class's share of the core, and asking for more would be in vain. */
		if (full && t->flow && core->came_in.tunnel && core->came_in.unfollowed)
			return leave(ctx, core, REASON_UNSEEN);
		/* Of a VRF's packets Linux does not note by which member they came in. Their source tells that. */
		if (full && t->flow && core->packet.seen_as != core->packet.ingress)
			t->source = SOURCE_STRICT;
		if (core->came_in.tunnel && !outer_is_ours(ctx, core))
			return leave(ctx, core, REASON_SOURCE);
		/* First the source, so that who forges it from elsewhere asks for nothing in the flow's name. */
		if (t->source != SOURCE_ANY && !(full ? source_apart(ctx, core) : source_holds(ctx, &p, t)))
			return leave(ctx, core, REASON_SOURCE);
		/* Of an untracked flow that has been asked before the class took it. */
		if (full && t->flow && !t->egress) {
			ret = is_witnessed(core);
			if (ret <= 0)
				return leave(ctx, core, ret ? REASON_OBJECTION : REASON_UNSEEN);
		}
		if (full && t->flow && core->came_in.tunnel && !entry_is_witnessed(core))
			return leave(ctx, core, REASON_UNSEEN);
		if (!(full && t->flow) && passes_by_rules(core))
			return leave(ctx, core, REASON_OBJECTION);
	}
	if (engine) {
		if (passes_first(ctx, core, class))
			return XDP_PASS;
		/* A translated packet would look odd to a kernel that gets it back. */
		if (t->nat.translated)
			return leave(ctx, core, REASON_NAT);
		if (full && t->flow && !goes_as_seen(ctx, core))
			return leave(ctx, core, REASON_UNSEEN);
		/* Its rings hold frames of one piece. */
		if (core->packet.multi_buffer)
			return leave(ctx, core, REASON_MTU);
		ret = to_engine(ctx, core, class);
		if (ret >= 0)
			return ret;
	}
	if (c->lane == LANE_STACK)
		return to_stack(ctx, core, class);
	core->express = 1;
	if (is_guarded(core) && class && !may_pass(class, 0, core->taken - 1)) {
		if (passes_first(ctx, core, class))
			return XDP_PASS;
		count->early_drops++;
		return XDP_DROP;
	}
	/* Linux drops what has a wrong one. Asked last, since it takes a look at all of the packet. */
	if (core->came_in.tunnel && !outer_sum_holds(ctx, core))
		return leave(ctx, core, REASON_CHECKSUM);
	if (!full && counts_flows)
		make_key(&p, &core->key);
	ret = full ? forward_apart(ctx, core) : forward(ctx, core, &p, t, &core->hop, 0);
	if (!ON_SKB && ret == REFUSED(REASON_EGRESS)) {
		if (!full)
			core->departure.flow = core->departure.nat.translated = 0;
		ret = into_tunnel(ctx, core);
	}
forwarded:
	/* Only if cutting off the tail has failed, after which the verifier takes the packet's pointers for lost. */
	if (ret == REFUSED(REASON_MALFORMED))
		return to_kernel(core, REASON_MALFORMED);
	if (ret == REFUSED(REASON_QDISC)) {
		if (full && may_be_known() && t->flow)
			remember(core, class);
		return to_qdisc(core, class);
	}
	if (ret < 0)
		return leave(ctx, core, REFUSED(ret));
	if (ret == XDP_ABORTED) {
		count_reason(core, REASON_MALFORMED);
		return ret;
	}
	count->looked_up++;
	if (c->lane == LANE_FAST || ret == BY_QDISC)
		count->fast++;
	else
		count_express(core, class);
	if (full && may_be_known() && t->flow)
		remember(core, class);
	if (counts_flows)
		count_flow(core);
	return ret == BY_QDISC ? XDP_PASS : ret;
}

#if ON_SKB
#define send(ctx, core) \
	send_skb(ctx, (core)->hop.egress, !(core)->asked && n_classes > 1, (core)->packet.v6, (core)->packet.dscp)
#else
#define send(ctx, core) XDP_REDIRECT
#endif

/* For the program that ends the poll. An skb is in none that it knows of. */
static __always_inline void note_poll(struct xdp_md *ctx, struct core *core)
{
	if (!ON_SKB)
		core->queue = queue_of(ctx) + 1;
}

static __always_inline int ingress(struct xdp_md *ctx, const int full)
{
	const struct port_table *table;
	const struct port *port;
	struct packet p = {};
	struct core *core;
	__u32 zero = 0, slot, served = 0;
	int action = XDP_PASS;

	table = bpf_map_lookup_elem(&ports, &zero);
	if (!table)
		return XDP_PASS;
	port = find_port(table, ingress_of(ctx));
	if (!port)
		return XDP_PASS;
	slot = port->slot;
	core = bpf_map_lookup_elem(&cores, &slot);
	if (!core)
		return XDP_PASS;
	if (is_of_local_tcp(ctx) && !may_be_fast(ctx, core, port)) {
		count_reason(core, REASON_LOCAL_TCP);
		return XDP_PASS;
	}
	arm(core);
	if (core->look & LOOK_ARMED)
		begin_trace(ctx, core);
	/* Where the lane can do nothing for anybody it costs as little as it can. */
	if (!is_guarded(core) && !engine && is_idle()) {
		count_reason(core, REASON_IDLE);
		note_poll(ctx, core);
		return core->look ? look_back(ctx, core, 0, XDP_PASS) : XDP_PASS;
	}
	if (is_guarded(core) && !core->queue)
		core->guarded = begin_poll(slot, queue_of(ctx));
	if (!ON_SKB && measures_latency && !core->queue)
		begin_latency(core);
	core->taken++;
	note_poll(ctx, core);
	/* There, and not with the packet, which has no room on the stack for it until it is needed. */
	core->packet.port = port_of_slot[masked(slot, MAX_PORTS - 1)];
	if (core->packet.port == BY_VLAN && !enter_named(ctx, core, port->device)) {
		count_reason(core, REASON_NOT_NAMED);
		return core->look ? look_back(ctx, core, 0, XDP_PASS) : XDP_PASS;
	}
	/* One call for both in the program that has both: its stack has no room for what a second would save. */
	if (full && !ON_SKB && (may_be_known() || any_shed_by_dscp) && !observes && !core->look && !port->master) {
		action = by_fast_path(ctx, core, port);
		if (action != NOT_FAST)
			return action;
		action = XDP_PASS;
	}
	if (!full && any_shed_by_dscp && !core->look && !port->master && is_guarded(core) &&
	    drops_early(ctx, core, port))
		return XDP_DROP;
	p.data = packet_pointer(ctx->data);
	p.data_end = packet_pointer(ctx->data_end);
	p.port_flags = port->flags;
	p.ingress = port->device;
	core->packet.seen_as = port->seen_as;
	/* Beside an skb it says so. */
	core->packet.may_lack_checksum = !ON_SKB && port->lacks_checksums;
	core->packet.hands_over = port->hands_over;
	core->packet.merged = merged_bytes(ctx);
	core->master = port->master;
	core->came_in.tunnel = 0;
	if (p.data + sizeof(struct ethhdr) > p.data_end)
		action = to_kernel(core, REASON_MALFORMED);
	else if (has_hidden_tag(ctx))
		action = to_kernel(core, REASON_VLAN);
	else if (core->packet.merged && local_tcp != TCP_ALWAYS && !is_of_local_tcp(ctx))
		action = to_kernel(core, REASON_MTU);
	else if (!is_to_us(&p, core, port)) {
		hear_station(&p, core->master, port->teaches);
		action = to_kernel_first(ctx, core, REASON_NOT_TO_US);
	} else {
		switch (parse(ctx, &p)) {
		case PARSED_IPV4:
		case PARSED_IPV6:
			if (p.tags) {
				enter_vlan(&p, core);
				core->master = 0;
			} else if (core->master && enter_bridge(&p, core->master, port->teaches)) {
				core->master = 0;
			}
			p.port = core->packet.port;
			to_core(&p, core);
			served = 1;
			break;
		case PARSED_NOT_IP:
			if (!ON_SKB && p.type == bpf_htons(ETH_P_PPP_SES)) {
				core->packet.port_flags = p.port_flags;
				core->packet.ingress = p.ingress;
				served = enter_session(ctx, core);
			}
			if (!served) {
				hear_station(&p, core->master, port->teaches);
				action = to_kernel_first(ctx, core, REASON_NOT_IP);
			}
			break;
		default:
			action = to_kernel(core, REASON_MALFORMED);
		}
	}
	if (served) {
		if (!ON_SKB && may_be_tunneled(&core->packet) && enter_tunnel(ctx, core) == HEARD_ELSEWHERE)
			heard_elsewhere(ctx, core);
		action = serve(ctx, core, full);
	}
	if (core->look)
		action = look_back(ctx, core, served, action);
	if (observes)
		return XDP_PASS;
	return action == XDP_REDIRECT ? send(ctx, core) : action;
}

#endif
