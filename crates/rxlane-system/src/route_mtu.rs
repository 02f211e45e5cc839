//! What `bpf_fib_lookup` does not say of routes: MTUs that they ask for (`ip route ... mtu N`), and whether there are several next hops.
//!
//! Of MTUs only the smallest is followed: hardly any router has one, and a table may have a million routes without.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::datagram::messages;
use crate::dump::{attributes, dump_each, steadily};
use crate::{SystemError, Tried};

/// `RTNLGRP_IPV4_ROUTE`, `RTNLGRP_IPV6_ROUTE`, and messages and attributes of include/uapi/linux/rtnetlink.h.
const GROUPS: [u32; 2] = [7, 11];
/// IPv4 and IPv6, in this order everywhere.
const FAMILIES: [libc::c_int; 2] = [libc::AF_INET, libc::AF_INET6];
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const METRICS: u16 = 8;
const MULTIPATH: u16 = 9;
const NEXTHOP: u16 = 30;
const DEVICE: u16 = 4;
const LOCK: u16 = 1;
const MTU: u16 = 2;
const HOP_LIMIT: u16 = 10;
/// `struct rtmsg`, in which this flag (`RTM_F_CLONED`) says that the kernel has made the route of another one.
const HEADER: usize = 12;
const TYPE_OF_SERVICE: usize = 3;
const FLAGS: usize = 8;
const LEARNED: u32 = 0x200;

/// The smallest MTUs of routes, followed.
pub struct RouteMtu {
    socket: Socket,
    found: Found,
    /// Whether routes have to be read anew, which may fail.
    stale: bool,
}

/// What was found among all routes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Found {
    smallest: [Option<u32>; 2],
    several: bool,
}

/// News taken in at a time: whoever follows routes has other things to do, too, while a routing daemon learns a table.
const AT_ONCE: usize = 1024;

impl RouteMtu {
    /// Reads all routes, and subscribes to their changes.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn follow() -> Result<Self, SystemError> {
        let tried = || "subscribe to changes of routes".to_owned();
        let mut socket = Socket::new(NETLINK_ROUTE).tried(tried)?;
        socket.bind(&SocketAddr::new(0, 0)).tried(tried)?;
        for group in GROUPS {
            socket.add_membership(group).tried(tried)?;
        }
        socket.set_non_blocking(true).tried(tried)?;
        Ok(Self {
            socket,
            found: read()?,
            stale: false,
        })
    }

    /// The smallest MTU that a route asks for, if any does: IPv4 and IPv6.
    pub fn smallest(&self) -> [Option<u32>; 2] {
        self.found.smallest
    }

    /// Whether a route of IPv4 has several next hops, among which Linux chooses in its own way for what it sends itself, a locked MTU, a TTL, or a type of
    /// service.
    pub fn have_several_hops(&self) -> bool {
        self.found.several
    }

    /// Takes in what has changed since the last call, or the first of it; whether anything has. As long as there is more the
    /// descriptor stays readable.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn drain(&mut self) -> Result<bool, SystemError> {
        let mut news = false;
        for _ in 0..AT_ONCE {
            match self.socket.recv_from_full() {
                Ok((datagram, _)) => {
                    news = true;
                    for message in messages(&datagram).map_while(Result::ok) {
                        let says = mtu(message.body).is_some() || is_chosen_otherwise(message.body);
                        match message.kind {
                            NEW_ROUTE if says => self.found.note(message.body),
                            DELETE_ROUTE if says => self.stale = true,
                            _ => {}
                        }
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => self.stale = true,
                Err(e) => return Err(e).tried(|| "read news of routes".into()),
            }
        }
        if self.stale {
            self.found = read()?;
            self.stale = false;
            news = true;
        }
        Ok(news)
    }
}

