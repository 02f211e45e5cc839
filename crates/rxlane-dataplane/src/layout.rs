//! Mirrors of the structs in `bpf/shared.h`; the loader compares sizes.

use bytemuck::{Pod, Zeroable};
use rxlane_policy::class::MAX_CLASSES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A source must be reached through this port (`rp_filter = 1`, or 2 where it has no IPv4 address).
pub const PORT_STRICT: u8 = 1;
/// IPv6 is switched off on this port (`disable_ipv6 = 1`).
pub const PORT_NO_IPV6: u8 = 2;
/// A source must be reached by any route (`rp_filter = 2`).
pub const PORT_LOOSE: u8 = 8;
/// This port lies over another device, which has taken VLAN tags out of the frames; or a frame's VLAN device is not known.
pub const PORT_HIDES_TAGS: u8 = 4;
/// There are macvlan devices over it.
pub const PORT_OTHER_MACS: u8 = 128;
/// Its driver sends frames of several pieces.
pub const PORT_TAKES_PIECES: u8 = 64;
/// What leaves there leaves by the stack, because its queueing discipline is to see it.
pub const PORT_QDISC: u8 = 16;
/// What the configuration calls a port that is not named itself, but by VLAN devices over it.
pub const BY_VLAN: u8 = 255;
/// Added to the index of such a port in the table of egress devices, so that no route leads there but those of its VLAN devices.
pub const EGRESS_BY_VLAN: u32 = 1 << 31;
/// Ports of a router.
pub const MAX_PORTS: usize = 64;
/// Entries of the port table, and how far a collision may move one.
pub const PORT_TABLE: usize = 256;
/// Linear probes of the port table.
pub const PORT_PROBES: usize = 4;
/// Cores that rings can be on.
pub const RING_CPUS: usize = 256;

/// Why a packet is left to the kernel: names and meanings of `enum reason`, in order.
pub const REASONS: [(&str, &str); 29] = [
    ("not_ip", "ARP, or another protocol than IPv4 and IPv6"),
    (
        "not_to_us",
        "a broadcast, a multicast, or the MAC address of somebody else",
    ),
    ("malformed", "lengths or headers that contradict each other"),
    (
        "vlan",
        "a tagged frame of a VLAN whose device the lane does not serve (`rxlane status` says why), or one of a bridge or macvlan device, whose tags cannot be seen",
    ),
    (
        "options",
        "IPv4 options; IPv6 hop-by-hop or destination options, or a routing header",
    ),
    (
        "icmp_error",
        "an ICMP error, for which Linux chooses the next hop by the packet that it is about",
    ),
    (
        "special_address",
        "a source or destination that is never forwarded: loopback, link-local, multicast",
    ),
    (
        "ttl",
        "the TTL or hop limit would reach 0; the kernel tells the sender",
    ),
    (
        "fragment",
        "a part of a packet, which connection tracking may have to put together first",
    ),
    (
        "forwarding_off",
        "forwarding is off on the interface it came from",
    ),
    (
        "not_routed",
        "to this machine itself, or a route that refuses: blackhole, unreachable, prohibit",
    ),
    ("tunnel", "the route encapsulates"),
    (
        "no_neighbour",
        "the MAC address of the next hop is not known yet; the kernel asks for it",
    ),
    (
        "mtu",
        "longer than the egress interface takes, or in several pieces, which its driver or the engine does not take",
    ),
    (
        "egress",
        "the route leaves through no express port, or through the one it came from",
    ),
    (
        "tcp_control",
        "SYN, FIN or RST, or a connection of TCP whose window the tracker does not ignore yet",
    ),
    ("nat", "a translation that the express lane does not do"),
    (
        "source",
        "the way back to its source does not lead to where it came from",
    ),
    (
        "objection",
        "its class stays with the kernel, because a firewall, NAT, marks or policies would be passed by",
    ),
    (
        "unseen",
        "Linux was not seen to forward this flow this way since firewall, rules or policies changed, or not lately",
    ),
    (
        "untrusted",
        "not trusted for its express class, and there is no stack class below it",
    ),
    (
        "shed",
        "dropped: more packets for the kernel in one overloaded poll than their share",
    ),
    (
        "idle",
        "not even classified: connection tracking knows of no flow, and all express classes trust established ones",
    ),
    (
        "qdisc",
        "it leaves through a port whose queueing discipline is to see it, because that holds the link to a rate, or because the driver has refused frames or the link is full; or of a fast class, and leaves in a VLAN, session or tunnel",
    ),
    (
        "master",
        "its port belongs to a bridge that has not learned its sender there, or to a device that is not served (status names them)",
    ),
    (
        "session",
        "the session of PPPoE that it leaves in may have changed, or is to be seen in use by Linux, as one packet in five seconds is",
    ),
    (
        "checksum",
        "its sender, on this machine, has left its checksum to a device, of which nobody but Linux still knows",
    ),
    (
        "not_named",
        "of a port of which only VLAN devices are named in `ports`: without a tag, or of another VLAN; as if rxlane were not there",
    ),
    (
        "local_tcp",
        "TCP that came in by a port served at tc ingress (a veth), or leaves by one, while no port on its way is full: hosts of this machine share its cores, and the stack paces them",
    ),
];

