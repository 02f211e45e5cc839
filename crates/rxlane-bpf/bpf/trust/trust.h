/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who may pass by the firewall. "Established" asks the kernel's own connection tracking, and takes over
 * its address translation: a flow under NAT leaves translated or through the stack, never as it came.
 */
#ifndef RXLANE_TRUST_H
#define RXLANE_TRUST_H

enum verdict {
	TRUSTED,
	UNTRUSTED,
	TO_STACK_TCP,
	TO_STACK_NAT,
	TO_STACK_UNSEEN,
	TO_STACK_OBJECTION,
	UNTRACKED, /* connection tracking does not see it; the witness is to be asked */
};

/* What the route back to the source of a packet must be. */
enum source {
	SOURCE_ROUTED, /* any: its interface has rp_filter = 0 or 2 */
	SOURCE_STRICT, /* through the interface that it came from: rp_filter = 1, or trust in its address */
	/*
	 * Not asked: IPv6, for which Linux has no such rule, and flows that Linux was seen to forward where rp_filter =
	 * 0. Elsewhere the way back may have become another one since.
	 */
	SOURCE_ANY,
};

const volatile __u32 any_conntrack = 0;

/* Classes that trust the source, one bit each. */
PREFIX_MAP(trust4, struct lpm4, __u32);
PREFIX_MAP(trust6, struct lpm6, __u32);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gates);
} gates SEC(".maps");

static __always_inline const struct gates *find_gates(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&gates, &zero);
}

/* The daemon follows what surrounds the router. Without it nobody does, and what it found once holds no longer. */
#define WATCHED_NS 10000000000LL

static __always_inline int is_watched_at(const struct gates *g, __u64 now)
{
	return (__s64)(now - g->watched_ns) < WATCHED_NS;
}

static __always_inline int is_watched(const struct gates *g)
{
	return is_watched_at(g, bpf_ktime_get_coarse_ns());
}

/* Not trusted, for those who ask why. */
static __always_inline int distrust(struct departure *t, __u8 why)
{
	t->distrust = why;
	return UNTRUSTED;
}

static __always_inline int trusted_prefix(const struct packet *p, __u32 class)
{
	__u32 *classes;

	if (!p->v6) {
		struct lpm4 key = {.len = 32, .address = p->ip4->saddr};
		classes = bpf_map_lookup_elem(&trust4, &key);
	} else {
		struct lpm6 key = {.len = 128};
		__builtin_memcpy(key.address, &p->ip6->saddr, 16);
		classes = bpf_map_lookup_elem(&trust6, &key);
	}
	return classes && (*classes & (1 << (class & 7))) ? TRUSTED : UNTRUSTED;
}

/* The packet leaves as the mirror image of the other direction's tuple (nf_nat_packet). */
#define TRANSLATE(t, other, v4)                                          \
	do {                                                             \
		(t)->nat.src_port = (other)->dst.u.all;                  \
		(t)->nat.dst_port = (other)->src.u.all;                  \
		if (v4) {                                                \
			(t)->nat.src_ip.ip4 = (other)->dst.u3.ip;        \
			(t)->nat.dst_ip.ip4 = (other)->src.u3.ip;        \
		} else {                                                 \
			(t)->nat.src_ip.ip6[0] = (other)->dst.u3.ip6[0]; \
			(t)->nat.src_ip.ip6[1] = (other)->dst.u3.ip6[1]; \
			(t)->nat.src_ip.ip6[2] = (other)->dst.u3.ip6[2]; \
			(t)->nat.src_ip.ip6[3] = (other)->dst.u3.ip6[3]; \
			(t)->nat.dst_ip.ip6[0] = (other)->src.u3.ip6[0]; \
			(t)->nat.dst_ip.ip6[1] = (other)->src.u3.ip6[1]; \
			(t)->nat.dst_ip.ip6[2] = (other)->src.u3.ip6[2]; \
			(t)->nat.dst_ip.ip6[3] = (other)->src.u3.ip6[3]; \
		}                                                        \
	} while (0)

