/* SPDX-License-Identifier: GPL-2.0 */
#ifndef RXLANE_SENDER_H
#define RXLANE_SENDER_H

/* The packet that a core forwards, and the MAC address that it came from. */
struct sender {
	__u64 skb;
	__u8 mac[6];
	__u16 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sender);
} senders SEC(".maps");

#endif