/// A port by its ifindex (`struct port`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Port {
    /// Index of the device that frames come in by, 0 for a free entry.
    pub ifindex: u32,
    /// That device, or the bond that it is a member of.
    pub device: u32,
    /// Bridge that the device belongs to, by which its packets come in; 0: none.
    pub master: u32,
    /// The device that Linux notes for what comes in: the bridge or the device, or the VRF of that.
    pub seen_as: u32,
    /// Address that frames must be sent to.
    pub mac: [u8; 6],
    /// Position among the configured ports.
    pub slot: u8,
    /// [`PORT_STRICT`], [`PORT_LOOSE`], [`PORT_NO_IPV6`], [`PORT_HIDES_TAGS`], [`PORT_QDISC`],
    /// [`PORT_TAKES_PIECES`] and [`PORT_OTHER_MACS`].
    pub flags: u8,
    /// Whether packets come in there whose senders have left checksums to devices.
    pub lacks_checksums: u8,
    /// Whether its bridge learns from what comes in there where stations are.
    pub teaches: u8,
    /// Whether what its driver refuses may wait in a queueing discipline: nobody wants it to be sent to directly.
    pub may_wait: u8,
    /// Whether its queueing disciplines have bands by priority (`pfifo_fast`).
    pub has_bands: u8,
    /// Whether what comes in is served at tc ingress.
    pub at_tc: u8,
    /// Whether a program at tc ingress does there what XDP decides.
    pub hands_over: u8,
    /// Nothing: two entries share no cache line in part.
    pub pad: [u8; 2],
}

/// All ports, found by ifindex (`struct port_table`).
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct PortTable {
    /// Open addressing by ifindex.
    pub at: [Port; PORT_TABLE],
}

impl PortTable {
    /// Enters a port; `false` when its neighbourhood is full.
    #[must_use]
    pub fn insert(&mut self, port: Port) -> bool {
        for probe in 0..PORT_PROBES {
            let entry = &mut self.at[(port.ifindex as usize + probe) % PORT_TABLE];
            if entry.ifindex == 0 || entry.ifindex == port.ifindex {
                *entry = port;
                return true;
            }
        }
        false
    }
}

/// What happened to the packets of a class (`struct class_counters`).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable, Serialize, Deserialize, JsonSchema,
)]
#[repr(C)]
pub struct ClassCounters {
    /// Served in this class.
    pub packets: u64,
    /// Their bytes, Ethernet header included.
    pub bytes: u64,
    /// Redirected by the express lane.
    pub express: u64,
    /// Of ports in XDP: left to the program at tc ingress, to leave through a queueing discipline (the fast lane).
    pub fast: u64,
    /// Given to the stack within the poll.
    pub passed: u64,
    /// Sent to the class's ring.
    pub queued: u64,
    /// Dropped before an skb existed.
    pub early_drops: u64,
    /// Above the rate: treated as the next class.
    pub policed: u64,
    /// Not trusted: treated as the next stack class.
    pub untrusted: u64,
}

impl std::ops::AddAssign for ClassCounters {
    fn add_assign(&mut self, o: Self) {
        self.packets += o.packets;
        self.bytes += o.bytes;
        self.express += o.express;
        self.fast += o.fast;
        self.passed += o.passed;
        self.queued += o.queued;
        self.early_drops += o.early_drops;
        self.policed += o.policed;
        self.untrusted += o.untrusted;
    }
}

/// A value for each class, highest first, by class number; those beyond the configured classes are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct PerClass<T>(pub [T; MAX_CLASSES]);

