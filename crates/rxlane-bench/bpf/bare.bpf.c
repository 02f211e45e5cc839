// SPDX-License-Identifier: GPL-2.0
/*
 * What the least costs: a packet passed to the kernel, a packet dropped, a packet redirected without a look at it, and
 * one that is redirected as the kernel's FIB says, as xdp-forward of xdp-tools does it. The lanes' costs stand beside
 * these.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define AF_INET 2

const volatile __u32 egress = 0;
const volatile __u8 destination[ETH_ALEN] = {};

SEC("xdp.frags")
int bare_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("xdp")
int bare_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

SEC("xdp")
int bare_redirect(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	__builtin_memcpy(eth->h_dest, (const void *)destination, ETH_ALEN);
	return bpf_redirect(egress, 0);
}

SEC("xdp")
int bare_fib(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(eth + 1);
	struct bpf_fib_lookup fib = {.family = AF_INET, .ifindex = ctx->ingress_ifindex};
	__u32 check;

	if ((void *)(ip + 1) > (void *)(long)ctx->data_end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ttl <= 1)
		return XDP_PASS;
	fib.tos = ip->tos;
	fib.l4_protocol = ip->protocol;
	fib.tot_len = bpf_ntohs(ip->tot_len);
	fib.ipv4_src = ip->saddr;
	fib.ipv4_dst = ip->daddr;
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	/* One less in the TTL is 0x0100 more in the checksum (RFC 1141). */
	check = ip->check + bpf_htons(0x0100);
	ip->check = check + (check >= 0xffff);
	ip->ttl--;
	__builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
	return bpf_redirect(fib.ifindex, 0);
}

char LICENSE[] SEC("license") = "GPL";
