// SPDX-License-Identifier: GPL-2.0
/*
 * What runs on a core: interrupted every few ms, the thread and its kernel stack are counted. src/sampler.rs says what
 * each stack is about.
 */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

#include "traffic.h"

#define PLACES 16384
#define DEPTH 48

struct place {
	__u32 thread;
	__s32 stack; /* negative: there is none */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PLACES);
	__type(key, struct place);
	__type(value, __u64);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, PLACES);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, DEPTH * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} sampled SEC(".maps");

SEC("perf_event")
int rxlane_sample(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	__u64 now = bpf_ktime_get_ns(), one = 1, *count;
	struct window *window = bpf_map_lookup_elem(&sampled, &zero);
	struct place place = {};

	if (!window || now < window->start_ns || now >= window->end_ns)
		return 0;
	place.thread = (__u32)bpf_get_current_pid_tgid();
	place.stack = bpf_get_stackid(ctx, &stacks, 0);
	count = bpf_map_lookup_elem(&places, &place);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&places, &place, &one, BPF_NOEXIST);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
