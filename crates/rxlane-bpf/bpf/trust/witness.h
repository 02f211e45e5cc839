/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Linux itself was seen to forward.
 *
 * Conntrack says that a flow is established. It does not say that the firewall would still let it pass, that it came in
 * where it belongs, or that its route is the one which a mark, a proxy or an IPsec policy gives it. So a flow takes the
 * express lane only after a packet of it, with the same interfaces and the same type of service, was seen to leave
 * through the kernel, and only as long as that is fresh. The lane asks; witness.bpf.c answers.
 */
#ifndef RXLANE_WITNESS_H
#define RXLANE_WITNESS_H

#include "lib/hash.h"

/* After this a single packet takes the kernel again, while the others go on; */
#define WITNESS_FRESH_NS 20000000000LL
/* after this all of them do. Nothing but this stops a flow if the daemon, which follows the firewall, is gone. */
#define WITNESS_STALE_NS 30000000000LL
/* Between two such single packets, if the first was not seen to leave. */
#define WITNESS_ASK_NS 250000000ULL
/* Who answers passes every packet that the machine sends, and so is at work only while somebody asks. */
#define WITNESS_AT_WORK_TICKS 4
/* A packet leaves this long after it was asked for, even through a queue. */
#define WITNESS_ANSWER_NS 2000000000ULL
/* The same in jiffies at the highest rate of ticks, and more at others. */
#define WITNESS_ANSWER_TICKS 2000

struct witness {
	__u64 asked_ticks; /* when any flow was asked for last, in jiffies, which cost a load */
	__u32 generation; /* of firewall, rules, policies, addresses: the daemon counts it up when they change */
	__u32 routes; /* the same of routes: what is remembered of flows is looked up again */
	__u32 open; /* questions without an answer, about: cores count together, and what is forgotten is never answered
		     */
	__u16 kept; /* how many of kept_flows there are */
	__u8 by_sender; /* rules ask for the MAC address of senders */
	__u8 follows_untracked; /* flows without a connection are asked for, too */
	__u32 looked_ticks; /* when whoever answers was at work last, as far as somebody asked */
	__u32 called_ticks; /* when he was called last */
};

/* What the witness knows flows by: one direction, and one type of service, because a call has voice and video between
 * the same ports. */
struct witnessed_key {
	__u64 conntrack; /* address of the entry */
	__u64 direction; /* and the type of service << 8 */
	__be32 source[4], destination[4]; /* of what has no entry */
};
struct witnessed {
	__u64 asked_ns;
	__u64 seen_ns; /* 0: not yet */
	__u32 flow; /* fingerprint: the address may be another flow's by now */
	__u32 generation; /* when it was asked */
	__u32 ingress;
	__u32 egress;
	__u8 tos;
	__u8 ttl; /* as it came; 0, which measurements set: any */
	__u8 next_hop[6]; /* to whom Linux sent it */
	__u32 tag; /* WITNESS_TAGGED and the outer VLAN tag that it left with; 0: with none */
	__u32 through; /* VLAN device that it was sent through last */
	__u32 over; /* bridge, bond or team that it was sent through last */
	__be16 port; /* source port of the outer packet, if it left in one of UDP */
	__u8 kept; /* it meets a rule that is to see each of its packets */
	__u8 sender[6]; /* MAC address that it came from, where rules ask for that */
	__u8 pad;
};

#define WITNESS_TAGGED 0x10000

/*
 * Outer packets of a tunnel are witnessed, too: firewall and routes decide about them by themselves, and as rules know
 * marks and can look inside, about those of each flow in it. In place of a flow's entry, whose address begins with
 * other bits, there is the tunnel's device with what tells the flow.
 */
#define WITNESS_TUNNEL_IN 2
#define WITNESS_TUNNEL_OUT 3

static __always_inline void tunnel_flow(struct witnessed_key *key, __u32 tunnel, __u32 direction, __u8 tos, __u8 ttl,
					__u64 flow)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->conntrack = tunnel | (flow >> 33) << 32;
	key->direction = direction | tos << 8 | ttl << 16 | flow << 32;
}

/*
 * A flow that connection tracking does not see. All by which its packets are told apart is in the key: whoever sends
 * from elsewhere, or another protocol, asks for another flow. The caller writes the addresses.
 */
#define WITNESS_UNTRACKED 4
#define UNTRACKED_FLOW 1 /* its fingerprint; that of an entry is one only by chance, and its key another */

static __always_inline void untracked_flow(struct witnessed_key *key, __u32 ingress, __u8 v6, __u8 protocol, __u8 tos,
					   __be16 from_port, __be16 to_port)
{
	key->conntrack = ingress | (__u64)from_port << 32 | (__u64)to_port << 48;
	key->direction = WITNESS_UNTRACKED | tos << 8 | (__u64)protocol << 16 | (__u64)v6 << 24;
}

/*
 * Of a tunnel with many ends there is an entry for each flow that comes in from one, and type of service. Source port
 * and TTL are compared: who sends others cannot fill the table with them.
 */
static __always_inline __u32 port_print(__be16 port)
{
	return 0x10000 | port;
}

/* Whether a flow has been asked for and not been seen since. */
static __always_inline int awaits_answer(const struct witnessed *seen)
{
	return seen->seen_ns < seen->asked_ns;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct witness);
} witnesses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct witnessed_key);
	__type(value, struct witnessed);
} witnessed_flows SEC(".maps");

/* For those who answer: whom to tell. Null most of the time: nothing is asked, or all is answered. */
static __always_inline struct witness *who_asks(void)
{
	__u32 zero = 0;
	struct witness *witness = bpf_map_lookup_elem(&witnesses, &zero);

	__u64 ticks;

	if (!witness || !witness->open)
		return 0;
	ticks = bpf_jiffies64();
	if (witness->looked_ticks != (__u32)ticks)
		witness->looked_ticks = ticks;
	return ticks - witness->asked_ticks > WITNESS_ANSWER_TICKS ? 0 : witness;
}

/* One question less, if it was open; what was seen is noted by whoever calls. */
static __always_inline void answer(struct witness *witness, const struct witnessed *seen)
{
	if (awaits_answer(seen) && witness->open)
		__sync_fetch_and_sub(&witness->open, 1);
}

#endif