static __always_inline __u32 fingerprint(const struct nf_conn *ct)
{
	const struct nf_conntrack_tuple *flow = &ct->tuplehash[0].tuple;
	__u64 h = (__u64)flow->src.u.all << 32 | (__u32)flow->dst.u.all << 16 | flow->dst.protonum;

	/* Rules may ask for the mark, which whoever classifies connections changes later. */
	h += (__u64)mark_of(ct) << 40 | mark_of(ct) >> 24;
	h = (h ^ ((__u64)flow->src.u3.all[0] << 32 | flow->dst.u3.all[0])) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ h >> 32 ^ ((__u64)flow->src.u3.all[1] << 32 | flow->dst.u3.all[1])) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ h >> 32 ^ ((__u64)flow->src.u3.all[2] << 32 | flow->dst.u3.all[2])) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ h >> 32 ^ ((__u64)flow->src.u3.all[3] << 32 | flow->dst.u3.all[3])) * 0x9e3779b97f4a7c15ULL;
	return (h >> 32) | 1;
}

static __always_inline int is_same_mac(const __u8 *a, const __u8 *b)
{
	UNROLLED
	for (int i = 0; i < ETH_ALEN; i++)
		if (a[i] != b[i])
			return 0;
	return 1;
}

/* As the witness notes the next hop of what has none with an address. */
static __always_inline int is_nobody(const __u8 *mac)
{
	return !(mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5]);
}

/* What is asked of the witness, here and not on the stack, which functions that call each other share. */
struct question {
	struct witnessed_key key;
	struct witnessed ask;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct question);
} questions SEC(".maps");

static __always_inline struct question *new_question(void)
{
	__u32 zero = 0;
	struct question *question = bpf_map_lookup_elem(&questions, &zero);

	if (question)
		__builtin_memset(&question->key, 0, sizeof(question->key));
	return question;
}

/* Calls the daemon, which has the witness look (rxlane-dataplane/src/sentry.rs), unless he was seen to look or was
 * called just now. */
static __always_inline void call_witness(struct witness *witness, __u32 ticks)
{
	struct unmarked *call;

	if (ticks - witness->looked_ticks < WITNESS_AT_WORK_TICKS ||
	    ticks - witness->called_ticks < WITNESS_AT_WORK_TICKS)
		return;
	witness->called_ticks = ticks;
	call = bpf_ringbuf_reserve(&unmarked, sizeof(*call), 0);
	if (!call)
		return;
	__builtin_memset(call, 0, sizeof(*call));
	call->v6 = CALLS_WITNESS;
	bpf_ringbuf_submit(call, 0);
}

/* Somebody asks, `again` for what has no answer yet: whatever was counted, the witness must look. */
static __always_inline void want_answer(struct witness *witness, __u32 again)
{
	__u64 ticks = bpf_jiffies64();

	if (ticks - witness->asked_ticks > WITNESS_ANSWER_TICKS)
		witness->open = 0;
	witness->asked_ticks = ticks;
	call_witness(witness, ticks);
	if (!again || !witness->open)
		__sync_fetch_and_add(&witness->open, 1);
}

