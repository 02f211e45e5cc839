// SPDX-License-Identifier: GPL-2.0
/*
 * The lane at tc ingress, for ports where an XDP program does harm: a veth with one copies each packet of a local
 * sender, and makes of the backlog a ring of 256, so that TCP loses what nothing held back. Packets are skbs here,
 * which leave through the egress port's queueing discipline. It has the maps and constants of the XDP program.
 */
#define ON_SKB 1
#include "lane/lane.h"
#include "lib/tcx.h"

SEC("tcx/ingress")
int rxlane_tc(struct xdp_md *ctx)
{
	switch (ingress(ctx, 1)) {
	case XDP_REDIRECT:
		return TCX_REDIRECT;
	case XDP_DROP:
	case XDP_ABORTED:
		return TCX_DROP;
	default:
		/* Other programs and filters of the port, then the stack. */
		return TCX_NEXT;
	}
}

char LICENSE[] SEC("license") = "GPL";
