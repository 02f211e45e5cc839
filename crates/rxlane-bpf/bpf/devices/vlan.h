/* SPDX-License-Identifier: GPL-2.0 */
/*
 * VLAN devices over ports. A tagged frame of an express class came in by the VLAN device that Linux would give it to,
 * and leaves by another with that one's tags. The daemon knows the devices (rxlane-dataplane/src/vlans.rs); what is not
 * in these tables is Linux's.
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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_VLANS);
	__type(key, struct vlan_key);
	__type(value, struct device_over);
} vlan_devices SEC(".maps");

/*
 * VLAN devices that `ports` names instead of the port below, as the configuration counts them. Those over them are
 * theirs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_PORTS);
	__type(key, struct vlan_key);
	__type(value, __u32);
} named_vlans SEC(".maps");

/*
 * Whether the frame in hand, of a port that is not named itself, is of one of them: then it came in by that from here
 * on, for rules that ask for the port. What is of none is not looked at any further: it is Linux's, as if nobody were
 * attached. Asked before the packet has pointers, and of a stack of its own, of which callers have none to spare.
 */
__noinline int enter_named(struct xdp_md *ctx, struct core *core, __u32 device)
{
	struct ethhdr *eth = packet_pointer(ctx->data);
	void *end = packet_pointer(ctx->data_end);
	struct vlan_tag *tag = (void *)(eth + 1);
	struct vlan_key key = {.port = device};
	const __u32 *port;

	if (!core || (void *)(tag + 1) > end || !is_vlan(eth->h_proto))
		return 0;
	key.tags = tag_word(eth->h_proto, tag->tci);
	port = bpf_map_lookup_elem(&named_vlans, &key);
	if (!port && (void *)(tag + 2) <= end && is_vlan(tag->inner)) {
		key.tags |= tag_word(tag->inner, tag[1].tci) << 16;
		port = bpf_map_lookup_elem(&named_vlans, &key);
	}
	if (!port)
		return 0;
	core->packet.port = *port;
	return 1;
}

/* A tag that a device gives to what leaves through it. */
struct vlan_push {
	__be16 type; /* tag protocol identifier */
	__u16 id;
	__u8 pcp_of_tos[4]; /* by bits 3 and 4 of the type of service, which give forwarded packets their priority */
	__u8 pcp_of_v6; /* whose priority is 0 */
	__u8 maps; /* whether other priorities have other code points */
	__u8 pad[2];
};

/* A session that a device sends by. */
struct session_push {
	__u8 there;
	__u8 pad;
	__be16 id;
	__u8 to[6], from[6];
};

/* The way of what leaves through a VLAN device, or through that of a session over a port or a VLAN device. */
struct vlan_way {
	__u32 port; /* as the table of egress devices has it: ifindex, and EGRESS_BY_VLAN where it is not named itself
		     */
	__u32 mtu; /* of the port */
	__u8 tags; /* how many */
	__u8 by_qdisc; /* its queueing discipline is to see it */
	__u8 pad[2];
	struct vlan_push push[2]; /* the outer one first */
	struct session_push session;
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

/* The outer tag as the witness notes it, which sees none below a session. */
static __always_inline __u32 tag_by(const struct packet *p, const struct vlan_way *way)
{
	return way && !way->session.there ? WITNESS_TAGGED | tci_of(p, &way->push[0]) : 0;
}

/* Whether Linux could give the packet another code point than the lane would. */
static __always_inline int has_other_priority(const struct packet *p, const struct vlan_way *way)
{
	return p->v6 && p->port_flags & PORT_PRIORITY && (way->push[0].maps | way->push[1].maps);
}

/*
 * What is known of sessions holds as long as the kernel has changed none since the daemon looked. Each of both writes a
 * word: how often it was (sessions.bpf.c), and how often the daemon knew of.
 */
#define SESSION_CHANGED 0
#define SESSION_SEEN 1

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} session_changes SEC(".maps");

