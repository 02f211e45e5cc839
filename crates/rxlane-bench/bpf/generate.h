/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paced packets. What a stalled generator could not send in time is not sent in a burst afterwards, which would
 * overflow a ring that a steady source does not: it is made up for at a quarter above the rate, and a generator that
 * cannot keep up shows in the number sent.
 */
#ifndef RXLANE_GENERATE_H
#define RXLANE_GENERATE_H

#include <bpf/bpf_endian.h>

#include "traffic.h"

/* Behind schedule by more than this is a stall, by less is made up for at once. */
#define STALL_NS 200000ULL
/* What is longer ago than this is not sent any more. */
#define LONGEST_LAG_NS 20000000ULL
/* Share of a gap by which packets come early after a stall. */
#define CATCH_UP_SHIFT 2
#define STAGES 512

struct slot {
	__u32 gap; /* to the next packet, in 2^-16 of the mean gap */
	__u16 flow;
	__u16 frame; /* bytes without FCS */
};

struct flow {
	__u8 headers[MAX_HEADERS];
	__u32 ifindex; /* where it is sent */
	__u32 link; /* the same, by number */
	__u32 class;
	__u32 sequence;
};

struct control {
	__u64 mean_gap_x256; /* ns, of each generator; 0: pause */
	__u64 queues; /* so many generators are there, each with a core, a schedule and flows of its own */
	__u64 stages; /* that follow each other; 0: one rate */
	struct window window;
};

/* A part of a profile. */
struct stage {
	__u64 until_ns;
	__u64 mean_gap_x256;
};

/* Of one generator, on cache lines of its own. */
struct state {
	__u64 next_x256;
	__u64 lag_x256; /* what stalls held back */
	__u64 position;
	__u64 stage;
	__u64 first_ns, last_ns; /* of the packets sent in the window */
	__u64 sent[MAX_TRAFFIC_CLASSES]; /* within the window */
	__u64 pad[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCHEDULE *MAX_QUEUES);
	__type(key, __u32);
	__type(value, struct slot);
} schedule SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_FLOWS);
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STAGES);
	__type(key, __u32);
	__type(value, struct stage);
} stages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct course);
} sent SEC(".maps");

/* The mean gap at this time of a profile; its last stage lasts. */
static __always_inline __u64 mean_gap_x256(const struct control *control, struct state *state, __u64 now)
{
	__u32 index = state->stage;
	struct stage *stage = bpf_map_lookup_elem(&stages, &index);

	if (!stage)
		return control->mean_gap_x256;
	if (now < stage->until_ns || state->stage + 1 >= control->stages)
		return stage->mean_gap_x256;
	index = ++state->stage;
	stage = bpf_map_lookup_elem(&stages, &index);
	return stage ? stage->mean_gap_x256 : control->mean_gap_x256;
}

/* Length and checksum of an IPv4 header that was made for a longer packet (RFC 1624). */
static __always_inline void shorten_ip(void *header, __u32 length)
{
	__be16 *total = header + 2, *check = header + 10;
	__u16 to = bpf_htons(length);
	__u32 sum = (__u16) ~*check + (__u16) ~*total + to;

	if (*total == to)
		return;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	*check = ~sum;
	*total = to;
}

/* All lengths in the headers of a frame that is this long. */
static __always_inline void shorten(void *headers, __u32 frame)
{
	__u32 length = frame - sizeof(struct ethhdr) - added;
	__be16 *datagram = headers + 38 + added;

	if (added >= 20)
		shorten_ip(headers + sizeof(struct ethhdr), frame - sizeof(struct ethhdr));
	/* Where a packet that nothing is around has the same. */
	if (added == ADDED_BY_VXLAN)
		*(__be16 *)(headers + HEADERS - 4) = bpf_htons(frame - HEADERS + 8);
	shorten_ip(headers + sizeof(struct ethhdr) + added, length);
	*datagram = bpf_htons(length - 20);
}

static __always_inline void write_headers(__u8 *data, const struct flow *flow)
{
	__builtin_memcpy(data, flow->headers, HEADERS);
	for (__u32 i = HEADERS; i < MAX_HEADERS; i++) {
		if (i >= HEADERS + added)
			break;
		data[i] = flow->headers[i];
	}
}

/*
 * The queue that this core fills, as a veth chooses the queue of a redirected frame (veth_select_rxq). Generators are
 * told apart by it.
 */
static __always_inline __u32 queue_of_core(const struct control *control)
{
	__u64 queues = control->queues;

	return queues ? (bpf_get_smp_processor_id() % queues) & (MAX_QUEUES - 1) : 0;
}

/* Makes the frame the next packet, if its time has come, and says of which flow. */
static __always_inline struct flow *generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct stamp *stamp = behind_headers(data);
	struct control *control;
	struct state *state;
	struct slot *slot;
	struct flow *flow;
	__u32 zero = 0, queue, index;
	int longer;
	__u64 now, due, gap, early, mean, length;

	control = bpf_map_lookup_elem(&controls, &zero);
	if (!control || (void *)(stamp + 1) > end)
		return 0;
	queue = queue_of_core(control);
	state = bpf_map_lookup_elem(&states, &queue);
	if (!state)
		return 0;
	now = bpf_ktime_get_ns();
	if (!control->mean_gap_x256) {
		state->next_x256 = 0;
		state->lag_x256 = 0;
		return 0;
	}
	if (!state->next_x256)
		state->next_x256 = now << 8;
	due = state->next_x256 >> 8;
	if (now < due)
		return 0;
	if (now - due > STALL_NS) {
		state->lag_x256 += (now - due) << 8;
		if (state->lag_x256 > LONGEST_LAG_NS << 8)
			state->lag_x256 = LONGEST_LAG_NS << 8;
		state->next_x256 = now << 8;
	}
	index = queue * SCHEDULE + (state->position++ & (SCHEDULE - 1));
	slot = bpf_map_lookup_elem(&schedule, &index);
	if (!slot)
		return 0;
	mean = control->stages ? mean_gap_x256(control, state, now) : control->mean_gap_x256;
	gap = (slot->gap * mean) >> 16;
	early = gap >> CATCH_UP_SHIFT;
	if (early > state->lag_x256)
		early = state->lag_x256;
	state->lag_x256 -= early;
	state->next_x256 += gap - early;
	index = slot->flow;
	flow = bpf_map_lookup_elem(&flows, &index);
	if (!flow)
		return 0;
	length = end - data;
	/* A number from here on: the compiler would take half of each pointer. */
	asm volatile("" : "+r"(length));
	longer = (int)length - slot->frame;
	if (longer) {
		if (bpf_xdp_adjust_tail(ctx, -longer))
			return 0;
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		stamp = behind_headers(data);
		if ((void *)(stamp + 1) > end)
			return 0;
	}
	/* A recycled frame holds what the router made of it, so every header is written anew. */
	write_headers(data, flow);
	shorten(data, slot->frame);
	stamp->magic = MAGIC;
	stamp->flow = index;
	stamp->sequence = ++flow->sequence;
	stamp->sent_ns = now;
	if (now >= control->window.start_ns && now < control->window.end_ns) {
		if (!state->first_ns)
			state->first_ns = now;
		state->last_ns = now;
		state->sent[flow->class & (MAX_TRAFFIC_CLASSES - 1)]++;
		if (control->window.bin_ns) {
			struct course *course = bpf_map_lookup_elem(&sent, &zero);

			if (course) {
				struct bin *bin = bin_of(course, &control->window, now);

				__sync_fetch_and_add(&bin->packets[flow->class & 1], 1);
			}
		}
	}
	return flow;
}

#endif
