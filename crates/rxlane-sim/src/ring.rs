//! Rx descriptor rings, and what the model knows of a packet.

use rxlane_policy::Ps;
use rxlane_policy::poll::MAX_RINGS;

/// A packet, and when it is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// When it became visible in the ring.
    pub at: Ps,
    /// Position within its flow, from 1.
    pub sequence: u32,
    /// Flow number over all classes; those of the lowest class come first.
    pub flow: u16,
    /// Class, 0 the highest.
    pub class: u8,
    /// A queue on its way marked it instead of dropping it (ECN).
    pub marked: bool,
}

/// An Rx descriptor ring with the NIC's packet buffer behind it, and the packets that are still to come.
///
/// An arrival is no event of its own. Packets are admitted when somebody looks at the ring, in the order and
/// with the drops that they would have had at their own time. This is exact because packets leave the ring
/// only when somebody looks.
///
/// One circular buffer holds both: the packets in the ring lie from `head` to `held`, those still to come
/// from `coming` to `tail`. The gap between the two is what was dropped.
#[derive(Debug, Clone)]
pub struct RxRing {
    slots: Vec<Packet>,
    head: usize,
    held: usize,
    coming: usize,
    tail: usize,
    capacity: usize,
    newest: Ps,
    arrived: u64,
    dropped: u64,
    dropped_of: [u64; MAX_RINGS],
}

impl RxRing {
    /// An empty ring for `capacity` packets, descriptors and packet buffer together.
    pub fn new(capacity: usize) -> Self {
        Self {
            slots: vec![Packet::default(); (capacity + 1024).next_power_of_two()],
            head: 0,
            held: 0,
            coming: 0,
            tail: 0,
            capacity,
            newest: Ps::ZERO,
            arrived: 0,
            dropped: 0,
            dropped_of: [0; MAX_RINGS],
        }
    }

    #[inline]
    fn slot(&self, position: usize) -> usize {
        position & (self.slots.len() - 1)
    }

    /// Adds a packet that will arrive; calls come in the order of arrival.
    #[inline]
    pub fn expect(&mut self, packet: Packet) {
        if self.tail - self.head == self.slots.len() {
            self.make_room();
        }
        let slot = self.slot(self.tail);
        self.slots[slot] = packet;
        self.tail += 1;
    }

    /// Closes the gap that drops have left, or grows when there is none.
    #[cold]
    fn make_room(&mut self) {
        let gap = self.coming - self.held;
        if gap > 0 {
            for position in self.coming..self.tail {
                let (from, to) = (self.slot(position), self.slot(position - gap));
                self.slots[to] = self.slots[from];
            }
            self.coming -= gap;
            self.tail -= gap;
            return;
        }
        let old = self.slots.len();
        let mut slots = vec![Packet::default(); old * 2];
        for position in self.head..self.tail {
            slots[position & (old * 2 - 1)] = self.slots[position & (old - 1)];
        }
        self.slots = slots;
    }

    /// When the next packet arrives; `None` when no further one is known.
    #[inline]
    pub fn next_arrival(&self) -> Option<Ps> {
        (self.coming < self.tail).then(|| self.slots[self.slot(self.coming)].at)
    }

    /// When the `n`th of the packets to come arrives, counted from 1; `None` when it is not known yet.
    pub fn nth_arrival(&self, n: usize) -> Option<Ps> {
        let position = self.coming + n - 1;
        (position < self.tail).then(|| self.slots[self.slot(position)].at)
    }

    /// The oldest packet, which stays in the ring.
    #[inline]
    pub fn oldest(&self) -> Option<Packet> {
        (self.head < self.held).then(|| self.slots[self.slot(self.head)])
    }

    /// Takes in what has arrived up to `now`.
    #[inline]
    pub fn admit(&mut self, now: Ps) {
        while self.coming < self.tail {
            let packet = self.slots[self.slot(self.coming)];
            if packet.at > now {
                break;
            }
            self.coming += 1;
            self.arrived += 1;
            self.newest = packet.at;
            if self.held - self.head == self.capacity {
                self.dropped += 1;
                self.dropped_of[usize::from(packet.class) & (MAX_RINGS - 1)] += 1;
                continue;
            }
            if self.held + 1 != self.coming {
                let slot = self.slot(self.held);
                self.slots[slot] = packet;
            }
            self.held += 1;
        }
        // When nothing is held, the gap that drops left can be closed.
        if self.head == self.held {
            self.head = self.coming;
            self.held = self.coming;
        }
    }

