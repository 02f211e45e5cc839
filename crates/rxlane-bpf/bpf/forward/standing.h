/* SPDX-License-Identifier: GPL-2.0 */
/* Whether packets always wait at a link: rxlane-policy/src/egress.rs in the same integers. */
#ifndef RXLANE_STANDING_H
#define RXLANE_STANDING_H

#define STANDING_NS 100000000ULL
#define STANDING_GAP_NS 10000000ULL

/* Its driver takes no more just now. Whether that has lasted long enough. */
static __always_inline int stands(struct standing *queue, __u64 now)
{
	if (now - queue->seen_ns > STANDING_GAP_NS)
		queue->since_ns = now;
	queue->seen_ns = now;
	return now - queue->since_ns >= STANDING_NS;
}

#endif
