/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the XDP program, the tracing programs and user space share. rxlane-bpf/src/layout/ mirrors these structs;
 * the loader refuses an object whose sizes differ.
 */
#ifndef RXLANE_SHARED_H
#define RXLANE_SHARED_H

#define MAX_CLASSES 8
#define MAX_PORTS 64
#define MAX_RULES 256
#define MAX_PREFIXES 100000
#define RULE_WORDS 4
#define MAX_CORES 64 /* cores of one class's ring */
#define PORT_TABLE 256

/* Serving a class from the stack: what its lane does while the core is guarded. */
enum overload { OVERLOAD_AUTO, OVERLOAD_QUEUE, OVERLOAD_SHED };
enum lane { LANE_STACK, LANE_EXPRESS, LANE_FAST };
enum trust { TRUST_ALL, TRUST_ESTABLISHED, TRUST_PREFIXES, TRUST_FIREWALL };

/* Why a packet was left to the kernel although its class is express, or unclassified. */
enum reason {
	REASON_NOT_IP,
	REASON_NOT_TO_US,
	REASON_MALFORMED,
	REASON_VLAN, /* a tag of no VLAN device that the lane serves, or a port of which nobody knows */
	REASON_OPTIONS,
	REASON_ICMP_ERROR,
	REASON_SPECIAL_ADDRESS,
	REASON_TTL,
	REASON_FRAGMENT,
	REASON_FORWARDING_OFF,
	REASON_NOT_ROUTED, /* local, blackhole, unreachable, prohibit */
	REASON_TUNNEL, /* a route with an encapsulation of its own */
	REASON_NO_NEIGHBOUR,
	REASON_MTU,
	REASON_EGRESS, /* the route leaves through no express port, or where it came from */
	REASON_TCP_CONTROL,
	REASON_NAT,
	REASON_SOURCE, /* the way back to its source does not lead to where it came from */
	REASON_OBJECTION, /* firewall, NAT, marks or policies would be passed by; status names them */
	REASON_UNSEEN, /* Linux was not seen to forward this flow this way, or not lately */
	REASON_UNTRUSTED, /* no stack class below an express class it may not use */
	REASON_SHED, /* dropped: more exceptions in a guarded poll than its share */
	REASON_IDLE, /* not even classified: nothing can be express for now */
	REASON_QDISC, /* it leaves through a port whose queueing discipline is to see it, or whose driver refuses */
	REASON_MASTER, /* the bridge that its port belongs to has not learned its sender there, or is not served */
	REASON_SESSION, /* its session may have changed, or is to be seen in use */
	REASON_CHECKSUM, /* its sender has left the checksum to a device that there is not */
	REASON_NOT_NAMED, /* of a port that is not named itself, and of none of its VLAN devices that are */
	REASON_LOCAL_TCP, /* TCP of a port served at tc ingress, while none on its way is full (local_tcp.h) */
	REASONS,
};

/* Why a class does not trust a packet. */
enum distrust {
	DISTRUST_NONE,
	DISTRUST_PROTOCOL, /* neither TCP nor UDP, or lengths that contradict each other */
	DISTRUST_NO_FLOW, /* connection tracking knows of no such flow */
	DISTRUST_ONE_WAY, /* the flow had no answer yet, or ends */
	DISTRUST_PREFIX, /* its source lies in none of the prefixes */
	DISTRUST_UNSEEN, /* connection tracking sees no such flow, and Linux was not seen to forward it */
};
/* What a step returns for a packet that it leaves to the kernel; below zero. */
#define REFUSED(reason) (-1 - (int)(reason))

/* A port by ifindex: open addressing, PORT_TABLE slots, linear probing of PORT_PROBES. */
#define PORT_PROBES 4
struct port {
	__u32 ifindex; /* of the device that frames come in by */
	__u32 device; /* that device, or the bond that it is a member of */
	__u32 master; /* bridge that the device belongs to, by which its packets come in; 0: none */
	__u32 seen_as; /* the device that Linux notes for what comes in: the bridge, or the device, or the VRF of it */
	__u8 mac[6];
	__u8 slot;
	__u8 flags;
	__u8 lacks_checksums; /* what comes in may have been sent without them */
	__u8 teaches; /* its bridge learns from what comes in where stations are */
	__u8 may_wait; /* what its driver refuses may wait in a qdisc: nobody wants it to be sent to directly */
	__u8 has_bands; /* its qdisc is pfifo_fast, which has a band of its own for what is urgent */
	__u8 at_tc; /* what comes in is served at tc ingress */
	__u8 hands_over; /* what XDP decides there a program at tc ingress does (fast.bpf.c) */
	__u8 pad[2];
};

