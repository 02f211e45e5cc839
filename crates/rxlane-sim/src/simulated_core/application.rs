//! Socket buffer and application behind the softirq (single-input-queue IV.B: layered buffers).

use std::collections::VecDeque;

use rxlane_policy::Ps;

use super::SimulatedCore;
use crate::ring::Packet;
use crate::scenario::{Host, Scenario};

/// A socket and the application that reads it: in a thread of its own, on a core of its own or on one that it shares with the
/// softirq. What it has done is made up for when somebody looks.
#[derive(Debug)]
pub(super) struct Application {
    socket: VecDeque<Packet>,
    /// Packets that the socket holds, the one that the application reads or works on included.
    capacity: usize,
    /// What it has read and not worked on; `None`: it works on each packet as soon as it has read it.
    buffer: Option<VecDeque<Packet>>,
    buffer_capacity: usize,
    read: Ps,
    service: Ps,
    /// How fast it is while the softirq works.
    beside_softirq: f64,
    /// Up to when it has been made up for.
    now: Ps,
    doing: Option<Doing>,
    /// How long it has worked.
    pub(super) busy: Ps,
}

#[derive(Debug, Clone, Copy)]
struct Doing {
    packet: Packet,
    reads: bool,
    left: Ps,
}

/// What became of a packet in the application.
pub(super) enum Fate {
    /// It is done with.
    Done,
    /// It was read, and the application's buffer was full.
    Lost,
}

impl Application {
    /// The application of a host, or the thread that sends from an egress queue (Beyond Softnet 1.5).
    pub(super) fn of(scenario: &Scenario) -> Option<Self> {
        let sends = scenario.transmit.map(|t| Host {
            socket: t.queue,
            application_ns: t.packet_ns,
            beside_softirq: t.beside_softirq,
            ..Host::default()
        });
        let host = scenario.host.or(sends)?;
        Some(Self::new(&host, f64::from(scenario.traffic.frame)))
    }

    fn new(host: &Host, frame: f64) -> Self {
        Self {
            socket: VecDeque::new(),
            capacity: host.socket,
            buffer: (host.buffer > 0).then(VecDeque::new),
            buffer_capacity: host.buffer,
            read: Ps::from_ns(host.read_ns),
            service: Ps::from_ns(host.application_ns + host.application_byte_ns * frame),
            beside_softirq: host.beside_softirq,
            now: Ps::ZERO,
            doing: None,
            busy: Ps::ZERO,
        }
    }

    /// Packets that it holds in all its buffers.
    pub(super) fn len(&self) -> u64 {
        let read = self.buffer.as_ref().map_or(0, VecDeque::len);
        (self.socket.len() + read + usize::from(self.doing.is_some())) as u64
    }

    /// Takes a packet into the socket, at a time up to which it has been made up for. False: there is no room.
    pub(super) fn enter(&mut self, packet: Packet) -> bool {
        // Before the application has a buffer of its own, it leaves a packet in the socket until it is done with it.
        let held = match (&self.doing, &self.buffer) {
            (Some(_), None) => 1,
            _ => 0,
        };
        if self.socket.len() + held >= self.capacity {
            return false;
        }
        self.socket.push_back(packet);
        true
    }

    /// Works until `to`, while the softirq works beside it or not. Says what becomes of packets, and when.
    pub(super) fn advance(
        &mut self,
        to: Ps,
        softirq: bool,
        mut ends: impl FnMut(Packet, Fate, Ps),
    ) {
        let speed = if softirq { self.beside_softirq } else { 1.0 };
        while self.now < to {
            let Some(doing) = self.doing.or_else(|| self.next()) else {
                break;
            };
            let takes = match speed {
                1.0 => doing.left,
                s => Ps((doing.left.0 as f64 / s).min(1e18) as u64),
            };
            let end = self.now + takes;
            if end > to {
                let passed = to - self.now;
                self.busy += passed;
                let done = match speed {
                    1.0 => passed,
                    s => Ps((passed.0 as f64 * s) as u64).min(doing.left),
                };
                self.doing = Some(Doing {
                    left: doing.left - done,
                    ..doing
                });
                break;
            }
            self.busy += takes;
            self.now = end;
            self.doing = None;
            match &mut self.buffer {
                Some(buffer) if doing.reads && buffer.len() < self.buffer_capacity => {
                    buffer.push_back(doing.packet);
                }
                Some(_) if doing.reads => ends(doing.packet, Fate::Lost, end),
                _ => ends(doing.packet, Fate::Done, end),
            }
        }
        self.now = self.now.max(to);
    }

    /// It reads as long as there is something to read: a packet that waits for it has woken it.
    fn next(&mut self) -> Option<Doing> {
        let Some(buffer) = &mut self.buffer else {
            let packet = self.socket.pop_front()?;
            return Some(Doing {
                packet,
                reads: false,
                left: self.read + self.service,
            });
        };
        if let Some(packet) = self.socket.pop_front() {
            return Some(Doing {
                packet,
                reads: true,
                left: self.read,
            });
        }
        buffer.pop_front().map(|packet| Doing {
            packet,
            reads: false,
            left: self.service,
        })
    }
}

impl SimulatedCore {
    /// Makes up for what the application has done until `to`, while the softirq worked beside it or not.
    pub(super) fn application_works(&mut self, to: Ps, softirq: bool) {
        let Some(application) = &mut self.application else {
            return;
        };
        let (tally, offset) = (&mut self.tally, self.latency_offset);
        application.advance(to, softirq, |packet, fate, at| match fate {
            Fate::Done => {
                tally.delivered += 1;
                let class = usize::from(packet.class);
                tally.classes[class].latency.record(at - packet.at + offset);
            }
            Fate::Lost => tally.application_dropped += 1,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host {
            socket: 4,
            application_ns: 1.0,
            ..Host::default()
        }
    }

    /// Fills the socket, and tells when each packet is done with or lost.
    fn ends(host: Host, softirq_until: u64) -> Vec<(u64, bool)> {
        let mut a = Application::new(&host, 64.0);
        while a.enter(Packet::default()) {}
        let mut ends = Vec::new();
        let mut note = |_, fate, at: Ps| ends.push((at.0, matches!(fate, Fate::Done)));
        a.advance(Ps(softirq_until), true, &mut note);
        a.advance(Ps(1_000_000), false, &mut note);
        ends
    }

    #[test]
    fn it_works_on_packets_one_after_the_other() {
        let all = [1000, 2000, 3000, 4000].map(|at| (at, true));
        assert_eq!(ends(host(), 0), all);
        assert_eq!(ends(host(), 2500), all);
    }

    #[test]
    fn beside_the_softirq_it_is_as_slow_as_is_said() {
        let half = Host {
            beside_softirq: 0.5,
            ..host()
        };
        assert_eq!(
            ends(half, 3000),
            [2000, 3500, 4500, 5500].map(|at| (at, true))
        );
        let same_core = Host {
            beside_softirq: 0.0,
            ..host()
        };
        assert_eq!(
            ends(same_core, 3000),
            [4000, 5000, 6000, 7000].map(|at| (at, true))
        );
    }

    #[test]
    fn it_reads_before_it_works_and_loses_what_its_buffer_does_not_hold() {
        let own = Host {
            read_ns: 0.1,
            buffer: 3,
            ..host()
        };
        let found = ends(own, 0);
        assert_eq!(
            found,
            [(400, false), (1400, true), (2400, true), (3400, true)]
        );
    }
}