impl AsFd for RouteMtu {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn read() -> Result<Found, SystemError> {
    steadily("list routes", || {
        let mut found = Found::default();
        for family in FAMILIES {
            let mut request = [0; HEADER];
            request[0] = family as u8;
            dump_each(NETLINK_ROUTE, GET_ROUTE, &request, "list routes", |body| {
                found.note(body);
            })?;
        }
        Ok(found)
    })
}

impl Found {
    fn note(&mut self, body: &[u8]) {
        note(&mut self.smallest, body);
        self.several |= is_chosen_otherwise(body);
    }
}

/// Whether it is a route of IPv4 with several next hops, or of which only the number of its next hops is told, which may be several
/// (`net.ipv4.nexthop_compat_mode = 0`); or one whose MTU is locked, to which Linux sends what may be fragmented, whoever says otherwise; or one with a
/// TTL of its own, which packets in a VXLAN get; or one for a type of service, of which SIT may heed another packet's.
fn is_chosen_otherwise(body: &[u8]) -> bool {
    if body.first() != Some(&(libc::AF_INET as u8)) {
        return false;
    }
    let all = attributes(body.get(HEADER..).unwrap_or_default());
    let (mut several, mut number, mut device) = (false, false, false);
    let (mut locked, mut hops) = (false, false);
    for (kind, value) in all {
        match kind {
            MULTIPATH => several = true,
            NEXTHOP => number = true,
            DEVICE => device = true,
            METRICS => {
                let lock = attributes(value).find(|(kind, _)| *kind == LOCK);
                let bits = lock.and_then(|(_, bits)| bits.try_into().ok());
                locked = bits.is_some_and(|bits| u32::from_ne_bytes(bits) & 1 << MTU != 0);
                hops = attributes(value).any(|(kind, _)| kind == HOP_LIMIT);
            }
            _ => {}
        }
    }
    let of_one_type_of_service = body.get(TYPE_OF_SERVICE) != Some(&0);
    several || locked || hops || of_one_type_of_service || (number && !device)
}

pub(crate) fn note(smallest: &mut [Option<u32>; 2], body: &[u8]) {
    let family = body.first().map(|f| libc::c_int::from(*f));
    let at = FAMILIES.iter().position(|f| Some(*f) == family);
    if let (Some(at), Some(mtu)) = (at, mtu(body)) {
        smallest[at] = Some(smallest[at].map_or(mtu, |s| s.min(mtu)));
    }
}

/// The MTU that a route asks for. What Linux has learned of a single destination is listed among routes, too, but look-ups know it; each
/// destination behind a tunnel has such an entry.
fn mtu(body: &[u8]) -> Option<u32> {
    let flags = u32::from_ne_bytes(body.get(FLAGS..FLAGS + 4)?.try_into().ok()?);
    if flags & LEARNED != 0 {
        return None;
    }
    let (_, metrics) = attributes(body.get(HEADER..)?).find(|(kind, _)| *kind == METRICS)?;
    let (_, mtu) = attributes(metrics).find(|(kind, _)| *kind == MTU)?;
    Some(u32::from_ne_bytes(mtu.try_into().ok()?)).filter(|mtu| *mtu > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A route of IPv4 with an MTU, as netlink tells it.
    fn route(mtu: u32, flags: u32) -> Vec<u8> {
        let mut body = vec![libc::AF_INET as u8, 32, 0, 0, 254, 3, 0, 1];
        body.extend(flags.to_ne_bytes());
        for word in [12, METRICS, 8, MTU] {
            body.extend(word.to_ne_bytes());
        }
        body.extend(mtu.to_ne_bytes());
        body
    }

    #[test]
    fn what_linux_learned_of_a_destination_is_no_mtu_of_a_route() {
        let mut found = Found::default();
        found.note(&route(1472, LEARNED));
        assert_eq!(found, Found::default());
        found.note(&route(1400, 0));
        assert_eq!(found.smallest, [Some(1400), None]);
        assert!(!found.several);
    }

    #[test]
    fn several_next_hops_and_locked_mtus_are_found() {
        let route = |attribute: &[u16]| {
            let mut body = vec![libc::AF_INET as u8, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
            body.extend(attribute.iter().flat_map(|word| word.to_ne_bytes()));
            body
        };
        let number = [8, NEXTHOP, 7, 0];
        assert!(is_chosen_otherwise(&route(&[4, MULTIPATH])));
        assert!(is_chosen_otherwise(&route(&number)));
        let device = [8, DEVICE, 3, 0];
        assert!(!is_chosen_otherwise(&route(&[number, device].concat())));
        assert!(is_chosen_otherwise(&route(&[
            12,
            METRICS,
            8,
            LOCK,
            1 << MTU,
            0
        ])));
        assert!(!is_chosen_otherwise(&route(&[12, METRICS, 8, LOCK, 1, 0])));
        assert!(is_chosen_otherwise(&route(&[
            12, METRICS, 8, HOP_LIMIT, 33, 0
        ])));
        let mut of_tos = route(&[]);
        assert!(!is_chosen_otherwise(&of_tos));
        of_tos[TYPE_OF_SERVICE] = 0x10;
        assert!(is_chosen_otherwise(&of_tos));
    }
}
