// SPDX-License-Identifier: GPL-2.0
/* The lane in the driver's poll. One program is loaded per configuration; a reload replaces it in one step. */
#include "lane/lane.h"

SEC("xdp.frags")
int rxlane_full(struct xdp_md *ctx)
{
	return ingress(ctx, 1);
}

/*
 * For configurations that match on ingress port, DSCP and protocol with up to 64 rules, and trust all. The verifier
 * would remove the rest from the full program too, but takes some ms in which the kernel does not give way on that
 * core.
 */
SEC("xdp.frags")
int rxlane_plain(struct xdp_md *ctx)
{
	return ingress(ctx, 0);
}

char LICENSE[] SEC("license") = "GPL";