/* What Linux was lately seen to do with packets as it would with this one, or null: then it is asked for. */
static __always_inline struct witnessed *witnessed(struct question *question, __u32 flow, __u32 ingress, __u8 tos,
						   __u8 ttl)
{
	struct witness *witness;
	struct witnessed *seen;
	__u32 zero = 0, again;
	__u64 now;

	now = bpf_ktime_get_coarse_ns();
	witness = bpf_map_lookup_elem(&witnesses, &zero);
	if (!witness)
		return 0;
	seen = bpf_map_lookup_elem(&witnessed_flows, &question->key);
	again = seen && awaits_answer(seen);
	if (seen && seen->flow == flow && seen->ingress == ingress && seen->tos == tos &&
	    (seen->ttl == ttl || !seen->ttl) && seen->generation == witness->generation) {
		/* The coarse clock may be a tick behind that of the witness. */
		__s64 age = now - seen->seen_ns;

		if (seen->seen_ns && age < WITNESS_STALE_NS &&
		    (age < WITNESS_FRESH_NS || now - seen->asked_ns < WITNESS_ASK_NS))
			return seen;
		seen->asked_ns = now;
	} else {
		struct witnessed *ask = &question->ask;

		ask->flow = flow;
		ask->asked_ns = now;
		ask->generation = witness->generation;
		ask->ingress = ingress;
		ask->tos = tos;
		ask->ttl = ttl;
		bpf_map_update_elem(&witnessed_flows, &question->key, ask, BPF_ANY);
	}
	want_answer(witness, again);
	return 0;
}

/*
 * Whether somebody may ask for an untracked flow that has no second packet yet. Who sends one packet each of thousands
 * of flows would have the witness at work for all, and others' flows forgotten.
 */
static __always_inline int may_ask_for_new(struct core *core)
{
	__u64 now;

	if (core->place)
		return 1;
	now = bpf_ktime_get_coarse_ns();
	if (now == core->asked_ns)
		return 0;
	core->asked_ns = now;
	return 1;
}

/*
 * Whether Linux was seen to forward the flow; -1 if it was, and a rule is to see each of its packets. A function of its
 * own, which the verifier follows once.
 */
__noinline int is_witnessed(struct core *core)
{
	struct question *question;
	struct witnessed_key *key;
	const struct gates *g;
	struct witnessed *seen;
	struct departure *t;
	int by_sender;

	if (!core || !any_conntrack)
		return 0;
	t = &core->departure;
	question = new_question();
	if (!question)
		return 0;
	key = &question->key;
	if (t->conntrack) {
		key->conntrack = t->conntrack;
		key->direction = t->direction | t->tos << 8;
	} else {
		const struct parsed_packet *p = &core->packet;

		untracked_flow(key, p->seen_as, p->v6, p->protocol, t->tos, bpf_htons(p->src_port),
			       bpf_htons(p->dst_port));
		if (p->v6) {
			__builtin_memcpy(key->source, core->tuple.ipv6.saddr, 16);
			__builtin_memcpy(key->destination, core->tuple.ipv6.daddr, 16);
		} else {
			key->source[0] = core->tuple.ipv4.saddr;
			key->destination[0] = core->tuple.ipv4.daddr;
		}
		seen = bpf_map_lookup_elem(&witnessed_flows, key);
		t->was_seen = seen && seen->seen_ns;
		if (!seen && !may_ask_for_new(core))
			return 0;
	}
	by_sender = (g = find_gates()) && g->by_sender;
	if (by_sender) {
		seen = bpf_map_lookup_elem(&witnessed_flows, key);
		/* Whoever speaks from another address takes nothing from the flow that has been seen. */
		if (seen && seen->seen_ns && !is_same_mac(seen->sender, core->sender) &&
		    (__s64)(bpf_ktime_get_coarse_ns() - seen->seen_ns) < WITNESS_FRESH_NS)
			return 0;
	}
	seen = witnessed(question, t->flow, core->packet.seen_as, t->tos, t->ttl);
	if (by_sender && !seen) {
		seen = bpf_map_lookup_elem(&witnessed_flows, key);
		if (seen)
			__builtin_memcpy(seen->sender, core->sender, ETH_ALEN);
		return 0;
	}
	if (!seen || (by_sender && !is_same_mac(seen->sender, core->sender)))
		return 0;
	if (seen->kept)
		return -1;
	t->egress = seen->egress;
	t->tag = seen->tag;
	__builtin_memcpy(t->next_hop, seen->next_hop, ETH_ALEN);
	return 1;
}

