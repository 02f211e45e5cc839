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
#define OWED_COSTS 64ULL
#define MEAN_SHIFT 5
#define DROP_NS 512ULL
#define BETWEEN_POLLS_NS 4000ULL

/* The guard (core.rs). */
#define IDLE_FREE_NS (7ULL << 13)
#define IDLE_DOUBLING_SHIFT 13
#define MOST_DOUBLINGS 9ULL
#define MOST_DOUBLINGS_DEAR 3ULL
#define DEAR_X64 8
#define MOST_DOUBLINGS_RATHER_DEAR 1ULL
#define RATHER_DEAR_X64 6
#define RING_TARGETS_SHIFT 3
#define LONGEST_TURN_NS (1ULL << 19)
#define AGE_SHIFT 1
#define MOST_GUESS_NS (1ULL << 20)
#define LEAST_GUESS_NS (1ULL << 12)
#define IDLE_LEAVE_NS (1ULL << 17)
#define PATIENCE_NS (1ULL << 20)
#define MOST_PATIENCE_NS (1ULL << 25)
#define BURST_NS (1ULL << 24)
#define WRONG_NS (1ULL << 24)
#define ALONE_WAIT_NS (1ULL << 24)
#define MOST_ALONE_WAIT_NS (1ULL << 28)
#define FORGET_NS (1ULL << 30)
#define MOST_OTHERS_NS (1ULL << 17)
#define PRESENT_NS 200000000ULL
#define SHORTEST_CAP_NS (1ULL << 14)
#define TRICKLE_NS (1ULL << 20)
#define MOST_STRETCH_X64 (1ULL << 14)
#define NO_LIMIT (~0ULL)

/* How fast packets come (arrivals.rs). */
#define LONGEST_ARRIVALS_NS (1ULL << 30)
#define FORGET_ARRIVALS_NS (1ULL << 20)
#define MOST_DISTANCE (1ULL << 31)
#define FASTER_SHIFT 6

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
	__u64 passed;
	__u64 taken;
	__u64 since_ns;
	__u64 during_ns, came, distance;
	__u64 full_since_ns;
	__u64 full_work;
};

struct demand {
	__u64 had_ns, wall_ns, idle_ns, passed_ns, dropped_ns;
	__u64 passed, dropped, work, polls;
};

struct sample {
	__u64 had_ns, wall_ns, idle_ns, passed_ns, dropped_ns;
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
	__u64 last_ns, own_ns, cost_ns, owed_ns, usual_ns, taken_ns, idle_ns, idle_at_ns;
	__u64 told_ns, others_ns, had_until_ns, had_for_ns;
	__u64 ring;
	__u64 drain_ns;
	/* What became of the last packet. */
	__u64 last, class, hash;
	__u64 passed_ns;
	__u64 stretch_x64;
	__u64 turn_ns, shared_ns, ran_out;
	__u64 fits, fits_alone, alone_ns;
	__u64 cap_ns;
	__u64 poll_ns;
	__u64 dropping, unread;
	__u64 counted_ns, counted_others_ns, counting;
	__u64 express_ns, entered_ns, left_ns;
	__u64 left_alone, alone_after_ns, alone_wait_ns;
	__u64 patience_ns;
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
	__u32 observes; /* nobody drops what the guard says */
	__u32 pad;
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
	g->stretch_x64 = 64;
}

/* The clock that stands still only while the core is idle. */
static __always_inline __u64 busy_ns(const struct guard *g)
{
	return g->own_ns + g->others_ns;
}

/* How much of the time since then the core itself has had. */
static __always_inline __u64 own_since(const struct guard *g, __u64 then)
{
	__u64 since = busy_ns(g) - then, until = busy_ns(g) - g->had_until_ns;

	if (since > ~0ULL >> 1)
		return 0;
	return since - least(minus(since, until), g->had_for_ns);
}

static __always_inline void guard_others(struct guard *g, __u64 ns)
{
	g->others_ns += ns;
	if (ns > BETWEEN_POLLS_NS) {
		g->had_until_ns = busy_ns(g);
		g->had_for_ns = ns;
	}
}

/* All is paid, or never will be: packets that usually take usual_ns have taken taken_ns. */
static __always_inline void guard_settle(struct guard *g)
{
	__u64 more = minus(g->taken_ns, g->usual_ns) >> MEAN_SHIFT;
	__u64 less = minus(g->usual_ns, g->taken_ns) >> MEAN_SHIFT;

	g->cost_ns = least(g->cost_ns - least(less, g->cost_ns >> 1) + more, MOST_COST_NS);
	g->owed_ns = 0;
	g->usual_ns = 0;
	g->taken_ns = 0;
}

