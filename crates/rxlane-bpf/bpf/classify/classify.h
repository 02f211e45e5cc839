/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The class of a packet, at a cost that does not depend on the number of rules: one set of rules per
 * field, intersected; the lowest bit wins. rxlane-policy/src/compile.rs builds the tables and is the
 * reference. What the configuration does not use is constant here, and the verifier removes it.
 */
#ifndef RXLANE_CLASSIFY_H
#define RXLANE_CLASSIFY_H

struct rule_set {
	__u64 word[RULE_WORDS];
};

#define FIELD_PORT (1 << 0)
#define FIELD_DSCP (1 << 1)
#define FIELD_PROTOCOL (1 << 2)
#define FIELD_VLAN (1 << 3)
#define FIELD_PCP (1 << 4)
#define FIELD_SRC (1 << 5)
#define FIELD_DST (1 << 6)
#define FIELD_SRC_PORT (1 << 7)
#define FIELD_DST_PORT (1 << 8)
#define MAX_FLEX 4

const volatile __u32 fields = 0;
const volatile __u32 rule_words = 0;
const volatile __u32 flex_fields = 0;
const volatile __u8 flex_offset[MAX_FLEX] = {};
const volatile __u8 rule_class[MAX_RULES] = {};
const volatile __u8 default_class = 0;
const volatile struct rule_set all_rules = {};
const volatile struct rule_set no_src = {};
const volatile struct rule_set no_dst = {};

/* Small fields share one table, one after the other. */
enum value_base {
	VALUE_PORT = 0,
	VALUE_DSCP = 256,
	VALUE_PROTOCOL = 320,
	VALUE_PCP = 576,
	VALUE_VLAN = 585,
	VALUES = 585 + 4097,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VALUES);
	__type(key, __u32);
	__type(value, struct rule_set);
} values SEC(".maps");

/* 16-bit fields: value to number of its set in word_sets. Tables: source port, destination port, flex. */
struct word_table {
	__u32 set[NO_PORT + 1];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct word_table);
} words SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rule_set);
} word_sets SEC(".maps");

struct lpm4 {
	__u32 len;
	__be32 address;
};

struct lpm6 {
	__u32 len;
	__u8 address[16];
};

#define PREFIX_MAP(name, key_type, value_type)        \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);  \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__uint(max_entries, MAX_PREFIXES);    \
		__type(key, key_type);                \
		__type(value, value_type);            \
	} name SEC(".maps")

PREFIX_MAP(src4, struct lpm4, struct rule_set);
PREFIX_MAP(dst4, struct lpm4, struct rule_set);
PREFIX_MAP(src6, struct lpm6, struct rule_set);
PREFIX_MAP(dst6, struct lpm6, struct rule_set);

#define NARROW(rules, by, full)                            \
	do {                                               \
		(rules)->word[0] &= (by)->word[0];         \
		if ((full) && rule_words > 1)              \
			(rules)->word[1] &= (by)->word[1]; \
		if ((full) && rule_words > 2)              \
			(rules)->word[2] &= (by)->word[2]; \
		if ((full) && rule_words > 3)              \
			(rules)->word[3] &= (by)->word[3]; \
	} while (0)

static __always_inline void narrow_by_value(struct rule_set *rules, __u32 index, const int full)
{
	struct rule_set *set = bpf_map_lookup_elem(&values, &index);

	if (set)
		NARROW(rules, set, full);
}

static __always_inline void narrow_by_word(struct rule_set *rules, __u32 table, __u32 value)
{
	struct word_table *index = bpf_map_lookup_elem(&words, &table);
	struct rule_set *set;
	__u32 number;

	if (!index)
		return;
	number = value == NO_PORT ? index->set[NO_PORT] : index->set[masked(value, 0xffff)];
	set = bpf_map_lookup_elem(&word_sets, &number);
	if (set)
		NARROW(rules, set, 1);
}

