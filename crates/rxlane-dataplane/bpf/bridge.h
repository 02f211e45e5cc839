/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bridges over ports that have addresses of their own: a frame to the router came in by the bridge, and what a route
 * sends through the bridge leaves by the port behind which it has learned the neighbour. The daemon follows what
 * bridges have learned (src/bridges.rs); what is not in this table is Linux's, which learns it, or floods.
 */
#ifndef RXLANE_BRIDGE_H
#define RXLANE_BRIDGE_H

#define MAX_STATIONS 65536

struct station_key {
	__u32 bridge; /* ifindex */
	__u8 mac[8]; /* the last two are 0 */
};

struct station {
	__u32 port; /* ifindex */
	__u32 stays; /* whether Linux believes it there wherever it is heard */
	__u32 doubted_s; /* see in_doubt() */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_STATIONS);
	__type(key, struct station_key);
	__type(value, struct station);
} stations SEC(".maps");

/*
 * Linux believes a frame at once that a station has moved; the daemon hears of it later. Until it surely has, all from
 * and to the station is Linux's: the lane would send to where it was, and take in what would move it back. In 2^30 ns.
 */
#define DOUBT_S 2

static __always_inline __u32 coarse_s(void)
{
	return bpf_ktime_get_coarse_ns() >> 30;
}

/* By when the station was last heard elsewhere, if it ever was. */
static __always_inline int in_doubt(__u32 doubted_s)
{
	return doubted_s && coarse_s() - doubted_s < DOUBT_S;
}

/*
 * The port behind which a station is, which was heard by port `heard`, if by any; 0: nobody knows. Its key is on a
 * stack of its own, of which callers have none to spare.
 */
static __noinline __u32 port_behind(__u32 bridge, const __u8 *mac, __u32 heard)
{
	struct station_key key = {.bridge = bridge};
	const struct gates *g = find_gates();
	struct station *station;

	/* Stations move, and without its daemon nobody would notice. */
	if (!g || !is_watched(g))
		return 0;
	__builtin_memcpy(key.mac, mac, ETH_ALEN);
	station = bpf_map_lookup_elem(&stations, &key);
	if (!station)
		return 0;
	if (heard && heard != station->port && !station->stays)
		station->doubted_s = coarse_s();
	return in_doubt(station->doubted_s) ? 0 : station->port;
}

/*
 * A frame to the router came in by the bridge, if its sender is where the bridge believes it to be. Else Linux must see
 * it, so that the bridge learns: its answers would go elsewhere.
 */
static __always_inline int enter_bridge(struct packet *p, __u32 bridge)
{
	const struct ethhdr *eth = p->data;

	if ((void *)(eth + 1) > p->data_end || port_behind(bridge, eth->h_source, p->ingress) != p->ingress)
		return 0;
	p->ingress = bridge;
	return 1;
}

#endif
