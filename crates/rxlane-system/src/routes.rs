//! The kernel's routes, and news about them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NLM_F_APPEND, NLM_F_REPLACE};
use netlink_packet_route::route::{RouteAttribute, RouteFlags, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::Socket;

use crate::SystemError;
use crate::datagram::{Garbled, Raw};
use crate::netlink::{self, News};
use crate::nexthops::{self, Nexthop};
pub use crate::route::{Kind, NextHop, Route, TABLE_LOCAL, TABLE_MAIN};
use crate::route_message;

/// Multicast groups of changes of routes and of nexthop objects (RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, RTNLGRP_NEXTHOP),
/// and of addresses (RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR).
const GROUPS: [u32; 4] = [7, 11, 5, 9];
/// Of its own, because kernels before Linux 5.3 do not have it.
const NEXTHOP_GROUP: u32 = 32;

/// Kinds of messages, include/uapi/linux/rtnetlink.h.
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;

impl From<Route> for Event {
    fn from(route: Route) -> Self {
        Self::Added {
            route,
            replaces: false,
            last: true,
        }
    }
}

/// News about routes and nexthop objects.
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
    /// A nexthop object is there now, or has become this; routes through it follow without news of their own.
    Nexthop(u32, Nexthop),
    /// A nexthop object is gone, and so are all routes through it, without news of their own.
    NexthopGone(u32),
}

/// Hands over all nexthop objects, then all routes of the current network namespace, of all tables, in the order in which
/// the kernel asks those of one prefix.
///
/// # Errors
/// When netlink fails. [`SystemError::Unsteady`]: forget what was handed over, and ask anew.
pub fn all(mut found: impl FnMut(Event)) -> Result<(), SystemError> {
    const WHAT: &str = "list routes";
    nexthops::all(|id, nexthop| found(Event::Nexthop(id, nexthop)))?;
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        let mut unread = false;
        let request = RouteNetlinkMessage::GetRoute(request);
        netlink::dump_once(request, WHAT, |message| {
            if message.kind != NEW_ROUTE {
                return;
            }
            match route_message::route(message.body) {
                Ok(Some(route)) => found(route.into()),
                Ok(None) => {}
                Err(Garbled) => unread = true,
            }
        })?;
        if unread {
            return Err(SystemError::Unsteady { what: WHAT.into() });
        }
    }
    Ok(())
}

/// One of the news, if it is about routes or nexthop objects.
pub(crate) fn event(message: Raw<'_>) -> Result<Option<Event>, Garbled> {
    let route = || route_message::route(message.body);
    Ok(match message.kind {
        NEW_ROUTE => route()?.map(|route| Event::Added {
            route,
            replaces: message.flags & NLM_F_REPLACE != 0,
            last: message.flags & NLM_F_APPEND != 0,
        }),
        DELETE_ROUTE => route()?.map(Event::Removed),
        nexthops::NEW => {
            let (id, nexthop) = nexthops::nexthop(message.body)?;
            Some(Event::Nexthop(id, nexthop))
        }
        nexthops::DELETE => Some(Event::NexthopGone(nexthops::nexthop(message.body)?.0)),
        _ => None,
    })
}

/// Whether routes may have come or gone with an address, of which no news tell: with the last IPv4 address of a device all
/// routes through it go, with any address those that prefer it as their source, and with a new one dead hops come alive.
fn shakes_routes(message: Raw<'_>) -> bool {
    let v4 = message.body.first().map(|f| i32::from(*f)) == Some(libc::AF_INET);
    message.kind == DELETE_ADDRESS || (message.kind == NEW_ADDRESS && v4)
}

/// Devices that default routes lead through, in any table: whether IPv6, and the index.
///
/// # Errors
/// When netlink fails.
pub fn default_devices() -> Result<BTreeSet<(bool, u32)>, SystemError> {
    let mut objects: BTreeMap<u32, Nexthop> = BTreeMap::new();
    let mut found = BTreeSet::new();
    let mut by_object = Vec::new();
    all(|event| match event {
        Event::Nexthop(id, nexthop) => {
            objects.insert(id, nexthop);
        }
        Event::Added { route, .. } if route.prefix.prefix_len() == 0 => {
            let v6 = route.prefix.addr().is_ipv6();
            found.extend(route.hops.iter().map(|hop| (v6, hop.ifindex)));
            by_object.extend(route.nexthop.map(|id| (v6, id)));
        }
        _ => {}
    })?;
    while let Some((v6, id)) = by_object.pop() {
        // A group has no groups in it, so this ends (Documentation of `ip nexthop`).
        match objects.get(&id) {
            Some(Nexthop::Hop(hop)) => {
                found.insert((v6, hop.ifindex));
            }
            Some(Nexthop::Group(members)) => {
                by_object.extend(members.iter().map(|(member, _)| (v6, *member)));
            }
            Some(Nexthop::Kernel) | None => {}
        }
    }
    // A default route that a router has announced has a lifetime, so nothing is said above of its hops.
    let text = std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
    let devices = crate::links::all()?;
    let announced = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "00", .., name] = fields[..] else {
            return None;
        };
        devices.iter().find(|d| d.name == name && name != "lo")
    });
    found.extend(announced.map(|device| (true, device.ifindex)));
    Ok(found)
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
        let answer = netlink::ask(&self.socket, question, "ask for a route")?;
        Ok(answer.and_then(|body| route_message::route(&body).ok().flatten()))
    }
}

/// A subscription to changes of routes and nexthop objects.
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
        let mut news = News::of(&GROUPS)?;
        // Where there is no such group there are no such objects.
        let _ = news.also(NEXTHOP_GROUP);
        Ok(Self { news })
    }

    /// Hands over what has happened since the last call. False: news were lost or could not be read, or routes may have
    /// changed without news; ask for [`all`] anew, and until then believe nothing.
    ///
    /// # Errors
    /// When netlink fails otherwise.
    pub fn drain(&mut self, mut happened: impl FnMut(Event)) -> Result<bool, SystemError> {
        self.news.drain_raw(|message| {
            // As good as lost: all routes must be read anew.
            if shakes_routes(message) {
                return Err(Garbled);
            }
            if let Some(event) = event(message)? {
                happened(event);
            }
            Ok(())
        })
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}
