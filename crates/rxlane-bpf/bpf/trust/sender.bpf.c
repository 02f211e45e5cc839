// SPDX-License-Identifier: GPL-2.0
/*
 * From whom packets come, for rules that ask for the MAC address of senders: noted where the stack receives them.
 * Attached only while there are such rules.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "lib/shared.h"
#include "lib/kernel.h"
#include "trust/sender.h"

const volatile __u64 netns_cookie = 0;

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(linux_receives, const struct sk_buff *skb)
{
	__u64 address = (__u64)(unsigned long)skb;
	struct sender sender = {};

	/* 0xffff: it came in a frame that has no header. */
	if (skb->dev->nd_net.net->net_cookie != netns_cookie || skb->mac_header == 0xffff)
		return 0;
	if (bpf_probe_read_kernel(sender.mac, ETH_ALEN, skb->head + skb->mac_header + ETH_ALEN))
		return 0;
	sender.head = (__u64)(unsigned long)skb->head;
	sender.seen_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&senders, &address, &sender, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
