//! The kernel's routes, and news about them.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_REPLACE, NetlinkPayload};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::Socket;

use crate::SystemError;
use crate::netlink::{self, Message, News};

/// Multicast groups of route changes (RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE).
const ROUTE_GROUPS: [u32; 2] = [7, 11];

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
    /// unreachable, blackhole ... (`RTN_LOCAL` and so on); unicast through a tunnel is here too.
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
}

/// News about a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It is there now. `replaces`: in place of the one of the same prefix, table and metric; `last`: after
    /// those, before them otherwise.
    Added {
        /// The route that is being read.
        route: Route,
        /// Takes another's place.
        replaces: bool,
        /// Is asked after others.
        last: bool,
    },
    /// It is gone.
    Removed(Route),
}

fn address(a: &RouteAddress) -> Option<IpAddr> {
    match a {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|a| match a {
        RouteAttribute::Gateway(g) => address(g),
        RouteAttribute::Via(RouteVia::Inet(v4)) => Some(IpAddr::V4(*v4)),
        RouteAttribute::Via(RouteVia::Inet6(v6)) => Some(IpAddr::V6(*v6)),
        _ => None,
    })
}

/// `None` for what is no route of the forwarding tables: other families, cached exceptions.
fn from_message(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let mut destination = match header.address_family {
        AddressFamily::Inet => IpAddr::from([0u8; 4]),
        AddressFamily::Inet6 => IpAddr::from([0u8; 16]),
        _ => return None,
    };
    let mut route = Route {
        prefix: IpNet::new(destination, 0).ok()?,
        table: u32::from(header.table),
        metric: 0,
        tos: header.tos,
        kind: match header.kind {
            RouteType::Unicast => Kind::Unicast,
            other => Kind::Kernel(other.into()),
        },
        hops: Vec::new(),
    };
    let (mut device, mut encapsulated) = (None, false);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(d) => destination = address(d)?,
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Oif(ifindex) => device = Some(*ifindex),
            RouteAttribute::Encap(_) | RouteAttribute::EncapType(_) => encapsulated = true,
            RouteAttribute::MultiPath(hops) => {
                for hop in hops {
                    encapsulated |= hop
                        .attributes
                        .iter()
                        .any(|a| matches!(a, RouteAttribute::EncapType(_)));
                    route.hops.push(NextHop {
                        ifindex: hop.interface_index,
                        gateway: gateway(&hop.attributes),
                        weight: u16::from(hop.hops) + 1,
                        dead: hop.flags.contains(RouteNextHopFlags::Dead),
                    });
                }
            }
            _ => {}
        }
    }
    route.prefix = IpNet::new(destination, header.destination_prefix_length).ok()?;
    if let Some(ifindex) = device.filter(|_| route.hops.is_empty()) {
        route.hops.push(NextHop {
            ifindex,
            gateway: gateway(&message.attributes),
            weight: 1,
            dead: header.flags.contains(RouteFlags::Dead),
        });
    }
    // Tunnels are built by the kernel.
    if encapsulated {
        route.kind = Kind::Kernel(header.kind.into());
    }
    if route.kind != Kind::Unicast {
        route.hops.clear();
    }
    Some(route)
}

/// Hands over all routes of the current network namespace, of all tables, in the order in which the kernel
/// asks those of one prefix.
///
/// # Errors
/// When netlink fails.
pub fn all(mut found: impl FnMut(Route)) -> Result<(), SystemError> {
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        netlink::dump(
            RouteNetlinkMessage::GetRoute(request),
            "list routes",
            |message| {
                if let RouteNetlinkMessage::NewRoute(m) = message
                    && let Some(route) = from_message(&m)
                {
                    found(route);
                }
            },
        )?;
    }
    Ok(())
}

/// Asks the kernel which of its routes addresses take.
pub struct Lookups {
    socket: Socket,
}

impl Lookups {
    /// In the current network namespace.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        Ok(Self {
            socket: netlink::open()?,
        })
    }

    /// The route that forwarding would take, as it is in its table; `None` without one.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn of(&self, destination: IpAddr) -> Result<Option<Route>, SystemError> {
        let mut request = RouteMessage::default();
        request.header.address_family = match destination {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        request.header.destination_prefix_length = if destination.is_ipv4() { 32 } else { 128 };
        request.header.flags = RouteFlags::FibMatch;
        request
            .attributes
            .push(RouteAttribute::Destination(destination.into()));
        let question = RouteNetlinkMessage::GetRoute(request);
        Ok(
            match netlink::ask(&self.socket, question, "ask for a route")? {
                Some(RouteNetlinkMessage::NewRoute(m)) => from_message(&m),
                _ => None,
            },
        )
    }
}

/// A subscription to route changes.
pub struct Monitor {
    news: News,
}

impl Monitor {
    /// Subscribes in the current network namespace. Subscribe first, then ask for [`all`]: what changes
    /// meanwhile comes twice, which is harmless, rather than never.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        Ok(Self {
            news: News::of(&ROUTE_GROUPS)?,
        })
    }

    /// Hands over what has happened since the last call. False: news were lost, ask for [`all`] anew.
    ///
    /// # Errors
    /// When netlink fails otherwise.
    pub fn drain(&mut self, mut happened: impl FnMut(Event)) -> Result<bool, SystemError> {
        self.news
            .drain(|message| event(message).into_iter().for_each(&mut happened))
    }
}

/// What a message of the kernel's says about a route.
pub(crate) fn event(message: Message) -> Option<Event> {
    let flags = message.header.flags;
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(m)) => {
            from_message(&m).map(|route| Event::Added {
                route,
                replaces: flags & NLM_F_REPLACE != 0,
                last: flags & NLM_F_APPEND != 0,
            })
        }
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelRoute(m)) => {
            from_message(&m).map(Event::Removed)
        }
        _ => None,
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}
