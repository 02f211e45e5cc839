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

__noinline int admit_apart(struct xdp_md *ctx, struct core *core)
{
	struct packet p;

	if (!core || from_numbers(ctx, &core->packet, &p) < 0)
		return REFUSED(REASON_MALFORMED);
	core->named = classify(&p, 1);
	return admit(ctx, &p, core, core->named, &core->departure, 1);
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
	/* A link of PPP, by which the engine sends nothing. */
	if (is_nobody(core->departure.next_hop))
		return 0;
	fib_key(&p, core->packet.ip_bytes, &core->departure, &fib);
	return bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) == BPF_FIB_LKUP_RET_SUCCESS &&
	       fib.ifindex == core->departure.egress && is_same_mac(core->departure.next_hop, fib.dmac);
}

__noinline int forward_apart(struct xdp_md *ctx, struct core *core)
{
	struct packet p;

	if (!core || from_numbers(ctx, &core->packet, &p) < 0)
		return REFUSED(REASON_MALFORMED);
	/* Before its addresses are another's. */
	if (counts_flows)
		make_key(&p, &core->key);
	return forward(ctx, core, &p, &core->departure, &core->hop, 1);
}

#endif