/* Of a port. */
#define PORT_STRICT 1 /* rp_filter = 1, or 2 without an IPv4 address */
#define PORT_NO_IPV6 2 /* disable_ipv6 = 1 */
#define PORT_LOOSE 8 /* rp_filter = 2, and not strict */
#define PORT_QDISC 16 /* what leaves there leaves by the stack */
#define PORT_HIDES_TAGS \
	4 /* over another device, which has taken VLAN tags out of the frames; or VLAN devices unknown */
#define PORT_OTHER_MACS 128 /* there are macvlan devices over it */
#define PORT_XDP_FRAGS 64 /* its driver sends frames of several pieces */
#define PORT_PRIORITY 32 /* of a tagged packet: its VLAN device gives it a priority */

struct port_table {
	struct port at[PORT_TABLE];
};

/* A device over a port, which takes some of its frames. */
struct device_over {
	__u32 ifindex;
	__u32 seen_as; /* as of a port */
	__u8 flags; /* of a port */
	__u8 priorities; /* whose frames get a priority that an IPv6 packet keeps, one bit for each PCP of the outer tag
			  */
	__u8 unfollowed; /* a tunnel of which nobody sees what Linux takes out of it */
	__u8 pad;
};

struct class_counters {
	__u64 packets;
	__u64 bytes;
	__u64 express; /* redirected by the express lane */
	__u64 fast; /* of XDP: left to the program at tc ingress, to leave through a queueing discipline */
	__u64 passed; /* given to the stack within the poll */
	__u64 queued; /* sent to the class's ring */
	__u64 early_drops; /* shed before an skb existed */
	__u64 policed; /* above the rate: treated as the next class */
	__u64 untrusted; /* not trusted: treated as the next stack class */
	__u64 looked_up; /* of express and fast: what is not of a flow that is known */
};

/* A parsed packet in numbers only. */
struct parsed_packet {
	__u32 length; /* of the frame */
	__u32 ingress;
	__u32 seen_as; /* the device that Linux notes: the ingress, or its VRF; written when that is known */
	__u32 tags;
	__u32 src_port;
	__u32 dst_port;
	__u32 l4_len;
	__u32 ip_bytes; /* of the longest IP packet that leaves as this */
	__u16 merged; /* bytes of payload in each packet that has been merged into this; 0: it is one */
	__u16 vlan;
	__u8 pcp;
	__u8 l3; /* offsets in the frame; l4 is 0 where there are no ports */
	__u8 l4;
	__u8 v6;
	__u8 port;
	__u8 dscp;
	__u8 protocol;
	__u8 fragment;
	__u8 port_flags;
	__u8 control; /* the router itself may have to hear it, and there is something that it could come before */
	__u8 multi_buffer; /* the frame is longer than what can be read of it */
	__u8 may_lack_checksum; /* it came in where packets do that have none, which nobody but the kernel still knows
				 */
	__u8 hands_over; /* as of its port */
};

/* What becomes of addresses and ports. */
struct translation {
	__u16 translated; /* 0: nothing */
	__be16 src_port, dst_port;
	__u16 l4_change; /* what it adds to the sum of TCP or UDP, of a flow that is known */
	union {
		__be32 ip4;
		__be32 ip6[4];
	} src_ip, dst_ip;
};

/* The terms on which a packet may leave: as conntrack wants it, and the way that Linux was seen to send its flow. */
struct departure {
	__u64 conntrack; /* address of the entry */
	__u32 flow; /* fingerprint of the entry, or UNTRACKED_FLOW; 0: conntrack was not asked */
	__u32 egress; /* interface through which it must leave; 0: any */
	__u8 next_hop[6]; /* to whom, if egress is set */
	__u8 direction;
	__u8 tos, ttl; /* as it came */
	__u8 source; /* enum source */
	__u8 distrust; /* enum distrust: why a class did not trust the packet */
	__u8 above_rate; /* of a class */
	__u8 has_data; /* a segment with a payload */
	__u8 shuts; /* a segment that shuts its sender's window */
	__u8 was_seen; /* of an untracked flow: Linux was seen to forward it at some time */
	__u8 pad;
	__u32 tag; /* WITNESS_TAGGED and the outer tag, if egress is set and Linux gave it one */
	struct translation nat;
};

/* What tells flows apart, and packets of a flow that are treated in different ways. */
struct flow_key {
	__be32 source[4], destination[4]; /* the first words, if IPv4 */
	__be16 src_port, dst_port;
	__u32 ingress;
	__u32 first; /* IPv6: traffic class and flow label; IPv4: type of service */
	__u8 ttl;
	__u8 protocol;
	__u8 v6;
	__u8 port_flags;
};

