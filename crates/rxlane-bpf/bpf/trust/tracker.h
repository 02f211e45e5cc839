/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections keep the life that Linux gives them, although the express lane hides their packets from the tracker: each
 * has as long left as if the tracker had seen them, by its own policy and the sysctls of now, and no window that would
 * be out of date when its packets are the tracker's again.
 */
#ifndef RXLANE_TRACKER_H
#define RXLANE_TRACKER_H

/* Nothing is changed, of packets or of what the kernel knows of them: what would become of them is counted. */
const volatile __u32 observes = 0;

const volatile __u32 kernel_hz = 0; /* ticks a second, 0: unknown */

/* What is known of a TCP connection beside what the tracker knows. */
struct tcp_connection {
	__u64 heard_ns[2]; /* when each direction was looked up last */
	__u64 asked_ns; /* when the daemon was asked to mark it last */
	__u32 packets; /* while it was not marked */
	__u8 shut[2]; /* whose window is */
	__u16 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64); /* address of its entry */
	__type(value, struct tcp_connection);
} tcp_connections SEC(".maps");

/* Connections that the daemon is to mark, as the tracker names them: the original direction. */
struct unmarked {
	__be32 source[4], destination[4]; /* the first words, if IPv4 */
	__be16 from_port, to_port;
	__u32 v6;
};
/* In place of `v6`: none of these, but somebody asks the witness. */
#define CALLS_WITNESS 2

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} unmarked SEC(".maps");

/* A connection with fewer packets is over before the lane is worth a mark. */
#define UNMARKED_PACKETS 8
/* Between two questions for the same connection. */
#define MARK_AGAIN_NS 250000000ULL
#define UNACKNOWLEDGED_AGAIN_NS 20000000000ULL
/* Data are acknowledged sooner than this, or sent again. */
#define ACKNOWLEDGED_NS 500000000ULL

/* Here and not on the stack, which functions that call each other share. */
struct tracker_scratch {
	struct unmarked unmarked;
	struct tcp_connection nobody; /* always zero */
	__u64 address;
	unsigned long stream_ts;
	const void *policy;
	__u32 ticks;
	__u8 flags[2], at;
	/* Of the packet in hand. */
	__u8 protocol, v4, is_stream, unacknowledged, shut;
	__u32 ms, close_ms, unacknowledged_ms, retransmitted_ms;
	struct bpf_ct_opts___rxlane opts;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tracker_scratch);
} tracker_scratch SEC(".maps");

static __always_inline void want_mark(const struct nf_conntrack_tuple *t, struct tracker_scratch *scratch)
{
	__u32 v4 = scratch->v4;
	struct unmarked *key = &scratch->unmarked;

	key->v6 = !v4;
	key->from_port = t->src.u.all;
	key->to_port = t->dst.u.all;
	UNROLLED
	for (int i = 0; i < 4; i++) {
		key->source[i] = !i || !v4 ? t->src.u3.all[i] : 0;
		key->destination[i] = !i || !v4 ? t->dst.u3.all[i] : 0;
	}
	/* One that finds no room asks again. */
	bpf_ringbuf_output(&unmarked, key, sizeof(*key), 0);
}

static __always_inline struct tcp_connection *find_tcp(const struct nf_conn *ct, struct tracker_scratch *scratch)
{
	struct tcp_connection *tcp;

	scratch->address = (__u64)(unsigned long)ct;
	tcp = bpf_map_lookup_elem(&tcp_connections, &scratch->address);
	if (tcp)
		return tcp;
	bpf_map_update_elem(&tcp_connections, &scratch->address, &scratch->nobody, BPF_ANY);
	return bpf_map_lookup_elem(&tcp_connections, &scratch->address);
}

/*
 * Whether the tracker lets segments of the connection pass that it has not seen the ones before of. Else the daemon is
 * asked to mark the connection, as flowtables of the kernel do (net/netfilter/nf_flow_table_core.c), if it can.
 */
static __always_inline int ignores_window(const struct nf_conn *ct, const struct gates *g, struct tcp_connection *tcp,
					  struct tracker_scratch *scratch, __u64 now)
{
	__u8 *flags = scratch->flags;
	__u64 again = MARK_AGAIN_NS;
	int marked;

	/* Copied: in a union Linux 6.1 finds another protocol's member at that place. */
	if (bpf_core_read(&flags[0], 1, &ct->proto.tcp.seen[0].flags) ||
	    bpf_core_read(&flags[1], 1, &ct->proto.tcp.seen[1].flags))
		return 0;
	marked = (flags[0] & flags[1] & IP_CT_TCP_FLAG_BE_LIBERAL) != 0;
	if (!(g->tcp & TCP_MARKED))
		return marked || g->tcp & TCP_LIBERAL;
	if (observes)
		return 1;
	if (marked) {
		/* Whose acknowledgement the tracker has not seen, and never will: it would forget the connection early.
		 */
		if (!((flags[0] | flags[1]) & IP_CT_TCP_FLAG_DATA_UNACKNOWLEDGED))
			return 1;
		again = UNACKNOWLEDGED_AGAIN_NS;
	} else if (tcp->packets < UNMARKED_PACKETS) {
		tcp->packets++;
		return 0;
	}
	/* Asked at one place: as a function of its own it would have a part of the stack of its own. */
	if (now - tcp->asked_ns > again) {
		tcp->asked_ns = now;
		want_mark(&ct->tuplehash[0].tuple, scratch);
	}
	return marked;
}