/* A reading of the clock, and how much of the time since the poll began others had. */
struct moment {
	__u64 now, others;
};

/* The time since the last event, without what others had of it. */
static __always_inline __u64 gap_without(struct guard *g, struct moment at)
{
	__u64 gap = minus(at.now, g->last_ns), theirs = least(minus(at.others, g->told_ns), gap);

	g->last_ns = most(g->last_ns, at.now);
	g->told_ns = most(g->told_ns, at.others);
	guard_others(g, theirs);
	return gap - theirs;
}

/*
 * `at.others` is what others had since the last poll, and `deferred` how long the kernel worked on packets of polls
 * before in polls of its own.
 */
static __always_inline void guard_begin(struct guard *g, __u32 napi, struct moment at, __u64 idle, __u64 deferred)
{
	__u64 now = at.now, gap, passed, of_packets, rest, between, before;
	struct guard_ring *ring;

	if (!g->guarded)
		return;
	g->told_ns = 0;
	gap = gap_without(g, at);
	g->told_ns = 0;
	before = g->ring;
	g->ring = masked(napi, GUARD_RINGS - 1);
	deferred = least(deferred, gap);
	idle = least(idle, gap - deferred);
	idle = least(idle - least(idle >> 1, WAKE_NS), LONGEST_IDLE_NS);
	rest = gap - idle;
	of_packets = deferred;
	/* And what a full poll handed to the stack after its end. */
	if (g->owed_ns)
		of_packets = most(of_packets, least(rest, g->owed_ns + GAP_COSTS * g->cost_ns));
	if (g->owed_ns || deferred) {
		g->taken_ns += of_packets;
		guard_settle(g);
	}
	between = least(rest - of_packets, BETWEEN_POLLS_NS);
	g->own_ns += of_packets + between;
	guard_others(g, rest - of_packets - between);
	passed = least(minus(now, g->idle_at_ns), 1ULL << (MEMORY_SHIFT - 1));
	g->idle_at_ns = most(g->idle_at_ns, now);
	g->idle_ns -= (g->idle_ns * passed) >> MEMORY_SHIFT;
	g->idle_ns = least(g->idle_ns + idle, MOST_IDLE_NS);
	g->sample.idle_ns += idle;
	g->sample.passed_ns += of_packets;
	g->poll_ns = g->own_ns;
	ring = ring_at(g, g->ring);
	if (!ring->taken && g->ring != before) {
		ring->since_ns = busy_ns(g);
		ring->empty_ns = g->own_ns;
	}
	g->last = LAST_NOTHING;
	g->unread = 0;
	g->dropping = ring->cut && g->poll_ns - g->passed_ns <= TRICKLE_NS;
}

/* The part of the gap since the last event that counts. */
static __always_inline __u64 guard_clock(struct guard *g, struct moment at)
{
	__u64 gap = gap_without(g, at);
	__u64 counted = least(gap, GAP_COSTS * g->cost_ns + GAP_SLACK_NS + g->owed_ns + g->unread * DROP_NS);

	g->own_ns += counted;
	guard_others(g, gap - counted);
	return counted;
}

/* A packet was passed, and the gap behind it counts so much. Returns what it is to be charged: its own part of a batch.
 */
static __always_inline __u64 guard_passed(struct guard *g, __u64 counted)
{
	__u64 cost = g->cost_ns, before = g->owed_ns, owed = minus(before + cost, counted);

	g->usual_ns += cost;
	g->taken_ns += counted;
	if ((!before && counted >= cost >> 1) || counted >= cost + (before >> 1) || !owed)
		guard_settle(g);
	else
		g->owed_ns = least(owed, OWED_COSTS * cost);
	return minus(counted + g->owed_ns, before);
}

/* How much of the gap to the end of a poll is of packets: what is owed for them. */
static __always_inline __u64 guard_poll_ended(struct guard *g, __u64 gap, int passed, int emptied)
{
	__u64 usual = passed ? g->cost_ns : 0;
	__u64 of_packets = least(gap, g->owed_ns + usual);

	g->usual_ns += usual;
	g->taken_ns += of_packets;
	g->owed_ns = g->owed_ns + usual - of_packets;
	if (emptied)
		guard_settle(g);
	return of_packets;
}

