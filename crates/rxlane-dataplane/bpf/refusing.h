/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ports whose drivers have refused express frames for which Linux would have had a place. What leaves there leaves by
 * the stack, whose qdisc keeps what waits, until the daemon has seen that nothing waits any more (src/refusing.rs).
 */
#ifndef RXLANE_REFUSING_H
#define RXLANE_REFUSING_H

/* Not 0 if any port refuses: where none does, a packet costs a look at this. */
#define ANY_PORT MAX_PORTS

/* By slot: 0, or for how many seconds its qdisc must be empty. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PORTS + 1);
	__type(key, __u32);
	__type(value, __u32);
} refusing SEC(".maps");

static __always_inline int any_port_refuses(void)
{
	__u32 any = ANY_PORT;
	const volatile __u32 *found = bpf_map_lookup_elem(&refusing, &any);

	return found && *found;
}

static __always_inline int port_refuses(__u32 slot)
{
	const volatile __u32 *found = bpf_map_lookup_elem(&refusing, &slot);

	return found && *found;
}

/* Whether it did not refuse before. */
static __always_inline int begins_to_refuse(__u32 slot)
{
	__u32 any = ANY_PORT, *found = bpf_map_lookup_elem(&refusing, &slot);
	volatile __u32 *of_any = bpf_map_lookup_elem(&refusing, &any);
	int begins;

	if (!found || !of_any)
		return 0;
	begins = !__sync_val_compare_and_swap(found, 0, 1);
	/* The last, as the daemon writes it the first. */
	if (!*of_any)
		*of_any = 1;
	return begins;
}

#endif
