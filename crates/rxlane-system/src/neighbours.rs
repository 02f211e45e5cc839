//! The kernel's neighbours: which hardware address an IP address on a link has.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};

use crate::SystemError;
use crate::netlink::{self, Message, News};

/// Multicast group of neighbour changes (RTNLGRP_NEIGH).
const NEIGHBOUR_GROUP: u32 = 3;

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

fn from_message(message: &NeighbourMessage) -> Option<Neighbour> {
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
    // Packets to a neighbour that is left out are the kernel's.
    netlink::dump_readable(request, "list neighbours", |message| {
        if let RouteNetlinkMessage::NewNeighbour(m) = message
            && let Some(neighbour) = from_message(&m)
        {
            found(neighbour);
        }
    })?;
    Ok(())
}

/// A subscription to neighbour changes.
pub struct Monitor {
    news: News,
}

impl Monitor {
    /// Subscribes in the current network namespace; before [`all`] is asked.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        Ok(Self {
            news: News::of(&[NEIGHBOUR_GROUP])?,
        })
    }

    /// Hands over neighbours as they have become since the last call. False: news were lost, ask for
    /// [`all`] anew.
    ///
    /// # Errors
    /// When netlink fails otherwise.
    pub fn drain(&mut self, mut changed: impl FnMut(Neighbour)) -> Result<bool, SystemError> {
        self.news
            .drain(|message| became(message).into_iter().for_each(&mut changed))
    }
}

/// A neighbour as a message of the kernel's says that it has become.
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

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}
