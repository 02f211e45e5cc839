/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Overload control of a core: computes what rxlane_policy::overload computes, from the same events, with the same
 * integers. That is where each rule and each number is explained (docs/src/explanation/overload-control.md);
 * tests/lockstep.rs compares every number of the state. Subtractions of times stop at 0, except between two readings of
 * the core's own clock.
 */
#ifndef RXLANE_GUARD_H
#define RXLANE_GUARD_H

#define GUARD_RINGS 8
#define FLOW_BUCKETS 16

/* Clocks (clock.rs). */
#define MEMORY_SHIFT 22
#define MOST_IDLE_NS (1ULL << 18)
#define LONGEST_IDLE_NS (1ULL << 30)
#define MOST_COST_NS (1ULL << 24)
#define WAKE_NS 1500ULL
#define GAP_COSTS 4ULL
#define GAP_SLACK_NS 4096ULL
#define OWED_COSTS 16ULL
#define MEAN_SHIFT 5
#define DROP_NS 512ULL
#define BETWEEN_POLLS_NS 4000ULL

/* The guard (core.rs). */
#define IDLE_FREE_NS (7ULL << 13)
#define IDLE_DOUBLING_SHIFT 13
#define MOST_DOUBLINGS 9ULL
#define MOST_DOUBLINGS_DEAR 3ULL
#define DEAR_SHIFT 3
#define RING_TARGETS_SHIFT 3
#define MOST_GUESS_NS (1ULL << 20)
#define LEAST_GUESS_NS (1ULL << 12)
#define LEAST_BALANCE_NS (-(1LL << 17))
#define BALANCE_FADES_ABOVE 6
#define BALANCE_FADES_BELOW 4
#define SLEPT_NS 512ULL
#define IDLE_LEAVE_NS (1ULL << 17)
#define PATIENCE_NS (1ULL << 20)
#define MOST_PATIENCE_NS (1ULL << 25)
#define BURST_NS (1ULL << 24)
#define FORGET_NS (1ULL << 30)
#define PRESENT_NS 200000000ULL
#define SHORTEST_CAP_NS (1ULL << 14)
#define TRICKLE_NS (1ULL << 20)
#define MOST_STRETCH_X16 (1ULL << 14)
#define NO_LIMIT (~0ULL)

/* Demand (demand.rs) and shares (plan.rs, shares.rs). */
#define COUNT_SHIFT 10
#define SHARE_SHIFT 10
#define LEAST_SHARE 32ULL
#define MOST_SHARE (64ULL << SHARE_SHIFT)

enum last { LAST_NOTHING, LAST_PASSED, LAST_DROPPED };

/* All numbers are 64 bits wide, so that the lockstep test can compare them one by one. */
struct guard_ring {
	__u64 empty_ns;
	__u64 cut_ns;
	__u64 cut;
	__u64 cut_drops;
	__u64 ran_out;
	__u64 passed;
	__u64 full_since_ns;
	__u64 full_work;
};

struct demand {
	__u64 had_ns, idle_ns, passed_ns, dropped_ns;
	__u64 passed, dropped, work, polls;
};

struct sample {
	__u64 had_ns, idle_ns, passed_ns, dropped_ns;
	__u64 passed, dropped, work;
};

struct flow_bucket {
	__u32 turn;
	__u32 used_ns;
};

struct shares {
	__u64 turn;
	__u64 fair;
	__u64 flow_fair[MAX_CLASSES];
	__u64 used_ns[MAX_CLASSES];
	__u64 quota_ns[MAX_CLASSES];
	__u64 class_dropped;
	__u64 flow_dropped;
	struct flow_bucket buckets[MAX_CLASSES][FLOW_BUCKETS];
};

struct guard {
	__u64 guarded;
	/* Clocks. */
	__u64 last_ns, own_ns, cost_ns, owed_ns, idle_ns, idle_at_ns;
	__u64 ring;
	__u64 drain_ns;
	/* What became of the last packet. */
	__u64 last, class, hash;
	__u64 passed_ns;
	__u64 stretch_x16;
	__s64 balance_ns;
	__u64 dropped_last;
	__u64 fits;
	__u64 cap_ns;
	__u64 poll_ns;
	__u64 dropping, unread;
	__u64 counted_ns, counting;
	__u64 express_ns, entered_ns, left_ns, patience_ns;
	struct sample sample;
	struct demand demand;
	struct guard_ring rings[GUARD_RINGS];
	struct shares shares;
};

