//! Mirrors of the structs that the programs share with others; the compiler compares each field's place (`check.rs`), the loader sizes.

mod check;
mod core;
mod flows;
mod reasons;

use bytemuck::{Pod, Zeroable};
use rxlane_policy::class::MAX_CLASSES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::core::{Core, Cpu, Guard, GuardPlan};
pub use self::flows::{
    CALLS_WITNESS, Gates, KEPT_TRACKED, KEPT_UNTRACKED, KeptFlows, MAX_KEPT_FLOWS, TCP_LIBERAL,
    TCP_MARKED, TUNNELS_RULED, TUNNELS_SEVERAL_HOPS, Timeouts, Unmarked, Witness, Witnessed,
};
pub use self::reasons::REASONS;

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
pub const PORT_XDP_FRAGS: u8 = 64;
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
    /// [`PORT_XDP_FRAGS`] and [`PORT_OTHER_MACS`].
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
    /// Of `express` and `fast`: packets for which routes and, where the class asks for them, connections were looked up,
    /// because their flow is not among those that are known.
    pub looked_up: u64,
}

impl From<crate::skeletons::overload::types::class_counters> for ClassCounters {
    fn from(counted: crate::skeletons::overload::types::class_counters) -> Self {
        bytemuck::cast(counted)
    }
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
        self.looked_up += o.looked_up;
    }
}

/// What a port's link has still to send (`struct link_queue` of bpf/forward/link_queue.h).
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
    /// The words that the worker writes (`counters.rs` of `rxlane-engine`).
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

impl DeviceOver {
    /// A device of no VRF, of which Linux asks nothing.
    pub fn seen_as_itself(ifindex: u32) -> Self {
        Self {
            ifindex,
            seen_as: ifindex,
            ..Self::zeroed()
        }
    }
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
