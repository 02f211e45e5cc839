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

/* The port, by ifindex, behind which a station is. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_STATIONS);
	__type(key, struct station_key);
	__type(value, __u32);
} stations SEC(".maps");

/* 0: nobody knows. Its key is on a stack of its own, of which callers have none to spare. */
static __noinline __u32 port_behind(__u32 bridge, const __u8 *mac)
{
	struct station_key key = {.bridge = bridge};
	const struct gates *g = find_gates();
	const __u32 *port;

	/* Stations move, and without its daemon nobody would notice. */
	if (!g || !is_watched(g))
		return 0;
	__builtin_memcpy(key.mac, mac, ETH_ALEN);
	port = bpf_map_lookup_elem(&stations, &key);
	return port ? *port : 0;
}

/*
 * A frame to the router came in by the bridge, if its sender is where the bridge believes it to be. Else Linux must see
 * it, so that the bridge learns: its answers would go elsewhere.
 */
static __always_inline int enter_bridge(struct packet *p, __u32 bridge)
{
	const struct ethhdr *eth = p->data;

	if ((void *)(eth + 1) > p->data_end || port_behind(bridge, eth->h_source) != p->ingress)
		return 0;
	p->ingress = bridge;
	return 1;
}

#endif