static __always_inline void shares_charge(struct guard *g, const struct guard_plan *plan, __u64 ns)
{
	struct flow_bucket *b = bucket_at(g, g->class, g->hash);

	if (plan->several)
		g->shares.used_ns[class_index(g->class)] += ns;
	b->used_ns = least(b->used_ns + ns, 0xffffffffULL);
}

enum guard_event { EVENT_PACKET, EVENT_FULL, EVENT_EMPTIED };

/* Charges the time since the last event to whom it belongs. */
static __always_inline void guard_charge(struct guard *g, const struct guard_plan *plan, struct moment at,
					 enum guard_event event)
{
	int passed = g->last == LAST_PASSED;
	__u64 ns = guard_clock(g, at), charged = ns;

	if (g->unread) {
		if (g->last == LAST_NOTHING)
			g->sample.dropped_ns += ns;
		g->sample.dropped += g->unread;
		g->unread = 0;
	}
	if (event != EVENT_PACKET) {
		__u64 usual = g->cost_ns;

		ns = guard_poll_ended(g, ns, passed, event == EVENT_EMPTIED);
		charged = least(ns, usual);
		if (!passed) {
			g->sample.passed_ns += ns;
			ns = 0;
		}
	} else if (passed) {
		charged = guard_passed(g, ns);
	}
	if (passed) {
		shares_charge(g, plan, charged);
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
	__u64 limit = (target * g->stretch_x64) >> 6;
	__u64 above = minus(g->idle_ns, IDLE_FREE_NS);
	__u64 cost = g->cost_ns << 6, doublings = 0;

	if (g->fits)
		doublings = MOST_DOUBLINGS;
	else if (cost > target * DEAR_X64)
		doublings = MOST_DOUBLINGS_DEAR;
	else if (cost > target * RATHER_DEAR_X64)
		doublings = MOST_DOUBLINGS_RATHER_DEAR;
	if (doublings) {
		__u64 whole = target << least(above >> IDLE_DOUBLING_SHIFT, doublings);
		__u64 rest = above & ((1 << IDLE_DOUBLING_SHIFT) - 1);

		limit = most(limit, whole + ((whole * rest) >> IDLE_DOUBLING_SHIFT));
	}
	return least(limit, most(g->cap_ns, target));
}

/*
 * How long a ring may go without being empty while a class passes. Express classes outlast the emptying by dropping the
 * stack.
 */
static __always_inline __u64 ring_limit(const struct guard *g, const struct guard_plan *plan, __u64 target, int stack)
{
	__u64 turn = most(g->turn_ns, poll_limit(g, target));

	if (stack)
		return most(minus(turn, g->drain_ns), turn >> 2);
	return turn + g->drain_ns + minus(target, plan->longest_ns);
}

/* How long the ring has not been empty. What has been passed and not been served yet takes its time, too. */
static __always_inline __u64 since_empty_ns(const struct guard *g, const struct guard_ring *ring)
{
	return g->own_ns + g->owed_ns - ring->empty_ns;
}

/* The first packet of the stack from a ring that was empty passes, and one now and then. */
static __always_inline int must_pass(const struct guard *g, const struct guard_ring *ring)
{
	return !ring->passed || g->own_ns - g->passed_ns > TRICKLE_NS;
}

/* Whether ring, poll or the packet, the `nth` since the ring was empty, are too old to pass it. */
static __always_inline int is_spent(const struct guard *g, const struct guard_ring *ring, int stack, __u64 nth,
				    __u64 poll, __u64 limit)
{
	__u64 at = (nth * ring->distance) >> COUNT_SHIFT;
	__u64 waited = own_since(g, ring->since_ns + at - (at >> FASTER_SHIFT)) + g->owed_ns;

	if (stack && must_pass(g, ring))
		return 0;
	return since_empty_ns(g, ring) >= limit || g->own_ns + g->owed_ns - g->poll_ns >= poll ||
	       waited >= poll >> AGE_SHIFT;
}

static __always_inline int drop_spent(struct guard *g, struct guard_ring *ring, int stack, __u64 limit)
{
	if (stack) {
		if (!ring->cut && since_empty_ns(g, ring) >= limit) {
			ring->cut = 1;
			ring->cut_ns = g->own_ns;
		}
		ring->cut_drops += ring->cut;
		g->ran_out = 1;
	}
	return 0;
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

/* A packet of the stack while its ring is to be emptied. */
static __always_inline void guard_drops(struct guard *g)
{
	g->unread++;
	ring_at(g, g->ring)->cut_drops++;
}

/*
 * Whether a packet passes, of a class that the plan limits, before which the poll has taken `before` others. The clock
 * is asked only where the time of the event before does not settle it.
 */
static __always_inline int guard_passes(struct guard *g, const struct guard_plan *plan, __u32 class, __u32 hash,
					__u32 before, struct moment (*clock)(const void *), const void *of)
{
	__u64 target = plan->limit_ns[class_index(class)], poll, limit, nth;
	int stack = plan->stack & (1 << class_index(class));
	struct guard_ring *ring = ring_at(g, g->ring);
	struct moment at;

	if (!g->guarded || target == NO_LIMIT)
		return 1;
	if (g->dropping && stack) {
		guard_drops(g);
		return 0;
	}
	poll = stack ? poll_limit(g, target) : NO_LIMIT;
	limit = ring_limit(g, plan, target, stack);
	nth = least(ring->taken + before, 0xffffffffULL);
	if (g->last != LAST_PASSED && is_spent(g, ring, stack, nth, poll, limit)) {
		g->unread += !!stack;
		return drop_spent(g, ring, stack, limit);
	}
	at = clock(of);
	guard_charge(g, plan, at, EVENT_PACKET);
	if (is_spent(g, ring, stack, nth, poll, limit)) {
		if (stack)
			g->last = LAST_DROPPED;
		return drop_spent(g, ring, stack, limit);
	}
	if (stack) {
		if (!must_pass(g, ring) && !shares_allow(g, plan, class, hash, poll)) {
			g->last = LAST_DROPPED;
			return 0;
		}
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
	fade(&d->wall_ns, had, least(s->wall_ns, 1ULL << 30));
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

/* Whether a core would keep up that needs so long for a packet, with a thirty-second to spare. */
static __always_inline int is_slower_than(const struct demand *d, __u64 each_ns)
{
	__u64 needed = (d->work >> COUNT_SHIFT) * least(each_ns, 1ULL << 30);

	return needed && d->wall_ns > needed + (needed >> 5);
}

static __always_inline void guard_stretch(struct guard *g, __u32 budget)
{
	__u64 asked = asked_ns(&g->demand, budget), had = g->demand.had_ns, excess = minus(asked, had);

	g->fits = asked < had - (had >> 6);
	g->fits_alone = is_slower_than(&g->demand, g->alone_ns);
	g->stretch_x64 =
		excess ? most(least(least(asked, 1ULL << 40) * 16 / excess, MOST_STRETCH_X64), 64) : MOST_STRETCH_X64;
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

/* Within `ns` so many packets came. */
static __always_inline void arrivals_add(struct guard_ring *ring, __u64 taken, __u64 ns)
{
	__u64 came = taken << COUNT_SHIFT;

	ns = least(ns, LONGEST_ARRIVALS_NS);
	if (ns > FORGET_ARRIVALS_NS) {
		ring->during_ns = ns;
		ring->came = came;
	} else {
		fade(&ring->during_ns, ns, ns);
		fade(&ring->came, ns, came);
	}
	if (ring->came)
		ring->distance = (ring->during_ns << (2 * COUNT_SHIFT)) / ring->came;
	ring->distance = least(ring->distance, MOST_DISTANCE);
}

static __always_inline void ring_is_empty(struct guard *g, const struct guard_plan *plan)
{
	struct guard_ring *ring = ring_at(g, g->ring);
	__u64 during = busy_ns(g) - ring->since_ns;

	if (ring->cut) {
		g->drain_ns = most(g->own_ns - ring->cut_ns, g->drain_ns - (g->drain_ns >> 3));
		g->cap_ns = ring->cut_drops > plan->backlog ? most(g->cap_ns - (g->cap_ns >> 2), SHORTEST_CAP_NS)
							    : least(g->cap_ns + (g->cap_ns >> 4), g->patience_ns);
	}
	if (minus((ring->taken * ring->distance) >> COUNT_SHIFT, during) > plan->longest_ns)
		g->turn_ns = most(g->turn_ns >> 1, plan->longest_ns >> 1);
	else if (ring->cut)
		g->turn_ns = least(g->turn_ns + (g->turn_ns >> 2), LONGEST_TURN_NS);
	arrivals_add(ring, ring->taken, during);
	ring->since_ns = busy_ns(g);
	ring->taken = 0;
	ring->cut = 0;
	ring->cut_drops = 0;
	ring->passed = 0;
	ring->empty_ns = g->own_ns;
}

static __always_inline void guard_enter(struct guard *g, const struct guard_plan *plan, __u64 now, __u64 each)
{
	__u32 i;

	if (minus(now, g->left_ns) > FORGET_NS) {
		g->patience_ns = PATIENCE_NS;
		g->alone_wait_ns = 0;
	}
	if (g->left_alone && minus(now, g->left_ns) < WRONG_NS) {
		g->alone_wait_ns = least(most(2 * g->alone_wait_ns, ALONE_WAIT_NS), MOST_ALONE_WAIT_NS);
		g->alone_after_ns = now + g->alone_wait_ns;
		g->alone_ns = each;
	} else {
		g->alone_ns = g->alone_ns ? least(each, g->alone_ns + (g->alone_ns >> 3)) : each;
	}
	g->left_alone = 0;
	g->guarded = 1;
	g->entered_ns = now;
	g->last_ns = now;
	g->owed_ns = 0;
	g->usual_ns = 0;
	g->taken_ns = 0;
	g->idle_ns = 0;
	g->idle_at_ns = now;
	g->drain_ns = 0;
	g->last = LAST_NOTHING;
	__builtin_memset(&g->demand, 0, sizeof(g->demand));
	__builtin_memset(&g->sample, 0, sizeof(g->sample));
	g->stretch_x64 = 64;
	g->turn_ns = least(plan->longest_ns << RING_TARGETS_SHIFT, LONGEST_TURN_NS);
	g->shared_ns = g->own_ns;
	g->ran_out = 0;
	g->fits = 0;
	g->fits_alone = 0;
	g->counting = 0;
	g->dropping = 0;
	g->unread = 0;
	g->cap_ns = g->patience_ns;
	g->counted_ns = g->own_ns;
	g->counted_others_ns = g->others_ns;
	g->poll_ns = g->own_ns;
	g->passed_ns = g->own_ns;
	shares_reset(&g->shares);
	__builtin_memset(g->rings, 0, sizeof(g->rings));
	UNROLLED
	for (i = 0; i < GUARD_RINGS; i++) {
		g->rings[i].empty_ns = g->own_ns;
		g->rings[i].since_ns = busy_ns(g);
	}
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
	__u32 packets;
	__u32 budget;
	__u32 express;
	__u32 held;
};

static __always_inline void guard_end(struct guard *g, const struct guard_plan *plan, const struct poll_end *end,
				      struct moment at)
{
	__u64 now = at.now;
	int protect, idle, alone, emptied = end->work < end->budget;
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

			ring->full_work += end->packets;
			if (took >= g->patience_ns) {
				__u64 guess = took / most(ring->full_work, 1);

				g->cost_ns =
					least(guess, g->cost_ns ? most(2 * g->cost_ns, LEAST_GUESS_NS) : MOST_GUESS_NS);
				guard_enter(g, plan, now, guess);
			}
		}
		return;
	}
	g->ring = masked(end->napi, GUARD_RINGS - 1);
	guard_charge(g, plan, at, emptied ? EVENT_EMPTIED : EVENT_FULL);
	g->sample.work += end->packets;
	g->sample.had_ns = g->own_ns - g->counted_ns + g->sample.idle_ns;
	g->sample.wall_ns = g->sample.had_ns + least(g->others_ns - g->counted_others_ns, MOST_OTHERS_NS);
	g->counted_ns = g->own_ns;
	g->counted_others_ns = g->others_ns;
	ring->taken = least(ring->taken + end->packets, 0xffffffffULL);
	if (g->counting)
		demand_add(&g->demand, &g->sample);
	__builtin_memset(&g->sample, 0, sizeof(g->sample));
	if (emptied) {
		g->counting = 1;
		ring_is_empty(g, plan);
		guard_stretch(g, end->budget);
	}
	if (emptied || g->own_ns - g->shared_ns >= plan->longest_ns) {
		shares_turn(&g->shares, g->ran_out);
		g->ran_out = 0;
		g->shared_ns = g->own_ns;
	}
	idle = g->idle_ns >= IDLE_LEAVE_NS && g->fits;
	alone = g->fits_alone && emptied && minus(now, g->entered_ns) > BURST_NS && now >= g->alone_after_ns;
	if ((idle || alone || !protect) && !end->held) {
		g->left_alone = alone && !idle && protect;
		guard_leave(g, now);
	}
}

#endif
