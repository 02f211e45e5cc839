/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bridges over ports that have addresses of their own: a frame to the router came in by the bridge, and what a route
 * sends through the bridge leaves by the port behind which it has learned the neighbour. The daemon follows what
 * bridges have learned (rxlane-dataplane/src/bridge_fdb.rs); what is not in this table is Linux's, which learns it, or
 * floods.
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
	__u64 doubted_ns; /* see in_doubt() */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_STATIONS);
	__type(key, struct station_key);
	__type(value, struct station);
} stations SEC(".maps");

/* Until when the daemon has heard all that bridges and VXLANs have learned. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} heard_ns SEC(".maps");

/*
 * Linux believes a frame at once that a station has moved; the daemon hears of it later. Until it has, all from and to
 * the station is Linux's: the lane would send to where it was, and take in what would move it back.
 */
static __always_inline int in_doubt(__u64 doubted_ns)
{
	__u64 *heard;
	__u32 zero = 0;

	if (!doubted_ns)
		return 0;
	heard = bpf_map_lookup_elem(&heard_ns, &zero);
	return !heard || *heard <= doubted_ns;
}

/*
 * The port behind which a station is, which its bridge has heard by port `heard`, if by any; 0: nobody knows. Its key
 * is on a stack of its own, of which callers have none to spare.
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
		station->doubted_ns = bpf_ktime_get_ns();
	return in_doubt(station->doubted_ns) ? 0 : station->port;
}

/* A bridge learns from what it floods and forwards, too, as from what asks for addresses. */
static __always_inline void hear_station(const struct packet *p, __u32 bridge, int teaches)
{
	const struct ethhdr *eth = p->data;

	if (bridge && teaches && (void *)(eth + 1) <= p->data_end)
		port_behind(bridge, eth->h_source, p->ingress);
}

/*
 * A frame to the router came in by the bridge, if its sender is where the bridge believes it to be. Else Linux must see
 * it, so that the bridge learns, if it does from that port: its answers would go elsewhere.
 */
static __always_inline int enter_bridge(struct packet *p, __u32 bridge, int teaches)
{
	const struct ethhdr *eth = p->data;

	if ((void *)(eth + 1) > p->data_end ||
	    port_behind(bridge, eth->h_source, teaches ? p->ingress : 0) != p->ingress)
		return 0;
	p->ingress = bridge;
	return 1;
}

#endif
