/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The early drop in short. Once a guarded ring is to be emptied, its stack classes are dropped whatever their packets
 * are. A packet whose code point alone says its class is then not looked at any further.
 */
#ifndef RXLANE_EARLY_H
#define RXLANE_EARLY_H

/* By code point: the stack class that all its packets have, and 1; 0: other fields decide, or the class has a ring. */
#define SHED_CLASS 15
#define SHED_KEEPS_TCP 16 /* which is parked instead (park.h) */
const volatile __u8 shed_by_dscp[64] = {};
const volatile __u32 any_shed_by_dscp = 0;

/* Whether it was dropped, and counted. What the router must hear, and what may carry another packet, is not. */
__noinline int drops_early(struct xdp_md *ctx, struct core *core, const struct port *port)
{
	struct ethhdr *eth = packet_pointer(ctx->data);
	void *end = packet_pointer(ctx->data_end);
	struct iphdr *ip4 = (void *)(eth + 1);
	struct ipv6hdr *ip6 = (void *)(eth + 1);
	const struct guard_plan *plan = guard_plan();
	struct cpu *cpu = this_cpu();
	struct class_counters *count;
	struct udphdr *udp;
	__u32 protocol, dscp, shed, from, to, class;

	if (!core || !port || !plan || !cpu || !cpu->guard.guarded || !cpu->guard.dropping)
		return 0;
	if ((void *)(ip4 + 1) + sizeof(*udp) > end || !is_mac_of(port, eth->h_dest))
		return 0;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		if (*(__u8 *)ip4 != 0x45 || ip4->frag_off & bpf_htons(0x3fff))
			return 0;
		protocol = ip4->protocol;
		dscp = ip4->tos >> 2;
		udp = (void *)(ip4 + 1);
	} else {
		if (eth->h_proto != bpf_htons(ETH_P_IPV6) || (void *)(ip6 + 1) + sizeof(*udp) > end ||
		    ip6->version != 6)
			return 0;
		protocol = ip6->nexthdr;
		dscp = bpf_ntohl(*(__be32 *)ip6) >> 22;
		udp = (void *)(ip6 + 1);
	}
	shed = shed_by_dscp[masked(dscp, 63)];
	if (!(shed & SHED_CLASS))
		return 0;
	from = bpf_ntohs(udp->source);
	to = bpf_ntohs(udp->dest);
	if (protocol == IPPROTO_UDP) {
		if (is_control_udp(to) || is_port_of_tunnels(to))
			return 0;
	} else if (protocol != IPPROTO_TCP || shed & SHED_KEEPS_TCP || to == 22 || is_control_tcp(from) ||
		   is_control_tcp(to)) {
		return 0;
	}
	class = class_index((shed & SHED_CLASS) - 1);
	if (!(plan->stack & (1 << class)) || plan->limit_ns[class] == NO_LIMIT)
		return 0;
	count = &core->classes[class];
	count->packets++;
	count->bytes += bpf_xdp_get_buff_len(ctx);
	count->early_drops++;
	guard_drops(&cpu->guard);
	return 1;
}

#endif
