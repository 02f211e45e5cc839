/* SPDX-License-Identifier: GPL-2.0 */
/* What generator and sink share. src/layout.rs mirrors these structs. */
#ifndef RXLANE_TRAFFIC_H
#define RXLANE_TRAFFIC_H

#define MAX_FLOWS 4096
#define MAX_TRAFFIC_CLASSES 8
#define SCHEDULE 65536
#define HEADERS 42 /* Ethernet, IPv4, UDP */
#define MAGIC 0x5258 /* "RX" */

/* The payload of a test packet: it fits into the smallest frame. */
struct stamp {
	__u16 magic;
	__u16 flow;
	__u32 sequence;
	__u64 sent_ns; /* CLOCK_MONOTONIC: generator and sink are on one machine */
} __attribute__((packed));

/* Packets stamped within the window count, wherever and whenever they arrive. */
struct window {
	__u64 start_ns;
	__u64 end_ns;
};

#endif
