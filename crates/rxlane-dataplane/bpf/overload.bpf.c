// SPDX-License-Identifier: GPL-2.0
/*
 * The controller: at the end of every NAPI poll of a port, decides whether its core is overloaded and how
 * many packets of each stack class the next poll may pass. It also counts the rings, batch by batch, and
 * what egress drivers refuse. Loaded once, kept across configurations.
 *
 * Overloaded: five polls in a row used up the device budget, or fewer that took 2 ms, while there is RT
 * traffic to protect (low-latency-router III.B: budget exhausted, device back to the tail of the poll list).
 * Budget: b = T* / x, from the target of a poll T* and the measured service time x of a stack packet
 * (low-latency-router III.D, with the RT share of the poll contained in x).
 * Over: the work that arrived in a window, all of it served, would have fitted into the window.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "shared.h"
#include "bounds.h"
#include "kernel.h"

struct bpf_prog;

/* One more than a ring of 256 fills that a stalled machine has let run full: that is a burst, no overload. */
#define SATURATED_POLLS 5
/* Polls of slow packets are long: five of 64 packets of 250 us take 80 ms, and a ring of 256 holds 17 ms of them. */
#define SATURATED_NS 2000000ULL
#define EXPRESS_RECENT_NS 200000000ULL /* RT traffic counts as present this long */
#define WINDOW_NS 10000000ULL /* over which demand is compared with time */
#define MAX_BACKOFF 7 /* doublings of the window after quick returns */
#define RING_QUIET_NS 1000000ULL /* a ring must be empty this long before its class is passed again */
#define IDLE_GAP_NS 2000ULL /* between polls: the core has slept */
#define LONG_POLL 2 /* targets: a longer poll costs half of a positive balance */
#define MAX_DEBT_X256 (64 << 8) /* the device budget */
#define MIN_SERVICE_NS 100ULL
#define STALL_NS 50000ULL /* a longer sample may be a stall: it counts as at most twice the service time */
#define MAX_SERVICE_NS 1000000ULL

const volatile __u64 netns_cookie = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct port_table);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct core);
} cores SEC(".maps");

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
	__type(value, struct control);
} controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32); /* id of a CPUMAP */
	__type(value, __u32); /* class */
} ring_classes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CLASSES *RING_CPUS);
	__type(key, __u32);
	__type(value, struct ring);
} ring_counters SEC(".maps");

/* Packets in all rings of a class, now. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CLASSES);
	__type(key, __u32);
	__type(value, __u64);
} ring_totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct port_counters);
} port_counts SEC(".maps");

static __always_inline const struct port *port_at(__u32 ifindex)
{
	const struct port_table *table;
	__u32 zero = 0, i;

	table = bpf_map_lookup_elem(&ports, &zero);
	if (!table)
		return 0;
	UNROLLED
	for (i = 0; i < PORT_PROBES; i++) {
		const struct port *port = &table->at[(ifindex + i) & (PORT_TABLE - 1)];

		if (port->ifindex == ifindex)
			return port;
	}
	return 0;
}

static __always_inline const struct port *port_of(const struct net_device *dev)
{
	const struct port *port;

	if (!dev)
		return 0;
	port = port_at(dev->ifindex);
	/* An ifindex is unique only within its network namespace. */
	return port && dev->nd_net.net->net_cookie == netns_cookie ? port : 0;
}

static __always_inline int rings_hold_packets(void)
{
	__u32 i;

	UNROLLED
	for (i = 0; i < MAX_CLASSES; i++) {
		__u32 key = i;
		__u64 *held = bpf_map_lookup_elem(&ring_totals, &key);

		if (held && *held)
			return 1;
	}
	return 0;
}

/* Highest class first; each class gets what those above it leave, and at least one packet. */
static __always_inline void set_limits(struct core *core, const struct control *control)
{
	__s64 taken = 0;
	__u32 i;

	UNROLLED
	for (i = 0; i < MAX_CLASSES; i++) {
		__s64 budget;

		if (!(control->stack_mask & (1 << i)))
			continue;
		/* Rounded to nearest: rounding down would settle below the target when a poll has few packets. */
		budget = (((__u64)control->target_ns[i] << 8) + core->service_ns_x256 / 2) / core->service_ns_x256;
		budget += (core->balance_x256 >> 8) - taken;
		core->limit[i] = budget > 1 ? budget : 1;
		taken += core->demand_x16[i] >> 4;
	}
}

/* Polls in a row used up the device budget: so many, or for so long, that it is no burst. */
static __always_inline int is_outrun(struct core *core, __u64 now)
{
	if (core->saturated == 1)
		core->saturated_since_ns = now;
	return core->saturated >= SATURATED_POLLS ||
	       (core->saturated > 1 && now - core->saturated_since_ns > SATURATED_NS);
}

