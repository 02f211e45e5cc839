// SPDX-License-Identifier: GPL-2.0
/* What a host has taken from its link: bytes on the wire, of packets that GRO may have merged. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Preamble, checksum and gap of a frame. */
#define WIRE_BYTES 24
/* Headers of each merged packet but the first: Ethernet, IPv4, TCP with timestamps. */
#define HEADER_BYTES 66

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} taken SEC(".maps");

SEC("tcx/ingress")
int rxlane_link(struct __sk_buff *skb)
{
	__u32 zero = 0, more = skb->gso_segs ? skb->gso_segs - 1 : 0;
	__u64 *bytes = bpf_map_lookup_elem(&taken, &zero);

	if (bytes)
		__sync_fetch_and_add(bytes, skb->len + WIRE_BYTES + more * (HEADER_BYTES + WIRE_BYTES));
	return -1; /* TCX_NEXT */
}

char LICENSE[] SEC("license") = "GPL";
