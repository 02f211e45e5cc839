/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The engine's rings: an AF_XDP socket for each ring of each queue. A ring that holds its share takes no more,
 * and what it refuses is dropped before it is copied. Without a socket (no engine, or its worker is
 * gone) the other lanes serve the packet.
 */
#ifndef RXLANE_ENGINE_H
#define RXLANE_ENGINE_H

const volatile __u32 engine = 0;
const volatile __u32 engine_queues = 1; /* of a port */
const volatile __u32 engine_rings_of_queue = 1;
const volatile __u32 engine_ring_of[MAX_CLASSES] = {};
const volatile __u32 engine_share[MAX_CLASSES] = {}; /* by ring: packets that it may hold */

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct engine_ring);
} engine_rings SEC(".maps");

static __always_inline int to_engine(struct xdp_md *ctx, struct core *core, __u32 class)
{
	struct class_counters *count = &core->classes[class_index(class)];
	struct engine_ring *state;
	__u32 ring, index;
	long ret;

	if (queue_of(ctx) >= engine_queues || lacks_checksum(ctx, core))
		return -1;
	ring = engine_ring_of[class_index(class)];
	index = (core->packet.port * engine_queues + queue_of(ctx)) * engine_rings_of_queue + ring;
	ret = bpf_redirect_map(&sockets, index, XDP_PASS);
	if (ret != XDP_REDIRECT)
		return -1;
	state = bpf_map_lookup_elem(&engine_rings, &index);
	if (!state)
		return -1;
	/* The worker takes packets off while this runs, so the ring may hold fewer, never more. */
	if ((__s64)(state->redirected - state->failed - *(volatile __u64 *)&state->consumed) >=
	    engine_share[class_index(ring)]) {
		state->early_drops++;
		count->early_drops++;
		return XDP_DROP;
	}
	state->redirected++;
	count->queued++;
	return ret;
}

#endif
