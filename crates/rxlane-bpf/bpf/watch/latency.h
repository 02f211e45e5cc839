/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How long packets are inside of the router, by class. Of one poll in LATENCY_POLLS, drawn at random, every packet that
 * a class serves is measured, so that each packet has the same chance and the others cost nothing but a count of polls.
 *
 * The time begins with the poll: when the XDP program gets its first packet. It ends for a packet of the express lane
 * with the end of the poll, by when the egress driver has it; for one that is passed to the stack when the program has
 * decided so. A packet waits for those before it in the poll, which is part of it.
 */
#ifndef RXLANE_LATENCY_H
#define RXLANE_LATENCY_H

/* A power of two. */
#define LATENCY_POLLS 256
/* Eight buckets an octave; what takes as long as the last, 16 s, or longer is counted there. */
#define LATENCY_SUB_BITS 3
#define LATENCY_BUCKETS 256
#define LATENCY_MOST_NS ((1ULL << 34) - 1)

struct latencies {
	__u64 sum_ns;
	__u64 bucket[LATENCY_BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_CLASSES);
	__type(key, __u32);
	__type(value, struct latencies);
} latencies SEC(".maps");

/* src/lanes/latency.rs says which times a bucket is for. */
static __always_inline __u32 latency_bucket(__u64 ns)
{
	__u64 high = ns >> LATENCY_SUB_BITS;
	__u32 shift = 0, step;

	UNROLLED
	for (step = 16; step; step >>= 1) {
		if (high >> step) {
			high >>= step;
			shift += step;
		}
	}
	return (shift << LATENCY_SUB_BITS) + (ns >> shift);
}

/* So many packets of a class took so long. A function of its own, which the verifier follows once. */
__noinline int count_latency(__u32 class, __u64 ns, __u32 packets)
{
	struct latencies *l;

	l = bpf_map_lookup_elem(&latencies, &class);
	if (!l)
		return 0;
	ns = least(ns, LATENCY_MOST_NS);
	l->sum_ns += ns * packets;
	l->bucket[masked(latency_bucket(ns), LATENCY_BUCKETS - 1)] += packets;
	return 0;
}

/* The first packet of a poll. Where nobody says when polls end there is nothing to be measured. */
static __always_inline void begin_latency(struct core *core)
{
	if (core->unsampled) {
		core->unsampled--;
		return;
	}
	if (!core->polls)
		return;
	core->unsampled = bpf_get_prandom_u32() & (2 * LATENCY_POLLS - 1);
	core->look |= LOOK_SAMPLED;
	core->began_ns = bpf_ktime_get_ns();
}

/* The end of a poll that was sampled, for what left by the express lane. */
__noinline int end_latency(struct core *core)
{
	__u64 ns;
	__u32 i;

	if (!core)
		return 0;
	ns = bpf_ktime_get_ns() - core->began_ns;
	UNROLLED
	for (i = 0; i < MAX_CLASSES; i++) {
		if (core->sampled[i])
			count_latency(i, ns, core->sampled[i]);
		core->sampled[i] = 0;
	}
	core->look &= ~LOOK_SAMPLED;
	return 0;
}

#endif
