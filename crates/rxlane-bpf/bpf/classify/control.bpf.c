// SPDX-License-Identifier: GPL-2.0
/*
 * Says what a frame is to the router itself, for the test that compares it with rxlane_policy::control. No router loads
 * it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "lib/shared.h"
#include "lib/bounds.h"
#include "classify/parse.h"
#include "classify/numbers.h"
#include "classify/police.h"
#include "classify/control.h"

struct control_packet heard = {};

SEC("xdp")
int what_it_is(struct xdp_md *ctx)
{
	return control_of(ctx, &heard);
}

char LICENSE[] SEC("license") = "GPL";
