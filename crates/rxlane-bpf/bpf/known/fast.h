/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fast path: an untagged packet of TCP or UDP without options, of a flow that is known (table.h), from a port to a
 * port. Nobody is asked: what the kernel would say is in the entry. Everything else takes the way of serve().
 */
#ifndef RXLANE_KNOWN_FAST_H
#define RXLANE_KNOWN_FAST_H

#define NOT_FAST -1

/*
 * What each stage costs is measured by ending after it. The constant is 0 in a router, which has nothing of these.
 */
enum stage {
	STAGE_ALL,
	STAGE_PORT,
	STAGE_GATES,
	STAGE_HEADERS,
	STAGE_ENTRY,
	STAGE_CHECKS,
	STAGE_REDIRECT,
	STAGE_COUNTERS
};
const volatile __u32 ends_after = STAGE_ALL;

#define END_OF(stage)                        \
	do {                                 \
		if (ends_after == (stage))   \
			return XDP_REDIRECT; \
	} while (0)

/* What the fast path reads of a packet. */
struct plain {
	struct ethhdr *eth;
	union {
		struct iphdr *ip4;
		struct ipv6hdr *ip6;
	};
	union {
		struct tcphdr *tcp;
		struct udphdr *udp;
		__be32 *ports;
	};
	__u64 v6, is_udp;
	__u64 hash;
	__u32 length, ip_bytes, l4_len;
	__u32 first, rest; /* as in struct flow_key; `rest` from there on */
	__u32 index; /* of the entry of its flow */
};

/* lacks_checksum() in short. */
static __always_inline int may_be_unfinished(const struct plain *p, __u32 protocol, const void *end)
{
	__u16 sum = pseudo_sum(p->ip4, p->v6, protocol, p->l4_len);

	if (protocol == IPPROTO_UDP)
		return p->udp->check == sum || is_port_of_tunnels(bpf_ntohs(p->udp->dest));
	return (void *)(p->tcp + 1) > end || p->tcp->check == sum;
}

#define REST(hops, protocol, v6) ((hops) | (protocol) << 8 | ((v6) | NO_PCP << 1) << 16)

/* Whether it is such a packet: no options, no fragment, in one piece, with nothing but padding behind it. */
static __always_inline int is_plain(struct xdp_md *ctx, struct plain *p, const struct port *port)
{
	void *data = packet_pointer(ctx->data), *end = packet_pointer(ctx->data_end);
	__u32 protocol;

	p->eth = data;
	p->ip4 = data + sizeof(*p->eth);
	if (data + sizeof(*p->eth) + sizeof(*p->ip4) + sizeof(*p->udp) > end || !is_mac_of(port, p->eth->h_dest))
		return 0;
	if (p->eth->h_proto == bpf_htons(ETH_P_IP)) {
		if (!may_know(p->ip4->tos >> 2) || *(__u8 *)p->ip4 != 0x45 || p->ip4->frag_off & bpf_htons(0x3fff) ||
		    !ipv4_checksum_holds(p->ip4))
			return 0;
		p->v6 = told(0);
		p->ip_bytes = bpf_ntohs(p->ip4->tot_len);
		p->l4_len = p->ip_bytes - sizeof(*p->ip4);
		p->udp = (void *)(p->ip4 + 1);
		protocol = p->ip4->protocol;
		p->first = p->ip4->tos;
		p->rest = REST(p->ip4->ttl, protocol, 0);
		p->hash = KNOWN_WORD(0, p->ip4->saddr) + KNOWN_WORD(4, p->ip4->daddr);
	} else {
		const __be32 *a = p->ip6->saddr.in6_u.u6_addr32;

		if (p->eth->h_proto != bpf_htons(ETH_P_IPV6) || (void *)(p->ip6 + 1) + sizeof(*p->udp) > end ||
		    p->ip6->version != 6 || !may_know(bpf_ntohl(*(__be32 *)p->ip6) >> 22))
			return 0;
		p->v6 = told(1);
		p->l4_len = bpf_ntohs(p->ip6->payload_len);
		p->ip_bytes = p->l4_len + sizeof(*p->ip6);
		p->udp = (void *)(p->ip6 + 1);
		protocol = p->ip6->nexthdr;
		p->first = *(__be32 *)p->ip6;
		p->rest = REST(p->ip6->hop_limit, protocol, 1);
		p->hash = 0;
		UNROLLED
		for (__u32 i = 0; i < 8; i++)
			p->hash += KNOWN_WORD(i, a[i]);
	}
	p->length = masked(end - data, 0x1ffff);
	/* The shortest frames have something behind it. */
	if (p->ip_bytes + ETH_HLEN != p->length && (p->ip_bytes + ETH_HLEN > p->length || p->length != ETH_ZLEN))
		return 0;
	if (port->lacks_checksums && may_be_unfinished(p, protocol, end))
		return 0;
	/* What the tracker need not see, as goes_on() says. */
	if (protocol == IPPROTO_UDP) {
		p->is_udp = told(1);
		return bpf_ntohs(p->udp->len) >= sizeof(*p->udp) && bpf_ntohs(p->udp->len) <= p->l4_len;
	}
	if (protocol != IPPROTO_TCP || (void *)(p->tcp + 1) > end)
		return 0;
	p->is_udp = told(0);
	return p->tcp->ack && !p->tcp->syn && !p->tcp->fin && !p->tcp->rst && p->tcp->window && p->tcp->doff >= 5 &&
	       p->tcp->doff * 4 <= p->l4_len;
}