/* Timeouts that a rule gave the connection, in ticks by state, or null: those of the sysctls. */
static __always_inline const void *policy_of(const struct nf_conn *ct, struct tracker_scratch *scratch)
{
	const struct nf_ct_ext *ext = ct->ext;

	if (!bpf_core_enum_value_exists(enum nf_ct_ext_id, NF_CT_EXT_TIMEOUT) ||
	    !bpf_core_type_exists(struct nf_ct_timeout) || !ext)
		return 0;
	if (bpf_probe_read_kernel(&scratch->at, sizeof(scratch->at),
				  (const void *)ext + bpf_core_field_offset(struct nf_ct_ext, offset) +
					  bpf_core_enum_value(enum nf_ct_ext_id, NF_CT_EXT_TIMEOUT)) ||
	    !scratch->at)
		return 0;
	if (bpf_probe_read_kernel(&scratch->policy, sizeof(scratch->policy), (const void *)ext + scratch->at) ||
	    !scratch->policy)
		return 0;
	return scratch->policy + bpf_core_field_offset(struct nf_ct_timeout, data);
}

static __always_inline __u64 to_ticks(__u32 ms)
{
	return (__u64)ms * kernel_hz / 1000;
}

/* More would be for ever to the kernel (msecs_to_jiffies). */
static __always_inline __u32 at_most(__u64 ms)
{
	return ms > 0x7fffffff ? 0x7fffffff : ms;
}

/* What a policy says of a state, ms. */
static __always_inline __u32 of_policy(const void *policy, __u32 state, struct tracker_scratch *scratch)
{
	__u32 *ticks = &scratch->ticks;

	if (!kernel_hz || bpf_probe_read_kernel(ticks, sizeof(*ticks), policy + state * sizeof(*ticks)))
		return 0;
	return at_most((__u64)*ticks * 1000 / kernel_hz);
}

/* What Linux would leave a connection after this packet, into `scratch`. */
static __always_inline void find_lifetime(const struct nf_conn *ct, const struct gates *g,
					  struct tracker_scratch *scratch)
{
	const struct timeouts *all = &g->timeouts;
	const void *policy = policy_of(ct, scratch);

	scratch->close_ms = 0;
	if (scratch->protocol != IPPROTO_TCP) {
		scratch->ms = scratch->is_stream ? all->udp_stream : all->udp;
		if (policy)
			scratch->ms =
				of_policy(policy, scratch->is_stream ? UDP_CT_REPLIED : UDP_CT_UNREPLIED, scratch);
		return;
	}
	scratch->ms = all->tcp_established;
	scratch->close_ms = all->tcp_close;
	scratch->unacknowledged_ms = all->tcp_unacknowledged;
	scratch->retransmitted_ms = all->tcp_retransmitted;
	if (policy) {
		scratch->ms = of_policy(policy, TCP_CONNTRACK_ESTABLISHED, scratch);
		scratch->close_ms = of_policy(policy, TCP_CONNTRACK_CLOSE, scratch);
		scratch->unacknowledged_ms = of_policy(policy, TCP_CONNTRACK_UNACK, scratch);
		scratch->retransmitted_ms = of_policy(policy, TCP_CONNTRACK_RETRANS, scratch);
	}
	if (scratch->unacknowledged && scratch->unacknowledged_ms < scratch->ms)
		scratch->ms = scratch->unacknowledged_ms;
	if ((scratch->unacknowledged || scratch->shut) && scratch->retransmitted_ms < scratch->ms)
		scratch->ms = scratch->retransmitted_ms;
}

/*
 * Gives the entry as long as the tracker would, if it has half a second more or less. Returns 0 for a connection that
 * the tracker is to see instead.
 */
static __always_inline int keep_alive(struct nf_conn *ct, const struct tracker_scratch *scratch)
{
	__s64 left = (__s32)(ct->timeout - (__u32)bpf_jiffies64()), wanted = to_ticks(scratch->ms);
	__s64 closed = to_ticks(scratch->close_ms);

	if (observes)
		return 1;
	if (!scratch->ms)
		return 0;
	/*
	 * A RST came by, which the tracker believes and whose connection is over, or a forged one. What is still under
	 * way leaves the entry as it is; what comes two seconds later decides with the tracker.
	 */
	if (closed && closed < wanted && left <= closed)
		return left > closed - 2 * (__s64)kernel_hz;
	if (!kernel_hz || left < wanted - kernel_hz / 2 || left > wanted + kernel_hz / 2)
		bpf_ct_change_timeout(ct, scratch->ms);
	return 1;
}

/* The mark of the connection; 0 where the kernel has none. */
static __always_inline __u32 mark_of(const struct nf_conn *ct)
{
	return bpf_core_field_exists(ct->mark) ? ct->mark : 0;
}

#endif
