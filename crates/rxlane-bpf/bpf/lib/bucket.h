/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The GCRA of rxlane-policy/src/police.rs, in the same integers: one word, shared by all cores with a compare-and-swap.
 */
#ifndef RXLANE_BUCKET_H
#define RXLANE_BUCKET_H

#define TIME_SHIFT 8
#define COST_SHIFT 20
/* Lost races before the packet counts as too much: as many others have just used the bucket. */
#define POLICE_TRIES 4
/* How far the clocks of two cores may differ: a second, in 2^-8 ns. */
#define POLICE_SKEW (1000000000ULL << TIME_SHIFT)

struct bucket {
	__u64 next; /* theoretical arrival time of the next packet, in 2^-8 ns */
};

/* How far ahead of `now` the bucket is, where 0 is also what lies in the past or another rate has left. */
static __always_inline __u64 ahead_of(__u64 next, __u64 limit, __u64 now)
{
	__u64 ahead = next - now;

	/* In the past is far ahead on a clock that goes round. */
	return ahead > limit + POLICE_SKEW ? 0 : ahead;
}

/* Whether the bucket would take something of that cost. */
static __always_inline int would_take(const struct bucket *bucket, __u64 cost, __u64 limit, __u64 now)
{
	return ahead_of(*(const volatile __u64 *)&bucket->next, limit, now) + cost <= limit;
}

/* The same, and it does. */
static __always_inline int take(struct bucket *bucket, __u64 cost, __u64 limit, __u64 now)
{
	int i;

	UNROLLED
	for (i = 0; i < POLICE_TRIES; i++) {
		__u64 old = *(volatile __u64 *)&bucket->next;
		__u64 ahead = ahead_of(old, limit, now);

		if (ahead + cost > limit)
			return 0;
		if (__sync_val_compare_and_swap(&bucket->next, old, now + ahead + cost) == old)
			return 1;
	}
	return 0;
}

#endif
