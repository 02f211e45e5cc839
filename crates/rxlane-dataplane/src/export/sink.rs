//! Where messages go: datagrams, or a connection that is made anew when it ends.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use rxlane_config::{Collector, Transport};

use crate::DataplaneError;

/// So long a collector may take to answer, or to take a message.
const PATIENCE: Duration = Duration::from_secs(2);
/// So long it takes a host at most to say that nobody listens.
const ANSWERED_WITHIN: Duration = Duration::from_millis(50);

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

/// A way to one collector at a time.
#[derive(Debug, Default)]
pub(super) struct Sink {
    way: Option<(Collector, Socket)>,
}

impl Sink {
    /// Makes sure that there is a way. Returns whether it is a new one.
    pub(super) fn open(&mut self, to: Collector) -> Result<bool, DataplaneError> {
        if let Some((of, socket)) = &self.way
            && *of == to
            && is_there(socket)
        {
            return Ok(false);
        }
        self.way = None;
        self.way = Some((to, open(to).map_err(|e| unreachable_at(to, e))?));
        Ok(true)
    }

    /// Sends messages, and waits for whether somebody takes them. Returns how many were taken, too. After an error the way is gone.
    pub(super) fn send(&mut self, messages: &[Vec<u8>]) -> (usize, Result<(), DataplaneError>) {
        let Some((to, mut socket)) = self.way.take() else {
            return (0, Ok(()));
        };
        let (taken, sent) = match &mut socket {
            Socket::Udp(udp) => by_datagrams(udp, messages),
            Socket::Tcp(stream) => by_stream(stream, messages),
        };
        if sent.is_ok() {
            self.way = Some((to, socket));
        }
        (taken, sent.map_err(|e| unreachable_at(to, e)))
    }
}

/// Of datagrams nobody knows which one was refused.
fn by_datagrams(udp: &UdpSocket, messages: &[Vec<u8>]) -> (usize, io::Result<()>) {
    let all = messages.iter().try_for_each(|m| udp.send(m).map(|_| ()));
    std::thread::sleep(ANSWERED_WITHIN);
    match all.and_then(|()| udp.take_error()?.map_or(Ok(()), Err)) {
        Ok(()) => (messages.len(), Ok(())),
        Err(error) => (0, Err(error)),
    }
}

fn by_stream(stream: &mut TcpStream, messages: &[Vec<u8>]) -> (usize, io::Result<()>) {
    for (taken, message) in messages.iter().enumerate() {
        if let Err(error) = stream.write_all(message) {
            return (taken, Err(error));
        }
    }
    (messages.len(), Ok(()))
}

/// Whether a connection has not been ended by the collector, which says nothing on it.
fn is_there(socket: &Socket) -> bool {
    let Socket::Tcp(stream) = socket else {
        return true;
    };
    let blocks = |yes: bool| stream.set_nonblocking(!yes).is_ok();
    let found = blocks(false).then(|| stream.peek(&mut [0]));
    blocks(true) && matches!(found, Some(Err(e)) if e.kind() == io::ErrorKind::WouldBlock)
}

fn unreachable_at(to: Collector, source: io::Error) -> DataplaneError {
    DataplaneError::Collector {
        collector: to.to_string(),
        source,
    }
}

fn open(to: Collector) -> io::Result<Socket> {
    Ok(match to.transport {
        Transport::Udp => {
            let any: SocketAddr = match to.address {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(to.address)?;
            Socket::Udp(socket)
        }
        Transport::Tcp => {
            let stream = TcpStream::connect_timeout(&to.address, PATIENCE)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Socket::Tcp(stream)
        }
    })
}
