/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all ports of a CPU share: its guard, and how long the CPU had nothing to do before a poll. The XDP program tells
 * the guard of packets, the program at the end of polls (overload.bpf.c) of the rest.
 */
#ifndef RXLANE_CPU_H
#define RXLANE_CPU_H

#include "overload/guard.h"
#include "overload/park.h"

/* The polls of a CPU take turns, so nothing of it is locked. */
struct cpu {
	struct guard guard;
	__u64 ended_ns; /* the last poll, while guarded */
	__u64 ring_busy_ns; /* when a class's ring was last seen holding packets, while guarded */
	__u64 guards; /* times that the guard was entered */
	__u64 guarded_ns; /* time spent guarded, without the time since it was entered last */
	__u64 full_napi; /* whose last poll left packets on the ring; 0: nobody's */
	__u32 full_ring; /* that it polled */
	__u32 full; /* the last poll left packets on the ring, while guarded */
	__u32 begun; /* the guard knows of the poll under way */
	__u32 ring; /* that it polls */
	__u32 last_ring; /* that was polled */
	__u32 last_task; /* that polled */
	__u64 last_delay_ns; /* how long it had waited for the CPU until then */
	__u64 alone_since_ns; /* since when no other ring was polled */
	__u64 softirq_ns; /* when the kernel began to poll, while guarded */
	__u64 polled_ns; /* the end of the last poll of anything but a port, while guarded */
	__u64 deferred_ns; /* spent in the kernel's own polls on packets of ports, since the last poll of a port */
	__u64 deferred_apart_ns; /* of that, by another task than the one that polls ports */
	__u64 delay_ns; /* how long the task that polls had waited for the CPU when the poll began */
	__u32 owners[GUARD_RINGS]; /* of the guard's rings: port and queue */
	__u64 longest_wait_ns; /* of express packets in an Rx ring, while guarded */
	__u64 lately_ns, wait_ns, wait_before_ns; /* since when; the longest since then; that of as long before */
	__u64 emptied_ns[GUARD_RINGS]; /* when a ring was found empty; 0: the last poll left packets on it */
	__u64 filling_ns[GUARD_RINGS]; /* since when a ring holds packets; 0: not known */
	struct parking parking;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct guard_plan);
} guard_plans SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

static __always_inline const struct guard_plan *guard_plan(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&guard_plans, &zero);
}

/* The guard's number of an Rx ring: the first that come get one of their own, the others share. */
static __always_inline __u32 ring_number(struct cpu *cpu, __u32 slot, __u32 queue)
{
	__u32 owner = (slot << 16 | (queue & 0xffff)) + 1, i;

	UNROLLED
	for (i = 0; i < GUARD_RINGS; i++) {
		if (!cpu->owners[i])
			cpu->owners[i] = owner;
		if (cpu->owners[i] == owner)
			return i;
	}
	return (slot + 2 * queue) & (GUARD_RINGS - 1);
}

/* How long the task that polls has waited for the CPU in all: what others had. */
static __always_inline __u64 delay_ns(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/*
 * How much others had of the time since the last poll ended, as far as is known: a thread that polls knows how long it
 * had to wait for the CPU since then, if it was the one that polled.
 */
static __always_inline __u64 others_since(const struct cpu *cpu)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return (__u32)task->pid == cpu->last_task ? minus(delay_ns(), cpu->last_delay_ns) : 0;
}

/*
 * How long the CPU had nothing to do since the last poll ended: for a thread that polls, what others did not have.
 * Polls from an interrupt find either nothing running or somebody else. After a poll that left packets behind, the time
 * went into handing on what it took.
 */
static __always_inline __u64 idle_since(const struct cpu *cpu, const struct core *core, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 gap = minus(now, cpu->ended_ns);

	if (cpu->full)
		return 0;
	if (!task->pid)
		return gap;
	if ((__u32)task->pid != core->task || !bpf_core_field_exists(task->sched_info.run_delay))
		return 0;
	return minus(gap, minus(delay_ns(), core->run_delay_ns));
}

