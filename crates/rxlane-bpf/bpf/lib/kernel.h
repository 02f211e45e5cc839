/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The few kernel types that the programs look into, relocated at load time (CO-RE). Written by hand so
 * that a build needs neither a running kernel's BTF nor a generated vmlinux.h.
 */
#ifndef RXLANE_KERNEL_H
#define RXLANE_KERNEL_H

#define CORE __attribute__((preserve_access_index))

struct net {
	__u64 net_cookie;
} CORE;

typedef struct {
	struct net *net;
} CORE possible_net_t;

struct rtnl_link_ops {
	const char *kind;
} CORE;

enum netdev_priv_flags {
	IFF_BRIDGE_PORT = 1 << 9,
	IFF_TEAM_PORT = 1 << 13,
};

struct Qdisc {
	void *enqueue; /* a function; none where nothing waits (noqueue) */
} CORE;

struct netdev_queue {
	struct Qdisc *qdisc;
	unsigned long state;
} CORE;

/* include/linux/netdevice.h: a driver whose ring is full has switched it off, or what byte queue limits allow is under
 * way. */
#define TX_QUEUE_IS_OFF 3UL

/* include/linux/netdevice.h, enum netdev_state_t: the first since Linux 2.6. */
#define LINK_STATE_START (1UL << 0)
#define LINK_STATE_NOCARRIER (1UL << 2)

struct net_device {
	int ifindex;
	unsigned int flags;
	unsigned long state;
	struct netdev_queue *_tx;
	unsigned short type; /* of its link: ARPHRD_* */
	unsigned int priv_flags; /* since Linux 6.11 a field of bits, at the same place */
	const struct rtnl_link_ops *rtnl_link_ops;
	possible_net_t nd_net;
} CORE;

struct sk_buff {
	struct net_device *dev;
	unsigned long _nfct;
	int skb_iif;
	__be16 protocol;
	__u16 vlan_tci;
	__u32 vlan_all; /* since Linux 6.2; before it */
	__u8 vlan_present : 1;
	__u8 pkt_type : 3;
	__u16 network_header;
	__u16 mac_header;
	unsigned int tail;
	unsigned char *head;
	unsigned char *data;
	__u8 active_extensions;
} CORE;

/* Which extensions an skb can have depends on the kernel's configuration, and with it their numbers. */
enum skb_ext_id {
	SKB_EXT_SEC_PATH = 1,
};

struct napi_struct {
	unsigned long state;
	struct net_device *dev;
} CORE;

/* The enum has no name that could be looked up; this has been its first since Linux 2.6.24. */
#define NAPIF_STATE_SCHED 1UL
#define NAPIF_STATE_NO_BUSY_POLL (1UL << 5)
#define NAPIF_STATE_THREADED (1UL << 8)

struct sched_info {
	unsigned long long run_delay;
} CORE;

struct task_struct {
	int pid;
	struct sched_info sched_info;
} CORE;

struct xdp_cpumap_stats;

union nf_inet_addr {
	__u32 all[4];
	__be32 ip;
	__be32 ip6[4];
} CORE;

union nf_conntrack_man_proto {
	__be16 all;
} CORE;

struct nf_conntrack_man {
	union nf_inet_addr u3;
	union nf_conntrack_man_proto u;
	__u16 l3num;
} CORE;

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
	struct {
		union nf_inet_addr u3;
		union {
			__be16 all;
		} u;
		__u8 protonum;
	} dst;
} CORE;

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
} CORE;

struct ip_ct_tcp_state {
	__u8 flags;
} CORE;

struct ip_ct_tcp {
	struct ip_ct_tcp_state seen[2];
	__u8 state;
} CORE;

struct nf_ct_udp {
	unsigned long stream_ts;
} CORE;

union nf_conntrack_proto {
	struct ip_ct_tcp tcp;
	struct nf_ct_udp udp;
} CORE;

/* What only some connections have; which numbers these are depends on the kernel's configuration. */
enum nf_ct_ext_id {
	NF_CT_EXT_TIMEOUT = 5,
};

struct nf_ct_ext {
	__u8 offset[1];
} CORE;

struct nf_ct_timeout {
	char data[0]; /* ticks by state: enum tcp_conntrack, enum udp_conntrack */
} CORE;

struct nf_conn {
	__u32 timeout;
	struct nf_conntrack_tuple_hash tuplehash[2];
	unsigned long status;
	__u32 mark;
	struct nf_ct_ext *ext;
	union nf_conntrack_proto proto;
} CORE;

/* include/uapi/linux/netfilter/nf_conntrack_common.h: part of the kernel's interface, hence constant. */
#define IPS_SEEN_REPLY (1UL << 1)
#define IPS_ASSURED (1UL << 2)
#define IPS_CONFIRMED (1UL << 3)
#define IPS_SRC_NAT (1UL << 4)
#define IPS_DST_NAT (1UL << 5)
#define IPS_SEQ_ADJUST (1UL << 6)
#define IPS_DYING (1UL << 9)
#define IPS_HELPER (1UL << 13)
/* include/uapi/linux/netfilter/nf_conntrack_tcp.h */
#define TCP_CONNTRACK_ESTABLISHED 3
#define TCP_CONNTRACK_CLOSE 8
#define TCP_CONNTRACK_RETRANS 12
#define TCP_CONNTRACK_UNACK 13
#define IP_CT_TCP_FLAG_BE_LIBERAL 8
#define IP_CT_TCP_FLAG_DATA_UNACKNOWLEDGED 16
/* include/net/netfilter/nf_conntrack_l4proto.h */
#define UDP_CT_UNREPLIED 0
#define UDP_CT_REPLIED 1

/* The first 12 bytes, which every kernel since 6.0 accepts (net/netfilter/nf_conntrack_bpf.c). */
struct bpf_ct_opts___rxlane {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir;
	__u8 reserved[2];
};

extern struct nf_conn *bpf_xdp_ct_lookup(struct xdp_md *ctx, struct bpf_sock_tuple *tuple, __u32 tuple_len,
					 struct bpf_ct_opts___rxlane *opts, __u32 opts_len) __ksym __weak;
extern void bpf_ct_release(struct nf_conn *ct) __ksym __weak;
extern int bpf_ct_change_timeout(struct nf_conn *ct, __u32 timeout_ms) __ksym __weak;
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

#endif
