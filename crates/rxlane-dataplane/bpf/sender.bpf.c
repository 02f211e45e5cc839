// SPDX-License-Identifier: GPL-2.0
/*
 * From whom the packet came that Linux forwards, for rules that ask for the MAC address of senders: noted where it is
 * forwarded, because its frame gets another header before it leaves. Attached only while there are such rules.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "shared.h"
#include "kernel.h"
#include "sender.h"

static __always_inline int note(const struct sk_buff *skb)
{
	__u32 zero = 0;
	struct sender *sender = bpf_map_lookup_elem(&senders, &zero);

	if (!sender)
		return 0;
	sender->skb = 0;
	/* 0xffff: it came in a frame that has none. */
	if (skb->mac_header == 0xffff ||
	    bpf_probe_read_kernel(sender->mac, ETH_ALEN, skb->head + skb->mac_header + ETH_ALEN))
		return 0;
	sender->skb = (__u64)(unsigned long)skb;
	return 0;
}

SEC("fentry/ip_forward")
int BPF_PROG(forwards_ipv4, struct sk_buff *skb)
{
	return note(skb);
}

SEC("fentry/ip6_forward")
int BPF_PROG(forwards_ipv6, struct sk_buff *skb)
{
	return note(skb);
}

char LICENSE[] SEC("license") = "GPL";