impl<T> std::ops::Deref for PerClass<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> std::ops::DerefMut for PerClass<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// `struct core`: one port on one CPU.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "documented in bpf/shared.h, which this mirrors"
)]
pub struct Core {
    pub guarded: u32,
    pub queue: u32,
    pub express: u32,
    pub exceptions: u32,
    pub task: u32,
    pub asked: u16,
    pub reason: u16,
    pub taken: u64,
    pub run_delay_ns: u64,
    pub polls: u64,
    pub began_ns: u64,
    pub unsampled: u32,
    pub look: u32,
    pub sampled: [u16; MAX_CLASSES],
    pub control: u64,
    pub control_policed: u64,
    pub reasons: [u64; REASONS.len()],
    pub classes: PerClass<ClassCounters>,
    /// Of the packet in hand: nothing for others to read.
    pub packet: [u32; 14],
    pub tuple: [u32; 10],
    pub departure: [u32; 20],
    pub flow: [u32; 22],
    pub heard: [u32; 72],
}

/// What a port's link has still to send (`struct link_queue` of bpf/link_queue.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LinkQueue {
    /// When it will have sent that, in 2^-8 ns.
    pub next: u64,
    /// What a byte takes, in 2^-20 ns; 0: nobody knows, or nobody can fill it.
    pub cost: u64,
    /// How far away that may be, in 2^-8 ns.
    pub limit: u64,
}

/// What happened to the packets of a ring (`struct ring`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable, Serialize, JsonSchema)]
#[repr(C)]
pub struct RingCounters {
    /// Packets that entered.
    pub enqueued: u64,
    /// Packets served.
    pub dequeued: u64,
    /// Packets that found it full.
    pub drops: u64,
}

/// A ring of the engine, as XDP program and worker count it (`struct engine_ring`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct EngineRing {
    /// Taken off the ring by its worker.
    pub consumed: u64,
    /// The words that the worker writes (`engine::counters`).
    pub worker: [u64; 7],
    /// Sent to the ring.
    pub redirected: u64,
    /// Of these, refused by the kernel.
    pub failed: u64,
    /// Not sent, because the ring held its share.
    pub early_drops: u64,
    /// Not used: it fills the space that C leaves here.
    pub program: [u64; 5],
}

/// Which classes stay with the kernel for now (`struct gates`).
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Gates {
    /// When the daemon looked last, CLOCK_MONOTONIC.
    pub watched_ns: u64,
    /// Classes, one bit each.
    pub closed: u32,
    /// The largest packet where a route asks for an MTU, IPv4 and IPv6; 0: none does.
    pub route_mtu: [u32; 2],
    /// Whether connection tracking knows of no flow at all.
    pub untracked: u16,
    /// Whether no other class can be express either, so that packets need not be classified.
    pub idle: u8,
    /// Why packets do not use tunnels: [`TUNNELS_SEVERAL_HOPS`], [`TUNNELS_RULED`].
    pub tunnels: u8,
    /// How long connections without a policy of their own are remembered.
    pub timeouts: Timeouts,
    /// How segments of TCP may pass the tracker by: [`TCP_MARKED`], [`TCP_LIBERAL`].
    pub tcp: u8,
    /// 1: rules ask for the MAC address of senders.
    pub by_sender: u8,
    /// 1: filters or hooks see what leaves by ports.
    pub seen_at_egress: u8,
    /// Nothing.
    pub pad: [u8; 5],
}

/// The tracker ignores windows of connections that the daemon marks so.
pub const TCP_MARKED: u8 = 1;
/// The tracker ignores all windows (`net.netfilter.nf_conntrack_tcp_be_liberal`).
pub const TCP_LIBERAL: u8 = 2;

/// How long connection tracking remembers a connection after a packet (`struct timeouts`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Timeouts {
    /// Of UDP before it counts as a stream.
    pub udp_ms: u32,
    /// Of UDP afterwards.
    pub udp_stream_ms: u32,
    /// Of an established connection of TCP.
    pub tcp_established_ms: u32,
    /// Of one with data that nobody has acknowledged.
    pub tcp_unacknowledged_ms: u32,
    /// Of one whose data were sent again and again, or whose window is shut.
    pub tcp_retransmitted_ms: u32,
    /// Of one that was reset.
    pub tcp_close_ms: u32,
}

