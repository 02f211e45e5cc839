/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much a port's link has still to send of what XDP gave it: a bucket of the link's rate (bucket.h), of which
 * rxlane-policy/src/egress.rs says how much may wait. Charged once a batch, with the bytes that a core has sent since.
 */
#ifndef RXLANE_LINK_QUEUE_H
#define RXLANE_LINK_QUEUE_H

struct link_queue {
	struct bucket bucket;
	__u64 cost; /* of a byte; 0: nobody knows how fast it is, or it cannot be filled */
	__u64 limit;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct link_queue);
} link_queues SEC(".maps");

/* Whether so many bytes are more than may wait. */
static __always_inline int overfills(struct link_queue *link, __u64 bytes, __u64 now)
{
	return !take(&link->bucket, (bytes * link->cost) >> (COST_SHIFT - TIME_SHIFT), link->limit, now << TIME_SHIFT);
}

/* Whether what has been sent is. */
static __always_inline int overfills_link(__u32 slot, struct port_counters *count)
{
	__u64 bytes = count->unsent_bytes;
	struct link_queue *link;

	if (!bytes)
		return 0;
	count->unsent_bytes = 0;
	link = bpf_map_lookup_elem(&link_queues, &slot);
	return link && link->cost && overfills(link, bytes, bpf_ktime_get_ns());
}

#endif
