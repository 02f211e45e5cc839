/* SPDX-License-Identifier: GPL-2.0 */
#ifndef RXLANE_KEPT_H
#define RXLANE_KEPT_H

/*
 * Flows that stay with Linux, because a rule is to see each of their packets: what such a rule compares before it does
 * anything. Only who answers asks for them.
 */
#define MAX_KEPT_FLOWS 64
#define KEPT_TRACKED 1
#define KEPT_UNTRACKED 2
struct kept_flows {
	__u8 v6; /* 4 or 6; 0: either */
	__u8 protocol; /* 0: any */
	__u16 from_port[2], to_port[2]; /* the lowest and the highest */
	__u8 tracked; /* KEPT_*: 0: tracked or not */
	__u8 pad;
	__u32 ingress, egress; /* 0: any */
	__be32 source[4], source_mask[4], destination[4], destination_mask[4]; /* the first words, if IPv4 */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_KEPT_FLOWS);
	__type(key, __u32);
	__type(value, struct kept_flows);
} kept_flows SEC(".maps");

#endif
