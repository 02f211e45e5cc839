// SPDX-License-Identifier: GPL-2.0
// A host's VLAN device, as tc programs, because the machine outside need not have any: what is sent from an address
// above 10.100 leaves with the tag 5, and what comes with a tag loses it.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

static long (*skb_load_bytes)(const void *, __u32, void *, __u32) = (void *)BPF_FUNC_skb_load_bytes;
static long (*skb_vlan_push)(struct __sk_buff *, __u16, __u16) = (void *)BPF_FUNC_skb_vlan_push;
static long (*skb_vlan_pop)(struct __sk_buff *) = (void *)BPF_FUNC_skb_vlan_pop;

static __u16 big_endian(__u16 x)
{
	return __builtin_bswap16(x);
}

__attribute__((section("egress"), used)) int leaves(struct __sk_buff *skb)
{
	// The sender's address: of ARP after hardware and protocol, of IPv4 its source.
	__u32 at = ETH_HLEN + (skb->protocol == big_endian(ETH_P_ARP) ? 14 : 12);
	__u8 address[2];

	if (skb_load_bytes(skb, at, address, sizeof(address)) == 0 && address[0] == 10 && address[1] > 100)
		skb_vlan_push(skb, big_endian(ETH_P_8021Q), 5);
	return TC_ACT_OK;
}

__attribute__((section("ingress"), used)) int comes(struct __sk_buff *skb)
{
	if (skb->vlan_present)
		skb_vlan_pop(skb);
	return TC_ACT_OK;
}

// What drivers do with the least XDP programs that there are, to know what is the kernel's own.
__attribute__((section("xdp/passes"), used)) int passes(struct xdp_md *packet)
{
	return XDP_PASS;
}

__attribute__((section("xdp/drops"), used)) int drops(struct xdp_md *packet)
{
	return XDP_DROP;
}

char _license[] __attribute__((section("license"), used)) = "GPL";