static __always_inline int sessions_hold(void)
{
	__u32 at_changed = SESSION_CHANGED, at_seen = SESSION_SEEN;
	const volatile __u32 *changed = bpf_map_lookup_elem(&session_changes, &at_changed);
	const volatile __u32 *seen = bpf_map_lookup_elem(&session_changes, &at_seen);
	const struct gates *g = find_gates();

	return changed && seen && *changed == *seen && g && is_watched(g);
}

/*
 * Whoever made a session may end it when nothing has passed for long (`idle` of pppd), and express packets do not pass
 * where that is seen. So now and then one goes by Linux.
 */
#define SESSION_IDLE_NS 5000000000ULL
#define SESSION_SLOTS 1024 /* by ifindex */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SESSION_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} session_used SEC(".maps");

static __always_inline __u64 *used_of_session(__u32 ifindex)
{
	__u32 slot = ifindex & (SESSION_SLOTS - 1);

	return bpf_map_lookup_elem(&session_used, &slot);
}

/* Whether it is not another packet's turn. Functions of their own, for their keys: callers have no stack to spare. */
__noinline int may_send_in_session(__u32 ifindex)
{
	const __u64 *used = used_of_session(ifindex);

	return used && sessions_hold() && bpf_ktime_get_coarse_ns() - *used < SESSION_IDLE_NS;
}

/* A packet that would have been express goes by Linux, and is the one of its turn. */
__noinline int left_by_linux(__u32 ifindex)
{
	__u64 *used = used_of_session(ifindex), now = bpf_ktime_get_coarse_ns();

	if (used && now - *used >= SESSION_IDLE_NS)
		*used = now;
	return 0;
}

/* Bytes before the packet when it leaves. */
static __always_inline __u32 l2_of_way(const struct vlan_way *way)
{
	if (!way)
		return sizeof(struct ethhdr);
	return sizeof(struct ethhdr) +
	       (way->tags > 1 ? 8
		: way->tags   ? 4
			      : 0) +
	       (way->session.there ? sizeof(struct session_header) : 0);
}

/*
 * The frame gets the tags and the session of its way, or none, and room for the outer headers of a tunnel; its
 * addresses are still to be written. What has room for a redirect has room for these, so this fails only on a driver
 * that breaks its promises.
 */
static __always_inline int retag(struct xdp_md *ctx, struct packet *p, const struct vlan_way *way, __u32 room)
{
	__u32 had = masked(p->l2, MAX_L2), has = l2_of_way(way) + room;
	__u64 v6 = p->v6 && !room;
	__be16 type = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP), *at;
	__be16 protocol = v6 ? bpf_htons(PPP_IPV6) : bpf_htons(PPP_IPV4);
	__u16 outer = 0, inner = 0, length = ip_length(p) + room;
	void *data, *end;

	if (way) {
		outer = tci_of(p, &way->push[0]);
		inner = tci_of(p, &way->push[1]);
	}
	if (had != has && bpf_xdp_adjust_head(ctx, (int)had - (int)has) < 0)
		return -1;
	data = packet_pointer(ctx->data);
	end = packet_pointer(ctx->data_end);
	p->data = data;
	p->data_end = end;
	at = data + 2 * ETH_ALEN;
	/* Two tags and a session; an IP packet with no more than its header is as long. */
	if ((void *)(at + 9) > end)
		return -1;
	if (!way) {
		at[0] = type;
		return 0;
	}
	if (way->tags) {
		at[0] = way->push[0].type;
		at[1] = bpf_htons(outer);
		at += 2;
	}
	if (way->tags > 1) {
		at[0] = way->push[1].type;
		at[1] = bpf_htons(inner);
		at += 2;
	}
	if (way->session.there) {
		at[0] = bpf_htons(ETH_P_PPP_SES);
		at[1] = bpf_htons(SESSION_VERSION << 8);
		at[2] = way->session.id;
		at[3] = bpf_htons(sizeof(protocol) + length);
		at[4] = protocol;
	} else {
		at[0] = type;
	}
	return 0;
}

#endif
