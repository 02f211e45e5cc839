//! Makes the flows of a lab known to connection tracking in both directions. The generator only sends, and a flow that nobody has answered
//! is no connection: a stateful firewall treats each of its packets as a new one, and `established` does not trust it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, sendto, socket};
use rxlane_system::{SystemError, Tried, netns, packet_socket, stop};

use crate::BenchError;
use crate::lab::Over;
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
    /// Number of its link.
    pub(crate) link: u8,
}

/// Both ends of a lab's flows.
pub(crate) struct Priming {
    generator: Side,
    sink: Side,
    over: Over,
    flows: Vec<(Flow, Answer)>,
    /// Bytes of a frame without FCS.
    frame: usize,
}

impl Priming {
    pub(crate) fn new(
        gen_netns: &str,
        sink_netns: &str,
        over: Over,
        flows: Vec<(Flow, Answer)>,
        frame: usize,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            generator: Side::open(gen_netns)?,
            sink: Side::open(sink_netns)?,
            over,
            flows,
            frame,
        })
    }

    /// Sends a packet of each flow, its answer, and another one.
    pub(crate) fn prime(&self) -> Result<(), BenchError> {
        let length = HEADERS + self.over.added_bytes();
        for answers in [false, true, false] {
            for (flow, answer) in &self.flows {
                let asks = &flow.headers[..length];
                let between = self.over.between(2, answer.link, self.frame);
                let mut frame = if answers {
                    reversed(asks, answer.macs, &between)
                } else {
                    asks.to_vec()
                };
                frame.resize(self.frame, 0);
                match answers {
                    true => self.sink.send(answer.ifindex, &frame)?,
                    false => self.generator.send(flow.ifindex, &frame)?,
                }
            }
            stop::sleep(FORWARDED)?;
        }
        Ok(())
    }
}

/// Addresses and ports the other way round, from the sink to the router, and what the sink has between its MAC addresses and the
/// IP header, which is as long as what was there. Sums stay what they were.
fn reversed(headers: &[u8], [sink, router]: [[u8; 6]; 2], between: &[u8]) -> Vec<u8> {
    let ip = &headers[12 + between.len()..];
    let ports_and_rest = [&ip[22..24], &ip[20..22], &ip[24..]].concat();
    let addresses = [&ip[16..20], &ip[12..16]].concat();
    [
        &router[..],
        &sink,
        between,
        &ip[..12],
        &addresses,
        &ports_and_rest,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_an_answer_is_what_was_asked() {
        for between in [&[8, 0][..], &[0x81, 0, 0, 100, 8, 0]] {
            let length = HEADERS + between.len() - 2;
            let mut headers: Vec<u8> = (0..length as u8).collect();
            headers[..12].fill(0);
            headers[12..12 + between.len()].copy_from_slice(between);
            let there = reversed(&headers, [[1; 6], [2; 6]], between);
            assert_eq!(there[..12], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
            assert_eq!(reversed(&there, [[0; 6]; 2], between), headers);
        }
    }
}