/* Of a packet that the router itself may have to hear. */
struct control_packet {
	__u32 sender; /* a hash of it */
	__u32 v6;
	__be32 source[4], destination[4]; /* the first words, if IPv4 */
};

/* Where a packet leaves. */
struct hop {
	__u32 egress;
	__u32 mtu; /* the longest IP packet, as far as it is known */
	__u8 to[6], from[6];
};

/* The flow of a packet in a tunnel, as it is between the tunnel's ends. */
struct inner_flow {
	__be32 source[4], destination[4]; /* the first of each, if IPv4 */
	__be16 src_port, dst_port;
	__u32 protocol;
	__be32 remote; /* as in struct outer */
	__u32 pad;
} __attribute__((aligned(8)));

/* A packet of a tunnel, as its outer header has it. */
struct outer {
	__u32 tunnel; /* ifindex of the tunnel's device; 0: none */
	__u32 device; /* by which it came in, as Linux notes it, or by which it leaves */
	__u32 tag; /* as in struct witnessed, if it leaves */
	__u8 tos, ttl;
	__be16 flags; /* of fragmentation, if it leaves */
	__u32 length; /* with the outer headers */
	__be32 remote; /* the other end, where a tunnel has many; else 0 */
	__be16 port; /* source port of UDP; 0: none */
	__u8 at; /* bytes before it */
	__u8 summed; /* whether it has a checksum of UDP that is still to be looked at, or written */
	__be16 to_port; /* of UDP, if it came in; 0: none */
	__u8 ours; /* whether it is to the router and comes from where it should, as far as somebody has asked */
	__u8 unfollowed; /* as of a device over others */
	__u64 flow; /* a hash of what a tunnel with many ends carries, if it came in */
};

/*
 * What is done about packets beside serving them: those of this poll are measured, the one in hand is traced, somebody
 * traces.
 */
#define LOOK_SAMPLED 1
#define LOOK_TRACED 2
#define LOOK_ARMED 4

/*
 * One port on one CPU. A NAPI poll is not preempted by another poll on its CPU, so the XDP program and
 * the program that ends the poll take turns on this and need no lock.
 */
/* Of the link of a port (standing.h). */
struct standing {
	__u64 since_ns; /* its driver takes no more, again and again */
	__u64 seen_ns; /* the same, last */
};

struct core {
	__u32 guarded; /* the CPU's guard, as it was at the end of this port's last poll */
	__u32 queue; /* Rx queue of the poll under way and 1; 0: no packet yet */
	__u32 express; /* whether packets of express classes were among them */
	__u32 exceptions; /* packets left to the kernel in this poll */
	__u32 task; /* that polled last, while guarded */
	__u16 asked; /* the class that was looked at last for the packet in hand, or that serves it */
	__u16 reason; /* why the last packet was left to the kernel that was */
	__u64 taken; /* packets of the poll under way, with the one in hand */
	__u64 run_delay_ns; /* how long it had waited for the CPU until then */
	__u64 polls;
	__u64 began_ns; /* the poll under way, if it is sampled (latency.h) */
	__u32 unsampled; /* polls until one is */
	__u32 look; /* LOOK_SAMPLED, LOOK_TRACED, LOOK_ARMED */
	__u16 sampled[MAX_CLASSES]; /* express packets of a poll that is sampled */
	/* Counters. */
	__u64 control; /* packets that the router itself must hear, and that came first while guarded */
	__u64 control_policed; /* of a sender above its rate, or above that of all: treated as any other */
	__u64 reasons[REASONS];
	struct class_counters classes[MAX_CLASSES];
	/* Of the packet in hand: functions that call each other share a stack of 512 bytes, so these are not on it. */
	struct parsed_packet packet;
	struct bpf_sock_tuple tuple; /* of its flow, where the tracker is asked for it */
	struct departure departure;
	struct flow_key key;
	struct hop hop;
	__u32 place; /* of its flow among those that are known, and 1; 0: it has none */
	__u32 generation; /* of the witness, before anything was asked */
	__u32 routes; /* the same of routes */
	__u32 named; /* the class that the rules name */
	struct control_packet heard;
	__u8 sender[8]; /* its MAC address, where rules ask for it; else 0 */
	__s32 obstacle; /* REASON_* why no express class takes it, or -1 */
	__u32 master; /* as of its port, unless the packet is known to come in by it */
	struct outer came_in; /* what it was taken out of */
	struct outer leaves; /* what it is put into */
	struct hop outer_hop; /* of that */
	struct inner_flow inner; /* that it then carries */
	struct bpf_fib_lookup outer_route; /* of that */
	__u32 sum; /* of bytes of a packet (sum.h) */
	__u64 asked_ns; /* about an untracked flow without a second packet, last */
	__u32 sends_to; /* slot of the port that the packet leaves by, and 1, if that is counted; else 0 */
	struct standing standing; /* what waits to leave by the port */
};

