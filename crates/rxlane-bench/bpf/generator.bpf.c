// SPDX-License-Identifier: GPL-2.0
/*
 * A paced packet source. It is run by one BPF_PROG_TEST_RUN call with live frames and a huge repeat
 * count: each run drops its frame until the next send time has come, then writes headers, sequence
 * number and time stamp and redirects it. Nothing is queued in front of it, so a packet leaves when it
 * is stamped.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#include "generate.h"

SEC("xdp")
int rxlane_generate(struct xdp_md *ctx)
{
	struct flow *flow = generate(ctx);

	return flow ? bpf_redirect(flow->ifindex, 0) : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
