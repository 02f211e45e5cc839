//! Requests to and news from the kernel's routing sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::{SystemError, Tried};

/// `struct nlmsghdr`.
const HEADER: usize = 16;

/// A message with its header.
pub(crate) type Message = NetlinkMessage<RouteNetlinkMessage>;

/// The messages of a datagram. One that cannot be read stands for itself; only a length that cannot be hides the rest.
pub(crate) fn messages(datagram: &[u8]) -> Vec<Result<Message, DecodeError>> {
    let mut found = Vec::new();
    let mut rest = datagram;
    while let Some(len) = rest.first_chunk() {
        let len = u32::from_ne_bytes(*len) as usize;
        let Some(message) = rest.get(..len).filter(|m| m.len() >= HEADER) else {
            found.push(Err(
                format!("a message of {len} bytes in {}", rest.len()).into()
            ));
            break;
        };
        found.push(Message::deserialize(message));
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
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

/// Asks for everything of a kind and hands each message over. What cannot be read is an error, though only at the end, so
/// that nothing is left on the socket: whoever forwards by what is listed must not miss any of it.
pub(crate) fn dump(
    request: RouteNetlinkMessage,
    what: &str,
    found: impl FnMut(RouteNetlinkMessage),
) -> Result<(), SystemError> {
    match dump_readable(request, what, found)? {
        None => Ok(()),
        Some(error) => Err(unreadable(what, &error)),
    }
}

/// The same where one that is missing does no harm; the first that could not be read comes back.
pub(crate) fn dump_readable(
    request: RouteNetlinkMessage,
    what: &str,
    mut found: impl FnMut(RouteNetlinkMessage),
) -> Result<Option<DecodeError>, SystemError> {
    let tried = || what.to_owned();
    let socket = open()?;
    send(&socket, request, NLM_F_DUMP, what)?;
    let mut first = None;
    loop {
        let (datagram, _) = socket.recv_from_full().tried(tried)?;
        for message in messages(&datagram) {
            match message.map(|m| m.payload) {
                Err(error) => first = first.or(Some(error)),
                Ok(NetlinkPayload::InnerMessage(inner)) => found(inner),
                Ok(NetlinkPayload::Done(_)) => return Ok(first),
                Ok(NetlinkPayload::Error(e)) if e.code.is_some() => {
                    return Err(e.to_io()).tried(tried);
                }
                Ok(_) => {}
            }
        }
    }
}

fn unreadable(what: &str, error: &DecodeError) -> SystemError {
    SystemError::Answer {
        what: what.into(),
        why: error.to_string(),
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
    for message in messages(&datagram) {
        let message = message.map_err(|error| unreadable(what, &error))?;
        if let NetlinkPayload::InnerMessage(inner) = message.payload {
            return Ok(Some(inner));
        }
    }
    Ok(None)
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
        let message = message.map_err(|error| unreadable(what, &error))?;
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

    /// Hands over what has come since the last call. False: news were lost, or could not be read; ask for everything anew.
    pub(crate) fn drain(&mut self, mut news: impl FnMut(Message)) -> Result<bool, SystemError> {
        let mut complete = true;
        loop {
            let datagram = match self.socket.recv_from_full() {
                Ok((datagram, _)) => datagram,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(complete),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => return Ok(false),
                Err(e) => return Err(e).tried(|| "read news of the network".into()),
            };
            for message in messages(&datagram) {
                match message {
                    Ok(message) => news(message),
                    Err(_) => complete = false,
                }
            }
        }
    }
}

impl AsFd for News {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of that kind and body, as the kernel writes it.
    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let len = 16 + body.len();
        let mut bytes = (len as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(len.next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn what_follows_an_unreadable_message_is_read_so_that_a_dump_ends() {
        const NEW_ROUTE: u16 = 24;
        const DONE: u16 = 3;
        let datagram = [message(NEW_ROUTE, &[2, 1]), message(DONE, &[0; 4])].concat();
        let found = messages(&datagram);
        assert_eq!(found.len(), 2);
        assert!(found[0].is_err());
        let done = found[1].as_ref().map(|m| &m.payload);
        assert!(matches!(done, Ok(NetlinkPayload::Done(_))));
    }

    #[test]
    fn a_length_that_lies_ends_the_datagram_and_is_not_silent() {
        let good = message(3, &[0; 4]);
        for len in [0u8, 15, 21, 255] {
            let mut bad = good.clone();
            bad[0] = len;
            let found = messages(&bad);
            assert!(found.len() == 1 && found[0].is_err(), "{len}");
        }
    }
}
