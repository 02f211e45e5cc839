/* SPDX-License-Identifier: GPL-2.0 */
/* What a frame has before its packet: VLAN tags (IEEE 802.1Q), and the header of a PPPoE session (RFC 2516). */
#ifndef RXLANE_TAGS_H
#define RXLANE_TAGS_H

/* Of a tag in struct packet: it is there; it is one of IEEE 802.1ad. */
#define TAG_THERE 0x8000
#define TAG_SERVICE 0x4000
/* Behind the tags, of whatever number, there is the header of a session. */
#define TAG_SESSION 0x1000
/* Of the two tag protocol identifiers, one has this bit set. */
#define TAG_SERVICE_OF(type) ((bpf_ntohs(type) & 0x0800) << 3)

struct vlan_tag {
	__be16 tci;
	__be16 inner;
};

#ifndef ETH_P_PPP_DISC
#define ETH_P_PPP_DISC 0x8863
#define ETH_P_PPP_SES 0x8864
#endif

/* With the protocol of PPP (RFC 1661), which is of a packet and not of the session. */
struct session_header {
	__u8 version; /* and type: 0x11 */
	__u8 code; /* 0 */
	__be16 id;
	__be16 length; /* from here on */
	__be16 protocol;
};
#define SESSION_VERSION 0x11
#define PPP_IPV4 0x0021
#define PPP_IPV6 0x0057

/* A tag as it is in struct packet, without a branch, for which the verifier would follow all the rest twice. */
static __always_inline __u32 tag_word(__be16 type, __be16 tci)
{
	return TAG_THERE | TAG_SERVICE_OF(type) | (bpf_ntohs(tci) & 0xfff);
}

static __always_inline int is_vlan(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

/* Bytes before what tags are before of. */
static __always_inline __u32 l2_length(__u32 tags)
{
	return sizeof(struct ethhdr) + (tags & TAG_THERE ? 4 : 0) + (tags >> 16 & TAG_THERE ? 4 : 0);
}

/* Before a packet there are at most two tags, the header of a session, and the outer headers of a VXLAN: 80 bytes. */
#define MAX_L2 127

#endif
