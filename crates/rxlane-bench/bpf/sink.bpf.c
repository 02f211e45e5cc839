// SPDX-License-Identifier: GPL-2.0
/* A measuring sink. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#include "receive.h"

SEC("xdp")
int rxlane_sink(struct xdp_md *ctx)
{
	return receive(ctx);
}

char LICENSE[] SEC("license") = "GPL";
