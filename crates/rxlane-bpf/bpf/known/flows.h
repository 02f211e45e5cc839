/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What express packets of each flow and direction came to, since connection tracking sees none of them. Packets of
 * flows that are known are counted where the flow is known, which costs no look-up, and the rest in a table of all
 * flows. The sum of both is exact: a place hands on what it counted before another flow gets it.
 */
#ifndef RXLANE_FLOWS_H
#define RXLANE_FLOWS_H

const volatile __u32 counts_flows = 0;

/* Flows at once. Packets of more are counted together. */
#define MOST_FLOWS 65536

/* A flow in one direction, as it comes in. */
struct flow_id {
	__be32 source[4], destination[4]; /* the first words, if IPv4 */
	__be16 src_port, dst_port;
	__u8 protocol, v6;
	__u16 load; /* of a place: by which program its flow is known; else 0 */
};

struct flow_total {
	__u64 packets, bytes; /* of IP */
	__u64 first_ns, last_ns; /* CLOCK_MONOTONIC, to a tick of the kernel */
	struct translation nat;
	__u32 ingress, egress;
	__u8 next_hop[6];
	__u8 class, dscp; /* of the last packet that was looked up */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_FLOWS);
	__type(key, struct flow_id);
	__type(value, struct flow_total);
} flow_totals SEC(".maps");

/* What was counted at a place of known_flows; a cache line. */
struct flow_place {
	__u64 packets, bytes, last_ns;
	struct flow_id id;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_place);
} flow_places SEC(".maps");

/* Of flows for which the table had no room. */
struct flow_rest {
	__u64 packets, bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_rest);
} flow_rests SEC(".maps");

/* While ports change over, one after another, programs that know other flows share the places. */
static __always_inline __u16 this_load(void)
{
	return known_secret[0] | 1;
}

/* The place at which a flow is known, where this program knows it; null: it is to be looked up. */
static __always_inline struct flow_place *place_of(__u32 index)
{
	struct flow_place *place = bpf_map_lookup_elem(&flow_places, &index);

	return place && place->id.load == this_load() ? place : 0;
}

static __always_inline void count_at(struct flow_place *place, __u32 ip_bytes, __u64 now)
{
	place->packets++;
	place->bytes += ip_bytes;
	place->last_ns = now;
}

/* Bytes of IP, of a merged packet those of all its segments with one header, as connection tracking counts them. */
static __always_inline __u32 ip_bytes_of(const struct parsed_packet *n)
{
	return ON_SKB && n->merged ? n->l4 - n->l3 + n->l4_len : n->ip_bytes;
}

/* Functions of their own, as their caller has no stack to spare: whether this program knows the flow, and its packet.
 */
__noinline int is_at_place(struct core *core)
{
	return counts_flows && core && may_be_known() && place_of(core->place - 1);
}

__noinline int count_at_place(struct core *core)
{
	struct flow_place *place;

	if (!counts_flows || !core || !may_be_known())
		return 0;
	place = place_of(core->place - 1);
	if (place)
		count_at(place, ip_bytes_of(&core->packet), bpf_ktime_get_coarse_ns());
	return 0;
}

/* Any core may have a packet of any flow. */
static __always_inline void add_to_flow(const struct flow_id *id, struct flow_total *fresh, __u64 packets, __u64 bytes)
{
	struct flow_total *total = bpf_map_lookup_elem(&flow_totals, id);
	struct flow_rest *rest;
	__u32 zero = 0;

	if (!total) {
		fresh->first_ns = fresh->last_ns;
		bpf_map_update_elem(&flow_totals, id, fresh, BPF_NOEXIST);
		total = bpf_map_lookup_elem(&flow_totals, id);
	}
	if (total) {
		__sync_fetch_and_add(&total->packets, packets);
		__sync_fetch_and_add(&total->bytes, bytes);
		if (total->last_ns < fresh->last_ns)
			total->last_ns = fresh->last_ns;
		if (fresh->egress) {
			total->nat = fresh->nat;
			total->egress = fresh->egress;
			total->ingress = fresh->ingress;
			__builtin_memcpy(total->next_hop, fresh->next_hop, ETH_ALEN);
			total->class = fresh->class;
			total->dscp = fresh->dscp;
		}
		return;
	}
	rest = bpf_map_lookup_elem(&flow_rests, &zero);
	if (rest) {
		rest->packets += packets;
		rest->bytes += bytes;
	}
}

static __always_inline void id_of(const struct flow_key *key, struct flow_id *id)
{
	__builtin_memset(id, 0, sizeof(*id));
	__builtin_memcpy(id->source, key->source, sizeof(id->source));
	__builtin_memcpy(id->destination, key->destination, sizeof(id->destination));
	id->src_port = key->src_port;
	id->dst_port = key->dst_port;
	id->protocol = key->protocol;
	id->v6 = key->v6 & 1;
}

/* A packet that was looked up and leaves, by its key from before. */
__noinline int count_flow(struct core *core)
{
	struct flow_total fresh = {};
	struct flow_id id;

	if (!counts_flows || !core)
		return 0;
	id_of(&core->key, &id);
	fresh.last_ns = bpf_ktime_get_coarse_ns();
	if (any_conntrack)
		fresh.nat = core->departure.nat;
	fresh.ingress = core->key.ingress;
	fresh.egress = core->hop.egress;
	__builtin_memcpy(fresh.next_hop, core->hop.to, ETH_ALEN);
	fresh.class = core->asked;
	fresh.dscp = core->packet.dscp;
	add_to_flow(&id, &fresh, 1, ip_bytes_of(&core->packet));
	return 0;
}

/* The flow of `core` is known at this place from here on: what was counted there goes to the table. */
__noinline int hand_on_place(struct core *core, __u32 index)
{
	struct flow_total fresh = {};
	struct flow_place *place;
	struct flow_id id;

	if (!counts_flows || !core || !may_be_known())
		return 0;
	place = bpf_map_lookup_elem(&flow_places, &index);
	if (!place)
		return 0;
	if (place->packets) {
		id = place->id;
		id.load = 0;
		fresh.last_ns = place->last_ns;
		add_to_flow(&id, &fresh, place->packets, place->bytes);
		place->packets = 0;
		place->bytes = 0;
	}
	id_of(&core->key, &place->id);
	place->id.load = this_load();
	return 0;
}

#endif
