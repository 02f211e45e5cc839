/* SPDX-License-Identifier: GPL-2.0 */
/* What the lane knows of the device of each tunnel that is served, for packets that come in by it and that leave by it.
 */
#ifndef RXLANE_TUNNEL_WAY_H
#define RXLANE_TUNNEL_WAY_H

struct tunnel_way {
	struct tunnel_key key;
	__u32 link; /* ifindex of the device that outer packets must leave through; 0: any */
	__u8 room; /* bytes of the outer headers */
	__u8 ttl; /* 0: that of the packet */
	__u8 tos; /* 1: that of the packet */
	__u8 by_qdisc; /* the device's queueing discipline is to see it */
	__be16 flags; /* of fragmentation: IP_DF, or none but the packet's own */
	__u8 inherits; /* INHERITS_*: what else is not to be fragmented */
	__u8 learns; /* of a VXLAN: where stations are, from what comes from them */
	__u8 mac[6]; /* of a VXLAN's device */
	__u16 first_port; /* of a VXLAN: source ports of what leaves, for which that many follow */
	__u16 ports;
	__u16 renew_s; /* of a VXLAN: how often Linux shall see a station in use, in 2^30 ns */
	__u8 sums; /* of a VXLAN: whether outer packets have a checksum of UDP */
	__u8 pad[3];
};

/* An IPv4 packet whose own header says so; any IPv6 packet. */
#define INHERITS_DF 1
#define INHERITS_V6 2

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_TUNNELS);
	__type(key, __u32);
	__type(value, struct tunnel_way);
} tunnel_ways SEC(".maps");

#endif
