/* SPDX-License-Identifier: GPL-2.0 */
/* What forwarding changes in a packet: its TTL, and addresses and ports as connection tracking says. */
#ifndef RXLANE_REWRITE_H
#define RXLANE_REWRITE_H

/* The difference of sums after `from` became `to`. */
static __always_inline __u64 after(__u32 from, __u32 to)
{
	return (__u64)(__u32)~from + to;
}

/* One's complement arithmetic of RFC 1624: the checksum after sums have changed by so much. */
static __always_inline __u16 after_change(__u16 check, __u64 change)
{
	return ~folded_sum((__u16)~check + change);
}

static __always_inline __u16 checksum_after(__u16 check, __u32 from, __u32 to)
{
	return after_change(check, after(from, to));
}

static __always_inline void age_ipv4(struct iphdr *ip)
{
	__u32 check = ip->check;

	/* The TTL is the high byte of its word, so one less is 0x0100 more in the checksum (RFC 1141). */
	check += bpf_htons(0x0100);
	ip->check = check + (check >= 0xffff);
	ip->ttl--;
}

static __always_inline void replace_ip(__be32 *field, __be32 to, __u16 *check, __u16 *ip_check)
{
	*check = checksum_after(*check, *field, to);
	if (ip_check)
		*ip_check = checksum_after(*ip_check, *field, to);
	*field = to;
}

/* Rewrites addresses and ports as conntrack says; -1 if there are none. */
static __always_inline int translate(struct packet *p, const struct translation *nat)
{
	__be16 *ports = p->l4;
	__u16 *check_at, check;
	int i, udp = p->protocol == IPPROTO_UDP;

	if (!ports)
		return -1;
	if (udp) {
		struct udphdr *h = p->l4;

		if ((void *)(h + 1) > p->data_end)
			return -1;
		check_at = &h->check;
	} else {
		struct tcphdr *h = p->l4;

		if ((void *)(h + 1) > p->data_end)
			return -1;
		check_at = &h->check;
	}
	check = *check_at;
	if (!p->v6) {
		replace_ip(&p->ip4->saddr, nat->src_ip.ip4, &check, &p->ip4->check);
		replace_ip(&p->ip4->daddr, nat->dst_ip.ip4, &check, &p->ip4->check);
	} else {
		UNROLLED
		for (i = 0; i < 4; i++) {
			replace_ip(&p->ip6->saddr.in6_u.u6_addr32[i], nat->src_ip.ip6[i], &check, 0);
			replace_ip(&p->ip6->daddr.in6_u.u6_addr32[i], nat->dst_ip.ip6[i], &check, 0);
		}
	}
	check = checksum_after(check, ports[0], nat->src_port);
	check = checksum_after(check, ports[1], nat->dst_port);
	ports[0] = nat->src_port;
	ports[1] = nat->dst_port;
	if (udp && !p->v6 && !*check_at)
		return 0; /* RFC 768: no checksum, and none is made up */
	*check_at = udp && !check ? 0xffff : check;
	return 0;
}

static __always_inline __u64 offset_of_l4(const struct packet *p)
{
	return p->l4 ? masked(p->l4 - p->data, 127) : 0;
}

/* Pointers into the packet after a helper has moved it; -1: never, but the verifier cannot know. */
static __always_inline int point_again(struct xdp_md *ctx, struct packet *p, __u64 l4)
{
	void *l3;

	p->data = packet_pointer(ctx->data);
	p->data_end = packet_pointer(ctx->data_end);
	p->l4 = l4 ? p->data + masked(l4, 127) : 0;
	l3 = p->data + masked(p->l2, MAX_L2);
	if (p->v6) {
		p->ip6 = l3;
		return l3 + sizeof(*p->ip6) > p->data_end ? -1 : 0;
	}
	p->ip4 = l3;
	return l3 + sizeof(*p->ip4) > p->data_end ? -1 : 0;
}

