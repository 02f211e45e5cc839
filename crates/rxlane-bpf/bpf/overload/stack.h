/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stack lane. Unless the core is guarded a packet is passed straight on. A guarded core either queues it to its
 * class's ring (one CPUMAP a class, one ring a core) or passes as many as the guard allows, the rest being dropped
 * before an skb exists: the early drop of Beyond Softnet 2.2.
 */
#ifndef RXLANE_STACK_H
#define RXLANE_STACK_H

/* Packets of no class, or that need ICMP: so many of them a guarded poll lets through. */
#define EXCEPTIONS_PER_POLL 16

struct ring_map {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, RING_CPUS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_cpumap_val));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_CLASSES);
	__type(key, __u32);
	__array(values, struct ring_map);
} rings SEC(".maps");

const volatile __u32 any_ring = 0;
/* Where CPUMAPs merge segments as NAPI does. */
const volatile __u32 parks_tcp = 0;

/* Addresses, and ports where there are some: packets of a flow meet on one core, in order. */
static __always_inline __u32 flow_hash(const struct packet *p)
{
	__u32 h = p->protocol;

	if (!p->v6) {
		h ^= p->ip4->saddr * 0x9e3779b1;
		h = (h ^ (h >> 15)) + p->ip4->daddr;
	} else {
		const __be32 *a = p->ip6->saddr.in6_u.u6_addr32;
		int i;

		UNROLLED
		for (i = 0; i < 8; i++)
			h = (h ^ (h >> 15)) * 0x9e3779b1 + a[i]; /* source and destination are adjacent */
	}
	h = (h ^ (h >> 15)) * 0x85ebca77;
	if (!p->fragment)
		h ^= (p->src_port << 16) | (p->dst_port & 0xffff);
	h = (h ^ (h >> 13)) * 0xc2b2ae3d;
	return h ^ (h >> 16);
}

/* Some hundreds of packets, as many as the kernel serves before it looks at ports again. */
#define MOST_DEFERRED_NS (1ULL << 24)

/*
 * Global functions are verified once, and not with each way that leads to them.
 * The first packet of a poll, of whatever class, of a port whose core was guarded when it was polled last. Returns
 * whether it still is: other ports' polls may have ended that.
 */
__noinline int begin_poll(__u32 slot, __u32 queue)
{
	struct core *core = bpf_map_lookup_elem(&cores, &slot);
	struct cpu *cpu = this_cpu();
	struct moment at;
	__u64 idle, deferred;

	if (!core || !cpu || !cpu->guard.guarded)
		return 0;
	at.now = bpf_ktime_get_ns();
	/* Packets that the router sends itself may have kept the kernel's queue busy for seconds. */
	deferred = least(cpu->deferred_ns, MOST_DEFERRED_NS);
	at.others = minus(others_since(cpu), cpu->deferred_apart_ns);
	cpu->delay_ns = delay_ns();
	cpu->begun = 1;
	if (parks_tcp)
		park_begin(&cpu->parking, &cpu->guard, at.now, own_rings_are_empty());
	cpu->ring = ring_number(cpu, slot, queue);
	idle = minus(idle_since(cpu, core, at.now), cpu->deferred_ns);
	ring_fills(cpu, cpu->ring, at.now, idle);
	guard_begin(&cpu->guard, cpu->ring, at, idle, deferred);
	return 1;
}

static __always_inline struct moment moment_of(const void *cpu)
{
	return moment(cpu);
}

/* Whether the guard passes a packet. Not every packet needs the time. */
__noinline int may_pass(__u32 class, __u32 hash, __u32 before)
{
	const struct guard_plan *plan = guard_plan();
	struct cpu *cpu = this_cpu();

	if (!cpu || !plan)
		return 1;
	return guard_passes(&cpu->guard, plan, class, hash, before, moment_of, cpu);
}

static __always_inline int to_ring(struct core *core, const struct packet *p, __u32 class, __u32 n,
				   const volatile __u32 *on)
{
	void *ring = bpf_map_lookup_elem(&rings, &class);
	__u32 cpu;

	if (!ring)
		return -1;
	/* The high half of a 64-bit product picks evenly without a division. */
	cpu = n ? on[masked(((__u64)flow_hash(p) * n) >> 32, MAX_CORES - 1)] : bpf_get_smp_processor_id();
	if (bpf_redirect_map(ring, cpu, 0) != XDP_REDIRECT)
		return -1;
	core->classes[class_index(class)].queued++;
	return XDP_REDIRECT;
}

/* Auto queues where the ring has another core to run on: only then does queueing add capacity. */
static __always_inline int queues(const volatile struct class *c)
{
	if (c->overload != OVERLOAD_AUTO)
		return c->overload == OVERLOAD_QUEUE;
	return c->ring_cores > 1 || (c->ring_cores == 1 && c->ring_core[0] != bpf_get_smp_processor_id());
}

static __always_inline int parks_now(void)
{
	const struct cpu *cpu = this_cpu();

	return cpu && cpu->parking.parks;
}

/*
 * On a guarded core. A function of its own, which the verifier follows once and not with everything that a packet can
 * be.
 */
__noinline int to_guarded_stack(struct xdp_md *ctx, struct core *core, __u32 class)
{
	const volatile struct class *c = &classes[class_index(class)];
	struct class_counters *count;
	struct packet p;
	int takes, tcp;

	if (!core || from_numbers(ctx, &core->packet, &p) < 0)
		return XDP_DROP;
	count = &core->classes[class_index(class)];
	/* What a ring takes the kernel gets as a frame, of which it knows nothing. */
	takes = any_ring && !lacks_checksum(ctx, core);
	/*
	 * TCP of auto is queued anywhere rather than dropped, because its senders answer to loss and to waiting alike,
	 * and what is lost is sent, and received, twice.
	 */
	tcp = takes && parks_tcp && c->overload == OVERLOAD_AUTO && p.protocol == IPPROTO_TCP;
	if ((takes && queues(c)) || (tcp && parks_now())) {
		int ret = to_ring(core, &p, class, c->ring_cores, c->ring_core);

		if (ret >= 0)
			return ret;
	}
	if (!may_pass(class, flow_hash(&p), core->taken - 1)) {
		if (tcp && to_ring(core, &p, class, c->ring_cores, c->ring_core) >= 0)
			return XDP_REDIRECT;
		count->early_drops++;
		return XDP_DROP;
	}
	count->passed++;
	return XDP_PASS;
}

static __always_inline int to_stack(struct xdp_md *ctx, struct core *core, __u32 class)
{
	if (!is_guarded(core)) {
		core->classes[class_index(class)].passed++;
		return XDP_PASS;
	}
	/* Asked here, because functions that call each other share a stack of 512 bytes. */
	if (passes_first(ctx, core, class))
		return XDP_PASS;
	return to_guarded_stack(ctx, core, class);
}

#endif
