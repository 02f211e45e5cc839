/* SPDX-License-Identifier: GPL-2.0 */
/* VLAN tags of a frame (IEEE 802.1Q). */
#ifndef RXLANE_TAGS_H
#define RXLANE_TAGS_H

/* Of a tag in struct packet: it is there; it is one of IEEE 802.1ad. */
#define TAG_THERE 0x8000
#define TAG_SERVICE 0x4000
/* Of the two tag protocol identifiers, one has this bit set. */
#define TAG_SERVICE_OF(type) ((bpf_ntohs(type) & 0x0800) << 3)

struct vlan_tag {
	__be16 tci;
	__be16 inner;
};

static __always_inline int is_vlan(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

/* Bytes before the packet. */
static __always_inline __u32 l2_length(__u32 tags)
{
	return sizeof(struct ethhdr) + (tags & TAG_THERE ? 4 : 0) + (tags >> 16 & TAG_THERE ? 4 : 0);
}

#endif