/* Whether Linux was lately seen to take packets of the tunnel that have such an outer header, from the same device. */
__noinline int entry_is_witnessed(struct core *core)
{
	struct question *question;
	struct witnessed_key *key;
	const struct witnessed *seen;
	const struct outer *outer;

	if (!core || !any_conntrack)
		return 0;
	outer = &core->came_in;
	question = new_question();
	if (!question)
		return 0;
	key = &question->key;
	if (!outer->remote) {
		tunnel_flow(key, outer->tunnel, WITNESS_TUNNEL_IN, outer->tos, outer->ttl, 0);
		return witnessed(question, outer->tunnel, outer->device, outer->tos, outer->ttl) != 0;
	}
	tunnel_flow(key, outer->tunnel, WITNESS_TUNNEL_IN, outer->tos, 0, outer->flow);
	/* Whoever sends the flow with another header takes nothing from it that has been seen. */
	seen = bpf_map_lookup_elem(&witnessed_flows, key);
	if (seen && seen->seen_ns && (seen->flow != port_print(outer->port) || seen->ttl != outer->ttl) &&
	    (__s64)(bpf_ktime_get_coarse_ns() - seen->seen_ns) < WITNESS_FRESH_NS)
		return 0;
	return witnessed(question, port_print(outer->port), outer->device, outer->tos, outer->ttl) != 0;
}

/* Whether Linux was lately seen to send packets of this flow in the tunnel by the way that `core` has for this one. */
__noinline int exit_is_witnessed(struct core *core)
{
	struct question *question;
	struct witnessed_key *key;
	struct witnessed *seen;
	struct outer *outer;
	__u32 zero = 0, again;
	struct witness *witness;
	__u64 now;

	if (!core || !any_conntrack)
		return 0;
	outer = &core->leaves;
	question = new_question();
	if (!question)
		return 0;
	key = &question->key;
	tunnel_flow(key, outer->tunnel, WITNESS_TUNNEL_OUT, outer->tos, outer->ttl, hash_of(&core->inner));
	seen = witnessed(question, outer->tunnel, 0, outer->tos, outer->ttl);
	if (!seen)
		return 0;
	if (seen->egress == outer->device && seen->tag == outer->tag &&
	    is_same_mac(seen->next_hop, core->outer_hop.to)) {
		/* Linux draws it by a hash of its own. What leaves with the same one stays in order on the way. */
		if (outer->port)
			outer->port = seen->port;
		return 1;
	}
	/* The way is another one now. Linux is asked for it again, and not for each packet. */
	witness = bpf_map_lookup_elem(&witnesses, &zero);
	now = bpf_ktime_get_coarse_ns();
	if (witness && now - seen->asked_ns > WITNESS_ASK_NS) {
		again = awaits_answer(seen);
		seen->asked_ns = now;
		want_answer(witness, again);
	}
	return 0;
}

static __always_inline int judge(struct nf_conn *ct, struct departure *t, const struct gates *g,
				 struct tracker_scratch *scratch)
{
	unsigned long status = ct->status;
	__u8 direction = scratch->opts.dir;

