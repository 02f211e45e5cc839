/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the router itself must hear to stay a router comes first on an overloaded core: routing protocols, neighbours,
 * redundancy, addresses, ssh. rxlane-policy/src/control.rs says which packets that are, and is the reference.
 */
#ifndef RXLANE_CONTROL_H
#define RXLANE_CONTROL_H

/* What a frame is to the router itself. */
#define CONTROL 1
#define CONTROL_OF_LINK 2 /* only a neighbour can have sent it */
#define CONTROL_TO_ONE 4 /* if its destination is an address of the router */

#define CONTROL_BUCKETS 1024 /* of senders, by hash; a power of two */

/* Rates of a sender, and of all. */
const volatile struct police control_source = {};
const volatile struct police control_all = {};
/* Nobody can choose whose bucket he falls into. */
const volatile __u32 control_salt = 0;

/* Of senders on links, of others, and of all of both. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * (CONTROL_BUCKETS + 1));
	__type(key, __u32);
	__type(value, struct bucket);
} control_buckets SEC(".maps");

/* BGP, LDP */
static __always_inline int is_control_tcp(__u32 port)
{
	return port == 179 || port == 646;
}

/* DHCP, IKE, RIP, DHCPv6, LDP, HSRP, BFD */
static __always_inline int is_control_udp(__u32 port)
{
	return port == 67 || port == 68 || port == 500 || port == 520 || port == 521 || port == 546 || port == 547 ||
	       port == 646 || port == 1985 || port == 3784 || port == 3785 || port == 4784 || port == 6784;
}

/* Router and neighbour solicitation and advertisement, redirect (RFC 4861). */
static __always_inline int is_neighbour_discovery(const struct packet *p)
{
	const __u8 *type;

	if (!p->v6)
		return 0;
	type = (const __u8 *)(p->ip6 + 1);
	return (const void *)(type + 1) <= p->data_end && *type >= 133 && *type <= 137;
}

/* By protocol and ports alone: it costs a packet that is none next to nothing. */
static __always_inline int may_be_control(const struct packet *p)
{
	if (p->fragment)
		return 0;
	switch (p->protocol) {
	case IPPROTO_TCP:
		/* ssh to the router; answers to what it forwards with translation come to its address, too. */
		return p->dst_port == 22 || is_control_tcp(p->src_port) || is_control_tcp(p->dst_port);
	case IPPROTO_UDP:
		return is_control_udp(p->dst_port);
	case IPPROTO_ICMPV6:
		return is_neighbour_discovery(p);
	case IPPROTO_IGMP:
	case 89: /* OSPF */
	case IPPROTO_PIM:
	case 112: /* VRRP */
		return 1;
	}
	return 0;
}

