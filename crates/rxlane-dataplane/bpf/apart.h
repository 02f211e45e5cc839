/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Admitting (with classifying) and forwarding as functions of their own, for configurations that use all of them.
 *
 * What a packet can look like after parsing, times what the rules, times what eight classes can make of it, is more
 * than the verifier follows: 820,000 instructions of a million for examples/router.toml, and too many for four of 77
 * configurations. At a global function it forgets what it knew and follows the body once, so they add up instead
 * (Documentation/bpf/verifier.rst; kernel commit 51c39bb1d5d1, Linux 5.6). What it forgets are the pointers into the
 * packet, so they are made again from offsets.
 */
#ifndef RXLANE_APART_H
#define RXLANE_APART_H

static __always_inline void to_numbers(const struct packet *p, struct parsed_packet *n)
{
	n->l4_len = p->l4_len;
	n->vlan = p->vlan;
	n->pcp = p->pcp;
	n->src_port = p->src_port;
	n->dst_port = p->dst_port;
	n->l3 = (p->v6 ? (void *)p->ip6 : (void *)p->ip4) - p->data;
	n->l4 = p->l4 ? p->l4 - p->data : 0;
	n->v6 = p->v6;
	n->port = p->port;
	n->dscp = p->dscp;
	n->protocol = p->protocol;
	n->fragment = p->fragment;
	n->port_flags = p->port_flags;
}

/* The packet as it was, or -1: never, but the verifier cannot know. */
static __always_inline int from_numbers(struct xdp_md *ctx, const struct parsed_packet *n, struct packet *p)
{
	void *l3;

	p->data = packet_pointer(ctx->data);
	p->data_end = packet_pointer(ctx->data_end);
	p->l4_len = n->l4_len;
	p->vlan = n->vlan;
	p->pcp = n->pcp;
	p->src_port = n->src_port;
	p->dst_port = n->dst_port;
	p->port = n->port;
	p->dscp = n->dscp;
	p->protocol = n->protocol;
	p->fragment = n->fragment;
	p->port_flags = n->port_flags;
	p->l4 = n->l4 ? p->data + masked(n->l4, 127) : 0;
	l3 = p->data + masked(n->l3, 31);
	if (n->v6) {
		p->v6 = told(1);
		p->ip6 = l3;
		return l3 + sizeof(*p->ip6) > p->data_end ? -1 : 0;
	}
	p->v6 = told(0);
	p->ip4 = l3;
	return l3 + sizeof(*p->ip4) > p->data_end ? -1 : 0;
}

__noinline int admit_apart(struct xdp_md *ctx, struct core *core)
{
	struct packet p;

	if (!core || from_numbers(ctx, &core->packet, &p) < 0)
		return REFUSED(REASON_MALFORMED);
	return admit(ctx, &p, core, classify(&p, 1), &core->departure, 1);
}

__noinline int source_apart(struct xdp_md *ctx, struct core *core)
{
	struct packet p;

	if (!core || from_numbers(ctx, &core->packet, &p) < 0)
		return 0;
	return source_holds(ctx, &p, &core->departure);
}

/*
 * Whether the kernel's routes lead a flow where Linux was seen to send it, as forward() asks for the express lane. The
 * engine's mirror knows nothing of what else may send it elsewhere, such as a filter on the way out.
 */
__noinline int goes_as_seen(struct xdp_md *ctx, struct core *core)
{
	struct bpf_fib_lookup fib = {};
	struct packet p;

	if (!core || from_numbers(ctx, &core->packet, &p) < 0)
		return 0;
	fib_key(ctx, &p, &core->departure, &fib);
	return bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) == BPF_FIB_LKUP_RET_SUCCESS &&
	       fib.ifindex == core->departure.egress && is_same_mac(core->departure.next_hop, fib.dmac);
}

__noinline int forward_apart(struct xdp_md *ctx, struct core *core)
{
	struct packet p;

	if (!core || from_numbers(ctx, &core->packet, &p) < 0)
		return REFUSED(REASON_MALFORMED);
	return forward(ctx, &p, &core->departure, 1);
}

#endif
