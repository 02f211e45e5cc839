/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts test packets by class, checks the order within each flow, and puts latencies into a log-linear histogram of 64
 * buckets an octave (error under 0.8 %). Everything else is passed.
 */
#ifndef RXLANE_RECEIVE_H
#define RXLANE_RECEIVE_H

#include "traffic.h"

#define SUB_BITS 6
#define BUCKETS 2048

struct flow_seen {
	__u32 class;
	__u32 last; /* highest sequence number so far */
};

struct received {
	__u64 packets;
	__u64 reordered;
	__u64 sum_ns;
	__u64 max_ns;
	__u64 first_ns, last_ns; /* arrivals */
	__u64 stalled_ns; /* in which nothing arrived for longer than a window's stall_ns at once */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_FLOWS);
	__type(key, __u32);
	__type(value, struct flow_seen);
} flows_seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_TRAFFIC_CLASSES);
	__type(key, __u32);
	__type(value, struct received);
} receiveds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_TRAFFIC_CLASSES *BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} histogram SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct course);
} arrived SEC(".maps");

static __always_inline void note_course(const struct window *window, __u32 class, __u64 sent_ns, __u64 latency)
{
	__u32 zero = 0;
	struct course *course = bpf_map_lookup_elem(&arrived, &zero);
	struct bin *bin;

	if (!course)
		return;
	bin = bin_of(course, window, sent_ns);
	__sync_fetch_and_add(&bin->packets[class & 1], 1);
	if (latency > bin->max_ns[class & 1])
		bin->max_ns[class & 1] = latency;
}

static __always_inline __u32 highest_bit(__u64 v)
{
	__u32 n = 0;

	if (v >> 32) {
		n += 32;
		v >>= 32;
	}
	if (v >> 16) {
		n += 16;
		v >>= 16;
	}
	if (v >> 8) {
		n += 8;
		v >>= 8;
	}
	if (v >> 4) {
		n += 4;
		v >>= 4;
	}
	if (v >> 2) {
		n += 2;
		v >>= 2;
	}
	return n + (v >> 1);
}

/* src/histogram.rs turns an index back into a latency. */
static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 shift, bucket;

	if (ns < 1 << SUB_BITS)
		return ns;
	shift = highest_bit(ns) - SUB_BITS;
	bucket = (shift << SUB_BITS) + (ns >> shift);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* What becomes of a frame of the router. */
static __always_inline int receive(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct stamp *stamp = behind_headers(data);
	struct flow_seen *flow;
	struct received *r;
	struct window *window;
	__u32 zero = 0, index, sequence;
	__u64 now, latency, *count;

	if ((void *)(stamp + 1) > end || stamp->magic != MAGIC)
		return XDP_PASS;
	window = bpf_map_lookup_elem(&windows, &zero);
	index = stamp->flow;
	flow = bpf_map_lookup_elem(&flows_seen, &index);
	if (!window || !flow)
		return XDP_DROP;
	sequence = stamp->sequence;
	index = flow->class & (MAX_TRAFFIC_CLASSES - 1);
	r = bpf_map_lookup_elem(&receiveds, &index);
	if (!r)
		return XDP_DROP;
	if (stamp->sent_ns < window->start_ns || stamp->sent_ns >= window->end_ns) {
		flow->last = sequence;
		return XDP_DROP;
	}
	now = bpf_ktime_get_ns();
	latency = now - stamp->sent_ns;
	r->packets++;
	r->sum_ns += latency;
	if (latency > r->max_ns)
		r->max_ns = latency;
	if (!r->first_ns)
		r->first_ns = now;
	else if (now - r->last_ns > window->stall_ns)
		r->stalled_ns += now - r->last_ns;
	r->last_ns = now;
	if (sequence < flow->last)
		r->reordered++;
	else
		flow->last = sequence;
	if (window->bin_ns)
		note_course(window, index, stamp->sent_ns, latency);
	index = index * BUCKETS + bucket_of(latency);
	count = bpf_map_lookup_elem(&histogram, &index);
	if (count)
		(*count)++;
	return XDP_DROP;
}

#endif
