//! The queue of packets that wait for the protocol, polled like a device (Linux: `process_backlog`).
//!
//! Beyond Softnet 4.2 keeps the old interface for devices that cannot hold packets until they are polled: they interrupt for
//! each packet, and what they put into the backlog is polled in turn with the rings of the others. On a host, packets that
//! softirq has received wait there as `sk_buff`s for the protocol (single-input-queue IV.B); what finds it full has cost its
//! reception.

use std::collections::VecDeque;

use rxlane_policy::Ps;
use rxlane_policy::poll::PollEnd;

use super::SimulatedCore;
use crate::ring::Packet;
use crate::scenario::Scenario;
use crate::tally::Work;

/// Its number on the poll list: that of no device.
pub(super) const PSEUDO_DEVICE: u32 = u32::MAX;

/// Packets between reception and protocol.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) packets: VecDeque<(Packet, usize, Ps)>,
    limit: usize,
    protocol: Ps,
}

impl Received {
    /// `None`: the protocol takes packets as soon as they are received.
    pub(super) fn new(scenario: &Scenario) -> Option<Self> {
        let host = scenario.host.filter(|h| h.backlog > 0)?;
        Some(Self {
            packets: VecDeque::new(),
            limit: host.backlog,
            protocol: Ps::from_ns(host.protocol_ns),
        })
    }
}

impl SimulatedCore {
    /// A packet has been received and waits for the protocol now. False: it has no queue to wait in.
    pub(super) fn wait_for_protocol(&mut self, packet: Packet, device: usize, waited: Ps) -> bool {
        let Some(received) = &mut self.received else {
            return false;
        };
        self.in_service = false;
        if received.packets.len() >= received.limit {
            self.tally.backlog_dropped += 1;
            return true;
        }
        received.packets.push_back((packet, device, waited));
        self.poll_list.add(PSEUDO_DEVICE);
        true
    }

    /// A poll of the queue, or a packet of it where cores share something.
    pub(super) fn poll_pseudo_device(&mut self) {
        let mut left = match self.sharing.turn.take() {
            Some((_, left)) => left,
            None => {
                self.begin_softirq_poll();
                self.device_budget
            }
        };
        let until = if self.sharing.shares { left - 1 } else { 0 };
        while left > until && self.serve_queued() {
            if self.truncated {
                return;
            }
            left -= 1;
        }
        let waits = !self.backlog_packets.is_empty()
            || self
                .received
                .as_ref()
                .is_some_and(|r| !r.packets.is_empty());
        let end = match (waits, left) {
            (false, _) => PollEnd::Drained,
            (true, 0) => PollEnd::BudgetSpent,
            (true, left) => {
                self.sharing.turn = Some((0, left));
                return;
            }
        };
        self.poll_list.ended(end);
        self.let_the_process_run();
    }

    /// Serves a packet of the queue, if there is one.
    fn serve_queued(&mut self) -> bool {
        if !self.backlog_packets.is_empty() {
            self.serve_backlog();
            return true;
        }
        let Some(received) = &mut self.received else {
            return false;
        };
        let Some((packet, device, waited)) = received.packets.pop_front() else {
            return false;
        };
        let protocol = received.protocol + self.costs.stage[usize::from(packet.class)];
        self.in_service = true;
        self.take_giant_lock();
        self.work(protocol, Work::Stage);
        self.give_giant_lock();
        if !self.truncated {
            self.finish_service(packet, device, waited);
        }
        true
    }
}
