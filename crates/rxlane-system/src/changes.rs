//! News that something changed which decides what becomes of forwarded packets. Not what: whoever hears of it looks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE, NETLINK_XFRM};
use netlink_sys::{Socket, SocketAddr};

use crate::{SystemError, Tried};

/// Links, filters of traffic control, addresses, rules and settings of interfaces such as `rp_filter` and `forwarding`, in
/// IPv4 and IPv6 (`RTNLGRP_`, include/uapi/linux/rtnetlink.h).
const ROUTE_GROUPS: [u32; 8] = [1, 4, 5, 9, 8, 19, 24, 25];
/// `NFNLGRP_NFTABLES`.
const NFTABLES: [u32; 1] = [7];
/// `XFRMNLGRP_POLICY`.
const POLICIES: [u32; 1] = [4];

/// A subscription.
pub struct Changes {
    sockets: Vec<Socket>,
}

impl Changes {
    /// Subscribes in the current network namespace to what its kernel has.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn subscribe() -> Result<Self, SystemError> {
        let all: [(isize, &[u32], &str); 3] = [
            (NETLINK_ROUTE, &ROUTE_GROUPS, "rules, addresses and filters"),
            (NETLINK_NETFILTER, &NFTABLES, "the firewall"),
            (NETLINK_XFRM, &POLICIES, "IPsec policies"),
        ];
        let mut sockets = Vec::new();
        for (protocol, groups, what) in all {
            let tried = || format!("subscribe to changes of {what}");
            let mut socket = match Socket::new(protocol) {
                Ok(socket) => socket,
                Err(e) if e.raw_os_error() == Some(libc::EPROTONOSUPPORT) => continue,
                Err(e) => return Err(e).tried(tried),
            };
            socket.bind(&SocketAddr::new(0, 0)).tried(tried)?;
            for group in groups {
                socket.add_membership(*group).tried(tried)?;
            }
            socket.set_non_blocking(true).tried(tried)?;
            sockets.push(socket);
        }
        Ok(Self { sockets })
    }

    /// What to wait for.
    pub fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Whether anything has changed since the last call; also when news were lost.
    ///
    /// # Errors
    /// When netlink fails otherwise.
    pub fn drain(&mut self) -> Result<bool, SystemError> {
        let mut any = false;
        for socket in &self.sockets {
            loop {
                match socket.recv_from_full() {
                    Ok(_) => any = true,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => any = true,
                    Err(e) => return Err(e).tried(|| "read news of the network".into()),
                }
            }
        }
        Ok(any)
    }
}
