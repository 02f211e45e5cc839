/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the lane leaves to the kernel, which knows what to do. While the core is guarded that has a bound, too: marked
 * packets that cannot be express must not take from the express classes what the stack classes may not.
 */
#ifndef RXLANE_LEAVE_H
#define RXLANE_LEAVE_H

static __always_inline void count_reason(struct core *core, __u32 reason)
{
	__u64 index = masked(reason, 31);

	core->reason = index;
	if (index < REASONS)
		core->reasons[index]++;
}

/* First on this core as any packet of its class, and where it leaves as Linux has it. */
static __always_inline int to_qdisc(struct core *core, __u32 class)
{
	core->classes[class_index(class)].passed++;
	count_reason(core, REASON_QDISC);
	return XDP_PASS;
}

/* A packet of no class: ARP, or one that is not for this router. */
static __always_inline int to_kernel(struct core *core, __u32 reason)
{
	if (is_guarded(core) && core->exceptions++ >= EXCEPTIONS_PER_POLL) {
		count_reason(core, REASON_SHED);
		return XDP_DROP;
	}
	count_reason(core, reason);
	return XDP_PASS;
}

/* The same, unless the router must hear it. */
static __always_inline int to_kernel_first(struct xdp_md *ctx, struct core *core, __u32 reason)
{
	if (is_guarded(core) && comes_first(ctx, core)) {
		count_reason(core, reason);
		return XDP_PASS;
	}
	return to_kernel(core, reason);
}

/* Served as the stack class below, within its share. */
static __always_inline int as_stack(struct xdp_md *ctx, struct core *core, __u32 class, __u32 reason)
{
	struct class_counters *count;

	class = class_index(class);
	core->asked = class;
	count = &core->classes[class];
	count->packets++;
	count->bytes += core->packet.length;
	count_reason(core, reason);
	return to_stack(ctx, core, class);
}

/*
 * A packet of an express class. Of the highest some pass in each poll whatever the guard says: segments that open a
 * connection, flows that Linux is to be seen to forward.
 */
static __always_inline int leave(struct xdp_md *ctx, struct core *core, __u32 reason)
{
	__u32 class = core->asked, below = stack_below[class_index(class)];

	if (!is_guarded(core) || below >= n_classes || (!class && core->exceptions < EXCEPTIONS_PER_POLL))
		return to_kernel(core, reason);
	return as_stack(ctx, core, below, reason);
}

#endif
