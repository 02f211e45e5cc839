/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flows of which everything is known: class, trust, the way that Linux was seen to send them, translation, route and
 * neighbour, which take most of an established packet's time. What was found stays true for the next packets, for
 * KNOWN_FRESH_NS at most, and no longer than until the daemon hears of a change that decides about it. What can differ
 * from packet to packet (checksums, fragments, TCP flags, lengths, rates, the guard) is looked at for each.
 */
#ifndef RXLANE_KNOWN_H
#define RXLANE_KNOWN_H

#define KNOWN_WAYS 4
#define KNOWN_SETS 2048
#define KNOWN_FRESH_NS (1ULL << 26)

/* Two cache lines: what is compared, and what is done. */
struct known_flow {
	struct flow_key key;
	__u64 checked_ns; /* 0: free */
	__u16 generation; /* the low bits: no change goes unnoticed in KNOWN_FRESH_NS */
	__u16 routes;
	__u16 mtu;
	__u8 class;
	__u8 port; /* slot of the port that it leaves by, and 1; 0: it leaves by a device over ports */
	struct translation nat;
	__u32 egress;
	__u8 to[6], from[6];
	__u8 sender[6]; /* as of struct core */
	__u16 ip_change; /* what translation and hop add to the sum of an IPv4 header */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known_flow);
} known_flows SEC(".maps");

/*
 * Which flows had a packet lately, in sets of KNOWN_WAYS, for each core. Only one that has two packets within
 * KNOWN_FRESH_NS is remembered: of thousands with few packets each, an entry would be read and written in vain for each
 * packet, out of memory that no cache holds. And nobody takes the place of a flow that is remembered and has packets:
 * who sends many flows, whose they ever are, forgets none but their own.
 */
#define KNOWN_TICK_SHIFT 20
#define KNOWN_TICKS (KNOWN_FRESH_NS >> KNOWN_TICK_SHIFT)
struct known_set {
	__u32 print[KNOWN_WAYS]; /* of the flow */
	__u32 seen[KNOWN_WAYS]; /* its last packet in ticks, times two, and 1 if it is remembered */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known_set);
} known_sets SEC(".maps");

/* Drawn at each load: strangers choose what flows are made of, and must not choose where they lie. */
const volatile __u64 known_secret[sizeof(struct flow_key) / sizeof(__u32)] = {};

/*
 * The multilinear family: of two different flows each value of the upper half is the same with a chance of 2^-32,
 * whoever chose them (Lemire and Kaser, "Strongly universal string hashing is fast", 2014).
 */
#define KNOWN_WORD(i, word) ((__u64)(__u32)(word)*known_secret[i])

static __always_inline __u64 known_hash(const struct flow_key *key)
{
	const __u32 *words = (const __u32 *)key;
	__u64 h = 0;

	UNROLLED
	for (__u32 i = 0; i < sizeof(*key) / sizeof(*words); i++)
		h += KNOWN_WORD(i, words[i]);
	return h;
}

static __always_inline __u32 known_set_of(__u64 hash)
{
	return bpf_get_smp_processor_id() * KNOWN_SETS + masked(hash >> 53, KNOWN_SETS - 1);
}

static __always_inline __u32 known_ticks(__u64 now)
{
	return now >> KNOWN_TICK_SHIFT;
}

static __always_inline __u32 ticks_since(__u32 seen, __u32 ticks)
{
	return (ticks * 2 - (seen & ~1u)) >> 1;
}

/* The way of a set that has the flow, or KNOWN_WAYS. */
static __always_inline __u32 known_way(const struct known_set *set, __u32 print)
{
	UNROLLED
	for (__u32 i = 0; i < KNOWN_WAYS; i++) {
		if (set->print[i] == print)
			return i;
	}
	return KNOWN_WAYS;
}

/* A way for a flow that has none: that of whoever had no packet for the longest time, but for those above; or
 * KNOWN_WAYS. */
static __always_inline __u32 way_for(const struct known_set *set, __u32 ticks)
{
	__u32 way = KNOWN_WAYS, longest = 0;

	UNROLLED
	for (__u32 i = 0; i < KNOWN_WAYS; i++) {
		__u32 age = ticks_since(set->seen[i], ticks);

		if ((age < KNOWN_TICKS && set->seen[i] & 1) || age < longest)
			continue;
		longest = age;
		way = i;
	}
	return way;
}

/*
 * The place of a flow that has a packet now, or 0: it had none just before, or there is no room. A place is the number
 * of an entry, and 1.
 */
static __always_inline __u32 known_place(__u64 hash, __u64 now)
{
	__u32 at = known_set_of(hash), print = hash >> 32, ticks = known_ticks(now), way, had;
	struct known_set *set = bpf_map_lookup_elem(&known_sets, &at);

	if (!set)
		return 0;
	way = known_way(set, print);
	if (way == KNOWN_WAYS) {
		way = way_for(set, ticks);
		if (way == KNOWN_WAYS)
			return 0;
		way = masked(way, KNOWN_WAYS - 1);
		set->print[way] = print;
		set->seen[way] = ticks * 2;
		return 0;
	}
	way = masked(way, KNOWN_WAYS - 1);
	had = ticks_since(set->seen[way], ticks) < KNOWN_TICKS;
	set->seen[way] = ticks * 2 | (set->seen[way] & had);
	return had ? at * KNOWN_WAYS + way + 1 : 0;
}

static __always_inline void make_key(const struct packet *p, struct flow_key *key)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->src_port = bpf_htons(p->src_port);
	key->dst_port = bpf_htons(p->dst_port);
	key->ingress = p->ingress;
	key->protocol = p->protocol;
	/* Rules may ask for the code point, which differs from packet to packet of a flow. */
	key->v6 = p->v6 | p->pcp << 1;
	key->port_flags = p->port_flags;
	if (!p->v6) {
		key->source[0] = p->ip4->saddr;
		key->destination[0] = p->ip4->daddr;
		key->first = p->ip4->tos;
		key->ttl = p->ip4->ttl;
	} else {
		__builtin_memcpy(key->source, &p->ip6->saddr, 16);
		__builtin_memcpy(key->destination, &p->ip6->daddr, 16);
		key->first = *(__be32 *)p->ip6;
		key->ttl = p->ip6->hop_limit;
	}
}

/* The code points of all classes that trust established flows, one bit each: whoever has another is in none of them. */
const volatile __u64 known_dscps = 0;

static __always_inline int may_know(__u32 dscp)
{
	return known_dscps >> (dscp & 63) & 1;
}

/* Rules that look at the payload may say something else of the next packet, and the engine knows routes by itself. */
static __always_inline int may_be_known(void)
{
	return any_conntrack && !flex_fields && !engine;
}

#endif