/* The saturated polls say what a packet takes, RT packets included: the first guess at the service time. */
static __always_inline void estimate(struct core *core, __u32 budget, __u64 now)
{
	__u64 packets = (__u64)(core->saturated - 1) * budget;
	__u64 most = core->service_ns_x256 ? core->service_ns_x256 >> 7 : MAX_SERVICE_NS;
	__u64 sample = packets ? (now - core->saturated_since_ns) / packets : 0;

	if (sample < MIN_SERVICE_NS)
		sample = MIN_SERVICE_NS;
	if (sample > most)
		sample = most; /* part of it may be a stall */
	if (core->service_ns_x256 < sample << 8)
		core->service_ns_x256 = sample << 8;
}

static __always_inline void enter(struct core *core, const struct control *control, __u64 now)
{
	if (now - core->last_exit_ns < 10 * WINDOW_NS) {
		if (core->backoff < MAX_BACKOFF)
			core->backoff++;
	} else {
		core->backoff = 0;
	}
	core->overloaded = 1;
	core->entered++;
	core->entered_ns = now;
	core->window_start_ns = now;
	core->window_work_ns = 0;
	core->ring_busy_ns = now;
	set_limits(core, control);
}

static __always_inline void leave(struct core *core, __u64 now)
{
	core->overloaded = 0;
	core->saturated = 0;
	core->last_exit_ns = now;
	core->overloaded_ns += now - core->entered_ns;
}

static __always_inline __u64 longest_target(const struct control *control)
{
	__u32 longest = 0, i;

	UNROLLED
	for (i = 0; i < MAX_CLASSES; i++)
		longest = control->target_ns[i] > longest ? control->target_ns[i] : longest;
	return longest;
}

/* What an overloaded poll taught: the service time, and what was asked for. */
static __always_inline void learn(struct core *core, const struct control *control, __u64 now)
{
	__u32 passed = 0, seen = 0, i;
	__u64 sample;

	UNROLLED
	for (i = 0; i < MAX_CLASSES; i++) {
		passed += core->passed[i];
		seen += core->seen[i];
		core->demand_x16[i] += core->seen[i] - (core->demand_x16[i] >> 4);
	}
	/* A poll that had fewer packets than its budget says little about what the budget costs. */
	if (passed && passed < seen && core->poll_start_ns && now > core->poll_start_ns) {
		__u64 most = core->service_ns_x256 >> 7;

		if (most < STALL_NS)
			most = STALL_NS;
		if (most > MAX_SERVICE_NS)
			most = MAX_SERVICE_NS;
		sample = (now - core->poll_start_ns) / passed;
		if (sample < MIN_SERVICE_NS)
			sample = MIN_SERVICE_NS;
		if (sample > most)
			sample = most;
		core->service_ns_x256 += ((__s64)(sample << 8) - (__s64)core->service_ns_x256) >> 3;
	}
	core->window_work_ns += seen * (core->service_ns_x256 >> 8);
	/*
	 * Work conservation: a core that slept after a poll that dropped could have served more. Bursts do
	 * this, and so does a service time measured too high. The opposite is a poll that took the whole
	 * device budget: packets arrive faster than polls of that length take them from the ring, and RT
	 * packets are lost there, unclassified. Shorter polls drain it faster.
	 */
	if (core->saturated)
		core->balance_x256 -= core->balance_x256 > -MAX_DEBT_X256 ? 256 : 0;
	else if (core->poll_start_ns > core->last_end_ns + IDLE_GAP_NS && core->shed_last)
		core->balance_x256 = core->balance_x256 < 0 ? core->balance_x256 / 2 : core->balance_x256 + 256;
	else
		core->balance_x256 -= core->balance_x256 >> (core->balance_x256 > 0 ? 6 : 4);
	if (core->balance_x256 > 0 &&
	    (core->saturated || now - core->poll_start_ns > LONG_POLL * longest_target(control)))
		core->balance_x256 >>= 1;
	core->shed_last = passed < seen;
	core->last_end_ns = now;
}

static __always_inline int is_over(struct core *core, __u64 now)
{
	__u64 window = now - core->window_start_ns;
	int fits;

	if (rings_hold_packets())
		core->ring_busy_ns = now;
	if (window < WINDOW_NS << core->backoff)
		return 0;
	fits = core->window_work_ns < window && now - core->ring_busy_ns > RING_QUIET_NS;
	core->window_start_ns = now;
	core->window_work_ns = 0;
	return fits;
}

