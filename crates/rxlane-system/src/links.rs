//! Network devices: what there is, and news about them.

use std::io;
use std::os::fd::AsFd;

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp,
};

use crate::netlink::{self, News};
use crate::{SystemError, Tried};

/// Multicast group of link changes (RTNLGRP_LINK).
const LINK_GROUP: u32 = 1;

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Index, unique within the namespace.
    pub ifindex: u32,
    /// Name.
    pub name: String,
    /// Hardware address; zeros where the device has none of 6 bytes.
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Kind of a virtual device, such as `veth`.
    pub kind: Option<String>,
    /// Id of an XDP program that is attached without being asked for here; 0 for none.
    pub xdp_program: u32,
}

/// News about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It appeared or changed.
    Changed(Link),
    /// It is gone.
    Gone(u32),
}

fn from_message(message: &LinkMessage) -> Option<Link> {
    let mut link = Link {
        ifindex: message.header.index,
        name: String::new(),
        mac: [0; 6],
        mtu: 0,
        up: message.header.flags.contains(LinkFlags::Up),
        kind: None,
        xdp_program: 0,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(bytes) => {
                link.mac = bytes.as_slice().try_into().unwrap_or_default()
            }
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    if let LinkInfo::Kind(kind) = info {
                        link.kind = Some(kind_name(kind));
                    }
                }
            }
            LinkAttribute::Xdp(xdp) => {
                for x in xdp {
                    if let LinkXdp::ProgId(id) = x {
                        link.xdp_program = *id;
                    }
                }
            }
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

fn kind_name(kind: &InfoKind) -> String {
    match kind {
        InfoKind::Other(name) => name.clone(),
        known => format!("{known:?}").to_lowercase(),
    }
}

/// All devices of the current network namespace.
///
/// # Errors
/// When netlink fails.
pub fn all() -> Result<Vec<Link>, SystemError> {
    let mut links = Vec::new();
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    netlink::dump(request, "list network devices", |message| {
        if let RouteNetlinkMessage::NewLink(m) = message {
            links.extend(from_message(&m));
        }
    })?;
    Ok(links)
}

/// The device of that name.
///
/// # Errors
/// When netlink fails or there is no such device.
pub fn by_name(name: &str) -> Result<Link, SystemError> {
    all()?
        .into_iter()
        .find(|l| l.name == name)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such network device"))
        .tried(|| format!("find `{name}`"))
}

/// A subscription to link changes.
pub struct Monitor {
    news: News,
}

impl Monitor {
    /// Subscribes in the current network namespace.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        Ok(Self {
            news: News::of(&[LINK_GROUP])?,
        })
    }

    /// What has happened since the last call. `None`: news were lost, list the devices anew.
    ///
    /// # Errors
    /// When netlink fails otherwise.
    pub fn drain(&mut self) -> Result<Option<Vec<Event>>, SystemError> {
        let mut events = Vec::new();
        let complete = self.news.drain(|message| match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(m)) => {
                events.extend(from_message(&m).map(Event::Changed));
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(m)) => {
                events.push(Event::Gone(m.header.index));
            }
            _ => {}
        })?;
        Ok(complete.then_some(events))
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.news.as_fd()
    }
}
