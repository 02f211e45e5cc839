/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is done about a packet beside serving it: its latency and its trace. Most packets have neither, for which the
 * program tests one word.
 */
#ifndef RXLANE_LOOK_H
#define RXLANE_LOOK_H

/* Whether latencies are measured. */
const volatile __u32 measures_latency = 0;

/* `served`: whether a class has served the packet. Returns the action. */
__noinline int look_back(struct xdp_md *ctx, struct core *core, __u32 served, int action)
{
	__u32 class;

	if (!core)
		return action;
	class = class_index(core->asked);
	if (measures_latency && served && core->look & LOOK_SAMPLED) {
		if (action == XDP_PASS)
			count_latency(class, bpf_ktime_get_ns() - core->began_ns, 1);
		/* What is queued leaves its ring by another thread. */
		else if (action == XDP_REDIRECT && classes[class].lane != LANE_STACK)
			core->sampled[class]++;
	}
	if (core->look & LOOK_TRACED)
		end_trace(ctx, core, action);
	return action;
}

#endif
