//! Socket buffer and application behind the softirq (single-input-queue IV.B: layered buffers).

use std::collections::VecDeque;

use rxlane_policy::Ps;
/// A queue with a server of its own, in closed form: a packet's departure is known when it enters.
#[derive(Debug)]
pub(super) struct Tandem {
    capacity: usize,
    service: Ps,
    departures: VecDeque<Ps>,
}

impl Tandem {
    /// An empty buffer for `capacity` packets, the one in service included.
    pub(super) fn new(capacity: usize, service: Ps) -> Self {
        Self {
            capacity,
            service,
            departures: VecDeque::with_capacity(capacity),
        }
    }

    /// Removes the packets that the application has finished by `now`. Returns how many.
    pub(super) fn depart_until(&mut self, now: Ps) -> u64 {
        let before = self.departures.len();
        while self.departures.front().is_some_and(|t| *t <= now) {
            self.departures.pop_front();
        }
        (before - self.departures.len()) as u64
    }

    /// Takes in a packet that comes at `now`; call [`Self::depart_until`] first. Returns when the packet will
    /// be finished, or `None` when the buffer is full.
    pub(super) fn enter(&mut self, now: Ps) -> Option<Ps> {
        if self.departures.len() >= self.capacity {
            return None;
        }
        let departure = self.departures.back().map_or(now, |t| now.max(*t)) + self.service;
        self.departures.push_back(departure);
        Some(departure)
    }

    /// Packets in the buffer.
    pub(super) fn len(&self) -> u64 {
        self.departures.len() as u64
    }
}
