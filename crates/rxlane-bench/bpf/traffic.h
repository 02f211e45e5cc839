/* SPDX-License-Identifier: GPL-2.0 */
/* What generator and sink share. src/layout.rs mirrors these structs. */
#ifndef RXLANE_TRAFFIC_H
#define RXLANE_TRAFFIC_H

#define MAX_FLOWS 4096
#define MAX_TRAFFIC_CLASSES 8
#define SCHEDULE 65536
#define MAX_QUEUES 16 /* of a router's port, each filled by a core of its own */
#define HEADERS 42 /* Ethernet, IPv4, UDP */
#define MAX_HEADERS 92 /* with tags or outer headers */
#define ADDED_BY_VXLAN 50
#define MAGIC 0x5258 /* "RX" */

/* The payload of a test packet: it fits into the smallest frame. */
struct stamp {
	__u16 magic;
	__u16 flow;
	__u32 sequence;
	__u64 sent_ns; /* CLOCK_MONOTONIC: generator and sink are on one machine */
} __attribute__((packed));

/* Bytes of tags or outer headers that are before the IP header of each test packet. */
const volatile __u32 added = 0;

static __always_inline void *behind_headers(void *data)
{
	return data + HEADERS + added;
}

/* Packets stamped within the window count, wherever and whenever they arrive. */
struct window {
	__u64 start_ns;
	__u64 end_ns;
	__u64 bin_ns; /* 0: nobody asks what became of them when */
	__u64 stall_ns; /* a longer time without an arrival is a stall */
};

/* A window in pieces, by the time at which packets are sent. */
#define BINS 4096
struct bin {
	__u32 packets[2]; /* RT, BE */
	__u32 max_ns[2]; /* the slowest; the generator does not know */
};
struct course {
	struct bin at[BINS];
};

static __always_inline struct bin *bin_of(struct course *course, const struct window *window, __u64 sent_ns)
{
	__u64 bin = (sent_ns - window->start_ns) / window->bin_ns;

	return &course->at[bin < BINS ? bin : BINS - 1];
}

#endif