    /// Takes the oldest packet off the ring.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        if self.head == self.held {
            return None;
        }
        let packet = self.slots[self.slot(self.head)];
        self.head += 1;
        Some(packet)
    }

    /// Whether all known packets have room, so that none can be dropped. Then [`RxRing::take`] may replace
    /// [`RxRing::admit`] and [`RxRing::pop`].
    #[inline]
    pub fn has_room_for_all(&self) -> bool {
        self.held == self.coming && self.tail - self.head <= self.capacity
    }

    /// Takes the oldest packet, if it has arrived by `now` and `may_go` agrees. [`RxRing::settle`] must
    /// follow.
    ///
    /// A processor's branch prediction can only guess how many packets arrive while another is served. So
    /// this asks only whether the queue is empty.
    #[inline]
    pub fn take(&mut self, now: Ps, may_go: impl FnOnce(&Packet) -> bool) -> Option<Packet> {
        if self.head == self.tail {
            return None;
        }
        let packet = self.slots[self.slot(self.head)];
        if packet.at > now || !may_go(&packet) {
            return None;
        }
        self.head += 1;
        Some(packet)
    }

    /// Counts the packets that [`RxRing::take`] took before they were admitted.
    #[inline]
    pub fn settle(&mut self) {
        if self.head > self.coming {
            self.arrived += (self.head - self.coming) as u64;
            self.newest = self.slots[self.slot(self.head - 1)].at;
            self.held = self.head;
            self.coming = self.head;
        }
    }

    /// Packets that wait for the core.
    #[inline]
    pub fn len(&self) -> usize {
        self.held - self.head
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.held
    }

    /// When the newest packet arrived that was admitted or dropped.
    #[inline]
    pub fn newest(&self) -> Ps {
        self.newest
    }

    /// Packets that have arrived, the dropped ones too.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// As [`RxRing::dropped`], by class.
    pub fn dropped_of(&self) -> &[u64; MAX_RINGS] {
        &self.dropped_of
    }

    /// Packets that found ring and packet buffer full; the NIC drops them at no cost.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn packet(at: Ps) -> Packet {
        Packet {
            at,
            ..Packet::default()
        }
    }

    proptest! {
        #[test]
        fn lazy_admission_is_a_fifo_that_drops_when_full(
            capacity in 1usize..20,
            steps in prop::collection::vec((0u64..5, 0u64..40, 0usize..8), 1..200),
        ) {
            let mut ring = RxRing::new(capacity);
            let mut model: VecDeque<Ps> = VecDeque::new();
            let (mut at, mut now, mut dropped, mut arrived) = (Ps(0), Ps(0), 0, 0u64);
            let mut coming: VecDeque<Ps> = VecDeque::new();
            for (gap, wait, pops) in steps {
                for _ in 0..4 {
                    at = at.max(now) + Ps(1 + gap);
                    ring.expect(packet(at));
                    coming.push_back(at);
                }
                now += Ps(wait);
                ring.admit(now);
                while coming.front().is_some_and(|t| *t <= now) {
                    arrived += 1;
                    if model.len() < capacity {
                        model.extend(coming.front());
                    } else {
                        dropped += 1;
                    }
                    coming.pop_front();
                }
                prop_assert_eq!(ring.next_arrival(), coming.front().copied());
                if wait % 2 == 0 && ring.has_room_for_all() {
                    for _ in 0..pops {
                        prop_assert_eq!(ring.take(now, |_| true).map(|p| p.at), model.pop_front());
                    }
                    prop_assert!(ring.take(now, |_| false).is_none());
                    ring.settle();
                }
                for _ in 0..pops {
                    prop_assert_eq!(ring.pop().map(|p| p.at), model.pop_front());
                }
                prop_assert_eq!((ring.len(), ring.dropped(), ring.arrived()), (model.len(), dropped, arrived));
            }
        }
    }
}
