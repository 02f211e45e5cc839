// SPDX-License-Identifier: GPL-2.0
/*
 * Carries out events on a guard and on what waits at a link, for the tests that compare them with
 * rxlane_policy::overload and rxlane_policy::egress. No router loads it.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "lib/shared.h"
#include "lib/bounds.h"
#include "overload/guard.h"
#include "lib/bucket.h"
#include "forward/link_queue.h"
#include "forward/standing.h"
#include "overload/park.h"

#define EVENTS 256

enum kind { KIND_BEGIN, KIND_PACKET, KIND_END, KIND_SENT, KIND_OFF, KIND_PARK };

struct event {
	struct moment at;
	__u64 idle; /* or bytes that were sent, or whether a ring is empty */
	__u64 deferred;
	__u32 kind, napi, class, hash, before;
	struct poll_end end;
	__u32 passes; /* the answer */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EVENTS);
	__type(key, __u32);
	__type(value, struct event);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct guard);
} guards SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct guard_plan);
} plans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct standing);
} standings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct parking);
} parkings SEC(".maps");

__u32 n_events = 0;

static __always_inline struct moment moment_of(const void *event)
{
	return ((const struct event *)event)->at;
}

/* Global: verified once, not for each event. */
__noinline int carry_out(__u32 i)
{
	struct event *e = bpf_map_lookup_elem(&events, &i);
	__u32 zero = 0;
	struct guard *g = bpf_map_lookup_elem(&guards, &zero);
	const struct guard_plan *plan = bpf_map_lookup_elem(&plans, &zero);
	struct link_queue *link = bpf_map_lookup_elem(&link_queues, &zero);
	struct standing *queue = bpf_map_lookup_elem(&standings, &zero);
	struct parking *parking = bpf_map_lookup_elem(&parkings, &zero);

	if (!e || !g || !plan || !link || !queue || !parking)
		return 0;
	if (e->kind == KIND_PARK) {
		park_begin(parking, g, e->at.now, e->idle);
		e->passes = parking->parks;
	}
	if (e->kind == KIND_SENT)
		e->passes = !overfills(link, e->idle, e->at.now);
	if (e->kind == KIND_OFF)
		e->passes = stands(queue, e->at.now);
	if (e->kind >= KIND_SENT)
		return 0;
	if (!g->patience_ns)
		guard_init(g);
	if (e->kind == KIND_BEGIN)
		guard_begin(g, e->napi, e->at, e->idle, e->deferred);
	else if (e->kind == KIND_PACKET)
		e->passes = guard_passes(g, plan, e->class, e->hash, e->before, moment_of, e);
	else
		guard_end(g, plan, &e->end, e->at);
	return 0;
}

SEC("xdp")
int lockstep(struct xdp_md *ctx)
{
	__u32 i;

	for (i = 0; i < EVENTS; i++) {
		if (i >= n_events)
			break;
		carry_out(i);
	}
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