/* Longest match; an address that no rule names leaves the rules that do not look at it. */
#define NARROW_BY_PREFIX(rules, map4, map6, p, field, none)                        \
	do {                                                                       \
		struct rule_set *found;                                            \
		if (!(p)->v6) {                                                    \
			struct lpm4 key = {.len = 32, .address = (p)->ip4->field}; \
			found = bpf_map_lookup_elem(&map4, &key);                  \
		} else {                                                           \
			struct lpm6 key = {.len = 128};                            \
			__builtin_memcpy(key.address, &(p)->ip6->field, 16);       \
			found = bpf_map_lookup_elem(&map6, &key);                  \
		}                                                                  \
		if (found)                                                         \
			NARROW(rules, found, 1);                                   \
		else                                                               \
			NARROW(rules, &none, 1);                                   \
	} while (0)

static __always_inline __u32 flex_word(const struct packet *p, __u32 i)
{
	__be16 *at = p->data + (flex_offset[i] & 63);

	return (void *)(at + 1) > p->data_end ? NO_PORT : bpf_ntohs(*at);
}

/*
 * Index of the lowest bit: a de Bruijn sequence shifted by it has six different bits on top for each of the 64
 * (Leiserson, Prokop and Randall, "Using de Bruijn Sequences to Index a 1 in a Computer Word", MIT, 1998). clang 14
 * to 16 crash on __builtin_ctzll for this target, and a search by halves has 64 ways for the verifier to follow.
 */
#define DE_BRUIJN 0x03f79d71b4cb0a89ULL
const volatile __u8 de_bruijn_index[64] = {
	0,  1,	48, 2,	57, 49, 28, 3,	61, 58, 50, 42, 38, 29, 17, 4,	62, 55, 59, 36, 53, 51,
	43, 22, 45, 39, 33, 30, 24, 18, 12, 5,	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21,
	44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9,	13, 8,	7,  6,
};

static __always_inline __u32 lowest_bit(__u64 w)
{
	return de_bruijn_index[masked(((w & -w) * DE_BRUIJN) >> 58, 63)];
}

static __always_inline __u32 class_of_first(const struct rule_set *rules, const int full)
{
	__u32 i;

	UNROLLED
	for (i = 0; i < (full ? RULE_WORDS : 1); i++) {
		if (i < rule_words && rules->word[i])
			return rule_class[masked(i * 64 + lowest_bit(rules->word[i]), MAX_RULES - 1)];
	}
	return default_class;
}

static __always_inline __u32 classify(const struct packet *p, const int full)
{
	struct rule_set rules;
	__u32 i;

	if (!rule_words)
		return default_class;
	UNROLLED
	for (i = 0; i < RULE_WORDS; i++)
		rules.word[i] = all_rules.word[i];
	if (fields & FIELD_DSCP)
		narrow_by_value(&rules, VALUE_DSCP + p->dscp, full);
	if (fields & FIELD_PORT)
		narrow_by_value(&rules, VALUE_PORT + p->port, full);
	if (fields & FIELD_PROTOCOL)
		narrow_by_value(&rules, VALUE_PROTOCOL + p->protocol, full);
	if (full && fields & FIELD_VLAN)
		narrow_by_value(&rules, VALUE_VLAN + p->vlan, full);
	if (full && fields & FIELD_PCP)
		narrow_by_value(&rules, VALUE_PCP + p->pcp, full);
	if (full && fields & FIELD_SRC)
		NARROW_BY_PREFIX(&rules, src4, src6, p, saddr, no_src);
	if (full && fields & FIELD_DST)
		NARROW_BY_PREFIX(&rules, dst4, dst6, p, daddr, no_dst);
	if (full && fields & FIELD_SRC_PORT)
		narrow_by_word(&rules, 0, p->src_port);
	if (full && fields & FIELD_DST_PORT)
		narrow_by_word(&rules, 1, p->dst_port);
	UNROLLED
	for (i = 0; i < MAX_FLEX; i++) {
		if (full && i < flex_fields)
			narrow_by_word(&rules, 2 + i, flex_word(p, i));
	}
	return class_of_first(&rules, full);
}

#endif
