// SPDX-License-Identifier: GPL-2.0
/*
 * Generator and sink in one poll that never ends. Blank frames go round between the sink's interface and the device it
 * is wired to, which is the router's egress port; whenever the time of a packet has come, the next blank becomes that
 * packet: its copy stays in the circle, and it leaves for the router.
 *
 * The sink is awake for as long as there are blanks, so nobody pays for waking it, and what is sent is a page of its
 * own, that whoever drops it gives back to the kernel, as with a driver without a page pool. A thread of
 * BPF_PROG_TEST_RUN has a pool behind a lock, and a sink beside it must be woken: on a virtual machine both cost the
 * router's core more than a packet does.
 *
 * A router with several queues has a circle for each, on a core of its own: a veth puts what a core redirects into the
 * queue of that core, so blanks stay in their circle, and what leaves it goes into its queue of the router.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#include "generate.h"
#include "receive.h"

#define MAX_LINKS 32

/* More than a poll serves, so that each poll is full, and the kernel lets others have the core in between. */
#define BLANKS 80

/* Until when blanks go round: one that nobody stops must not keep the core for ever. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} ends_ns SEC(".maps");

/* The router's egress port: what is sent into it arrives at the sink. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} back SEC(".maps");

/* Twice the same: of one blank two are made. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} twice SEC(".maps");

/* For each link into the router: the circle, which gets the copy, and the link, which gets the frame. */
struct out {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_LINKS);
	__type(key, __u32);
	__array(values, struct out);
} outs SEC(".maps");

/* Blanks keep their order, so between two sights of a marked one all of them are seen. */
struct census {
	__u32 seen;
	__u32 missing;
	__u32 made; /* since the marked one was seen: they are not among those seen */
	__u32 pad[13]; /* each circle has a cache line of its own */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, struct census);
} censuses SEC(".maps");

/* Behind the headers; the mark is in the last two bytes of the smallest frame. */
struct blank {
	struct stamp stamp;
	__u16 marked;
} __attribute__((packed));

/* Rings that were full, and a copy that found no memory, take blanks away. Whether one is to be made of this one. */
static __always_inline int is_missing(struct blank *blank)
{
	__u32 zero = 0, queue;
	const struct control *control = bpf_map_lookup_elem(&controls, &zero);
	struct census *c;

	if (!control)
		return 0;
	queue = queue_of_core(control);
	c = bpf_map_lookup_elem(&censuses, &queue);
	if (!c)
		return 0;
	c->seen++;
	if (blank->marked) {
		c->missing = !c->made && c->seen < BLANKS ? BLANKS - c->seen : 0;
		c->made = 0;
		c->seen = 0;
	} else if (c->seen > 2 * BLANKS) {
		blank->marked = 1;
		c->seen = 0;
	} else if (c->missing) {
		c->missing--;
		c->made++;
		return 1;
	}
	return 0;
}

/* What comes from the router is addressed to the sink; a blank still has the address of the router. */
static __always_inline int is_blank(const void *data, const struct blank *blank)
{
	__u32 index = blank->stamp.flow;
	const struct flow *flow = bpf_map_lookup_elem(&flows, &index);

	return flow && !__builtin_memcmp(data, flow->headers, ETH_ALEN);
}

static __always_inline int is_over(void)
{
	__u32 zero = 0;
	const struct control *control = bpf_map_lookup_elem(&controls, &zero);
	const __u64 *end = bpf_map_lookup_elem(&ends_ns, &zero);

	return !control || !control->mean_gap_x256 || !end || bpf_ktime_get_ns() >= *end;
}

SEC("xdp")
int rxlane_circle(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct blank *blank = behind_headers(data);
	struct flow *flow;
	void *out;

	if ((void *)(blank + 1) > end || blank->stamp.magic != MAGIC || !is_blank(data, blank))
		return receive(ctx);
	if (is_over())
		return XDP_DROP;
	if (is_missing(blank))
		return bpf_redirect_map(&twice, 0, BPF_F_BROADCAST);
	flow = generate(ctx);
	if (!flow)
		return bpf_redirect_map(&back, 0, 0);
	out = bpf_map_lookup_elem(&outs, &flow->link);
	return out ? bpf_redirect_map(out, 0, BPF_F_BROADCAST) : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