/* The configuration, compiled (plan.rs). */
struct guard_plan {
	__u64 limit_ns[MAX_CLASSES]; /* NO_LIMIT for what is never dropped */
	__u64 longest_ns; /* target of a stack class */
	__u32 share[MAX_CLASSES];
	__u32 stack; /* stack classes, one bit each */
	__u32 several;
	__u32 always;
	__u32 backlog;
};

static __always_inline __u64 minus(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

static __always_inline __u64 least(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline __u64 most(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline struct guard_ring *ring_at(struct guard *g, __u32 ring)
{
	return &g->rings[masked(ring, GUARD_RINGS - 1)];
}

static __always_inline struct flow_bucket *bucket_at(struct guard *g, __u32 class, __u32 hash)
{
	return &g->shares.buckets[class_index(class)][masked(hash, FLOW_BUCKETS - 1)];
}

static __always_inline void shares_reset(struct shares *s)
{
	__u32 i;

	s->turn = 0;
	s->fair = MOST_SHARE;
	s->class_dropped = 0;
	s->flow_dropped = 0;
	UNROLLED
	for (i = 0; i < MAX_CLASSES; i++) {
		s->flow_fair[i] = MOST_SHARE;
		s->used_ns[i] = 0;
		s->quota_ns[i] = 0;
		__builtin_memset(s->buckets[i], 0, sizeof(s->buckets[i]));
	}
}

/* As it is before the first overload; until then everything else is 0. */
static __always_inline void guard_init(struct guard *g)
{
	shares_reset(&g->shares);
	g->patience_ns = PATIENCE_NS;
	g->cap_ns = PATIENCE_NS;
	g->stretch_x16 = 16;
}

static __always_inline void guard_begin(struct guard *g, __u32 napi, __u64 now, __u64 idle)
{
	__u64 gap = minus(now, g->last_ns), passed;

	if (!g->guarded)
		return;
	g->ring = masked(napi, GUARD_RINGS - 1);
	idle = least(minus(least(idle, gap), WAKE_NS), LONGEST_IDLE_NS);
	g->own_ns += least(gap - idle, BETWEEN_POLLS_NS);
	g->last_ns = most(g->last_ns, now);
	passed = least(minus(now, g->idle_at_ns), 1ULL << (MEMORY_SHIFT - 1));
	g->idle_at_ns = most(g->idle_at_ns, now);
	g->idle_ns -= (g->idle_ns * passed) >> MEMORY_SHIFT;
	g->idle_ns = least(g->idle_ns + idle, MOST_IDLE_NS);
	g->sample.idle_ns += idle;
	g->poll_ns = g->own_ns;
	g->last = LAST_NOTHING;
	g->unread = 0;
	g->dropping = ring_at(g, g->ring)->cut && g->poll_ns - g->passed_ns <= TRICKLE_NS;
}

/* A packet that would usually have taken `usual` has taken `ns`. */
static __always_inline void guard_learn(struct guard *g, __u64 usual, __u64 ns)
{
	g->cost_ns = least(g->cost_ns - (usual >> MEAN_SHIFT) + (ns >> MEAN_SHIFT), MOST_COST_NS);
}

/* The part of the gap since the last event that counts. `passed`: it tells what a passed packet takes. */
static __always_inline __u64 guard_clock(struct guard *g, __u64 now, int passed)
{
	__u64 gap = minus(now, g->last_ns);
	__u64 counted = least(gap, GAP_COSTS * g->cost_ns + GAP_SLACK_NS + g->owed_ns + g->unread * DROP_NS);

	g->last_ns = most(g->last_ns, now);
	g->own_ns += counted;
	if (passed) {
		__u64 owed = g->owed_ns + (counted < g->cost_ns >> 1 ? g->cost_ns : 0);

		g->owed_ns = least(minus(owed, counted), OWED_COSTS * g->cost_ns);
		guard_learn(g, g->cost_ns, counted);
	}
	return counted;
}

/* How much of the gap to the end of a poll is of packets: what is owed for them. */
static __always_inline __u64 guard_poll_ended(struct guard *g, __u64 gap, int passed)
{
	__u64 usual = passed ? g->cost_ns : 0;
	__u64 of_packets = least(gap, g->owed_ns + usual);

	guard_learn(g, usual, of_packets);
	g->owed_ns = 0;
	return of_packets;
}

static __always_inline void shares_charge(struct guard *g, const struct guard_plan *plan, __u64 ns)
{
	struct flow_bucket *b = bucket_at(g, g->class, g->hash);

	if (plan->several)
		g->shares.used_ns[class_index(g->class)] += ns;
	b->used_ns = least(b->used_ns + ns, 0xffffffffULL);
}

/* Charges the time since the last event to whom it belongs. */
static __always_inline void guard_charge(struct guard *g, const struct guard_plan *plan, __u64 now, int end)
{
	int passed = g->last == LAST_PASSED;
	__u64 ns = guard_clock(g, now, passed && !end);

	if (g->unread) {
		g->sample.dropped_ns += ns;
		g->sample.dropped += g->unread;
		g->unread = 0;
	}
	if (end) {
		ns = guard_poll_ended(g, ns, passed);
		if (!passed) {
			g->sample.passed_ns += ns;
			ns = 0;
		}
	}
	if (passed) {
		shares_charge(g, plan, ns);
		g->sample.passed_ns += ns;
		g->sample.passed++;
	} else if (g->last == LAST_DROPPED) {
		g->sample.dropped_ns += ns;
		g->sample.dropped++;
	}
	g->last = LAST_NOTHING;
}

static __always_inline __u64 poll_limit(const struct guard *g, __u64 target)
{
	__s64 balanced = (__s64)target + g->balance_ns;
	__u64 limit = balanced > 0 ? balanced : 0;
	__u64 above = minus(g->idle_ns, IDLE_FREE_NS);
	__u64 doublings = g->fits ? MOST_DOUBLINGS : (g->cost_ns << DEAR_SHIFT) > target ? MOST_DOUBLINGS_DEAR : 0;

	if (doublings) {
		__u64 whole = target << least(above >> IDLE_DOUBLING_SHIFT, doublings);
		__u64 rest = above & ((1 << IDLE_DOUBLING_SHIFT) - 1);

		limit = most(limit, whole + ((whole * rest) >> IDLE_DOUBLING_SHIFT));
	}
	return least(most(limit, (target * g->stretch_x16) >> 6), most(g->cap_ns, target));
}

static __always_inline __u64 turn_limit(const struct guard *g, __u64 target)
{
	__u64 limit = most((target * g->stretch_x16) >> 4, target << RING_TARGETS_SHIFT);

	limit = most(least(limit, most(g->cap_ns, target)), poll_limit(g, target));
	return most(minus(limit, g->drain_ns), limit >> 2);
}

/*
 * How long a ring may go without being empty while a class passes. Express classes outlast the emptying by dropping the
 * stack.
 */
static __always_inline __u64 ring_limit(const struct guard *g, const struct guard_plan *plan, __u64 target, int stack)
{
	if (stack)
		return turn_limit(g, target);
	return turn_limit(g, plan->longest_ns) + g->drain_ns + minus(target, plan->longest_ns);
}

/* Whether a packet of a stack class is within its class's and its flow's share of a turn. */
static __always_inline int shares_allow(struct guard *g, const struct guard_plan *plan, __u32 class, __u32 hash,
					__u64 limit)
{
	struct shares *s = &g->shares;
	struct flow_bucket *b = bucket_at(g, class, hash);
	__u64 quota = limit;
	__u32 turn = s->turn;

	if (plan->several) {
		quota = least((((limit * plan->share[class_index(class)]) >> SHARE_SHIFT) * s->fair) >> SHARE_SHIFT,
			      limit);
		s->quota_ns[class_index(class)] = quota;
		if (s->used_ns[class_index(class)] >= quota) {
			s->class_dropped |= 1 << class;
			return 0;
		}
	}
	quota = ((quota * s->flow_fair[class_index(class)]) >> SHARE_SHIFT) / FLOW_BUCKETS;
	if (b->turn != turn) {
		b->used_ns = b->turn + 1 == turn ? minus(b->used_ns, quota) : 0;
		b->turn = turn;
	}
	if (b->used_ns >= quota) {
		s->flow_dropped |= 1 << class;
		return 0;
	}
	return 1;
}

/* Whether a packet passes, of a class that the plan limits. `now` is not used while the guard is dropping. */
static __always_inline int guard_passes(struct guard *g, const struct guard_plan *plan, __u32 class, __u32 hash,
					__u64 now)
{
	__u64 target = plan->limit_ns[class_index(class)], poll, limit, served;
	int stack = plan->stack & (1 << class_index(class)), old, too_long;
	struct guard_ring *ring = ring_at(g, g->ring);

	if (!g->guarded || target == NO_LIMIT)
		return 1;
	if (g->dropping) {
		if (!stack)
			return g->poll_ns - ring->empty_ns < ring_limit(g, plan, target, stack);
		g->unread++;
		ring->cut_drops++;
		return 0;
	}
	guard_charge(g, plan, now, 0);
	poll = stack ? poll_limit(g, target) : NO_LIMIT;
	limit = ring_limit(g, plan, target, stack);
	/* What has been passed and not been served yet takes its time, too. */
	served = g->own_ns + g->owed_ns;
	old = served - ring->empty_ns >= limit;
	too_long = served - g->poll_ns >= poll;
	if (ring->passed && g->own_ns - g->passed_ns <= TRICKLE_NS) {
		if (old || too_long) {
			if (stack) {
				if (old && !ring->cut) {
					ring->cut = 1;
					ring->cut_ns = g->own_ns;
				}
				ring->cut_drops += ring->cut;
				ring->ran_out = 1;
				g->last = LAST_DROPPED;
			}
			return 0;
		}
		if (stack && !shares_allow(g, plan, class, hash, poll)) {
			g->last = LAST_DROPPED;
			return 0;
		}
	}
	if (stack) {
		ring->passed = 1;
		g->passed_ns = g->own_ns;
		g->last = LAST_PASSED;
		g->class = class;
		g->hash = hash;
	}
	return 1;
}

static __always_inline void fade(__u64 *sum, __u64 passed, __u64 add)
{
	*sum = *sum - ((*sum * passed) >> MEMORY_SHIFT) + add;
}

static __always_inline __u64 counted(__u64 n)
{
	return least(n, 4096) << COUNT_SHIFT;
}

static __always_inline void demand_add(struct demand *d, const struct sample *s)
{
	__u64 had = least(s->had_ns, 1ULL << (MEMORY_SHIFT - 2));

	fade(&d->had_ns, had, had);
	fade(&d->idle_ns, had, least(s->idle_ns, had));
	fade(&d->passed_ns, had, least(s->passed_ns, had));
	fade(&d->dropped_ns, had, least(s->dropped_ns, had));
	fade(&d->passed, had, counted(s->passed));
	fade(&d->dropped, had, counted(s->dropped));
	fade(&d->work, had, counted(s->work));
	fade(&d->polls, had, counted(1));
}

/* What all packets would have taken, in full polls. */
static __always_inline __u64 asked_ns(const struct demand *d, __u32 budget)
{
	__u64 served = 0, other, full;

	if (d->passed)
		served = d->passed_ns * (d->passed + d->dropped) / d->passed;
	else if (d->dropped >> COUNT_SHIFT)
		return ~0ULL;
	other = minus(d->had_ns, d->idle_ns + d->passed_ns + d->dropped_ns);
	full = d->work / most(budget, 1);
	return served + (d->polls > full ? other * full / d->polls : other);
}

static __always_inline void guard_stretch(struct guard *g, __u32 budget)
{
	__u64 asked = asked_ns(&g->demand, budget), had = g->demand.had_ns, excess = minus(asked, had);

	g->fits = asked < had - (had >> 6);
	g->stretch_x16 =
		excess ? most(least(least(asked, 1ULL << 40) * 16 / excess, MOST_STRETCH_X16), 16) : MOST_STRETCH_X16;
}

static __always_inline __u64 searched(__u64 share, int ran_out, int dropped)
{
	if (ran_out)
		return most(share - (share >> 3), LEAST_SHARE);
	return dropped ? least(share + (share >> 3) + 1, MOST_SHARE) : share;
}

static __always_inline void shares_turn(struct shares *s, int ran_out)
{
	__u32 i;

	s->turn = (__u32)(s->turn + 1);
	UNROLLED
	for (i = 0; i < MAX_CLASSES; i++) {
		int full = ran_out || s->class_dropped & (1 << i);

		s->flow_fair[i] = searched(s->flow_fair[i], full, !!(s->flow_dropped & (1 << i)));
		s->used_ns[i] = minus(s->used_ns[i], s->quota_ns[i]);
	}
	s->fair = searched(s->fair, ran_out, !!s->class_dropped);
	s->class_dropped = 0;
	s->flow_dropped = 0;
}

static __always_inline void ring_is_empty(struct guard *g, const struct guard_plan *plan)
{
	struct guard_ring *ring = ring_at(g, g->ring);

	if (ring->cut) {
		g->drain_ns = most(g->own_ns - ring->cut_ns, g->drain_ns - (g->drain_ns >> 3));
		g->cap_ns = ring->cut_drops > plan->backlog ? most(g->cap_ns - (g->cap_ns >> 2), SHORTEST_CAP_NS)
							    : least(g->cap_ns + (g->cap_ns >> 4), g->patience_ns);
	}
	shares_turn(&g->shares, ring->ran_out);
	ring->cut = 0;
	ring->cut_drops = 0;
	ring->ran_out = 0;
	ring->passed = 0;
	ring->empty_ns = g->own_ns;
}

static __always_inline void guard_balance(struct guard *g, const struct guard_plan *plan, int emptied)
{
	__s64 balance = g->balance_ns;

	if (!emptied) {
		balance -= (__s64)g->cost_ns;
		if (balance < LEAST_BALANCE_NS)
			balance = LEAST_BALANCE_NS;
	} else if (g->sample.idle_ns > SLEPT_NS && g->dropped_last) {
		balance = balance < 0 ? balance >> 1 : balance + (__s64)g->cost_ns;
	} else {
		balance -= balance >> (balance > 0 ? BALANCE_FADES_ABOVE : BALANCE_FADES_BELOW);
	}
	if (balance > 0 && (!emptied || g->own_ns - g->poll_ns > 2 * plan->longest_ns))
		balance >>= 1;
	g->balance_ns = balance;
	g->dropped_last = g->sample.dropped > 0;
}

static __always_inline void guard_enter(struct guard *g, __u64 now)
{
	__u32 i;

	if (minus(now, g->left_ns) > FORGET_NS)
		g->patience_ns = PATIENCE_NS;
	g->guarded = 1;
	g->entered_ns = now;
	g->last_ns = now;
	g->owed_ns = 0;
	g->idle_ns = 0;
	g->idle_at_ns = now;
	g->drain_ns = 0;
	g->last = LAST_NOTHING;
	__builtin_memset(&g->demand, 0, sizeof(g->demand));
	__builtin_memset(&g->sample, 0, sizeof(g->sample));
	g->stretch_x16 = 16;
	g->balance_ns = 0;
	g->dropped_last = 0;
	g->fits = 0;
	g->counting = 0;
	g->dropping = 0;
	g->unread = 0;
	g->cap_ns = g->patience_ns;
	g->counted_ns = g->own_ns;
	g->poll_ns = g->own_ns;
	g->passed_ns = g->own_ns;
	shares_reset(&g->shares);
	__builtin_memset(g->rings, 0, sizeof(g->rings));
	UNROLLED
	for (i = 0; i < GUARD_RINGS; i++)
		g->rings[i].empty_ns = g->own_ns;
}

static __always_inline void guard_leave(struct guard *g, __u64 now)
{
	g->patience_ns =
		minus(now, g->entered_ns) < BURST_NS ? least(2 * g->patience_ns, MOST_PATIENCE_NS) : PATIENCE_NS;
	g->guarded = 0;
	g->left_ns = now;
	__builtin_memset(g->rings, 0, sizeof(g->rings));
}

struct poll_end {
	__u32 napi;
	__u32 work;
	__u32 budget;
	__u32 express;
	__u32 held;
};

static __always_inline void guard_end(struct guard *g, const struct guard_plan *plan, const struct poll_end *end,
				      __u64 now)
{
	int protect, emptied = end->work < end->budget;
	struct guard_ring *ring = ring_at(g, end->napi);

	if (end->express)
		g->express_ns = now;
	protect = plan->always || minus(now, g->express_ns) < PRESENT_NS;
	if (!g->guarded) {
		if (emptied || !protect || !plan->stack) {
			ring->full_since_ns = 0;
		} else if (!ring->full_since_ns) {
			ring->full_since_ns = most(now, 1);
			ring->full_work = 0;
		} else {
			__u64 took = minus(now, ring->full_since_ns);

			ring->full_work += end->work;
			if (took >= g->patience_ns) {
				__u64 guess = took / most(ring->full_work, 1);

				g->cost_ns =
					least(guess, g->cost_ns ? most(2 * g->cost_ns, LEAST_GUESS_NS) : MOST_GUESS_NS);
				guard_enter(g, now);
			}
		}
		return;
	}
	g->ring = masked(end->napi, GUARD_RINGS - 1);
	guard_charge(g, plan, now, 1);
	g->sample.work += end->work;
	g->sample.had_ns = g->own_ns - g->counted_ns + g->sample.idle_ns;
	g->counted_ns = g->own_ns;
	guard_balance(g, plan, emptied);
	if (g->counting)
		demand_add(&g->demand, &g->sample);
	__builtin_memset(&g->sample, 0, sizeof(g->sample));
	if (emptied) {
		g->counting = 1;
		ring_is_empty(g, plan);
		guard_stretch(g, end->budget);
	}
	if (((g->idle_ns >= IDLE_LEAVE_NS && g->fits) || !protect) && !end->held)
		guard_leave(g, now);
}

#endif