/* The entry of its flow, or null. */
static __always_inline struct known_flow *find_known(struct plain *p, const struct port *port, __u32 ticks)
{
	struct known_set *set;
	struct known_flow *flow;
	__u32 at, way;

	p->rest |= (__u32)port->flags << 24;
	p->hash += KNOWN_WORD(8, *p->ports) + KNOWN_WORD(9, port->device) + KNOWN_WORD(10, p->first) +
		   KNOWN_WORD(11, p->rest);
	at = known_set_of(p->hash);
	set = bpf_map_lookup_elem(&known_sets, &at);
	if (!set)
		return 0;
	way = known_way(set, p->hash >> 32);
	at = at * KNOWN_WAYS + way;
	flow = way == KNOWN_WAYS ? 0 : bpf_map_lookup_elem(&known_flows, &at);
	if (!flow)
		return 0;
	p->index = at;
	if (*(__be32 *)&flow->key.src_port != *p->ports || flow->key.ingress != port->device ||
	    flow->key.first != p->first || *(__u32 *)&flow->key.ttl != p->rest)
		return 0;
	if (!p->v6) {
		if (flow->key.source[0] != p->ip4->saddr || flow->key.destination[0] != p->ip4->daddr)
			return 0;
	} else {
		const __u64 *addresses = (const __u64 *)&p->ip6->saddr, *known = (const __u64 *)flow->key.source;

		if ((addresses[0] ^ known[0]) | (addresses[1] ^ known[1]) | (addresses[2] ^ known[2]) |
		    (addresses[3] ^ known[3]))
			return 0;
	}
	way = masked(way, KNOWN_WAYS - 1);
	if (ticks_since(set->seen[way], ticks))
		set->seen[way] = ticks * 2 | 1;
	return flow;
}

/* Nobody shall read in the padding of a frame what its sender left there (trim() in short). */
static __always_inline void clear_padding(struct plain *p, void *end)
{
	__u8 *frame = (void *)p->eth;
	__u32 used = p->ip_bytes + ETH_HLEN;

	if (used == p->length || (void *)frame + ETH_ZLEN > end)
		return;
	UNROLLED
	for (__u32 i = ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr); i < ETH_ZLEN; i++) {
		if (i >= used)
			frame[i] = 0;
	}
}

/* A word of the header with TTL, protocol and checksum, of the next hop. */
static __always_inline __u32 aged_word(__u32 word, __u16 change)
{
	union {
		__u32 word;
		struct {
			__u8 ttl, protocol;
			__u16 check;
		};
	} hops = {.word = word};

	hops.ttl--;
	hops.check = after_change(hops.check, change);
	return hops.word;
}