/* A class's ring on one CPU, counted by batch. */
struct ring {
	__u64 enqueued;
	__u64 dequeued;
	__u64 drops;
};

#define RING_CPUS 256

/* A ring of the AF_XDP engine. The first cache line is its worker's, the second the XDP program's. */
struct engine_ring {
	__u64 consumed; /* taken off the ring */
	__u64 worker[7];
	__u64 redirected; /* sent to the ring */
	__u64 failed; /* of these, refused by the kernel */
	__u64 early_drops; /* not sent, because the ring held its share */
	__u64 program[5];
};

/* A route of IPv4 has several next hops: Linux chooses by other rules for what it sends itself, so that nothing is put
 * into tunnels. */
#define TUNNELS_SEVERAL_HOPS 1
/* Outer packets pass rules that do something, which only those of flows that Linux was seen to forward heed. */
#define TUNNELS_RULED 2

/* How long connection tracking remembers a connection after a packet, ms. */
struct timeouts {
	__u32 udp, udp_stream;
	__u32 tcp_established, tcp_unacknowledged, tcp_retransmitted, tcp_close;
};

/* The tracker ignores windows of those connections that the daemon marks so. */
#define TCP_MARKED 1
/* It ignores all windows (net.netfilter.nf_conntrack_tcp_be_liberal). */
#define TCP_LIBERAL 2

/* Which classes stay with the kernel for now, because of what surrounds the router. */
struct gates {
	__u64 watched_ns; /* when the daemon looked last, CLOCK_MONOTONIC */
	__u32 closed; /* classes, one bit each */
	__u32 route_mtu[2]; /* the largest packet where a route asks for an MTU, IPv4 and IPv6; 0: none does */
	__u16 untracked; /* connection tracking knows of no flow, so nobody needs to be asked about one */
	__u8 idle; /* nor can any other class be express: packets need not be classified */
	__u8 tunnels; /* TUNNELS_*: why packets do not use tunnels */
	/* What the tracker gives a connection that no policy of its own was given, as sysctls have it now. */
	struct timeouts timeouts;
	__u8 tcp; /* TCP_*: how segments may pass the tracker by */
	__u8 by_sender; /* rules ask for the MAC address of senders */
	__u8 seen_at_egress; /* filters or hooks see what leaves by ports */
	__u8 follows_untracked; /* what connection tracking does not see is asked of the witness, for TRUST_FIREWALL */
	__u8 pad[4];
};

/* Where express packets went lately, by a hash of the address: of two that share a place the last. */
#define NEXT_HOPS 64
struct next_hop {
	__u32 used_ticks; /* jiffies */
	__u32 ifindex;
	__u32 v6;
	__be32 address[4]; /* the first, if IPv4 */
};
struct next_hops {
	struct next_hop at[NEXT_HOPS];
};

struct port_counters {
	__u64 tx_packets; /* express frames that the egress driver took */
	__u64 tx_drops; /* express frames that it refused, or that could not be given to it */
	__u64 refusals; /* times that it began to refuse frames, after which they leave by the stack for a while */
	__u64 link_full; /* times that its link began to be full, after which lower classes leave by the qdisc for a
			    while */
	__u64 unsent_bytes; /* redirected since its link was charged with them last */
	__u64 by_qdisc; /* packets that lanes gave to its queueing discipline; several that are one skb count as several
			 */
	__u64 batch,
		batched; /* classes of frames that its driver has not been given yet, and how many (port_counts.h) */
	__u64 refused[MAX_CLASSES]; /* of tx_drops by class, since classes are told apart */
	__u64 refused_of_no_class; /* all others of them */
};

/*
 * What XDP hands over to the program at tc ingress, in front of the packet (data_meta): all that is still to be done.
 * It has the room that kernels before 6.8 allow. GRO merges no packets of which this differs.
 */
#define HANDED_OVER 0x72786c31
struct handed_over {
	__u32 magic; /* HANDED_OVER and the low half of the cookie of the network namespace that it is meant for */
	__u32 egress;
	__u8 to[6];
	__u8 urgent; /* of the highest class */
	__u8 translated; /* 0: nothing; else as in struct translation, IPv4 alone */
	__be32 source, destination;
	__be16 src_port, dst_port;
};

#endif