/*
 * The end of a poll of anything but a port. Where the kernel polls queues of its own, packets of ports are served:
 * those that came in tunnels or by ppp devices, and what was steered to this core. They have no device that somebody
 * could wait for (gro_cells_init in net/core/gro_cells.c), or none at all (process_backlog in net/core/dev.c).
 */
static __always_inline void note_other_poll(struct cpu *cpu, const struct napi_struct *napi, int work)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now, took;

	if (!cpu || !cpu->guard.guarded)
		return;
	now = bpf_ktime_get_ns();
	took = minus(now, most(most(cpu->softirq_ns, cpu->polled_ns), cpu->ended_ns));
	cpu->polled_ns = now;
	/* Of what a thread polls nobody knows when that began. */
	if (!work || napi->state & NAPIF_STATE_THREADED || (napi->dev && !(napi->state & NAPIF_STATE_NO_BUSY_POLL)))
		return;
	cpu->deferred_ns += took;
	if ((__u32)task->pid != cpu->last_task)
		cpu->deferred_apart_ns += took;
}

/* Within a poll. */
static __always_inline struct moment moment(const struct cpu *cpu)
{
	struct moment at = {
		.now = bpf_ktime_get_ns(),
		.others = minus(delay_ns(), cpu->delay_ns),
	};

	return at;
}

/*
 * A ring has packets again: since it was last empty, or, if the CPU had nothing to do since then, since it had. Polls
 * of other rings in between are time in which they may have waited.
 */
static __always_inline void ring_fills(struct cpu *cpu, __u32 ring, __u64 now, __u64 idle)
{
	__u64 *emptied = &cpu->emptied_ns[masked(ring, GUARD_RINGS - 1)];
	__u64 *filling = &cpu->filling_ns[masked(ring, GUARD_RINGS - 1)];

	if (*emptied)
		*filling = idle > WAKE_NS ? least(cpu->ended_ns + idle, now) : *emptied;
	else if (!*filling)
		*filling = now;
	*emptied = 0;
}

/* About a second. */
#define LATELY_NS (1ULL << 30)

static __always_inline void keep_longest(struct cpu *cpu, __u64 now, __u64 wait)
{
	__u64 passed = minus(now, cpu->lately_ns);

	if (passed >= LATELY_NS) {
		cpu->wait_before_ns = passed < 2 * LATELY_NS ? cpu->wait_ns : 0;
		cpu->wait_ns = 0;
		cpu->lately_ns = now;
	}
	cpu->wait_ns = most(cpu->wait_ns, wait);
	cpu->longest_wait_ns = most(cpu->longest_wait_ns, wait);
}

/* The end of a poll of a ring, for the longest that its express packets may have waited. */
static __always_inline void note_wait(struct cpu *cpu, __u32 ring, __u64 now, int express, int emptied)
{
	__u64 since = cpu->filling_ns[masked(ring, GUARD_RINGS - 1)];

	if (express && since)
		keep_longest(cpu, now, minus(now, since));
	if (emptied)
		cpu->emptied_ns[masked(ring, GUARD_RINGS - 1)] = now;
}

static __always_inline void forget_waits(struct cpu *cpu)
{
	__builtin_memset(cpu->emptied_ns, 0, sizeof(cpu->emptied_ns));
	__builtin_memset(cpu->filling_ns, 0, sizeof(cpu->filling_ns));
}

static __always_inline void note_end(struct cpu *cpu, struct core *core, __u64 now, int full)
{
	struct task_struct *task = bpf_get_current_task_btf();

	cpu->ended_ns = now;
	cpu->deferred_ns = 0;
	cpu->deferred_apart_ns = 0;
	cpu->full = full;
	core->task = task->pid;
	core->run_delay_ns = delay_ns();
	cpu->last_task = core->task;
	cpu->last_delay_ns = core->run_delay_ns;
}

#endif