/// A route of IPv4 has several next hops.
pub const TUNNELS_SEVERAL_HOPS: u8 = 1;
/// Outer packets pass rules of the firewall that do something.
pub const TUNNELS_RULED: u8 = 2;

/// A device over a port, or one whose packets come in others (`struct device_over`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct DeviceOver {
    /// Its index.
    pub ifindex: u32,
    /// The device that Linux notes for what comes in by it.
    pub seen_as: u32,
    /// As of a port.
    pub flags: u8,
    /// Code points of received frames whose packets get a priority, one bit each.
    pub priorities: u8,
    /// 1: a tunnel of which nobody sees what Linux takes out of it, though a class asks for that.
    pub unfollowed: u8,
    /// Not used: it fills the space that C leaves here.
    pub pad: u8,
}

/// Places in [`NextHops`].
pub const NEXT_HOPS: usize = 64;

/// A neighbour that express packets went to (`struct next_hop`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct NextHop {
    /// When it was used last, in jiffies.
    pub used_ticks: u32,
    /// Device that it is behind; 0: the place is free.
    pub ifindex: u32,
    /// 1 if the address is an IPv6 one.
    pub v6: u32,
    /// The address in network order, in the first 4 bytes if it is an IPv4 one.
    pub address: [u8; 16],
}

/// Where express packets of a core went lately (`struct next_hops`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct NextHops {
    /// By a hash of the address.
    pub at: [NextHop; NEXT_HOPS],
}

/// What all ports of a core share (`struct cpu` of bpf/cpu.h).
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Cpu {
    /// Its overload control.
    pub guard: Guard,
    /// End of the last poll, while guarded.
    pub ended_ns: u64,
    /// When a class's ring was last seen holding packets, while guarded.
    pub ring_busy_ns: u64,
    /// Times that the guard was entered.
    pub guards: u64,
    /// Time spent guarded, without the time since it was entered last.
    pub guarded_ns: u64,
    /// The NAPI whose last poll left packets on the ring; 0: nobody's.
    pub full_napi: u64,
    /// The ring that it polled.
    pub full_ring: u32,
    /// Whether the last poll left packets on the ring, while guarded.
    pub full: u32,
    /// Whether the guard knows of the poll under way.
    pub begun: u32,
    /// The ring that it polls.
    pub ring: u32,
    /// The ring that was polled last, by which task, and how long that had waited for the CPU until then.
    pub last_ring: u32,
    /// See [`Cpu::last_ring`].
    pub last_task: u32,
    /// See [`Cpu::last_ring`].
    pub last_delay_ns: u64,
    /// Since when no other ring was polled.
    pub alone_since_ns: u64,
    /// When the kernel began to poll, while guarded.
    pub softirq_ns: u64,
    /// End of the last poll of anything but a port, while guarded.
    pub polled_ns: u64,
    /// Spent in the kernel's own polls on packets of ports since the last poll of a port, and of that by another task than the one that
    /// polls ports.
    pub deferred_ns: u64,
    /// See [`Cpu::deferred_ns`].
    pub deferred_apart_ns: u64,
    /// How long the task that polls had waited for the CPU when the poll began.
    pub delay_ns: u64,
    /// Port and queue of each of the guard's rings.
    pub owners: [u32; GUARD_RINGS],
    /// The longest that express packets may have waited in an Rx ring, while guarded.
    pub longest_wait_ns: u64,
    /// When a ring was found empty; 0: the last poll left packets on it.
    pub emptied_ns: [u64; GUARD_RINGS],
    /// Since when a ring holds packets; 0: not known.
    pub filling_ns: [u64; GUARD_RINGS],
    /// When a poll last began with packets in a ring of this core.
    pub waited_ns: u64,
    /// Whether TCP of this poll waits in a ring.
    pub parks: u64,
}

/// Rings of a core that its guard tells apart.
pub const GUARD_RINGS: usize = rxlane_policy::overload::RINGS;

/// A ring of a core, as its guard sees it (`struct guard_ring` of bpf/guard.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "documented in rxlane_policy::overload, whose state this is"
)]
pub struct GuardRing {
    pub empty_ns: u64,
    pub cut_ns: u64,
    pub cut: u64,
    pub cut_drops: u64,
    pub passed: u64,
    pub taken: u64,
    pub since_ns: u64,
    pub during_ns: u64,
    pub came: u64,
    pub distance: u64,
    pub full_since_ns: u64,
    pub full_work: u64,
}

