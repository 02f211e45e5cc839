// SPDX-License-Identifier: GPL-2.0
/*
 * The way of a packet through an ingress port: parse, classify, admit (trust, police), then the express
 * lane or the stack lane. One program is loaded per configuration; a reload replaces it in one step.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "shared.h"
#include "kernel.h"

/* Kept across configurations; watch.bpf.c owns them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct port_table);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct core);
} cores SEC(".maps");

static __always_inline const struct port *find_port(const struct port_table *table, __u32 ifindex)
{
	__u32 i;

#pragma unroll
	for (i = 0; i < PORT_PROBES; i++) {
		const struct port *port = &table->at[(ifindex + i) & (PORT_TABLE - 1)];

		if (port->ifindex == ifindex)
			return port;
	}
	return 0;
}

#include "parse.h"
#include "classify.h"
#include "police.h"
#include "trust.h"
#include "forward.h"
#include "stack.h"
#include "engine.h"

struct class
{
	__u8 lane;
	__u8 trust;
	__u8 polices;
	__u8 overload;
	__u32 ring_cores; /* how many; 0: the polling core */
	__u32 ring_core[MAX_CORES];
	struct police police;
};

const volatile __u32 n_classes = 1;
const volatile __u32 any_express = 0;
const volatile __u32 any_police = 0;
const volatile __u32 any_conntrack = 0;
const volatile __u32 any_prefix = 0;
const volatile struct class classes[MAX_CLASSES] = {};

/* Left to the kernel, which knows what to do; but not without bound while the core is overloaded. */
static __always_inline int to_kernel(struct core *core, __u32 reason)
{
	if (core->overloaded && core->exceptions++ >= EXCEPTIONS_PER_POLL) {
		core->reasons[REASON_SHED]++;
		return XDP_DROP;
	}
	if (reason < REASONS)
		core->reasons[reason]++;
	return XDP_PASS;
}

static __always_inline int trust(struct xdp_md *ctx, const struct packet *p, __u32 class, struct translation *t,
				 const int full)
{
	__u8 how = classes[class & (MAX_CLASSES - 1)].trust;

	if (full && any_conntrack && how == TRUST_ESTABLISHED)
		return established(ctx, p, t);
	if (full && any_prefix && how == TRUST_PREFIXES)
		return trusted_prefix(p, class);
	return how == TRUST_ALL ? TRUSTED : UNTRUSTED;
}

/*
 * Trust comes before the rate, so that strangers cannot use up the rate of those who are trusted. What
 * exceeds the rate is the next class; what is not trusted is the next class that the firewall sees.
 */
static __always_inline int serve(struct xdp_md *ctx, struct packet *p, struct core *core,
				 const struct port_table *table, __u32 class, const int full)
{
	__u32 bytes = p->data_end - p->data;
	int untrusted = 0, i, ret;

	for (i = 0; i < MAX_CLASSES; i++, class ++) {
		struct class_counters *count;
		const volatile struct class *c;
		struct translation t = {};

		if (class >= n_classes)
			return to_kernel(core, REASON_UNTRUSTED);
		/* Opaque, or the compiler steps a pointer whose bounds the verifier cannot see. */
		barrier_var(class);
		class &= MAX_CLASSES - 1;
		c = &classes[class];
		count = &core->classes[class];
		if (c->lane == LANE_EXPRESS) {
			if (untrusted)
				continue;
			ret = obstacle(p);
			if (ret >= 0) {
				count->packets++;
				count->bytes += bytes;
				return to_kernel(core, ret);
			}
			ret = trust(ctx, p, class, &t, full);
			if (ret == TO_STACK_TCP)
				return to_kernel(core, REASON_TCP_CONTROL);
			if (ret == TO_STACK_NAT)
				return to_kernel(core, REASON_NAT);
			if (ret == UNTRUSTED) {
				count->untrusted++;
				untrusted = 1;
				continue;
			}
		}
		if (any_police && c->polices && !conforms(&c->police, class, bytes)) {
			count->policed++;
			continue;
		}
		count->packets++;
		count->bytes += bytes;
		if (engine) {
			/* A translated packet would look odd to a kernel that gets it back. */
			if (t.dst)
				return to_kernel(core, REASON_NAT);
			ret = to_engine(ctx, p, core, class);
			if (ret >= 0)
				return ret;
		}
		if (c->lane == LANE_STACK)
			return to_stack(p, core, class, c->overload, c->ring_cores, c->ring_core, full);
		core->express = 1;
		ret = forward(ctx, p, &t, table, full);
		if (ret < 0)
			return to_kernel(core, -1 - ret);
		count->express++;
		return ret;
	}
	return to_kernel(core, REASON_UNTRUSTED);
}

static __always_inline int ingress(struct xdp_md *ctx, const int full)
{
	struct packet p = {
		.data = (void *)(long)ctx->data,
		.data_end = (void *)(long)ctx->data_end,
	};
	const struct port_table *table;
	const struct port *port;
	struct core *core;
	__u32 zero = 0, slot, class;

	table = bpf_map_lookup_elem(&ports, &zero);
	if (!table)
		return XDP_PASS;
	port = find_port(table, ctx->ingress_ifindex);
	if (!port)
		return XDP_PASS;
	slot = port->slot;
	core = bpf_map_lookup_elem(&cores, &slot);
	if (!core)
		return XDP_PASS;
	p.port = slot;
	switch (parse(&p, port->mac)) {
	case PARSED_IPV4:
	case PARSED_IPV6:
		break;
	case PARSED_NOT_TO_US:
		return to_kernel(core, REASON_NOT_TO_US);
	case PARSED_NOT_IP:
		return to_kernel(core, REASON_NOT_IP);
	default:
		return to_kernel(core, REASON_MALFORMED);
	}
	class = classify(&p, full);
	return serve(ctx, &p, core, table, class, full);
}

SEC("xdp")
int rxlane_full(struct xdp_md *ctx)
{
	return ingress(ctx, 1);
}

/*
 * For configurations that match on ingress port, DSCP and protocol with up to 64 rules, trust all, and have
 * no rings. The verifier would remove the rest from the full program too, but takes some ms in which the
 * kernel does not give way on that core.
 */
SEC("xdp")
int rxlane_plain(struct xdp_md *ctx)
{
	return ingress(ctx, 0);
}

char LICENSE[] SEC("license") = "GPL";