#if ON_SKB
static __always_inline __u32 folded_to_word(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

/*
 * As translate(); the checksum may be left to a device (CHECKSUM_PARTIAL) or be that of the whole frame
 * (CHECKSUM_COMPLETE): the helper knows which. The header of IP is not written yet.
 */
static __always_inline int translate_skb(struct xdp_md *ctx, struct packet *p, const struct translation *nat)
{
	__u64 l4 = offset_of_l4(p), addresses, between;
	__be16 *ports = p->l4, to[2] = {nat->src_port, nat->dst_port};
	int i, udp = p->protocol == IPPROTO_UDP;
	__u32 check = l4 + (udp ? __builtin_offsetof(struct udphdr, check) : __builtin_offsetof(struct tcphdr, check));
	/* RFC 768: no checksum, and none is made up. */
	__u64 flags = udp ? BPF_F_MARK_MANGLED_0 : 0;

	if (!ports || (void *)(ports + 4) > p->data_end)
		return -1;
	between = after(ports[0], to[0]) + after(ports[1], to[1]);
	if (!p->v6) {
		addresses = after(p->ip4->saddr, nat->src_ip.ip4) + after(p->ip4->daddr, nat->dst_ip.ip4);
	} else {
		addresses = 0;
		UNROLLED
		for (i = 0; i < 4; i++) {
			addresses += after(p->ip6->saddr.in6_u.u6_addr32[i], nat->src_ip.ip6[i]);
			addresses += after(p->ip6->daddr.in6_u.u6_addr32[i], nat->dst_ip.ip6[i]);
		}
	}
	if (bpf_l4_csum_replace(ctx, check, 0, folded_to_word(addresses), BPF_F_PSEUDO_HDR | flags))
		return -1;
	bpf_l4_csum_replace(ctx, check, 0, folded_to_word(between), flags);
	bpf_skb_store_bytes(ctx, l4, to, sizeof(to), 0);
	return point_again(ctx, p, l4);
}

/*
 * Makes of an skb what the next hop gets. By helpers, which give those who share it a copy: a program that writes by
 * itself has one made of each packet before it sees it.
 */
static __always_inline int rewrite_skb(struct xdp_md *ctx, struct packet *p, const struct translation *nat,
				       int translates, const __u8 *to, const __u8 *from)
{
	__u8 macs[2 * ETH_ALEN];
	union {
		struct iphdr ip4;
		struct ipv6hdr ip6;
	} header;

	if (translates && translate_skb(ctx, p, nat))
		return -1;
	if (!p->v6) {
		header.ip4 = *p->ip4;
		age_ipv4(&header.ip4);
		if (translates) {
			__u16 check = checksum_after(header.ip4.check, header.ip4.saddr, nat->src_ip.ip4);

			header.ip4.check = checksum_after(check, header.ip4.daddr, nat->dst_ip.ip4);
			header.ip4.saddr = nat->src_ip.ip4;
			header.ip4.daddr = nat->dst_ip.ip4;
		}
	} else {
		header.ip6 = *p->ip6;
		header.ip6.hop_limit--;
		if (translates) {
			__builtin_memcpy(&header.ip6.saddr, nat->src_ip.ip6, 16);
			__builtin_memcpy(&header.ip6.daddr, nat->dst_ip.ip6, 16);
		}
	}
	__builtin_memcpy(macs, to, ETH_ALEN);
	__builtin_memcpy(macs + ETH_ALEN, from, ETH_ALEN);
	/* All of it or nothing: where the first cannot be written there is no memory. */
	if (bpf_skb_store_bytes(ctx, 0, macs, sizeof(macs), 0))
		return -1;
	/* A header of IPv4 has a checksum, with which it adds up to what it did. */
	return p->v6 ? bpf_skb_store_bytes(ctx, ETH_HLEN, &header, sizeof(header.ip6), BPF_F_RECOMPUTE_CSUM)
		     : bpf_skb_store_bytes(ctx, ETH_HLEN, &header, sizeof(header.ip4), 0);
}
#else
static __always_inline int rewrite_skb(struct xdp_md *ctx, struct packet *p, const struct translation *nat,
				       int translates, const __u8 *to, const __u8 *from)
{
	return -1;
}
#endif

#endif
