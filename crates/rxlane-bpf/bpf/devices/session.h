/* SPDX-License-Identifier: GPL-2.0 */
/*
 * PPPoE sessions over ports and VLAN devices (RFC 2516). A packet in a session came in by that session's ppp device,
 * and what a route sends there leaves in a session (struct vlan_way). The daemon knows which session is whose
 * (rxlane-dataplane/src/pppoe); what is not in this table is Linux's.
 */
#ifndef RXLANE_SESSION_H
#define RXLANE_SESSION_H

#define MAX_SESSIONS 1024

/* As Linux finds a session (get_item in drivers/net/ppp/pppoe.c). */
struct session_key {
	__u32 device; /* ifindex of the port or VLAN device */
	__be16 id;
	__u8 sender[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_SESSIONS);
	__type(key, struct session_key);
	__type(value, struct device_over);
} sessions SEC(".maps");

/*
 * Whether the frame in hand carries an IP packet in a session that is served: then the core has that packet. `core` has
 * the port and the device by which the frame came in. A function of its own, as few packets are in sessions, and what
 * the verifier must follow twice as long is not what all others are.
 */
__noinline int enter_session(struct xdp_md *ctx, struct core *core)
{
	const struct device_over *device;
	struct session_header *session;
	struct session_key key = {};
	struct packet p = {};
	struct ethhdr *eth;

	if (!core || engine || !sessions_hold())
		return 0;
	p.data = packet_pointer(ctx->data);
	p.data_end = packet_pointer(ctx->data_end);
	p.port = core->packet.port;
	p.port_flags = core->packet.port_flags;
	p.ingress = core->packet.ingress;
	eth = p.data;
	if ((void *)(eth + 1) > p.data_end)
		return 0;
	if (parse(ctx, &p) != PARSED_NOT_IP || p.type != bpf_htons(ETH_P_PPP_SES))
		return 0;
	if (p.tags)
		enter_vlan(&p, core);
	if (p.port_flags & PORT_HIDES_TAGS)
		return 0;
	session = p.data + masked(p.l2, MAX_L2);
	if ((void *)(session + 1) > p.data_end)
		return 0;
	key.device = p.ingress;
	key.id = session->id;
	__builtin_memcpy(key.sender, eth->h_source, ETH_ALEN);
	device = bpf_map_lookup_elem(&sessions, &key);
	if (!device)
		return 0;
	switch (parse_session(ctx, &p)) {
	case PARSED_IPV4:
	case PARSED_IPV6:
		p.ingress = device->ifindex;
		p.port_flags = device->flags | (p.port_flags & PORT_PRIORITY);
		core->packet.seen_as = device->seen_as;
		core->master = 0;
		to_core(&p, core);
		return 1;
	}
	return 0;
}

#endif
