//! What lanes, witness and daemon tell each other of flows.

use bytemuck::{Pod, Zeroable};

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
    /// 1: flows that connection tracking does not see are asked for.
    pub follows_untracked: u8,
    /// Nothing.
    pub pad: [u8; 4],
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

/// What the witness is asked (`struct witness` of bpf/trust/witness.h).
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
    pub by_sender: u8,
    /// 1: flows without a connection are asked for, too.
    pub follows_untracked: u8,
    /// When the witness was at work last, as far as somebody asked, in jiffies.
    pub looked_ticks: u32,
    /// When it was called last.
    pub called_ticks: u32,
}

/// The most [`KeptFlows`].
pub const MAX_KEPT_FLOWS: usize = 64;

/// Of flows that connection tracking sees.
pub const KEPT_TRACKED: u8 = 1;
/// Of those that it does not.
pub const KEPT_UNTRACKED: u8 = 2;

/// Flows of which a rule is to see each packet (`struct kept_flows` of bpf/trust/kept.h).
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
    /// [`KEPT_TRACKED`], [`KEPT_UNTRACKED`]; 0: either.
    pub tracked: u8,
    /// Nothing.
    pub pad: u8,
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

/// A connection of TCP that the daemon is to mark, in its original direction (`struct unmarked` of bpf/trust/tracker.h).
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

/// A direction of a flow (`struct witnessed` of bpf/trust/witness.h).
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
