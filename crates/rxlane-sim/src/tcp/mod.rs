//! A closed loop: connections that send as much as their congestion control allows, and learn from acknowledgements.
//!
//! Sequence numbers are those of transmissions, not of bytes, as in QUIC (RFC 9002): what is sent again has a number of its own. So
//! nothing here depends on which bytes a packet has, and each acknowledgement tells one packet. Losses are told by later packets, or by
//! time (RFC 8985: what is sent last is probed for).
//!
//! Hosts cost nothing, and acknowledgements come back without a router on their way.

mod acked;
mod bbr;
mod connection;
mod cubic;
mod window;

use std::collections::VecDeque;

use rxlane_policy::{Bps, Ps};

use crate::ring::Packet;
use crate::scenario::{Scenario, Tcp};
use connection::Connection;

/// How a connection decides how much may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CongestionControl {
    /// RFC 5681.
    Reno,
    /// RFC 9438, with the end of slow start by delay that Linux has (HyStart).
    #[default]
    Cubic,
    /// The first version (draft-cardwell-iccrg-bbr-congestion-control-00).
    Bbr,
}

/// What reached the other host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered {
    /// When its last bit left the router.
    pub(crate) at: Ps,
    pub(crate) packet: Packet,
}

/// What was counted of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets that were taken for lost, and sent again.
    pub sent_again: u64,
    /// Packets that arrived with a congestion mark.
    pub marked: u64,
    /// Times that nothing was acknowledged for so long that all was taken for lost.
    pub timeouts: u64,
}

/// All connections of a NIC.
#[derive(Debug)]
pub(crate) struct Senders {
    connections: Vec<Connection>,
    first_flow: u16,
    class: u8,
    rtt: Ps,
    wire: Ps,
    /// Deliveries of which the senders have not heard, oldest first.
    under_way: VecDeque<Delivered>,
    /// Sent, and not yet arrived at the router.
    coming: VecDeque<Packet>,
    /// When the last of them has arrived.
    last: Ps,
    /// No connection acts by itself before.
    quiet_until: Ps,
}

impl Senders {
    pub(crate) fn new(scenario: &Scenario, tcp: &Tcp) -> Self {
        Self {
            connections: (0..tcp.connections)
                .map(|i| Connection::new(tcp, Ps::from_us(tcp.rtt_us) * u64::from(i)))
                .collect(),
            first_flow: scenario.first_tcp_flow(),
            class: tcp.class_in(scenario) as u8,
            rtt: Ps::from_us(tcp.rtt_us),
            wire: Bps(scenario.nic.link_bps).wire_time(scenario.traffic.frame),
            under_way: VecDeque::new(),
            coming: VecDeque::new(),
            last: Ps::ZERO,
            quiet_until: Ps::ZERO,
        }
    }

    /// The least time after which senders can answer what the router does.
    pub(crate) fn answer_after(&self) -> Ps {
        self.rtt
    }

    /// Whether a packet is of a connection.
    pub(crate) fn has(&self, packet: &Packet) -> bool {
        packet.flow >= self.first_flow
    }

    /// A packet of a connection has left the router; calls come in the order of time.
    pub(crate) fn delivered(&mut self, delivered: Delivered) {
        self.under_way.push_back(delivered);
    }

    /// What has arrived of each connection since the last call of [`Senders::restart`].
    pub(crate) fn counts(&self) -> impl Iterator<Item = Counts> + '_ {
        self.connections.iter().map(Connection::counts)
    }

    /// Counts from now on.
    pub(crate) fn restart(&mut self) {
        self.connections.iter_mut().for_each(Connection::restart);
    }

    /// Lets hosts do all that they do up to `until`; all that leaves the router early enough for an answer until then must be known.
    pub(crate) fn advance(&mut self, until: Ps) {
        loop {
            let acknowledged = self
                .under_way
                .front()
                .map_or(Ps::NEVER, |d| d.at + self.rtt);
            if acknowledged.min(self.quiet_until) > until {
                return;
            }
            if self.quiet_until < acknowledged {
                self.wake(self.quiet_until);
            } else if let Some(delivered) = self.under_way.pop_front() {
                let i = usize::from(delivered.packet.flow - self.first_flow);
                self.connections[i].acknowledged(delivered.packet, acknowledged);
                self.send(i, acknowledged);
            }
        }
    }

    /// Lets connections act whose time has come, and looks for the next one's.
    fn wake(&mut self, now: Ps) {
        self.quiet_until = Ps::NEVER;
        for i in 0..self.connections.len() {
            self.connections[i].wake(now);
            self.send(i, now);
        }
    }

    fn send(&mut self, i: usize, now: Ps) {
        while let Some(sequence) = self.connections[i].send(now) {
            self.last = now.max(self.last) + self.wire;
            self.coming.push_back(Packet {
                at: self.last,
                sequence,
                flow: self.first_flow + i as u16,
                class: self.class,
                marked: false,
            });
        }
        self.quiet_until = self.quiet_until.min(self.connections[i].acts_at());
    }

    /// The next packet that has arrived by `until`.
    pub(crate) fn next(&mut self, until: Ps) -> Option<Packet> {
        self.coming.front().filter(|p| p.at <= until)?;
        self.coming.pop_front()
    }
}
