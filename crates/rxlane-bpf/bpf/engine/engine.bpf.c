// SPDX-License-Identifier: GPL-2.0
/*
 * What the engine needs beside the XDP program: which redirects failed, so that a ring's occupancy stays exact,
 * and the way of exceptions into the kernel.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "lib/shared.h"
#include "lib/kernel.h"

struct bpf_prog;

const volatile __u32 sockets_map_id = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct engine_ring);
} engine_rings SEC(".maps");

SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(not_received, const struct net_device *dev, const struct bpf_prog *xdp, const void *target, int err,
	     int map_type, __u32 map_id, __u32 index)
{
	struct engine_ring *ring;

	if (map_id != sockets_map_id)
		return 0;
	ring = bpf_map_lookup_elem(&engine_rings, &index);
	if (ring)
		ring->failed++;
	return 0;
}

/*
 * On the way out of the engine's own device: the packet becomes one just received on the port that its mark
 * names, so routing, firewall and conntrack see it as if the engine had never had it.
 */
SEC("tc")
int into_kernel(struct __sk_buff *skb)
{
	__u32 port = skb->mark;

	if (!port)
		return TC_ACT_SHOT;
	skb->mark = 0;
	return bpf_redirect(port, BPF_F_INGRESS);
}

char LICENSE[] SEC("license") = "GPL";
