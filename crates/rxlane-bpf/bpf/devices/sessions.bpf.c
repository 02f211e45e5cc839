// SPDX-License-Identifier: GPL-2.0
/*
 * Which ppp device is the end of which PPPoE session. The kernel tells nobody: netlink knows a ppp device but not what
 * is under it, /proc/net/pppoe knows sessions but not whose. Whoever has made one has its channel as an open file of
 * /dev/ppp, so this goes through open files (Documentation/networking/ppp_generic.rst).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "lib/kernel.h"

/* include/linux/socket.h, include/uapi/linux/if_pppox.h */
#define AF_PPPOX 24
#define PX_PROTO_OE 0
#define PPPOX_CONNECTED 1
#define PPPOX_BOUND 2
#define PPPOX_RELAY 4
/* include/uapi/asm-generic/ioctl.h: a question */
#define IOC_DIRECTION(command) ((command) >> 30)
#define IOC_READ 2
/* include/uapi/linux/ppp-ioctl.h */
#define SC_COMP_TCP 0x00000004
#define SC_CCP_UP 0x00000080
#define SC_LOOP_TRAFFIC 0x00000200
#define SC_MULTILINK 0x00000400
#define SC_MUST_COMP 0x02000000
/* major and minor number of /dev/ppp, as the kernel has them in one word */
#define PPP_DEVICE (108U << 20)

/* Since Linux 6.11 what belongs to a device's driver has a name of its own. */
struct net_device___with_priv {
	__u8 priv[0];
} CORE;

struct inode {
	__u32 i_rdev;
} CORE;

struct file {
	struct inode *f_inode;
	void *private_data;
} CORE;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
} CORE;

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
} CORE;

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
} CORE;

struct ppp_channel {
	void *private;
} CORE;

struct pppoe_addr {
	__be16 sid;
	unsigned char remote[6];
} CORE;

struct pppoe_opt {
	struct net_device *dev;
	struct pppoe_addr pa;
} CORE;

struct pppox_sock {
	struct sock sk;
	struct ppp_channel chan;
	union {
		struct pppoe_opt pppoe;
	} proto;
} CORE;

struct ppp_file {
	/* The enum has no name; a number would not be the same type. */
	enum { PPP_INTERFACE = 1, PPP_CHANNEL } kind;
} CORE;

enum NPmode { NPMODE_PASS };

struct ppp;

/* drivers/net/ppp/ppp_generic.c */
struct channel {
	struct ppp_file file;
	struct ppp_channel *chan;
	struct ppp *ppp;
} CORE;

struct ppp {
	int n_channels;
	struct net_device *dev;
	unsigned int flags;
	void *xc_state;
	void *rc_state;
	enum NPmode npmode[2];
	void *pass_filter;
	void *active_filter;
} CORE;

/* What speaks against a session, one bit each. */
#define SESSION_CHANNELS 1
#define SESSION_COMPRESSES 2
#define SESSION_FILTERS 4
#define SESSION_HOLDS_IPV4 8
#define SESSION_HOLDS_IPV6 16
#define SESSION_LOOPS 32

/* A session with its ppp device. */
struct found_session {
	__u32 ifindex;
	__u32 device; /* by which its frames come and go */
	__be16 id;
	__u8 remote[6];
	__u32 against;
};

const volatile __u64 netns_cookie = 0;

static __always_inline __u32 against(const struct ppp *ppp)
{
	__u32 flags = BPF_CORE_READ(ppp, flags), found = 0;
	enum NPmode npmode[2] = {};

	if (BPF_CORE_READ(ppp, n_channels) != 1 || flags & SC_MULTILINK)
		found |= SESSION_CHANNELS;
	if (flags & (SC_COMP_TCP | SC_CCP_UP | SC_MUST_COMP) || BPF_CORE_READ(ppp, xc_state) ||
	    BPF_CORE_READ(ppp, rc_state))
		found |= SESSION_COMPRESSES;
	if (flags & SC_LOOP_TRAFFIC)
		found |= SESSION_LOOPS;
	if (bpf_core_field_exists(ppp->pass_filter) &&
	    (BPF_CORE_READ(ppp, pass_filter) || BPF_CORE_READ(ppp, active_filter)))
		found |= SESSION_FILTERS;
	BPF_CORE_READ_INTO(&npmode, ppp, npmode);
	if (npmode[0] != NPMODE_PASS)
		found |= SESSION_HOLDS_IPV4;
	if (npmode[1] != NPMODE_PASS)
		found |= SESSION_HOLDS_IPV6;
	return found;
}

