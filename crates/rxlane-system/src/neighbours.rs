//! The kernel's neighbours: which hardware address an IP address on a link has.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::SystemError;
use crate::netlink::{self, Message, News};

/// Multicast group of neighbour changes (RTNLGRP_NEIGH).
const NEIGHBOUR_GROUP: u32 = 3;

/// Where `struct ndmsg` has the state, and the state that is asked for (include/uapi/linux/neighbour.h).
const STATE: usize = 8;
const STALE: u16 = 4;

/// A neighbour, as far as it can be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Device that it is behind.
    pub ifindex: u32,
    /// IP address of the neighbour.
    pub address: IpAddr,
    /// Its hardware address, while the kernel would send to it; `None` while it is unknown, being asked
    /// for, or gone.
    pub mac: Option<[u8; 6]>,
}

/// `None` for what is no neighbour of IP: a bridge tells of its own in the same messages, and a tunnel's entry has the
/// address of its other end.
fn from_message(message: &NeighbourMessage) -> Option<Neighbour> {
    if !matches!(
        message.header.family,
        AddressFamily::Inet | AddressFamily::Inet6
    ) {
        return None;
    }
    let mut address = None;
    let mut mac = None;
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                address = Some(IpAddr::V4(*v4));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                address = Some(IpAddr::V6(*v6));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    // Stale and probed neighbours are sent to; the kernel asks meanwhile.
    let known = matches!(
        message.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
            | NeighbourState::Noarp
    );
    Some(Neighbour {
        ifindex: message.header.ifindex,
        address: address?,
        mac: mac.filter(|_| known),
    })
}

/// Hands over all neighbours of the current network namespace.
///
/// # Errors
/// When netlink fails.
pub fn all(mut found: impl FnMut(Neighbour)) -> Result<(), SystemError> {
    let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
    let (all, _) = netlink::dump(request, "list neighbours")?;
    for message in &all {
        if let RouteNetlinkMessage::NewNeighbour(m) = message
            && let Some(neighbour) = from_message(m)
        {
            found(neighbour);
        }
    }
    Ok(())
}

/// Tells the kernel that packets went to these neighbours, each a device and an address: one whose entry is stale is
/// asked whether it is still there, as if the kernel had sent to it.
///
/// # Errors
/// When netlink fails; a neighbour that the kernel does not know any more is none.
pub fn are_used(used: impl IntoIterator<Item = (u32, IpAddr)>) -> Result<(), SystemError> {
    let mut used = used.into_iter().peekable();
    if used.peek().is_none() {
        return Ok(());
    }
    let socket = netlink::open()?;
    for (ifindex, address) in used {
        let mut message = NeighbourMessage::default();
        message.header.family = match address {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        message.header.ifindex = ifindex;
        message
            .attributes
            .push(NeighbourAttribute::Destination(match address {
                IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
                IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
            }));
        let question = RouteNetlinkMessage::GetNeighbour(message.clone());
        let known = netlink::ask(&socket, question, "ask for a neighbour")?;
        // All but stale ones look after themselves, and being told of use would take the permanence of a permanent one.
        if known.is_some_and(|body| body.get(STATE..STATE + 2) == Some(&STALE.to_ne_bytes())) {
            message.header.flags = NeighbourFlags::Use;
            let use_it = RouteNetlinkMessage::NewNeighbour(message);
            match netlink::change(use_it, 0, "use a neighbour") {
                Err(SystemError::Refused { source, .. })
                    if source.raw_os_error() == Some(libc::ENOENT) => {}
                done => done?,
            }
        }
    }
    Ok(())
}

/// A subscription to what the kernel tells of neighbours: those of IP, stations of bridges, ends of VXLANs.
pub struct NeighbourNews<T> {
    news: News,
    became: fn(Message) -> Option<T>,
}

impl<T> NeighbourNews<T> {
    pub(crate) fn of(became: fn(Message) -> Option<T>) -> Result<Self, SystemError> {
        Ok(Self {
            news: News::of(&[NEIGHBOUR_GROUP])?,
            became,
        })
    }

    /// Hands over what has come, changed or gone since the last call, as it has become. False: news were lost, and everything must be
    /// asked for anew.
    ///
    /// # Errors
    /// When netlink fails otherwise.
    pub fn drain(&mut self, mut changed: impl FnMut(T)) -> Result<bool, SystemError> {
        let became = self.became;
        self.news
            .drain(|message| became(message).into_iter().for_each(&mut changed))
    }
}

/// A subscription to neighbour changes.
pub type Monitor = NeighbourNews<Neighbour>;

impl Monitor {
    /// Subscribes in the current network namespace; before [`all`] is asked.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        Self::of(became)
    }
}

/// What a neighbour has become, by a message of the kernel's.
pub(crate) fn became(message: Message) -> Option<Neighbour> {
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(m)) => from_message(&m),
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelNeighbour(m)) => {
            from_message(&m).map(|neighbour| Neighbour {
                mac: None,
                ..neighbour
            })
        }
        _ => None,
    }
}

impl<T> AsFd for NeighbourNews<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}