/* Makes of it what the next hop gets, in whole words: bytes would be written one by one. */
static __always_inline void write_known(struct plain *p, const struct known_flow *flow)
{
	const struct translation *nat = &flow->nat;
	const __u32 *macs = (const __u32 *)flow->to;
	__u32 *eth = (__u32 *)p->eth, *hops;

	eth[0] = macs[0];
	eth[1] = macs[1];
	eth[2] = macs[2];
	if (!p->v6) {
		/* TTL, protocol, checksum. */
		hops = (__u32 *)&p->ip4->ttl;
		*hops = aged_word(*hops, flow->ip_change);
	} else {
		p->ip6->hop_limit--;
	}
	if (!nat->translated)
		return;
	if (!p->v6) {
		p->ip4->saddr = nat->src_ip.ip4;
		p->ip4->daddr = nat->dst_ip.ip4;
	} else {
		__builtin_memcpy(&p->ip6->saddr, nat->src_ip.ip6, 16);
		__builtin_memcpy(&p->ip6->daddr, nat->dst_ip.ip6, 16);
	}
	p->udp->source = nat->src_port;
	p->udp->dest = nat->dst_port;
	if (!p->is_udp) {
		p->tcp->check = after_change(p->tcp->check, nat->l4_change);
	} else if (p->v6 || p->udp->check) {
		/* RFC 768: where there is none, none is made up. */
		__u16 check = after_change(p->udp->check, nat->l4_change);

		p->udp->check = check ? check : 0xffff;
	}
}

/*
 * XDP_REDIRECT, XDP_DROP, or NOT_FAST with nothing done. A function of its own, which the verifier follows once: after
 * each way out of it, it would follow all of the rest of the program. The call takes 2 ns.
 */
__noinline int by_fast_path(struct xdp_md *ctx, struct core *core, const struct port *port)
{
	__u32 zero = 0, class, any, slot;
	const struct witness *witness;
	struct class_counters *count;
	struct port_counters *sent;
	struct flow_place *place = 0;
	struct known_flow *flow;
	const struct gates *g;
	struct plain p;
	__u64 now;

	END_OF(STAGE_PORT);
	if (!core || !port)
		return NOT_FAST;
	if (any_shed_by_dscp && is_guarded(core) && drops_early(ctx, core, port))
		return XDP_DROP;
	/* Before their look-ups, since there are no such maps then: old verifiers look at functions that nobody calls.
	 */
	if (!may_be_known())
		return NOT_FAST;
	witness = bpf_map_lookup_elem(&witnesses, &zero);
	g = find_gates();
	now = bpf_ktime_get_coarse_ns();
	if (!witness || !g || g->by_sender || !is_watched_at(g, now))
		return NOT_FAST;
	END_OF(STAGE_GATES);
	if (!is_plain(ctx, &p, port))
		return NOT_FAST;
	END_OF(STAGE_HEADERS);
	flow = find_known(&p, port, known_ticks(now));
	if (!flow || !flow->port || now - flow->checked_ns >= KNOWN_FRESH_NS ||
	    flow->generation != (__u16)witness->generation || flow->routes != (__u16)witness->routes)
		return NOT_FAST;
	if (counts_flows) {
		place = place_of(p.index);
		if (!place)
			return NOT_FAST;
	}
	END_OF(STAGE_ENTRY);
	class = class_index(flow->class);
	if (is_closed(g, class) || p.ip_bytes > flow->mtu ||
	    (g->route_mtu[p.v6 & 1] && p.ip_bytes > g->route_mtu[p.v6 & 1]))
		return NOT_FAST;
	if (classes[class].lane == LANE_FAST)
		return NOT_FAST;
	slot = flow->port - 1;
	any = word_of(ANY_PORT);
	if (any & ANY_IS_FULL && is_full_for(slot, class == first_express))
		return NOT_FAST;
	if (any_police && classes[class].polices && !conforms(class, p.length))
		return NOT_FAST;
	END_OF(STAGE_CHECKS);
	if (bpf_redirect_map(&egress, flow->egress, 0) != XDP_REDIRECT)
		return NOT_FAST;
	END_OF(STAGE_REDIRECT);
	count = &core->classes[class];
	count->packets++;
	count->bytes += p.length;
	core->express = 1;
	if (is_guarded(core) && class && !may_pass(class, 0, core->taken - 1)) {
		count->early_drops++;
		return XDP_DROP;
	}
	count->express++;
	if (place)
		count_at(place, p.ip_bytes, now);
	END_OF(STAGE_COUNTERS);
	clear_padding(&p, packet_pointer(ctx->data_end));
	write_known(&p, flow);
	if (any & (ANY_IS_COUNTED | ANY_HAS_REFUSED)) {
		sent = bpf_map_lookup_elem(&port_counts, &slot);
		if (sent) {
			sent->unsent_bytes += p.length + WIRE_BYTES;
			redirects(sent, class);
		}
	}
	return XDP_REDIRECT;
}

#endif
