/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What happened to single packets, for `rxlane trace`: a ring buffer of what the program made of them, with their first
 * bytes as they came. It is on only until a moment that whoever traces puts off again and again, and what may be sent
 * to him has a rate, so that neither a tracer that was killed nor one that asks for everything holds up packets for
 * long.
 */
#ifndef RXLANE_TRACE_H
#define RXLANE_TRACE_H

/* One less than a power of two, which `masked` takes. */
#define TRACE_BYTES 255
#define NO_CLASS MAX_CLASSES

enum trace_verdict { TRACE_EXPRESS, TRACE_QUEUED, TRACE_KERNEL, TRACE_DROPPED, TRACE_FAST };

/* What is wanted. Written by the tracer alone, but for the end, which the program notes, too. */
struct trace_switch {
	__u64 until_ns; /* CLOCK_MONOTONIC; 0: nobody traces */
	__u32 classes; /* that the rules name or that serve the packet, one bit each; bit NO_CLASS: of no class */
	__u32 verdicts; /* one bit each */
	__u32 one_in; /* packets of which one is looked at */
	__u32 pad;
	__u64 cost; /* of a packet, and how many at once, as of a class's rate (police.h) */
	__u64 limit;
};

struct trace_state {
	struct bucket bucket;
	__u64 withheld; /* packets that were not looked at, or not sent, because of the rate */
	__u64 lost; /* of which the tracer took too long to take others */
};

struct traced {
	__u64 time_ns; /* when the program got it, CLOCK_MONOTONIC */
	__u64 took_ns; /* until the verdict */
	__u32 ingress; /* interfaces */
	__u32 egress; /* 0: none that the program knows */
	__u32 length; /* of the frame */
	__u16 captured; /* bytes of it that are here */
	__u8 verdict;
	__u8 class; /* that served it, or NO_CLASS */
	__u8 named; /* the class that the rules name */
	__u8 reason; /* enum reason, or REASONS */
	__u8 distrust; /* why the class that the rules name did not take it: enum distrust */
	__u8 above_rate; /* or whether its rate was why */
	__u8 frame[TRACE_BYTES + 5]; /* up to a multiple of eight */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trace_switch);
} trace_switches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trace_state);
} trace_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 262144);
} traced_packets SEC(".maps");

/* The packet in hand: the stack is too small for it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct traced);
} traced SEC(".maps");

static __always_inline struct trace_switch *trace_switch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&trace_switches, &zero);
}

static __always_inline struct trace_state *trace_state(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&trace_states, &zero);
}

static __always_inline struct traced *packet_in_hand(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&traced, &zero);
}

/*
 * Looks whether somebody traces. Done for the first packet of each poll, so that the others only test a bit in a word
 * that is at hand; and now and then where nobody tells of the ends of polls, as of those of a device below this one.
 */
static __always_inline void arm(struct core *core)
{
	const struct trace_switch *wanted;

	if (core->queue && (core->polls || core->taken & 63))
		return;
	wanted = trace_switch();
	core->look &= ~LOOK_ARMED;
	if (wanted && wanted->until_ns)
		core->look |= LOOK_ARMED;
}

/* The frame as it came, before anybody changes it. */
static __always_inline void note_frame(struct xdp_md *ctx, struct traced *packet)
{
	__u64 length = bpf_xdp_get_buff_len(ctx);

	packet->length = length;
	if (length > TRACE_BYTES)
		length = TRACE_BYTES;
	length = masked(length, TRACE_BYTES);
	packet->captured = 0;
	if (length < sizeof(struct ethhdr))
		return;
	if (!bpf_xdp_load_bytes(ctx, 0, packet->frame, length))
		packet->captured = length;
}

/* Before anything is known of the packet. */
__noinline int begin_trace(struct xdp_md *ctx, struct core *core)
{
	struct trace_switch *wanted = trace_switch();
	struct trace_state *state = trace_state();
	struct traced *packet = packet_in_hand();
	__u64 now;

	if (!core || !wanted || !state || !packet)
		return 0;
	now = bpf_ktime_get_ns();
	if (now > wanted->until_ns) {
		wanted->until_ns = 0;
		return 0;
	}
	if (wanted->one_in > 1 && bpf_get_prandom_u32() % wanted->one_in)
		return 0;
	if (!would_take(&state->bucket, wanted->cost, wanted->limit, now << TIME_SHIFT)) {
		__sync_fetch_and_add(&state->withheld, 1);
		return 0;
	}
	note_frame(ctx, packet);
	core->asked = NO_CLASS;
	core->named = NO_CLASS;
	core->reason = REASONS;
	core->hop.egress = 0;
	core->departure.distrust = 0;
	core->departure.above_rate = 0;
	core->look |= LOOK_TRACED;
	packet->time_ns = now;
	return 0;
}

/* A packet of the express lane has an egress and no reason for another way. */
static __always_inline __u8 verdict_of(const struct core *core, int action)
{
	if (action == XDP_DROP || action == XDP_ABORTED)
		return TRACE_DROPPED;
	if (core->hop.egress && core->reason == REASONS)
		return action == XDP_REDIRECT ? TRACE_EXPRESS : TRACE_FAST;
	return action == XDP_REDIRECT ? TRACE_QUEUED : TRACE_KERNEL;
}

/* What became of it. */
static __always_inline void end_trace(struct xdp_md *ctx, struct core *core, int action)
{
	const struct trace_switch *wanted = trace_switch();
	struct trace_state *state = trace_state();
	struct traced *packet = packet_in_hand();
	__u64 now = bpf_ktime_get_ns();
	__u8 verdict = verdict_of(core, action);

	core->look &= ~LOOK_TRACED;
	if (!wanted || !state || !packet)
		return;
	if (!(wanted->classes & (1 << (core->asked & 31) | 1 << (core->named & 31))) ||
	    !(wanted->verdicts & 1 << verdict))
		return;
	if (!take(&state->bucket, wanted->cost, wanted->limit, now << TIME_SHIFT)) {
		__sync_fetch_and_add(&state->withheld, 1);
		return;
	}
	packet->took_ns = now - packet->time_ns;
	packet->ingress = ingress_of(ctx);
	packet->egress = verdict == TRACE_EXPRESS || verdict == TRACE_FAST ? core->hop.egress : 0;
	packet->verdict = verdict;
	packet->class = core->asked;
	packet->named = core->named;
	packet->reason = core->reason;
	packet->distrust = core->departure.distrust;
	packet->above_rate = core->departure.above_rate;
	if (bpf_ringbuf_output(&traced_packets, packet, sizeof(*packet), 0))
		__sync_fetch_and_add(&state->lost, 1);
}

#endif