	/* Until both directions were seen, each packet is a new one to the firewall, with its limits for new ones. */
	if (!(status & IPS_CONFIRMED) || !(status & IPS_SEEN_REPLY) || (status & IPS_DYING))
		return distrust(t, DISTRUST_ONE_WAY);
	if (status & (IPS_HELPER | IPS_SEQ_ADJUST))
		return TO_STACK_NAT;
	if (scratch->protocol == IPPROTO_TCP) {
		struct tcp_connection *tcp;
		__u64 now;

		if (ct->proto.tcp.state != TCP_CONNTRACK_ESTABLISHED || !(status & IPS_ASSURED))
			return TO_STACK_TCP;
		tcp = find_tcp(ct, scratch);
		now = bpf_ktime_get_coarse_ns();
		if (!tcp)
			return TO_STACK_TCP;
		tcp->shut[!!direction] = t->shuts;
		scratch->shut = tcp->shut[0] | tcp->shut[1];
		if (!ignores_window(ct, g, tcp, scratch, now))
			return TO_STACK_TCP;
		/* Data to somebody who has said nothing for so long are sent again, to nobody. */
		scratch->unacknowledged = t->has_data && now - tcp->heard_ns[!direction] > ACKNOWLEDGED_NS;
		tcp->heard_ns[!!direction] = now;
	} else {
		unsigned long *stream_ts = &scratch->stream_ts;

		/* Of a stream since two seconds after its first answer, by the first packet that the tracker sees then.
		 * The time is copied, as flags are above. */
		scratch->is_stream = (status & IPS_ASSURED) != 0;
		if (!(status & IPS_ASSURED) &&
		    (bpf_core_read(stream_ts, sizeof(*stream_ts), &ct->proto.udp.stream_ts) ||
		     (__s64)(bpf_jiffies64() - *stream_ts) > 0))
			return TO_STACK_UNSEEN;
	}
	find_lifetime(ct, g, scratch);
	if (!keep_alive(ct, scratch))
		return scratch->protocol == IPPROTO_TCP ? TO_STACK_TCP : TO_STACK_UNSEEN;
	t->flow = fingerprint(ct);
	t->conntrack = (__u64)(unsigned long)ct;
	t->direction = direction;
	if (status & (IPS_SRC_NAT | IPS_DST_NAT)) {
		if (direction == 0)
			TRANSLATE(t, &ct->tuplehash[1].tuple, scratch->v4);
		else
			TRANSLATE(t, &ct->tuplehash[0].tuple, scratch->v4);
		t->nat.translated = 1;
	}
	return TRUSTED;
}

/*
 * What conntrack says of the flow of TCP or UDP that `core` has the tuple of. A function of its own, which the verifier
 * follows once and not for every class and every way in which a packet can have been parsed.
 */
__noinline int established(struct xdp_md *ctx, struct core *core)
{
	const struct gates *g = find_gates();
	struct tracker_scratch *scratch;
	struct bpf_sock_tuple *tuple;
	struct departure *t;
	struct nf_conn *ct;
	__u8 protocol;
	__u32 zero = 0;
	int verdict;

	/* Asked here, which the verifier follows once, and not for each class: that was 230,000 instructions of
	 * Linux 6.1. */
	if (!core)
		return UNTRUSTED;
	t = &core->departure;
	tuple = &core->tuple;
	protocol = core->packet.protocol;
	if (!g)
		return distrust(t, DISTRUST_NO_FLOW);
	if (g->untracked)
		return is_watched(g) ? UNTRACKED : TO_STACK_OBJECTION;
	scratch = bpf_map_lookup_elem(&tracker_scratch, &zero);
	if (!scratch || !is_watched(g))
		return TO_STACK_OBJECTION;
	scratch->protocol = protocol;
	scratch->v4 = !core->packet.v6;
	__builtin_memset(&scratch->opts, 0, sizeof(scratch->opts));
	scratch->opts.netns_id = BPF_F_CURRENT_NETNS;
	scratch->opts.l4proto = protocol;
	/* Asked before the tracker is, which takes longer. */
	if (protocol == IPPROTO_TCP && !g->tcp)
		return TO_STACK_TCP;
	/*
	 * The loader sets it only where the kfuncs are there; without them the calls below are dead code, and nobody is
	 * trusted. Asking for their addresses instead (bpf_ksym_exists) is what Linux 6.1 refuses.
	 */
	if (!any_conntrack)
		return UNTRUSTED;
	if (scratch->v4)
		ct = bpf_xdp_ct_lookup(ctx, tuple, sizeof(tuple->ipv4), &scratch->opts, sizeof(scratch->opts));
	else
		ct = bpf_xdp_ct_lookup(ctx, tuple, sizeof(tuple->ipv6), &scratch->opts, sizeof(scratch->opts));
	if (!ct)
		return UNTRACKED;
	verdict = judge(ct, t, g, scratch);
	bpf_ct_release(ct);
	return verdict;
}