/* Newer kernels (7.3 is one) find it by where the struct is, which is the driver's part of its device. */
static __always_inline const struct net_device *device_of(const struct ppp *ppp)
{
	if (bpf_core_field_exists(ppp->dev))
		return BPF_CORE_READ(ppp, dev);
	if (bpf_core_field_exists(struct net_device___with_priv, priv))
		return (const void *)ppp - bpf_core_field_offset(struct net_device___with_priv, priv);
	return 0;
}

static __always_inline int is_here(const struct net_device *dev)
{
	return dev && BPF_CORE_READ(dev, nd_net.net, net_cookie) == netns_cookie;
}

SEC("iter/task_file")
int pppoe_sessions(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct found_session found = {};
	struct channel *channel;
	struct ppp_channel *chan;
	struct pppox_sock *sock;
	const struct net_device *dev, *under;
	struct ppp *ppp;
	__u8 state;

	if (!file || BPF_CORE_READ(file, f_inode, i_rdev) != PPP_DEVICE)
		return 0;
	/* Its file is the first thing that a channel has. */
	channel = BPF_CORE_READ(file, private_data);
	if (!channel || BPF_CORE_READ(channel, file.kind) != PPP_CHANNEL)
		return 0;
	ppp = BPF_CORE_READ(channel, ppp);
	chan = BPF_CORE_READ(channel, chan);
	if (!ppp || !chan)
		return 0;
	sock = BPF_CORE_READ(chan, private);
	/* Other channels have something else there: nothing is believed of it before it is what a session would be. */
	if (!sock || (void *)chan != (void *)sock + bpf_core_field_offset(struct pppox_sock, chan) ||
	    BPF_CORE_READ(sock, sk.__sk_common.skc_family) != AF_PPPOX ||
	    BPF_CORE_READ(sock, sk.sk_protocol) != PX_PROTO_OE)
		return 0;
	state = BPF_CORE_READ(sock, sk.__sk_common.skc_state);
	if (!(state & PPPOX_CONNECTED) || !(state & PPPOX_BOUND) || state & PPPOX_RELAY)
		return 0;
	/* Either may be in another namespace, where the other's number means another device. */
	dev = device_of(ppp);
	under = BPF_CORE_READ(sock, proto.pppoe.dev);
	if (!is_here(dev) || !is_here(under))
		return 0;
	found.ifindex = BPF_CORE_READ(dev, ifindex);
	found.device = BPF_CORE_READ(under, ifindex);
	found.id = BPF_CORE_READ(sock, proto.pppoe.pa.sid);
	BPF_CORE_READ_INTO(&found.remote, sock, proto.pppoe.pa.remote);
	found.against = against(ppp);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

/*
 * What was found holds until a session ends or somebody changes one, which is by /dev/ppp: its protocols are opened and
 * closed, filters and compressors set, channels connected. Netlink tells of none of these.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} session_changes SEC(".maps");

static __always_inline int changed(void)
{
	__u32 zero = 0, *times = bpf_map_lookup_elem(&session_changes, &zero);

	if (times)
		__sync_fetch_and_add(times, 1);
	return 0;
}

SEC("fentry/ppp_unregister_channel")
int BPF_PROG(session_ends)
{
	return changed();
}

SEC("fexit/ppp_unregister_channel")
int BPF_PROG(session_ended)
{
	return changed();
}

SEC("fexit/ppp_ioctl")
int BPF_PROG(session_changed, struct file *file, unsigned int command, unsigned long argument, long ret)
{
	return IOC_DIRECTION(command) == IOC_READ ? 0 : changed();
}

/* The same of 32-bit programs, where the kernel runs such. */
SEC("fexit/ppp_compat_ioctl")
int BPF_PROG(session_changed_32, struct file *file, unsigned int command, unsigned long argument, long ret)
{
	return IOC_DIRECTION(command) == IOC_READ ? 0 : changed();
}

char LICENSE[] SEC("license") = "GPL";
