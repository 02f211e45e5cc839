/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stack lane. Below overload a packet is passed straight on. While the core is overloaded it is
 * either queued to its class's ring (one CPUMAP a class, one ring a core) or served within a ring budget
 * per poll, the rest being dropped before an skb exists: the early drop of Beyond Softnet 2.2.
 * overload.bpf.c decides which and how much, at the end of each poll.
 */
#ifndef RXLANE_STACK_H
#define RXLANE_STACK_H

/* ARP, neighbour discovery, packets that need ICMP: what a poll lets through while overloaded. */
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
static __always_inline int queues(__u8 how, __u32 n, const volatile __u32 *on)
{
	if (how != OVERLOAD_AUTO)
		return how == OVERLOAD_QUEUE;
	return n > 1 || (n == 1 && on[0] != bpf_get_smp_processor_id());
}

static __always_inline int to_stack(const struct packet *p, struct core *core, __u32 class, __u8 how, __u32 n,
				    const volatile __u32 *on, const int full)
{
	struct class_counters *count = &core->classes[class_index(class)];

	if (!core->overloaded) {
		count->passed++;
		return XDP_PASS;
	}
	if (!core->poll_start_ns)
		core->poll_start_ns = bpf_ktime_get_ns();
	core->seen[class_index(class)]++;
	if (full && any_ring && queues(how, n, on)) {
		int ret = to_ring(core, p, class, n, on);

		if (ret >= 0)
			return ret;
	}
	if (core->passed[class_index(class)] >= core->limit[class_index(class)]) {
		count->early_drops++;
		return XDP_DROP;
	}
	core->passed[class_index(class)]++;
	count->passed++;
	return XDP_PASS;
}

#endif
