/* SPDX-License-Identifier: GPL-2.0 */
#ifndef RXLANE_SENDER_H
#define RXLANE_SENDER_H

/* From which MAC address a packet came that is in the stack: its frame gets another header before it leaves. */
struct sender {
	__u64 head; /* of its memory: the address of an skb may be another packet's by now */
	__u64 seen_ns;
	__u8 mac[6];
	__u16 pad;
};

/* A packet that is longer in the stack is nobody's. */
#define SENDER_STALE_NS 100000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64); /* address of the skb */
	__type(value, struct sender);
} senders SEC(".maps");

#endif
