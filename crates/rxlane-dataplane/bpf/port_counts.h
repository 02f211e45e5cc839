/* SPDX-License-Identifier: GPL-2.0 */
/* What left by each port, and what did not; overload.bpf.c owns it. */
#ifndef RXLANE_PORT_COUNTS_H
#define RXLANE_PORT_COUNTS_H

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct port_counters);
} port_counts SEC(".maps");

#endif
