/* SPDX-License-Identifier: GPL-2.0 */
/*
 * VXLANs (RFC 7348) whose device routes lead through. Each is an Ethernet of its own: what comes in must be to the
 * device's address, and what leaves goes to the end behind which the next hop is. The daemon follows where Linux
 * believes stations to be (rxlane-dataplane/src/tunnels/vxlan_fdb.rs); whom it does not know there is Linux's, which
 * learns it, or floods.
 */
#ifndef RXLANE_VXLAN_H
#define RXLANE_VXLAN_H

/*
 * Behind which other end a station is; SEVERAL_ENDS: only Linux sends there. The station 0 stands for all that have no
 * entry.
 */
#define SEVERAL_ENDS 0xffffffff
struct vxlan_end {
	__be32 address;
	__u32 ages; /* whether Linux forgets it, unless it sees it in use */
	__u32 left_s[2]; /* when a packet last went by Linux for that, from the station and to it, in 2^30 ns */
	__u64 doubted_ns; /* see in_doubt() */
};
#define FROM_STATION 0
#define TO_STATION 1

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_STATIONS);
	__type(key, struct station_key);
	__type(value, struct vxlan_end);
} vxlan_ends SEC(".maps");

/* Whether it may be in a tunnel, by what was parsed of it. */
static __always_inline int may_be_tunneled(const struct parsed_packet *n)
{
	return is_tunneled(n->protocol) || (n->protocol == IPPROTO_UDP && is_port_of_vxlan(n->dst_port));
}

/*
 * The end's address; 0: there is none; SEVERAL_ENDS, too, if it is the turn of this packet, in that direction, to be
 * seen by Linux, or if that may just have learned another one. Functions of their own, for their keys: callers have no
 * stack to spare.
 */
static __noinline __be32 end_at(__u32 device, const __u8 *mac, __u32 direction, __u32 renew_s)
{
	struct station_key key = {.bridge = device};
	__u32 now = bpf_ktime_get_coarse_ns() >> 30, *left;
	struct vxlan_end *end;

	__builtin_memcpy(key.mac, mac, ETH_ALEN);
	end = bpf_map_lookup_elem(&vxlan_ends, &key);
	if (!end)
		return 0;
	if (!end->ages)
		return end->address;
	if (in_doubt(end->doubted_ns))
		return SEVERAL_ENDS;
	left = &end->left_s[direction & 1];
	if (now - *left < renew_s)
		return end->address;
	*left = now;
	return SEVERAL_ENDS;
}

/* The station was heard from another end than that one. Linux has only those move that it has learned. */
static __noinline void doubt_end(__u32 device, const __u8 *mac, __be32 heard)
{
	struct station_key key = {.bridge = device};
	struct vxlan_end *end;

	__builtin_memcpy(key.mac, mac, ETH_ALEN);
	end = bpf_map_lookup_elem(&vxlan_ends, &key);
	if (end && end->ages && end->address != heard)
		end->doubted_ns = bpf_ktime_get_ns();
}

static __noinline __be32 end_of_unknown(__u32 device)
{
	struct station_key key = {.bridge = device};
	const struct vxlan_end *end = bpf_map_lookup_elem(&vxlan_ends, &key);

	return end ? end->address : 0;
}

/*
 * The end that Linux would send a frame to; 0: none that the lane sends to. Of a VXLAN that learns, whoever is unknown
 * is about to become known: he is Linux's. So are groups, of which Linux has another table.
 */
static __always_inline __be32 end_behind(__u32 device, const __u8 *mac, const struct tunnel_way *way)
{
	__be32 end;

	if (mac[0] & 1 || is_nobody(mac))
		return 0;
	end = end_at(device, mac, TO_STATION, way->renew_s);
	if (!end && !way->learns)
		end = end_of_unknown(device);
	return end == SEVERAL_ENDS ? 0 : end;
}

#define TAKES_NOT 0
#define TAKES 1
#define TAKES_AND_LEARNS 2

/*
 * Whether Linux would take the frame in a VXLAN, which begins at `at` (vxlan_set_mac in drivers/net/vxlan). Where that
 * learns, its sender must be where it believes him to be: else Linux learns, or drops it, whoever the frame is to.
 */
static __always_inline int takes_frame(const struct packet *p, __u32 device, __u32 at)
{
	const struct ethhdr *eth = p->data + masked(at, MAX_L2);
	const struct tunnel_way *way = bpf_map_lookup_elem(&tunnel_ways, &device);

	if (!way || (void *)(eth + 1) > p->data_end)
		return TAKES_NOT;
	if (is_same_mac(eth->h_source, way->mac) || eth->h_source[0] & 1 || is_nobody(eth->h_source))
		return TAKES_NOT;
	if (way->learns && end_at(device, eth->h_source, FROM_STATION, way->renew_s) != p->ip4->saddr)
		return TAKES_AND_LEARNS;
	return is_same_mac(eth->h_dest, way->mac) ? TAKES : TAKES_NOT;
}

/* A source port for a flow, as Linux draws one by a hash that nobody else knows (udp_flow_src_port in
 * include/net/udp.h).
 */
static __always_inline __be16 port_of_flow(const struct inner_flow *flow, const struct tunnel_way *way)
{
	return bpf_htons(way->first_port + ((hash_of(flow) >> 32) * way->ports >> 32));
}

/* Writes what is between the outer IPv4 header and the packet, from `h` on. */
static __always_inline int write_vxlan(struct vxlan_headers *h, const void *end, const struct core *core,
				       const struct tunnel_way *way, __u64 v6)
{
	if ((void *)(h + 1) > end)
		return -1;
	h->udp.source = core->leaves.port;
	h->udp.dest = way->key.port;
	h->udp.len = bpf_htons(core->leaves.length - sizeof(struct iphdr));
	h->udp.check = 0;
	h->flags = bpf_htonl(VXLAN_NUMBERED);
	h->number = way->key.key;
	__builtin_memcpy(h->eth.h_dest, core->hop.to, ETH_ALEN);
	__builtin_memcpy(h->eth.h_source, core->hop.from, ETH_ALEN);
	h->eth.h_proto = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	return 0;
}

#endif
