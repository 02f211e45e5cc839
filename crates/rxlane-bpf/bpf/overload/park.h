/* SPDX-License-Identifier: GPL-2.0 */
/* When TCP waits for an overloaded core in a ring of it: rxlane-policy/src/overload/park.rs in the same integers. */
#ifndef RXLANE_PARK_H
#define RXLANE_PARK_H

#define PARK_QUIET_NS 10000000ULL

struct parking {
	__u64 waited_ns; /* when a poll last began with packets in a ring of this CPU */
	__u64 parks; /* TCP of this poll waits */
};

/* Before guard_begin. */
static __always_inline void park_begin(struct parking *parking, const struct guard *guard, __u64 now, int empty)
{
	parking->parks = 0;
	if (!guard->guarded)
		return;
	if (!empty)
		parking->waited_ns = now;
	parking->parks = !guard->fits || minus(now, most(parking->waited_ns, guard->entered_ns)) < PARK_QUIET_NS;
}

#endif