/// The overload control of a core (`struct guard` of bpf/guard.h).
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "documented in rxlane_policy::overload, whose state this is"
)]
pub struct Guard {
    pub guarded: u64,
    pub last_ns: u64,
    pub own_ns: u64,
    pub cost_ns: u64,
    pub owed_ns: u64,
    pub usual_ns: u64,
    pub taken_ns: u64,
    pub idle_ns: u64,
    pub idle_at_ns: u64,
    pub told_ns: u64,
    pub others_ns: u64,
    pub had_until_ns: u64,
    pub had_for_ns: u64,
    pub ring: u64,
    pub drain_ns: u64,
    pub last: u64,
    pub class: u64,
    pub hash: u64,
    pub passed_ns: u64,
    pub stretch_x64: u64,
    pub turn_ns: u64,
    pub shared_ns: u64,
    pub ran_out: u64,
    pub fits: u64,
    pub fits_alone: u64,
    pub alone_ns: u64,
    pub cap_ns: u64,
    pub poll_ns: u64,
    pub dropping: u64,
    pub unread: u64,
    pub counted_ns: u64,
    pub counted_others_ns: u64,
    pub counting: u64,
    pub express_ns: u64,
    pub entered_ns: u64,
    pub left_ns: u64,
    pub left_alone: u64,
    pub alone_after_ns: u64,
    pub alone_wait_ns: u64,
    pub patience_ns: u64,
    /// Had, of the wall, idle, passed, dropped, ns; passed, dropped, taken off the ring.
    pub sample: [u64; 8],
    /// As in the sample, summed over the last ms; and polls.
    pub demand: [u64; 9],
    pub rings: [GuardRing; GUARD_RINGS],
    pub turn: u64,
    pub fair: u64,
    pub flow_fair: PerClass<u64>,
    pub used_ns: PerClass<u64>,
    pub quota_ns: PerClass<u64>,
    pub class_dropped: u64,
    pub flow_dropped: u64,
    /// Of each flow's bucket its turn, and 2^32 times what it used, ns.
    pub buckets: PerClass<[u64; rxlane_policy::overload::FLOW_BUCKETS]>,
}

/// A configuration, compiled for the guard (`struct guard_plan` of bpf/guard.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct GuardPlan {
    /// How old a ring may be while the class passes, ns; `u64::MAX` for what is never dropped.
    pub limit_ns: PerClass<u64>,
    /// The longest target of a stack class, ns.
    pub longest_ns: u64,
    /// Shares of the stack, in 1/1024.
    pub share: PerClass<u32>,
    /// Stack classes, one bit each.
    pub stack: u32,
    /// Whether there is more than one.
    pub several: u32,
    /// Whether to guard without express traffic, too.
    pub always: u32,
    /// Drops from a ring until it is emptied more often.
    pub backlog: u32,
    /// Whether nobody drops what the guard says.
    pub observes: u32,
    /// Nothing.
    pub pad: u32,
}

impl From<&rxlane_policy::overload::Plan> for GuardPlan {
    fn from(plan: &rxlane_policy::overload::Plan) -> Self {
        Self {
            limit_ns: PerClass(plan.limit_ns),
            longest_ns: plan.longest_ns,
            share: PerClass(plan.share),
            stack: plan.stack,
            several: plan.several.into(),
            always: plan.always.into(),
            backlog: plan.backlog,
            observes: 0,
            pad: 0,
        }
    }
}

/// What the witness is asked (`struct witness` of bpf/witness.h).
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Witness {
    /// When any flow was asked for last, in jiffies.
    pub asked_ticks: u64,
    /// How often firewall, rules, policies or addresses have changed.
    pub generation: u32,
    /// How often routes have changed.
    pub routes: u32,
    /// Questions that have no answer yet, about.
    pub open: u32,
    /// How many [`KeptFlows`] there are.
    pub kept: u16,
    /// 1: rules ask for the MAC address of senders.
    pub by_sender: u16,
    /// When the witness was at work last, as far as somebody asked, in jiffies.
    pub looked_ticks: u32,
    /// When it was called last.
    pub called_ticks: u32,
}

/// The most [`KeptFlows`].
pub const MAX_KEPT_FLOWS: usize = 64;