/*
 * A flow that connection tracking does not see. Rules that do not ask for a connection treat all packets of it alike,
 * but for those that the witness knows, so what Linux was seen to do with one it would do with the next. Until then it
 * is as any other's: the class has done nothing for it, nor its rate.
 */
static __always_inline int untracked(struct core *core)
{
	struct departure *t = &core->departure;
	int seen;

	t->conntrack = 0;
	t->flow = UNTRACKED_FLOW;
	seen = is_witnessed(core);
	if (seen > 0)
		return TRUSTED;
	if (seen < 0)
		return TO_STACK_OBJECTION;
	return t->was_seen ? TO_STACK_UNSEEN : distrust(t, DISTRUST_UNSEEN);
}

/* Whether the packet can belong to a flow that is trusted: TRUSTED, UNTRUSTED or TO_STACK_TCP. */
static __always_inline int goes_on(const struct packet *p, struct departure *t)
{
	/* Ports of later fragments are unknown, and only TCP and UDP can be looked up. */
	if (!p->l4 || p->fragment || (p->protocol != IPPROTO_TCP && p->protocol != IPPROTO_UDP))
		return UNTRUSTED;
	if (p->protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = p->l4;

		if ((void *)(tcp + 1) > p->data_end)
			return UNTRUSTED;
		/*
		 * The tracker must see a connection open and close, and what it calls invalid (tcp_error in
		 * net/netfilter/nf_conntrack_proto_tcp.c). A window that is shut is noted, which takes a look at the
		 * connection.
		 */
		if (tcp->syn || tcp->fin || tcp->rst || !tcp->ack || (!t && !tcp->window) || tcp->doff < 5 ||
		    tcp->doff * 4 > p->l4_len)
			return TO_STACK_TCP;
		if (t) {
			t->has_data = tcp->doff * 4 < p->l4_len;
			t->shuts = !tcp->window;
		}
	} else {
		struct udphdr *udp = p->l4;

		if ((void *)(udp + 1) > p->data_end || bpf_ntohs(udp->len) < sizeof(*udp) ||
		    bpf_ntohs(udp->len) > p->l4_len)
			return UNTRUSTED;
	}
	return TRUSTED;
}

static __always_inline int trusted_flow(struct xdp_md *ctx, const struct packet *p, struct core *core)
{
	const struct gates *g;
	struct bpf_sock_tuple *tuple;
	struct departure *t;
	int ret;

	/* Else the addresses of all that is written here would be on the stack while classes are gone through. */
	barrier_var(core);
	t = &core->departure;
	tuple = &core->tuple;
	ret = goes_on(p, t);
	if (ret == UNTRUSTED)
		return distrust(t, DISTRUST_PROTOCOL);
	if (ret != TRUSTED)
		return ret;
	if (!p->v6) {
		t->tos = p->ip4->tos;
		t->ttl = p->ip4->ttl;
		tuple->ipv4.saddr = p->ip4->saddr;
		tuple->ipv4.daddr = p->ip4->daddr;
		tuple->ipv4.sport = bpf_htons(p->src_port);
		tuple->ipv4.dport = bpf_htons(p->dst_port);
	} else {
		t->tos = p->ip6->priority << 4 | p->ip6->flow_lbl[0] >> 4;
		t->ttl = p->ip6->hop_limit;
		__builtin_memcpy(tuple->ipv6.saddr, &p->ip6->saddr, 16);
		__builtin_memcpy(tuple->ipv6.daddr, &p->ip6->daddr, 16);
		tuple->ipv6.sport = bpf_htons(p->src_port);
		tuple->ipv6.dport = bpf_htons(p->dst_port);
	}
	ret = established(ctx, core);
	if (ret != UNTRACKED)
		return ret;
	g = find_gates();
	if (!g || !g->follows_untracked || classes[class_index(core->asked)].trust != TRUST_FIREWALL)
		return distrust(t, DISTRUST_NO_FLOW);
	return untracked(core);
}

#endif
