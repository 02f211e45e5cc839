//! Requests to and news from the kernel's routing sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::{SystemError, Tried};

/// A message with its header.
pub(crate) type Message = NetlinkMessage<RouteNetlinkMessage>;

/// The messages of a datagram; what cannot be read ends them.
fn messages(datagram: &[u8]) -> Vec<Message> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = datagram.get(at..).filter(|r| !r.is_empty()) {
        let Ok(message) = Message::deserialize(rest) else {
            break;
        };
        let len = message.header.length as usize;
        if len == 0 {
            break;
        }
        found.push(message);
        at += len.next_multiple_of(4);
    }
    found
}

pub(crate) fn open() -> Result<Socket, SystemError> {
    let mut socket = Socket::new(NETLINK_ROUTE).tried(|| "open a netlink socket".into())?;
    socket
        .bind_auto()
        .tried(|| "bind a netlink socket".into())?;
    Ok(socket)
}

/// Sends a request on a socket.
fn send(
    socket: &Socket,
    request: RouteNetlinkMessage,
    flags: u16,
    what: &str,
) -> Result<(), SystemError> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::from(request));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket
        .send_to(&bytes, &SocketAddr::new(0, 0), 0)
        .tried(|| what.to_owned())?;
    Ok(())
}

/// Asks for everything of a kind and hands each message over.
pub(crate) fn dump(
    request: RouteNetlinkMessage,
    what: &str,
    mut found: impl FnMut(RouteNetlinkMessage),
) -> Result<(), SystemError> {
    let tried = || what.to_owned();
    let socket = open()?;
    send(&socket, request, NLM_F_DUMP, what)?;
    loop {
        let (datagram, _) = socket.recv_from_full().tried(tried)?;
        for message in messages(&datagram) {
            match message.payload {
                NetlinkPayload::InnerMessage(inner) => found(inner),
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(e) if e.code.is_some() => return Err(e.to_io()).tried(tried),
                _ => {}
            }
        }
    }
}

/// Asks a single question; `None` when the kernel has no answer.
pub(crate) fn ask(
    socket: &Socket,
    request: RouteNetlinkMessage,
    what: &str,
) -> Result<Option<RouteNetlinkMessage>, SystemError> {
    let tried = || what.to_owned();
    send(socket, request, 0, what)?;
    let (datagram, _) = socket.recv_from_full().tried(tried)?;
    Ok(messages(&datagram)
        .into_iter()
        .find_map(|m| match m.payload {
            NetlinkPayload::InnerMessage(inner) => Some(inner),
            _ => None,
        }))
}

/// Changes something, and waits until it is done.
pub(crate) fn change(
    request: RouteNetlinkMessage,
    flags: u16,
    what: &str,
) -> Result<(), SystemError> {
    let tried = || what.to_owned();
    let socket = open()?;
    send(&socket, request, NLM_F_ACK | flags, what)?;
    let (datagram, _) = socket.recv_from_full().tried(tried)?;
    for message in messages(&datagram) {
        if let NetlinkPayload::Error(e) = message.payload
            && e.code.is_some()
        {
            return Err(e.to_io()).tried(tried);
        }
    }
    Ok(())
}

/// A subscription to multicast groups.
pub(crate) struct News {
    socket: Socket,
}

/// Room for news while nobody reads: a full BGP table's worth.
const RECEIVE_BUFFER: usize = 64 << 20;

impl News {
    /// Subscribes in the current network namespace.
    pub(crate) fn of(groups: &[u32]) -> Result<Self, SystemError> {
        let socket = open()?;
        // Without the privilege the kernel's own limit holds.
        let _ = nix::sys::socket::setsockopt(
            &socket.as_fd(),
            nix::sys::socket::sockopt::RcvBufForce,
            &RECEIVE_BUFFER,
        );
        for group in groups {
            socket
                .add_membership(*group)
                .tried(|| format!("subscribe to netlink group {group}"))?;
        }
        socket
            .set_non_blocking(true)
            .tried(|| "make a netlink socket non-blocking".into())?;
        Ok(Self { socket })
    }

    /// Hands over what has come since the last call. False: news were lost, ask for everything anew.
    pub(crate) fn drain(&mut self, mut news: impl FnMut(Message)) -> Result<bool, SystemError> {
        loop {
            let datagram = match self.socket.recv_from_full() {
                Ok((datagram, _)) => datagram,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => return Ok(false),
                Err(e) => return Err(e).tried(|| "read news of the network".into()),
            };
            messages(&datagram).into_iter().for_each(&mut news);
        }
    }
}

impl AsFd for News {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
