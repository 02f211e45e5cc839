/* SPDX-License-Identifier: GPL-2.0 */
/*
 * VXLANs (RFC 7348) whose device routes lead through. Each is an Ethernet of its own: what comes in must be to the
 * device's address, and what leaves goes to the end behind which the next hop is. The daemon follows where Linux
 * believes stations to be (src/tunnels/ends.rs); whom it does not know there is Linux's, which learns it, or floods.
 */
#ifndef RXLANE_VXLAN_H
#define RXLANE_VXLAN_H

/* The other end, by its IPv4 address, behind which a station is; SEVERAL_ENDS: only Linux sends there. The station 0
 * stands for all that have no entry. */
#define SEVERAL_ENDS 0xffffffff
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_STATIONS);
	__type(key, struct station_key);
	__type(value, __be32);
} vxlan_ends SEC(".maps");

/* Whether it may be in a tunnel, by what was parsed of it. */
static __always_inline int may_be_tunneled(const struct parsed_packet *n)
{
	return is_tunneled(n->protocol) || (n->protocol == IPPROTO_UDP && is_port_of_vxlan(n->dst_port));
}

/* 0: there is none. Its key is on a stack of its own, of which callers have none to spare. */
static __noinline __be32 end_at(__u32 device, const __u8 *mac)
{
	struct station_key key = {.bridge = device};
	const __be32 *end;

	if (mac)
		__builtin_memcpy(key.mac, mac, ETH_ALEN);
	end = bpf_map_lookup_elem(&vxlan_ends, &key);
	return end ? *end : 0;
}

/*
 * The end that Linux would send a frame to; 0: none that the lane sends to. Of a VXLAN that learns, whoever is unknown
 * is about to become known: he is Linux's.
 */
static __always_inline __be32 end_behind(__u32 device, const __u8 *mac, __u8 learns)
{
	__be32 end = end_at(device, mac);

	if (!end && !learns)
		end = end_at(device, 0);
	return end == SEVERAL_ENDS ? 0 : end;
}

/*
 * Whether Linux would take the frame in a VXLAN, which begins at `at` (vxlan_set_mac in drivers/net/vxlan). Where that
 * learns, its sender must be where it believes him to be: else Linux learns, or drops it.
 */
static __always_inline int comes_from_its_end(const struct packet *p, __u32 device, __u32 at)
{
	const struct ethhdr *eth = p->data + masked(at, MAX_L2);
	const struct tunnel_way *way = bpf_map_lookup_elem(&tunnel_ways, &device);

	if (!way || (void *)(eth + 1) > p->data_end)
		return 0;
	if (!is_same_mac(eth->h_dest, way->mac) || is_same_mac(eth->h_source, way->mac) || eth->h_source[0] & 1)
		return 0;
	return !way->learns || end_at(device, eth->h_source) == p->ip4->saddr;
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
