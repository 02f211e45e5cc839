/* SPDX-License-Identifier: GPL-2.0 */
/* Ports by ifindex, and what each core keeps of each. */
#ifndef RXLANE_PORTS_H
#define RXLANE_PORTS_H

/* Kept across configurations, as those of cpu.h; overload.bpf.c owns them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct port_table);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct core);
} cores SEC(".maps");

static __always_inline const struct port *find_port(const struct port_table *table, __u32 ifindex)
{
	__u32 i;

	UNROLLED
	for (i = 0; i < PORT_PROBES; i++) {
		const struct port *port = &table->at[(ifindex + i) & (PORT_TABLE - 1)];

		if (port->ifindex == ifindex)
			return port;
	}
	return 0;
}

static __always_inline const struct port *port_at(__u32 ifindex)
{
	__u32 zero = 0;
	const struct port_table *table = bpf_map_lookup_elem(&ports, &zero);

	return table ? find_port(table, ifindex) : 0;
}

static __always_inline int is_mac_of(const struct port *port, const __u8 *mac)
{
	/* Two comparisons instead of six: the port's MAC is stored 4-byte aligned, the frame's is not. */
	return *(const __u32 *)mac == *(const __u32 *)port->mac &&
	       *(const __u16 *)(mac + 4) == *(const __u16 *)(port->mac + 4);
}

/*
 * Of a port that is not named itself only VLAN devices send: its ifindex, to which routes lead, is not in the table,
 * but one that no device has.
 */
#define EGRESS_BY_VLAN 0x80000000

static __always_inline const struct port *egress_port(__u32 ifindex)
{
	return port_at(ifindex & ~EGRESS_BY_VLAN);
}

#endif