/// Flows of which a rule is to see each packet (`struct kept_flows` of bpf/kept.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct KeptFlows {
    /// 4 or 6; 0: either.
    pub version: u8,
    /// Number of the protocol; 0: any.
    pub protocol: u8,
    /// The lowest and the highest source port.
    pub from_port: [u16; 2],
    /// The lowest and the highest destination port.
    pub to_port: [u16; 2],
    /// Nothing.
    pub pad: u16,
    /// Device that they come in by, as Linux notes it; 0: any.
    pub ingress: u32,
    /// Device that they leave by; 0: any.
    pub egress: u32,
    /// Source in network order, in the first 4 bytes if it is an IPv4 one, and which bits of it count.
    pub source: [u8; 16],
    /// See [`KeptFlows::source`].
    pub source_mask: [u8; 16],
    /// See [`KeptFlows::source`].
    pub destination: [u8; 16],
    /// See [`KeptFlows::source`].
    pub destination_mask: [u8; 16],
}

/// A connection of TCP that the daemon is to mark, in its original direction (`struct unmarked` of bpf/tracker.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Unmarked {
    /// In network order, in the first 4 bytes if it is an IPv4 one.
    pub source: [u8; 16],
    /// See [`Unmarked::source`].
    pub destination: [u8; 16],
    /// In network order.
    pub from_port: [u8; 2],
    /// In network order.
    pub to_port: [u8; 2],
    /// 1: IPv6; [`CALLS_WITNESS`].
    pub v6: u32,
}

/// In place of [`Unmarked::v6`]: no connection, but somebody asks the witness.
pub const CALLS_WITNESS: u32 = 2;

/// A direction of a flow (`struct witnessed` of bpf/witness.h).
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Witnessed {
    /// When the express lane asked.
    pub asked_ns: u64,
    /// When Linux was seen to forward it; 0: not yet.
    pub seen_ns: u64,
    /// Fingerprint of the flow.
    pub flow: u32,
    /// [`Witness::generation`] when it was asked.
    pub generation: u32,
    /// Interface that it comes from.
    pub ingress: u32,
    /// Interface that Linux sent it through.
    pub egress: u32,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Hops that it had left when it came.
    pub ttl: u8,
    /// To whom Linux sent it.
    pub next_hop: [u8; 6],
    /// 2^16 and the outer VLAN tag that it left with; 0: with none.
    pub tag: u32,
    /// VLAN device that it was sent through last.
    pub through: u32,
    /// Bridge, bond or team that it was sent through last.
    pub over: u32,
    /// Source port of the outer packet, in network order, if it left in one of UDP.
    pub port: u16,
    /// 1: it meets one of [`KeptFlows`].
    pub kept: u8,
    /// MAC address that it came from, where rules ask for that.
    pub sender: [u8; 6],
    /// Nothing.
    pub pad: [u8; 3],
}

/// What an egress driver did with express frames (`struct port_counters`).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable, Serialize, Deserialize, JsonSchema,
)]
#[repr(C)]
pub struct PortCounters {
    /// Express frames that the egress driver took.
    pub tx_packets: u64,
    /// Express frames that it refused, or that could not be given to it.
    pub tx_drops: u64,
    /// Times that it began to refuse frames, after which express packets left by the stack for a while.
    pub refusals: u64,
    /// Times that its link began to be full, after which lower classes left by the queueing discipline for a while.
    pub link_full: u64,
    /// Bytes for which its link has not been charged yet.
    #[serde(skip)]
    pub unsent_bytes: u64,
    /// Packets that lanes gave to its queueing discipline.
    pub by_qdisc: u64,
    /// Classes of frames that the driver has not been given yet.
    #[serde(skip)]
    pub batch: [u64; 2],
    /// Of [`tx_drops`](Self::tx_drops) by number of class, since the first: classes are told apart from then on.
    #[serde(skip)]
    pub refused: [u64; MAX_CLASSES],
    /// All others of them.
    #[serde(skip)]
    pub refused_of_no_class: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_with_colliding_indices_share_a_neighbourhood_until_it_is_full() {
        let mut table = PortTable::zeroed();
        let port = |n: u32| Port {
            ifindex: 3 + n * 256,
            ..Port::default()
        };
        assert!((0..4).all(|n| table.insert(port(n))));
        assert!(!table.insert(port(4)));
        assert!(table.insert(port(2)), "an entry can be replaced");
    }
}
