/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rate limits: the GCRA of rxlane-policy/src/police.rs, in the same integers. One word a class.
 */
#ifndef RXLANE_POLICE_H
#define RXLANE_POLICE_H

#include "lib/bucket.h"

struct police {
	__u64 cost; /* of a packet or byte, in 2^-20 ns; 0: no limit */
	__u64 limit; /* of the burst, in 2^-8 ns */
	__u64 per_byte;
};

/* As far apart as cache lines: cores that serve different classes do not wait for each other. */
struct class_bucket {
	struct bucket bucket;
	__u64 pad[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CLASSES);
	__type(key, __u32);
	__type(value, struct class_bucket);
} buckets SEC(".maps");

static __always_inline int within_rate(const volatile struct police *police, __u32 class, __u32 bytes)
{
	struct class_bucket *of_class = bpf_map_lookup_elem(&buckets, &class);
	__u64 units = police->per_byte ? bytes : 1;
	__u64 cost = (units * police->cost) >> (COST_SHIFT - TIME_SHIFT);

	if (!of_class)
		return 1;
	return take(&of_class->bucket, cost, police->limit, bpf_ktime_get_ns() << TIME_SHIFT);
}

#endif
