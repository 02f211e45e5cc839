/* SPDX-License-Identifier: GPL-2.0 */
/* What the rings of stack classes hold, class by class and CPU by CPU. */
#ifndef RXLANE_RINGS_H
#define RXLANE_RINGS_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CLASSES *RING_CPUS);
	__type(key, __u32);
	__type(value, struct ring);
} ring_counters SEC(".maps");

/* Nothing waits for this CPU in a ring of any class. */
static __always_inline int own_rings_are_empty(void)
{
	__u32 cpu = bpf_get_smp_processor_id(), i;

	UNROLLED
	for (i = 0; i < MAX_CLASSES; i++) {
		__u32 key = i * RING_CPUS + cpu;
		const struct ring *ring;

		if (cpu >= RING_CPUS)
			return 0;
		ring = bpf_map_lookup_elem(&ring_counters, &key);
		if (ring && ring->enqueued != ring->dequeued)
			return 0;
	}
	return 1;
}

#endif