static __always_inline int is_of_link(__be32 first)
{
	return (first & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

static __always_inline __u32 control_of_packet(const struct packet *p)
{
	int group, near;

	if (!may_be_control(p))
		return 0;
	if (!p->v6) {
		group = (p->ip4->daddr & bpf_htonl(0xffffff00)) == bpf_htonl(0xe0000000) || !~p->ip4->daddr;
		near = p->ip4->ttl == 255;
	} else {
		const __be32 *to = p->ip6->daddr.in6_u.u6_addr32;

		group = (*to & bpf_htonl(0xffff0000)) == bpf_htonl(0xff020000);
		near = p->ip6->hop_limit == 255 || is_of_link(*to) || is_of_link(p->ip6->saddr.in6_u.u6_addr32[0]);
	}
	return CONTROL | (group || near ? CONTROL_OF_LINK : 0) | (group ? 0 : CONTROL_TO_ONE);
}

/* ARP, LACP, LLDP, discovery of PPPoE; IS-IS and spanning trees, which have a length instead of a type. */
static __always_inline __u32 control_of_frame(const struct ethhdr *eth, __be16 carries)
{
	__u16 type = bpf_ntohs(carries);

	if (type == ETH_P_ARP || type == ETH_P_SLOW || type == 0x88cc || type == ETH_P_PPP_DISC ||
	    (type < 1536 && eth->h_dest[0] & 1))
		return CONTROL | CONTROL_OF_LINK;
	return 0;
}

/* What keeps a session of PPP: the protocols that control the link, and those that control others (RFC 1661 2). */
static __always_inline __u32 control_of_session(__be16 protocol)
{
	return bpf_ntohs(protocol) >= 0x8000 ? CONTROL | CONTROL_OF_LINK : 0;
}

/* What a packet is, and between whom. */
static __always_inline __u32 hear(const struct packet *p, struct control_packet *heard)
{
	heard->v6 = p->v6;
	if (!p->v6) {
		heard->source[0] = p->ip4->saddr;
		heard->destination[0] = p->ip4->daddr;
		heard->sender = p->ip4->saddr;
	} else {
		__builtin_memcpy(heard->source, &p->ip6->saddr, 16);
		__builtin_memcpy(heard->destination, &p->ip6->daddr, 16);
		/* Whoever has a /64 has all addresses of it; on a link each host has one of its own. */
		if (is_of_link(heard->source[0]))
			heard->sender = heard->source[2] * 0x9e3779b1 + heard->source[3];
		else
			heard->sender = heard->source[0] * 0x9e3779b1 + heard->source[1];
	}
	/* In another VLAN it is another sender. */
	heard->sender += p->tags * 0x9e3779b1;
	return control_of_packet(p);
}

/*
 * What a frame is, whoever it is addressed to; 0 if it is no control packet. A function of its own, which the verifier
 * follows once: what comes of it are numbers, so the ways through the parser end here.
 */
__noinline int control_of(struct xdp_md *ctx, struct control_packet *heard)
{
	struct packet p = {};
	struct ethhdr *eth;
	int parsed;

	if (!heard)
		return 0;
	p.data = packet_pointer(ctx->data);
	p.data_end = packet_pointer(ctx->data_end);
	eth = p.data;
	if ((void *)(eth + 1) > p.data_end)
		return 0;
	parsed = parse(ctx, &p);
	if (parsed == PARSED_NOT_IP && p.type == bpf_htons(ETH_P_PPP_SES))
		parsed = parse_session(ctx, &p);
	switch (parsed) {
	case PARSED_IPV4:
	case PARSED_IPV6:
		return hear(&p, heard);
	case PARSED_NOT_IP:
		/* The last four bytes tell senders apart. */
		heard->sender = *(__u32 *)(eth->h_source + 2);
		heard->sender += p.tags * 0x9e3779b1;
		return p.tags & TAG_SESSION ? control_of_session(p.type) : control_of_frame(eth, p.type);
	}
	return 0;
}

/* The same of the packet in hand, which came in a tunnel. */
__noinline int control_in_tunnel(struct xdp_md *ctx, struct core *core)
{
	struct packet p;

	if (!core || from_numbers(ctx, &core->packet, &p) < 0)
		return 0;
	return hear(&p, &core->heard);
}

static __always_inline int takes(__u32 index, const volatile struct police *rate)
{
	struct bucket *bucket = bpf_map_lookup_elem(&control_buckets, &index);

	return bucket &&
	       take(bucket, rate->cost >> (COST_SHIFT - TIME_SHIFT), rate->limit, bpf_ktime_get_ns() << TIME_SHIFT);
}

/* Linux would deliver it to the router itself; where it forwards nothing it delivers what it takes. */
static __always_inline int is_for_router(struct xdp_md *ctx, __u32 device, const struct control_packet *heard)
{
	struct bpf_fib_lookup fib = {};
	long ret;

	fib.ifindex = device;
	if (!heard->v6) {
		fib.family = 2; /* AF_INET */
		fib.ipv4_src = heard->source[0];
		fib.ipv4_dst = heard->destination[0];
	} else {
		if (is_of_link(heard->destination[0]))
			return 1;
		fib.family = 10; /* AF_INET6 */
		__builtin_memcpy(fib.ipv6_src, heard->source, 16);
		__builtin_memcpy(fib.ipv6_dst, heard->destination, 16);
	}
	ret = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	return ret == BPF_FIB_LKUP_RET_NOT_FWDED || ret == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

/*
 * Whether the packet in hand comes first, counted. A sender's rate comes before everything else, so that what one
 * sender makes of it, forged or not, is paid by its own bucket; what is not for the router costs none of the rate of
 * all.
 */
__noinline int comes_first(struct xdp_md *ctx, struct core *core)
{
	__u32 sender, of, what, device;

	if (!core)
		return 0;
	what = core->came_in.tunnel ? control_in_tunnel(ctx, core) : control_of(ctx, &core->heard);
	if (!what)
		return 0;
	/*
	 * Of another port it is another sender, whatever address it says. What comes in tunnels is no neighbour's, and
	 * all of a tunnel is one sender's.
	 */
	device = core->came_in.tunnel ? core->came_in.tunnel : ingress_of(ctx);
	sender = core->came_in.tunnel ? 0 : core->heard.sender;
	sender = (sender ^ control_salt) * 0x85ebca77 + device;
	sender ^= sender >> 15;
	of = what & CONTROL_OF_LINK && !core->came_in.tunnel ? 0 : CONTROL_BUCKETS + 1;
	if (!takes(of + masked((sender * 0x9e3779b1) >> 22, CONTROL_BUCKETS - 1), &control_source)) {
		core->control_policed++;
		return 0;
	}
	if (what & CONTROL_TO_ONE && !is_for_router(ctx, device, &core->heard))
		return 0;
	if (!takes(of + CONTROL_BUCKETS, &control_all)) {
		core->control_policed++;
		return 0;
	}
	core->control++;
	return 1;
}

/* The same of a packet that a class serves, counted there. */
static __always_inline int passes_first(struct xdp_md *ctx, struct core *core, __u32 class)
{
	if (!core->packet.control || !comes_first(ctx, core))
		return 0;
	core->classes[class_index(class)].passed++;
	return 1;
}

#endif
