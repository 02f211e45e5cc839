/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sums over all bytes of a packet (RFC 1071), as checksums of UDP are made of them. What a device would do in passing
 * takes about 0.1 ns a byte here.
 */
#ifndef RXLANE_SUM_H
#define RXLANE_SUM_H

/* bpf_csum_diff takes no more at once; longer packets than that many times as much are left to Linux. */
#define SUMMED_AT_ONCE 512
#define SUMMED_TIMES 20

struct summed {
	__u8 bytes[SUMMED_AT_ONCE];
	__u32 behind; /* what the last word of some bytes may reach into */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct summed);
} summeds SEC(".maps");

/* Writes the sum of some bytes, of which the first is `from`, to the core; -1: they are not there, or too many. */
__noinline int sum_of(struct xdp_md *ctx, struct core *core, __u32 from, __u32 count)
{
	__u32 zero = 0, sum = 0;
	struct summed *copy = bpf_map_lookup_elem(&summeds, &zero);

	if (!core || !copy)
		return -1;
	UNROLLED
	for (int i = 0; i < SUMMED_TIMES; i++) {
		__u64 some = masked((count < SUMMED_AT_ONCE ? count : SUMMED_AT_ONCE) - 1, SUMMED_AT_ONCE - 1) + 1;

		if (!count)
			break;
		if (bpf_xdp_load_bytes(ctx, from, copy->bytes, some))
			return -1;
		__builtin_memset(copy->bytes + some, 0, sizeof(copy->behind));
		sum = bpf_csum_diff(0, 0, (void *)copy->bytes, masked(some + 3, 1020), sum);
		from += some;
		count -= some;
	}
	core->sum = sum;
	return count ? -1 : 0;
}

/* The checksum of a UDP packet over IPv4 from the sum over it and its addresses. */
static __always_inline __u16 folded(__u64 sum, __u32 length)
{
	sum += bpf_htons(IPPROTO_UDP) + bpf_htons(length);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Where addresses are in a header of IPv4, behind which, without options, UDP follows. */
#define FROM_ADDRESSES __builtin_offsetof(struct iphdr, saddr)

/* Whether the outer packet in UDP that the one in hand came in has a checksum that is right, or none. */
__noinline int outer_sum_holds(struct xdp_md *ctx, struct core *core)
{
	__u32 length;

	if (!core)
		return 0;
	if (!core->came_in.summed)
		return 1;
	length = core->came_in.length;
	if (sum_of(ctx, core, core->came_in.at + FROM_ADDRESSES, length - FROM_ADDRESSES))
		return 0;
	if (folded(core->sum, length - sizeof(struct iphdr)) != 0xffff)
		return 0;
	/* Not again. */
	core->came_in.summed = 0;
	return 1;
}

/* Writes the checksum of the outer packet in UDP that the one in hand has become; XDP_REDIRECT, or XDP_ABORTED. */
__noinline int sum_outer(struct xdp_md *ctx, struct core *core)
{
	__u32 length, at;
	__u16 check;

	if (!core)
		return XDP_ABORTED;
	length = core->leaves.length;
	at = core->leaves.at;
	if (sum_of(ctx, core, at + FROM_ADDRESSES, length - FROM_ADDRESSES))
		return XDP_ABORTED;
	check = ~folded(core->sum, length - sizeof(struct iphdr));
	if (!check)
		check = 0xffff;
	at += sizeof(struct iphdr) + __builtin_offsetof(struct udphdr, check);
	return bpf_xdp_store_bytes(ctx, at, &check, sizeof(check)) ? XDP_ABORTED : XDP_REDIRECT;
}

#endif
