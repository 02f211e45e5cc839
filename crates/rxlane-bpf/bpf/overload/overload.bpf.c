// SPDX-License-Identifier: GPL-2.0
/*
 * The end of every NAPI poll of a port: tells the guard of its core, which decides whether the core is overloaded. It
 * also counts the rings, batch by batch, and what egress drivers refuse. Loaded once, kept across configurations.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "lib/shared.h"
#include "lib/bounds.h"
#include "lib/ports.h"
#include "lib/port_counts.h"
#include "lib/kernel.h"
#include "overload/cpu.h"
#include "overload/rings.h"
#include "watch/latency.h"
#include "forward/refusing.h"
#include "lib/bucket.h"
#include "forward/link_queue.h"

struct bpf_prog;

#define AWAIT_NS 20000ULL /* for the next packet */
#define AWAIT_LOOKS 1024
#define ALONE_NS 1000000ULL /* another ring that was polled this lately may have packets, too */

/* Not where a tracing program keeps threads of higher priority waiting that a poll would not (PREEMPT_RT). */
const volatile __u32 awaits = 1;

#define RING_QUIET_NS 1000000ULL /* a ring must be empty this long before its class is passed again */

const volatile __u64 netns_cookie = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32); /* id of a CPUMAP */
	__type(value, __u32); /* class */
} ring_classes SEC(".maps");

/* Packets in all rings of a class, now. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CLASSES);
	__type(key, __u32);
	__type(value, __u64);
} ring_totals SEC(".maps");

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

/* include/linux/interrupt.h */
#define NET_RX_SOFTIRQ 3

/* Packets that wait in rings must not be overtaken. */
static __always_inline int is_held(struct cpu *cpu, __u64 now)
{
	if (rings_hold_packets())
		cpu->ring_busy_ns = now;
	return now - cpu->ring_busy_ns <= RING_QUIET_NS;
}

/*
 * The ring of an overloaded core will not be empty for long. Who sleeps now must be woken, which takes longer than to
 * wait, and on a virtual machine as long as serving a poll's packets. Whoever fills the ring marks its NAPI as
 * scheduled, and wakes nobody who is awake.
 */
static __always_inline void await_packet(struct napi_struct *napi, __u64 now)
{
	__u32 i;

	for (i = 0; i < AWAIT_LOOKS; i++) {
		if (*(volatile unsigned long *)&napi->state & NAPIF_STATE_SCHED)
			return;
		if (bpf_ktime_get_ns() - now > AWAIT_NS)
			return;
	}
}

SEC("tp_btf/napi_poll")
int BPF_PROG(end_of_poll, struct napi_struct *napi, int work, int budget)
{
	const struct guard_plan *plan = guard_plan();
	struct cpu *cpu = this_cpu();
	const struct port *port;
	struct poll_end end = {};
	struct guard *guard;
	struct core *core;
	__u32 slot, queue, was, begun;
	struct moment at;
	__u64 now;

	port = port_of(napi->dev);
	if (!port) {
		/* Where softirqs are threads, as with PREEMPT_RT, nobody knows when a poll began. */
		if (awaits)
			note_other_poll(cpu, napi, work);
		return 0;
	}
	slot = port->slot;
	core = bpf_map_lookup_elem(&cores, &slot);
	if (!core || !cpu || !plan)
		return 0;
	if (core->look & LOOK_SAMPLED)
		end_latency(core);
	queue = core->queue;
	end.express = core->express;
	core->polls++;
	core->queue = 0;
	core->express = 0;
	core->exceptions = 0;
	end.packets = core->taken;
	core->taken = 0;
	/*
	 * The XDP program saw nothing: a NAPI that only transmits, as virtio-net has it, or a poll for nothing. After a
	 * full poll of the same NAPI that says that the ring is empty now.
	 */
	if (!queue && (work || cpu->full_napi != (__u64)napi)) {
		if (cpu->guard.guarded)
			cpu->polled_ns = bpf_ktime_get_ns();
		return 0;
	}
	guard = &cpu->guard;
	was = guard->guarded;
	if (!queue)
		end.napi = cpu->full_ring;
	else
		end.napi = was && cpu->begun ? cpu->ring : ring_number(cpu, slot, queue - 1);
	end.work = work;
	end.budget = budget;
	begun = cpu->begun;
	cpu->begun = 0;
	if (work >= budget) {
		cpu->full_napi = (__u64)napi;
		cpu->full_ring = end.napi;
	} else if (cpu->full_napi == (__u64)napi) {
		cpu->full_napi = 0;
	}
	if (!guard->patience_ns)
		guard_init(guard);
	/* Without a guard a poll costs one clock reading, and none if it was short and had no express traffic. */
	if (!was && !end.express && work < budget) {
		ring_at(guard, end.napi)->full_since_ns = 0;
		core->guarded = 0;
		return 0;
	}
	now = bpf_ktime_get_ns();
	end.held = was && is_held(cpu, now);
	at.now = now;
	at.others = was && begun ? minus(delay_ns(), cpu->delay_ns) : 0;
	guard_end(guard, plan, &end, at);
	if (was)
		note_wait(cpu, end.napi, now, end.express, work < budget);
	if (guard->guarded) {
		cpu->guards += !was;
		if (!was)
			forget_waits(cpu);
		note_end(cpu, core, now, work >= budget);
	} else if (was) {
		cpu->guarded_ns += now - guard->entered_ns;
	}
	core->guarded = guard->guarded;
	if (cpu->last_ring != end.napi) {
		cpu->last_ring = end.napi;
		cpu->alone_since_ns = now;
	}
	if (awaits && !plan->observes && guard->guarded && !guard->fits && work && work < budget &&
	    now - cpu->alone_since_ns > ALONE_NS) {
		await_packet(napi, now);
		cpu->polled_ns = bpf_ktime_get_ns();
	}
	return 0;
}

