//! MTUs that routes ask for (`ip route ... mtu N`), which `bpf_fib_lookup` does not look at.
//!
//! Only the smallest is followed: hardly any router has one, and a table may have a million routes without.

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
const MTU: u16 = 2;
/// `struct rtmsg`.
const HEADER: usize = 12;

/// The smallest MTUs of routes, followed.
pub struct RouteMtu {
    socket: Socket,
    smallest: [Option<u32>; 2],
    /// Whether routes have to be read anew, which may fail.
    stale: bool,
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
            smallest: read()?,
            stale: false,
        })
    }

    /// The smallest MTU that a route asks for, if any does: IPv4 and IPv6.
    pub fn smallest(&self) -> [Option<u32>; 2] {
        self.smallest
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
                        match (message.kind, mtu(message.body)) {
                            (NEW_ROUTE, Some(_)) => note(&mut self.smallest, message.body),
                            (DELETE_ROUTE, Some(_)) => self.stale = true,
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
            self.smallest = read()?;
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

fn read() -> Result<[Option<u32>; 2], SystemError> {
    steadily("list routes", || {
        let mut smallest = [None; 2];
        for family in FAMILIES {
            let mut request = [0; HEADER];
            request[0] = family as u8;
            dump_each(NETLINK_ROUTE, GET_ROUTE, &request, "list routes", |body| {
                note(&mut smallest, body);
            })?;
        }
        Ok(smallest)
    })
}

pub(crate) fn note(smallest: &mut [Option<u32>; 2], body: &[u8]) {
    let family = body.first().map(|f| libc::c_int::from(*f));
    let at = FAMILIES.iter().position(|f| Some(*f) == family);
    if let (Some(at), Some(mtu)) = (at, mtu(body)) {
        smallest[at] = Some(smallest[at].map_or(mtu, |s| s.min(mtu)));
    }
}

/// The MTU of a route.
fn mtu(body: &[u8]) -> Option<u32> {
    let (_, metrics) = attributes(body.get(HEADER..)?).find(|(kind, _)| *kind == METRICS)?;
    let (_, mtu) = attributes(metrics).find(|(kind, _)| *kind == MTU)?;
    Some(u32::from_ne_bytes(mtu.try_into().ok()?)).filter(|mtu| *mtu > 0)
}
