//! Requests to and news from the kernel's routing sockets.

use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::datagram::{self, Broken, Garbled, Raw};
use crate::{SystemError, Tried, dump};

/// A message with its header.
pub(crate) type Message = NetlinkMessage<RouteNetlinkMessage>;

pub(crate) fn parsed(message: Raw<'_>) -> Result<Message, Garbled> {
    Message::deserialize(message.whole).map_err(|_| Garbled)
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

/// Asks for everything of a kind: the messages, and how many more there are that cannot be read.
pub(crate) fn dump(
    request: RouteNetlinkMessage,
    what: &str,
) -> Result<(Vec<RouteNetlinkMessage>, usize), SystemError> {
    dump::steadily(what, || {
        let (mut all, mut unread) = (Vec::new(), 0);
        dump_once(request.clone(), what, |message| match parsed(message) {
            Ok(Message {
                payload: NetlinkPayload::InnerMessage(inner),
                ..
            }) => all.push(inner),
            _ => unread += 1,
        })?;
        Ok((all, unread))
    })
}

/// Asks for everything of a kind once, and hands each message over as it comes: for what may be millions.
///
/// # Errors
/// [`SystemError::Unsteady`] when it must be asked for again; what was handed over is worth nothing then.
pub(crate) fn dump_once(
    request: RouteNetlinkMessage,
    what: &str,
    found: impl FnMut(Raw<'_>),
) -> Result<(), SystemError> {
    let socket = open()?;
    send(&socket, request, NLM_F_DUMP, what)?;
    read(&socket, what, found)
}

/// The same, with a request of a kind that has no type here.
pub(crate) fn dump_raw(
    kind: u16,
    body: &[u8],
    what: &str,
    found: impl FnMut(Raw<'_>),
) -> Result<(), SystemError> {
    let socket = open()?;
    socket
        .send_to(&dump::request(kind, body), &SocketAddr::new(0, 0), 0)
        .tried(|| what.to_owned())?;
    read(&socket, what, found)
}

fn read(socket: &Socket, what: &str, found: impl FnMut(Raw<'_>)) -> Result<(), SystemError> {
    datagram::read_dump(|| datagram::receive(socket), found).map_err(|broken| match broken {
        Broken::Again => SystemError::Unsteady { what: what.into() },
        Broken::Refused(source) => SystemError::Refused {
            what: what.into(),
            source,
        },
    })
}

/// Asks a single question; the body of the answer, `None` when the kernel has none.
pub(crate) fn ask(
    socket: &Socket,
    request: RouteNetlinkMessage,
    what: &str,
) -> Result<Option<Vec<u8>>, SystemError> {
    const ERROR: u16 = 2;
    let tried = || what.to_owned();
    send(socket, request, 0, what)?;
    let datagram = datagram::receive(socket).tried(tried)?;
    let first = datagram::messages(&datagram).next();
    Ok(first
        .and_then(Result::ok)
        .filter(|m| m.kind != ERROR)
        .map(|m| m.body.to_vec()))
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
    match datagram::read_dump(|| datagram::receive(&socket), |_| ()) {
        Ok(()) => Ok(()),
        Err(Broken::Refused(source)) => Err(source).tried(tried),
        Err(Broken::Again) => Err(SystemError::Unsteady { what: what.into() }),
    }
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
        socket
            .set_non_blocking(true)
            .tried(|| "make a netlink socket non-blocking".into())?;
        let mut this = Self { socket };
        for group in groups {
            this.also(*group)?;
        }
        Ok(this)
    }

    /// Subscribes to one group more.
    pub(crate) fn also(&mut self, group: u32) -> Result<(), SystemError> {
        self.socket
            .add_membership(group)
            .tried(|| format!("subscribe to netlink group {group}"))
    }

    /// Hands over what has come since the last call. False: news were lost or could not be read, ask for everything anew.
    pub(crate) fn drain(&mut self, mut news: impl FnMut(Message)) -> Result<bool, SystemError> {
        self.drain_raw(|message| parsed(message).map(&mut news))
    }

    /// The same, for a reader of its own; what it cannot read is lost.
    pub(crate) fn drain_raw(
        &mut self,
        news: impl FnMut(Raw<'_>) -> Result<(), Garbled>,
    ) -> Result<bool, SystemError> {
        datagram::read_news(|| datagram::receive(&self.socket), news)
            .tried(|| "read news of the network".into())
    }
}

impl AsFd for News {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