/* What is polled then, by whomever, cannot have begun before. */
SEC("tp_btf/softirq_entry")
int BPF_PROG(begin_of_polls, unsigned int which)
{
	struct cpu *cpu;

	if (which != NET_RX_SOFTIRQ)
		return 0;
	cpu = this_cpu();
	if (cpu && cpu->guard.guarded)
		cpu->softirq_ns = bpf_ktime_get_ns();
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
	__u64 *held, entered;

	if (!ring)
		return 0;
	/* The kernel counts what found the ring full as processed too, but not what came from generic XDP. */
	entered = processed > drops ? processed - drops : 0;
	__sync_fetch_and_add(&ring->enqueued, entered);
	__sync_fetch_and_add(&ring->drops, drops);
	held = bpf_map_lookup_elem(&ring_totals, &class);
	if (held)
		__sync_fetch_and_add(held, entered);
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

/* include/uapi/linux/if.h */
#define IFF_MASTER (1 << 10)

/*
 * Whether Linux would have had a place for a frame that the device did not take: in its qdisc or, as it is a bond, in
 * that of a member; or the driver takes none from XDP at all. Who is down or without a carrier takes none from anybody.
 */
static __always_inline int linux_has_place(const struct net_device *dev, int err)
{
	if (!(dev->state & LINK_STATE_START) || dev->state & LINK_STATE_NOCARRIER)
		return 0;
	return err < 0 || dev->flags & IFF_MASTER || dev->_tx->qdisc->enqueue;
}

SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(express_sent, const struct net_device *from, const struct net_device *to, int sent, int drops, int err)
{
	const struct port *port;
	struct port_counters *count;
	__u32 slot;
	int overfilled;

	port = port_of(to);
	/* Others may redirect to a port, too. */
	if (!port || !port_of(from))
		return 0;
	slot = port->slot;
	count = bpf_map_lookup_elem(&port_counts, &slot);
	if (!count)
		return 0;
	count->tx_packets += sent;
	count->tx_drops += drops;
	if (drops)
		begins_to_refuse();
	refuses_last(count, sent + drops, drops);
	overfilled = overfills_link(slot, count);
	if (!port->may_wait || !linux_has_place(to, err))
		return 0;
	if (drops)
		count->refusals += begins_to_be_full(slot, 0);
	else if (to->_tx->state & TX_QUEUE_IS_OFF || overfilled)
		count->link_full += begins_to_be_full(slot, LINK_ALONE);
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
	port = egress_port(index);
	if (!port)
		return 0;
	slot = port->slot;
	count = bpf_map_lookup_elem(&port_counts, &slot);
	if (!count)
		return 0;
	count->tx_drops++;
	begins_to_refuse();
	refuses_newest(count);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
