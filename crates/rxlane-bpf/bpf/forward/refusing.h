/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ports that are full: their drivers have refused express frames for which Linux would have had a place, or their links
 * have more to send than they can. What leaves there leaves by qdiscs, which keep what waits, until the daemon has seen
 * that nothing waits any more (rxlane-dataplane/src/refusing.rs). Of a link that is full the highest class goes on
 * directly: it finds a ring that the others leave to it.
 */
#ifndef RXLANE_REFUSING_H
#define RXLANE_REFUSING_H

/* What is true of any port: where nothing is, a packet costs a look at this. */
#define ANY_PORT MAX_PORTS
#define ANY_IS_FULL 1
#define ANY_IS_COUNTED 2 /* what is sent to it, as more can come in than its link sends */
#define ANY_HAS_REFUSED 4 /* some frame, so that the classes of all are noted from then on (port_counts.h) */

/* In the word of a port: only its link is full. */
#define LINK_ALONE 0x80000000

/* By slot: 0, or for how many seconds its qdisc must be empty, and 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PORTS + 1);
	__type(key, __u32);
	__type(value, __u32);
} refusing SEC(".maps");

static __always_inline __u32 word_of(__u32 slot)
{
	const volatile __u32 *found = bpf_map_lookup_elem(&refusing, &slot);

	return found ? *found : 0;
}

/* Whether packets of the highest class, or of others, that leave by that port leave by its qdisc. */
static __always_inline int is_full_for(__u32 slot, int highest)
{
	__u32 word = word_of(slot);

	return word && !(highest && word & LINK_ALONE);
}

static __always_inline void begins_to_refuse(void)
{
	__u32 any = ANY_PORT, *found = bpf_map_lookup_elem(&refusing, &any);

	if (found && !(*found & ANY_HAS_REFUSED))
		__sync_fetch_and_or(found, ANY_HAS_REFUSED);
}

/* From now on it is full, in whole or for the `link` alone. Whether it was not before. */
static __always_inline int begins_to_be_full(__u32 slot, __u32 link)
{
	__u32 any = ANY_PORT, *found = bpf_map_lookup_elem(&refusing, &slot), was;
	__u32 *of_any = bpf_map_lookup_elem(&refusing, &any);

	if (!found || !of_any)
		return 0;
	was = *(volatile __u32 *)found;
	if (was && (link || !(was & LINK_ALONE)))
		return 0;
	if (__sync_val_compare_and_swap(found, was, 1 | link) != was)
		return 0;
	/* The last, as the daemon writes it the first. */
	__sync_fetch_and_or(of_any, ANY_IS_FULL);
	return 1;
}

#endif
