//! Makes the flows of a lab known to connection tracking in both directions. The generator only sends, and a flow that nobody has answered
//! is no connection: a stateful firewall treats each of its packets as a new one, and `established` does not trust it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, sendto, socket};
use rxlane_system::{SystemError, Tried, netns, packet_socket, stop};

use crate::BenchError;
use crate::layout::{Flow, HEADERS};

/// The router has forwarded a packet of each flow after so long, unless it is overloaded, which it is not yet.
const FORWARDED: Duration = Duration::from_millis(20);

/// A raw socket in a network namespace.
struct Side(OwnedFd);

impl Side {
    fn open(netns: &str) -> Result<Self, SystemError> {
        netns::within(netns, false, || {
            let socket = socket(
                AddressFamily::Packet,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC,
                // No protocol: it receives nothing.
                None,
            );
            Ok(Self(socket.tried(|| "open a raw socket".into())?))
        })
    }

    fn send(&self, ifindex: u32, frame: &[u8]) -> Result<(), SystemError> {
        let address = packet_socket::address(ifindex, 0)?;
        match sendto(self.0.as_raw_fd(), frame, &address, MsgFlags::empty()) {
            Ok(_) | Err(Errno::ENOBUFS) => Ok(()),
            Err(e) => Err(e).tried(|| "send a packet of a flow".into()),
        }
    }
}

/// Where a flow arrives, and is answered from.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    /// Interface of the sink.
    pub(crate) ifindex: u32,
    /// Its MAC address, and the router's.
    pub(crate) macs: [[u8; 6]; 2],
}

/// Both ends of a lab's flows.
pub(crate) struct Priming {
    generator: Side,
    sink: Side,
    flows: Vec<(Flow, Answer)>,
    /// Bytes of a frame without FCS.
    frame: usize,
}

impl Priming {
    pub(crate) fn new(
        gen_netns: &str,
        sink_netns: &str,
        flows: Vec<(Flow, Answer)>,
        frame: usize,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            generator: Side::open(gen_netns)?,
            sink: Side::open(sink_netns)?,
            flows,
            frame,
        })
    }

    /// Sends a packet of each flow, its answer, and another one.
    pub(crate) fn prime(&self) -> Result<(), BenchError> {
        for answers in [false, true, false] {
            for (flow, answer) in &self.flows {
                let mut frame = vec![0; self.frame];
                if answers {
                    frame[..HEADERS].copy_from_slice(&reversed(&flow.headers, answer.macs));
                    self.sink.send(answer.ifindex, &frame)?;
                } else {
                    frame[..HEADERS].copy_from_slice(&flow.headers);
                    self.generator.send(flow.ifindex, &frame)?;
                }
            }
            stop::sleep(FORWARDED)?;
        }
        Ok(())
    }
}

/// Addresses and ports the other way round, from the sink to the router. Sums stay what they were.
fn reversed(headers: &[u8; HEADERS], [sink, router]: [[u8; 6]; 2]) -> [u8; HEADERS] {
    let mut h = *headers;
    h[..6].copy_from_slice(&router);
    h[6..12].copy_from_slice(&sink);
    h[26..30].copy_from_slice(&headers[30..34]);
    h[30..34].copy_from_slice(&headers[26..30]);
    h[34..36].copy_from_slice(&headers[36..38]);
    h[36..38].copy_from_slice(&headers[34..36]);
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_an_answer_is_what_was_asked() {
        let mut headers: [u8; HEADERS] = std::array::from_fn(|i| i as u8);
        headers[..12].fill(0);
        let there = reversed(&headers, [[1; 6], [2; 6]]);
        assert_eq!(there[..12], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!(reversed(&there, [[0; 6]; 2]), headers);
    }
}
