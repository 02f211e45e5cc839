//! Network devices: what there is, and news about them.

use std::io;
use std::os::fd::AsFd;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

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

fn messages(datagram: &[u8]) -> Vec<NetlinkPayload<RouteNetlinkMessage>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = datagram.get(at..).filter(|r| !r.is_empty()) {
        let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest) else {
            break;
        };
        let len = message.header.length as usize;
        if len == 0 {
            break;
        }
        found.push(message.payload);
        at += len.next_multiple_of(4);
    }
    found
}

/// All devices of the current network namespace.
///
/// # Errors
/// When netlink fails.
pub fn all() -> Result<Vec<Link>, SystemError> {
    let mut socket = Socket::new(NETLINK_ROUTE).tried(|| "open a netlink socket".into())?;
    socket
        .bind_auto()
        .tried(|| "bind a netlink socket".into())?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut request = NetlinkMessage::new(
        header,
        NetlinkPayload::from(RouteNetlinkMessage::GetLink(LinkMessage::default())),
    );
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket
        .send_to(&bytes, &SocketAddr::new(0, 0), 0)
        .tried(|| "list network devices".into())?;
    let mut links = Vec::new();
    loop {
        let (datagram, _) = socket
            .recv_from_full()
            .tried(|| "list network devices".into())?;
        for payload in messages(&datagram) {
            match payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(m)) => {
                    links.extend(from_message(&m));
                }
                NetlinkPayload::Done(_) => return Ok(links),
                NetlinkPayload::Error(e) if e.code.is_some() => {
                    return Err(e.to_io()).tried(|| "list network devices".into());
                }
                _ => {}
            }
        }
    }
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
    socket: Socket,
}

impl Monitor {
    /// Subscribes in the current network namespace.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        let mut socket = Socket::new(NETLINK_ROUTE).tried(|| "open a netlink socket".into())?;
        socket
            .bind_auto()
            .tried(|| "bind a netlink socket".into())?;
        socket
            .add_membership(LINK_GROUP)
            .tried(|| "subscribe to link changes".into())?;
        socket
            .set_non_blocking(true)
            .tried(|| "make a netlink socket non-blocking".into())?;
        Ok(Self { socket })
    }

    /// What has happened since the last call. `None`: news were lost, list the devices anew.
    ///
    /// # Errors
    /// When netlink fails otherwise.
    pub fn drain(&mut self) -> Result<Option<Vec<Event>>, SystemError> {
        let mut events = Vec::new();
        loop {
            let datagram = match self.socket.recv_from_full() {
                Ok((datagram, _)) => datagram,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Some(events)),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => return Ok(None),
                Err(e) => return Err(e).tried(|| "read link changes".into()),
            };
            for payload in messages(&datagram) {
                match payload {
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(m)) => {
                        events.extend(from_message(&m).map(Event::Changed));
                    }
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(m)) => {
                        events.push(Event::Gone(m.header.index));
                    }
                    _ => {}
                }
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
