/* SPDX-License-Identifier: GPL-2.0 */
/*
 * VLAN devices over ports. A tagged frame of an express class came in by the VLAN device that Linux would give it to,
 * and leaves by another with that one's tags. The daemon knows the devices (src/vlans.rs); what is not in these tables
 * is Linux's.
 */
#ifndef RXLANE_VLAN_H
#define RXLANE_VLAN_H

#define MAX_VLANS 8192
/* Frames of a port may be longer than its MTU by the header and one tag (xdp_ok_fwd_dev in include/linux/netdevice.h).
 */
#define FRAME_ROOM (ETH_HLEN + 4)

struct vlan_key {
	__u32 port; /* ifindex */
	__u32 tags; /* as in struct packet */
};

/* A device over a port, which takes some of its frames. */
struct device_over {
	__u32 ifindex;
	__u32 seen_as; /* as of a port */
	__u8 flags; /* of a port */
	__u8 priorities; /* whose frames get a priority that an IPv6 packet keeps, one bit for each PCP of the outer tag
			  */
	__u8 pad[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_VLANS);
	__type(key, struct vlan_key);
	__type(value, struct device_over);
} vlan_devices SEC(".maps");

/* A tag that a device gives to what leaves through it. */
struct vlan_push {
	__be16 type; /* tag protocol identifier */
	__u16 id;
	__u8 pcp_of_tos[4]; /* by bits 3 and 4 of the type of service, which give forwarded packets their priority */
	__u8 pcp_of_v6; /* whose priority is 0 */
	__u8 maps; /* whether other priorities have other code points */
	__u8 pad[2];
};

/* The way of what leaves through a VLAN device. */
struct vlan_way {
	__u32 port; /* ifindex */
	__u32 mtu; /* of the port */
	__u8 tags; /* how many */
	__u8 by_qdisc; /* its queueing discipline is to see it */
	__u8 pad[2];
	struct vlan_push push[2]; /* the outer one first */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_VLANS);
	__type(key, __u32);
	__type(value, struct vlan_way);
} vlan_ways SEC(".maps");

/* From here on a tagged packet came in by its VLAN device, where that is known. */
static __always_inline void enter_vlan(struct packet *p, struct core *core)
{
	struct vlan_key key = {.port = p->ingress, .tags = p->tags};
	const struct device_over *device = bpf_map_lookup_elem(&vlan_devices, &key);

	/* The engine's mirror of routes knows of no VLAN devices; and where tags are hidden, this is not the outer one.
	 */
	if (!device || engine || p->port_flags & PORT_HIDES_TAGS) {
		p->port_flags |= PORT_HIDES_TAGS;
		return;
	}
	p->ingress = device->ifindex;
	core->packet.seen_as = device->seen_as;
	p->port_flags = device->flags;
	if (device->priorities >> (p->pcp & 7) & 1)
		p->port_flags |= PORT_PRIORITY;
}

static __always_inline __u16 tci_of(const struct packet *p, const struct vlan_push *push)
{
	__u16 pcp = p->v6 ? push->pcp_of_v6 : push->pcp_of_tos[p->ip4->tos >> 3 & 3];

	return pcp << 13 | (push->id & 0xfff);
}

/* The outer tag as the witness notes it. */
static __always_inline __u32 tag_by(const struct packet *p, const struct vlan_way *way)
{
	return way ? WITNESS_TAGGED | tci_of(p, &way->push[0]) : 0;
}

/* Whether Linux could give the packet another code point than the lane would. */
static __always_inline int has_other_priority(const struct packet *p, const struct vlan_way *way)
{
	return p->v6 && p->port_flags & PORT_PRIORITY && (way->push[0].maps | way->push[1].maps);
}

/* Bytes before the packet when it leaves. */
static __always_inline __u32 l2_of_way(const struct vlan_way *way)
{
	if (!way)
		return sizeof(struct ethhdr);
	return sizeof(struct ethhdr) + (way->tags > 1 ? 8 : 4);
}

/*
 * The frame gets the tags of its way, or none; the packet starts where it ends up, and its addresses are still to be
 * written. What has room for a redirect has room for two tags, so this fails only on a driver that breaks its promises.
 */
static __always_inline int retag(struct xdp_md *ctx, struct packet *p, const struct vlan_way *way)
{
	__u32 had = masked(l2_length(p->tags), 31), has = l2_of_way(way);
	__be16 type = p->v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP), *at;
	__u16 outer = 0, inner = 0;
	void *data, *end;

	if (way) {
		outer = tci_of(p, &way->push[0]);
		inner = tci_of(p, &way->push[1]);
	}
	if (had != has && bpf_xdp_adjust_head(ctx, (int)had - (int)has))
		return -1;
	data = packet_pointer(ctx->data);
	end = packet_pointer(ctx->data_end);
	p->data = data;
	p->data_end = end;
	at = data + 2 * ETH_ALEN;
	if ((void *)(at + 5) > end)
		return -1;
	if (!way) {
		at[0] = type;
		return 0;
	}
	at[0] = way->push[0].type;
	at[1] = bpf_htons(outer);
	if (way->tags > 1) {
		at[2] = way->push[1].type;
		at[3] = bpf_htons(inner);
		at[4] = type;
	} else {
		at[2] = type;
	}
	return 0;
}

#endif
