/* SPDX-License-Identifier: GPL-2.0 */
/* What left by each port, and what did not; overload.bpf.c owns it. */
#ifndef RXLANE_PORT_COUNTS_H
#define RXLANE_PORT_COUNTS_H

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct port_counters);
} port_counts SEC(".maps");

/*
 * A core gives a driver up to 16 frames at once, when there are more or the poll ends. It takes the first and refuses
 * the last, of which nobody can see the class any more. So each is noted when it is redirected, the newest in the
 * lowest bits.
 */
#define MOST_AT_ONCE 16
#define CLASS_BITS 3

static __always_inline void redirects(struct port_counters *count, __u32 class)
{
	count->batch = count->batch << CLASS_BITS | class_index(class);
	count->batched++;
}

/* Of so many frames that a driver was given it has refused the last. Of a poll in which noting begins, classes may be
 * wrong. */
static __always_inline void refuses_last(struct port_counters *count, __u32 given, __u32 refused)
{
	/* Given because they are as many as can be: the one for which there was no room has been noted, too. */
	__u64 later = given == MOST_AT_ONCE && count->batched > given;
	__u64 batch = count->batch >> (later * CLASS_BITS), known = count->batched - later;
	__u32 i;

	count->batched = later;
	UNROLLED
	for (i = 0; i < MOST_AT_ONCE; i++) {
		if (i >= refused)
			break;
		if (i < known)
			count->refused[class_index(batch)]++;
		else
			count->refused_of_no_class++;
		batch >>= CLASS_BITS;
	}
}

/* A frame that did not even reach the driver, the newest that was noted. */
static __always_inline void refuses_newest(struct port_counters *count)
{
	if (!count->batched) {
		count->refused_of_no_class++;
		return;
	}
	count->refused[class_index(count->batch)]++;
	count->batch >>= CLASS_BITS;
	count->batched--;
}

#endif
