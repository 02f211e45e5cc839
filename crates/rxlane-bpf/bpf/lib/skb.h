/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs where packets are skbs (tc.bpf.c): the context, and the helpers that look beyond its first piece. What
 * makes room in front of a packet (tags, sessions, tunnels) is left to Linux there, and nothing is guarded: local
 * senders wait for the core by themselves.
 */
#ifndef RXLANE_SKB_H
#define RXLANE_SKB_H

#ifndef ON_SKB
#define ON_SKB 0
#endif

#if ON_SKB
#define xdp_md __sk_buff
static __always_inline long has_no_room(struct xdp_md *ctx, int bytes)
{
	return -1;
}
#define bpf_xdp_adjust_head has_no_room
#define bpf_xdp_get_buff_len(ctx) ((ctx)->len)
#define bpf_xdp_load_bytes bpf_skb_load_bytes
#define bpf_xdp_store_bytes(ctx, at, from, bytes) bpf_skb_store_bytes(ctx, at, from, bytes, 0)
#define bpf_xdp_adjust_tail(ctx, by) bpf_skb_change_tail(ctx, (ctx)->len + (by), 0)
#define bpf_xdp_ct_lookup bpf_skb_ct_lookup
#define queue_of(ctx) 0
#define ingress_of(ctx) ((ctx)->ifindex)
#else
#define ingress_of(ctx) ((ctx)->ingress_ifindex)
#define queue_of(ctx) ((ctx)->rx_queue_index)
#endif

/* A tag that the stack has taken out of the frame. */
static __always_inline int has_hidden_tag(struct xdp_md *ctx)
{
#if ON_SKB
	return ctx->vlan_present;
#else
	return 0;
#endif
}

/* Of several packets, of which GRO or their sender has made one: bytes of payload in each but the last. */
static __always_inline __u32 merged_bytes(struct xdp_md *ctx)
{
#if ON_SKB
	return ctx->gso_size;
#else
	return 0;
#endif
}

/* Whether the core is overloaded, and packets are served by class. */
#define is_guarded(core) (!ON_SKB && (core)->guarded)

#endif
