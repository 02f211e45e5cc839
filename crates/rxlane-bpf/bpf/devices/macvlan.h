/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Macvlan devices over ports, such as the virtual MAC addresses of VRRP (RFC 5798 7.3). A frame to such an address came
 * in by that device, as in Linux (macvlan_handle_frame in drivers/net/macvlan.c). The daemon knows them
 * (rxlane-dataplane/src/macvlans.rs).
 */
#ifndef RXLANE_MACVLAN_H
#define RXLANE_MACVLAN_H

#define MAX_MACVLANS 4096

struct mac_key {
	__u32 port; /* ifindex */
	__u8 mac[8]; /* the last two are 0 */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_MACVLANS);
	__type(key, struct mac_key);
	__type(value, struct device_over);
} mac_devices SEC(".maps");

/* Whether a frame to another address than the port's is one to such a device, by which it came in from here on. */
static __always_inline int enter_macvlan(struct packet *p, struct core *core, const struct ethhdr *eth)
{
	struct mac_key key = {.port = p->ingress};
	const struct device_over *device;

	__builtin_memcpy(key.mac, eth->h_dest, ETH_ALEN);
	device = bpf_map_lookup_elem(&mac_devices, &key);
	if (!device)
		return 0;
	p->ingress = device->ifindex;
	core->packet.seen_as = device->seen_as;
	p->port_flags = device->flags;
	return 1;
}

/* Whether a frame, of which at least the header is there, is to us. */
static __always_inline int is_to_us(struct packet *p, struct core *core, const struct port *port)
{
	const struct ethhdr *eth = p->data;

	if (is_mac_of(port, eth->h_dest))
		return 1;
	return port->flags & PORT_OTHER_MACS && enter_macvlan(p, core, eth);
}

#endif
