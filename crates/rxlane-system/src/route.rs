//! A route of the kernel.

use std::net::IpAddr;

use ipnet::IpNet;

/// Routing tables that the kernel always asks.
pub const TABLE_MAIN: u32 = 254;
/// Addresses of this host.
pub const TABLE_LOCAL: u32 = 255;

/// What a route does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Packets are forwarded to a next hop.
    Unicast,
    /// Anything that is the kernel's business, by the number of its type: local, broadcast, multicast,
    /// unreachable, blackhole ... (`RTN_LOCAL` and so on). Unicast is here too when only the kernel knows the way: through a
    /// tunnel, by source, for a time, or with something that is not understood.
    Kernel(u8),
}

/// A way on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// Index of the device that packets leave through.
    pub ifindex: u32,
    /// Router; `None` when the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// Share of the flows, at least 1.
    pub weight: u16,
    /// Its device is down; the kernel does not use it.
    pub dead: bool,
}

/// A route of the kernel, with all of its next hops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Destinations that the route is for.
    pub prefix: IpNet,
    /// Sources that the route is for; `None` for all. Only IPv6 has others.
    pub source: Option<IpNet>,
    /// Number of the routing table.
    pub table: u32,
    /// Lower is preferred.
    pub metric: u32,
    /// Type of service that it is for; 0 for all.
    pub tos: u8,
    /// What it does.
    pub kind: Kind,
    /// Ways on; several share the flows. Empty unless unicast.
    pub hops: Vec<NextHop>,
    /// Nexthop object that says where the ways are; the hops above are then what it was once, or not told.
    pub nexthop: Option<u32>,
    /// Largest packet, bytes; `None`: what the link takes.
    pub mtu: Option<u32>,
}

impl Route {
    /// A plain route of the main table.
    pub fn through(prefix: IpNet, hops: Vec<NextHop>) -> Self {
        Self {
            prefix,
            source: None,
            table: TABLE_MAIN,
            metric: 0,
            tos: 0,
            kind: Kind::Unicast,
            hops,
            nexthop: None,
            mtu: None,
        }
    }
}
