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
    open: Option<(Collector, Socket)>,
}

impl Sink {
    /// Sends messages, and waits for whether somebody takes them. After an error the next ones begin anew.
    pub(super) fn send(
        &mut self,
        to: Collector,
        messages: &[Vec<u8>],
    ) -> Result<(), DataplaneError> {
        let sent = self.try_send(to, messages);
        if sent.is_err() {
            self.open = None;
        }
        sent.map_err(|source| DataplaneError::Collector {
            collector: to.to_string(),
            source,
        })
    }

    fn try_send(&mut self, to: Collector, messages: &[Vec<u8>]) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|(of, _)| *of != to) {
            self.open = Some((to, open(to)?));
        }
        match &mut self.open {
            Some((_, Socket::Udp(socket))) => {
                for message in messages {
                    socket.send(message)?;
                }
                std::thread::sleep(ANSWERED_WITHIN);
                socket.take_error()?.map_or(Ok(()), Err)
            }
            Some((_, Socket::Tcp(stream))) => messages
                .iter()
                .try_for_each(|message| stream.write_all(message)),
            None => Ok(()),
        }
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
