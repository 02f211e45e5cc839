/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Checksums that are missing. Who sends through a veth or tap has by default the device make the checksum, and as no
 * device does, the kernel notes beside the packet that there is none (CHECKSUM_PARTIAL, include/linux/skbuff.h). XDP
 * does not see that, and what it redirects has lost it. The reference is rxlane-policy/src/checksum.rs.
 */
#ifndef RXLANE_CHECKSUM_H
#define RXLANE_CHECKSUM_H

/* Whether packets to a port of UDP carry others: VXLAN (RFC 7348, that of Linux before it, GPE), Geneve (RFC 8926),
 * GTP-U, L2TP, MPLS. */
static __always_inline int is_port_of_tunnels(__u32 port)
{
	return port == 4789 || port == 8472 || port == 4790 || port == 6081 || port == 2152 || port == 1701 ||
	       port == 6635;
}

#define IPPROTO_L2TP_IP 115
#define IPPROTO_MPLS_IP 137

/* What stands in place of a checksum that is missing: the sum over the pseudo header (RFC 9293 3.1, RFC 768, RFC
 * 8200 8.1). */
static __always_inline __u16 pseudo_sum(const void *ip, __u64 v6, __u32 protocol, __u32 l4_len)
{
	__u64 sum = bpf_htons(l4_len) + bpf_htons(protocol);
	const struct iphdr *ip4 = ip;
	const struct ipv6hdr *ip6 = ip;

	if (!v6) {
		sum += (__u64)ip4->saddr + ip4->daddr;
	} else {
		const __be32 *a = ip6->saddr.in6_u.u6_addr32;

		UNROLLED
		for (int i = 0; i < 8; i++)
			sum += a[i]; /* source and destination are adjacent */
	}
	return folded_sum(sum);
}

/* Whether it, or the packet in it, may be one without checksum. One of 65,536 that are complete looks so, too. */
__noinline int is_unfinished(struct xdp_md *ctx, const struct core *core)
{
	struct packet p;
	__be16 *l4;

	if (!core || from_numbers(ctx, &core->packet, &p) < 0)
		return 0;
	switch (p.protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		break;
	/* Of these nobody looks at what is inside, or behind. */
	case IPPROTO_IPIP:
	case IPPROTO_IPV6:
	case IPPROTO_GRE:
	case IPPROTO_L2TP_IP:
	case IPPROTO_MPLS_IP:
		return 1;
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		return p.v6;
	default:
		return 0;
	}
	l4 = p.l4;
	if (!l4)
		return 0;
	if (p.protocol == IPPROTO_UDP) {
		if (is_port_of_tunnels(p.dst_port))
			return 1;
		return (void *)(l4 + 4) <= p.data_end && l4[3] == pseudo_sum(p.ip4, p.v6, p.protocol, p.l4_len);
	}
	if (p.protocol == IPPROTO_TCP)
		return (void *)(l4 + 9) <= p.data_end && l4[8] == pseudo_sum(p.ip4, p.v6, p.protocol, p.l4_len);
	/* A CRC (RFC 9260 6.8), instead of which there is nothing. */
	return (void *)(l4 + 6) <= p.data_end && !l4[4] && !l4[5];
}

/*
 * Makes it the obstacle of a packet that nothing of a bridge speaks against. It is called for every packet, and always
 * returns 0: the verifier would follow all that comes after it with each answer that it can have.
 */
__noinline int object_to_checksum(struct xdp_md *ctx, struct core *core)
{
	if (core && core->packet.may_lack_checksum && !core->master && is_unfinished(ctx, core))
		core->obstacle = REASON_CHECKSUM;
	return 0;
}

/* Asked only about what leaves the way that the kernel would take with it. */
static __always_inline int lacks_checksum(struct xdp_md *ctx, const struct core *core)
{
	return core->packet.may_lack_checksum && is_unfinished(ctx, core);
}

#endif