SEC("tp_btf/napi_poll")
int BPF_PROG(end_of_poll, struct napi_struct *napi, int work, int budget)
{
	const struct control *control;
	const struct port *port;
	struct core *core;
	struct cpu *cpu;
	__u32 zero = 0, slot, i;
	__u64 now;

	port = port_of(napi->dev);
	if (!port)
		return 0;
	slot = port->slot;
	core = bpf_map_lookup_elem(&cores, &slot);
	cpu = bpf_map_lookup_elem(&cpus, &zero);
	control = bpf_map_lookup_elem(&controls, &zero);
	if (!core || !cpu || !control)
		return 0;
	core->polls++;
	core->saturated = work >= budget ? core->saturated + 1 : 0;
	/* Below overload a poll costs one clock reading, and none if it was short and had no express traffic. */
	if (core->express || core->saturated || core->overloaded) {
		now = bpf_ktime_get_ns();
		if (core->express)
			cpu->last_express_ns = now;
		core->express = 0;
		if (core->overloaded) {
			int protect = control->always_mask || now - cpu->last_express_ns < EXPRESS_RECENT_NS;

			learn(core, control, now);
			if (is_over(core, now) || (!protect && !rings_hold_packets()))
				leave(core, now);
			else
				set_limits(core, control);
			UNROLLED
			for (i = 0; i < MAX_CLASSES; i++)
				core->seen[i] = core->passed[i] = 0;
			core->poll_start_ns = 0;
		} else if (is_outrun(core, now) && control->stack_mask &&
			   (control->always_mask || now - cpu->last_express_ns < EXPRESS_RECENT_NS)) {
			estimate(core, budget, now);
			enter(core, control, now);
		}
	}
	core->exceptions = 0;
	return 0;
}

static __always_inline struct ring *ring_of(int map_id, __u32 cpu, __u32 *class)
{
	__u32 id = map_id, *found = bpf_map_lookup_elem(&ring_classes, &id), key;

	if (!found || cpu >= RING_CPUS)
		return 0;
	*class = *found;
	key = *found * RING_CPUS + cpu;
	return bpf_map_lookup_elem(&ring_counters, &key);
}

SEC("tp_btf/xdp_cpumap_enqueue")
int BPF_PROG(ring_filled, int map_id, unsigned int processed, unsigned int drops, int to_cpu)
{
	__u32 class;
	struct ring *ring = ring_of(map_id, to_cpu, &class);
	__u64 *held;

	if (!ring)
		return 0;
	/* The kernel counts what found the ring full as processed too. */
	__sync_fetch_and_add(&ring->enqueued, processed - drops);
	__sync_fetch_and_add(&ring->drops, drops);
	held = bpf_map_lookup_elem(&ring_totals, &class);
	if (held)
		__sync_fetch_and_add(held, processed - drops);
	return 0;
}

SEC("tp_btf/xdp_cpumap_kthread")
int BPF_PROG(ring_served, int map_id, unsigned int processed, unsigned int drops, int sched,
	     struct xdp_cpumap_stats *stats)
{
	__u32 class;
	struct ring *ring;
	__u64 *held;

	if (!processed)
		return 0;
	ring = ring_of(map_id, bpf_get_smp_processor_id(), &class);
	if (!ring)
		return 0;
	__sync_fetch_and_add(&ring->dequeued, processed);
	held = bpf_map_lookup_elem(&ring_totals, &class);
	if (held)
		__sync_fetch_and_sub(held, processed);
	return 0;
}

SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(express_sent, const struct net_device *from, const struct net_device *to, int sent, int drops, int err)
{
	const struct port *port;
	struct port_counters *count;
	__u32 slot;

	port = port_of(to);
	if (!port)
		return 0;
	slot = port->slot;
	count = bpf_map_lookup_elem(&port_counts, &slot);
	if (!count)
		return 0;
	count->tx_packets += sent;
	count->tx_drops += drops;
	return 0;
}

/* A frame that did not even reach the egress driver: it is down, or shorter of MTU than the frame is long. */
SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(express_refused, const struct net_device *from, const struct bpf_prog *xdp, const void *to, int err,
	     int map_type, __u32 map_id, __u32 index)
{
	const struct port *port;
	struct port_counters *count;
	__u32 slot;

	if (map_type != BPF_MAP_TYPE_DEVMAP_HASH || !port_of(from))
		return 0;
	/* The egress map has devices by their ifindex. */
	port = port_at(index);
	if (!port)
		return 0;
	slot = port->slot;
	count = bpf_map_lookup_elem(&port_counts, &slot);
	if (count)
		count->tx_drops++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
