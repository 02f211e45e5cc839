//! Looking ahead over the turns of a ring: while its packets are served, what forwarding the next ones will read is
//! brought into the cache.
//!
//! A batch hides its cache misses behind one another. A turn of few packets cannot, and with a full routing table each
//! of its packets waits for memory three times. But the packets of the next turns are known, as they wait on the ring.
//! Each goes through four steps on its way to the front: its header is loaded; its destination is read, and the table's entry
//! for it loaded; the node is loaded; the leaf is loaded.
//!
//! Only the cache learns of it. Packets stay on their ring until their turn, and are looked up then, by the routes as they
//! are then, so neither order and budgets nor what becomes of a packet can depend on it. Nothing is waited for: a step takes
//! only packets that are there, and of these only those that the step before had some time ago, so that what it reads
//! has arrived.

use std::ops::Range;

use crate::mirror::RouteReader;
use crate::xsk::frames::Frames;
use crate::xsk::ring::{Consumer, Desc};

/// How many packets a step is behind the step before it. In the time of 8 packets, about half a microsecond, memory has
/// answered.
const APART: u32 = 8;
/// Turns of so many packets hide their cache misses themselves; there the steps would only cost time.
pub(super) const LARGE_TURN: u32 = 32;
/// How many packets behind the front the first of the four steps looks: one bit of a word each.
const WINDOW: u32 = 4 * APART;

/// When a worker looks ahead. What it forwards, and in which order, is the same in each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Each look-up waits for memory by itself.
    Never,
    /// Where the tables are larger than what a core's caches hold anyway: elsewhere the steps only cost time.
    LargeTables,
    /// Whatever the tables are.
    #[cfg(any(test, feature = "testing"))]
    Always,
}

/// How far the steps have come with the packets that wait on a ring.
#[derive(Debug, Default)]
pub(super) struct LookAhead {
    /// Place of the front packet in the window.
    front: u32,
    /// For each step, how many packets from the front on have been through it.
    loaded: u32,
    read: u32,
    nodes: u32,
    leaves: u32,
    /// IPv4 destinations, from the second step on; 0 for other packets.
    v4: [u32; WINDOW as usize],
    /// IPv6 destinations of those packets whose bit is set.
    v6: [u128; WINDOW as usize],
    is_v6: u32,
}

impl LookAhead {
    /// Packets have been taken off the ring.
    #[inline]
    pub(super) fn taken(&mut self, packets: u32) {
        self.front = self.front.wrapping_add(packets) % WINDOW;
        for step in [
            &mut self.loaded,
            &mut self.read,
            &mut self.nodes,
            &mut self.leaves,
        ] {
            *step = step.saturating_sub(packets);
        }
    }

    /// Takes each step with the packets that are due for it.
    #[inline]
    pub(super) fn go_on(
        &mut self,
        frames: &Frames,
        rx: &mut Consumer<Desc>,
        routes: &mut RouteReader,
    ) {
        let (v4, v6) = routes.tables();
        // The last step first, so that no packet takes two in one go.
        let to = self.nodes.min(APART);
        if self.leaves < to {
            let (first, second) = self.window(self.leaves, to);
            v4.load_leaves(&self.v4[first]);
            v4.load_leaves(&self.v4[second]);
            self.each_v6(self.leaves, to, |address| v6.load_leaves(&[address]));
            self.leaves = to;
        }
        let to = self.read.min(2 * APART);
        if self.nodes < to {
            for behind in self.nodes..to {
                v4.load_node(self.v4[self.place(behind)]);
            }
            self.each_v6(self.nodes, to, |address| v6.load_node(address));
            self.nodes = to;
        }
        let to = self.loaded.min(3 * APART);
        if self.read < to {
            for behind in self.read..to {
                self.read(behind, frames.waiting(rx, behind));
                v4.load_entry(self.v4[self.place(behind)]);
            }
            self.each_v6(self.read, to, |address| v6.load_entry(address));
            self.read = to;
        }
        let to = rx.known(WINDOW).min(WINDOW);
        for behind in self.loaded..to {
            frames.load_waiting(rx, behind);
        }
        self.loaded = to.max(self.loaded);
    }

    /// Whether packets that wait are not as far as they could be, as when many have come to an empty ring.
    #[inline]
    pub(super) fn lags(&self) -> bool {
        self.leaves < self.loaded.min(APART)
    }

    /// Keeps the destination of a packet.
    #[inline]
    fn read(&mut self, behind: u32, frame: Option<&[u8]>) {
        let at = self.place(behind);
        self.is_v6 &= !(1 << at);
        self.v4[at] = 0;
        let Some(frame) = frame else { return };
        match (frame.get(12..14), frame.get(30..34), frame.get(38..54)) {
            (Some([0x08, 0x00]), Some(to), _) => {
                self.v4[at] = to.try_into().map_or(0, u32::from_be_bytes);
            }
            (Some([0x86, 0xdd]), _, Some(to)) => {
                self.v6[at] = to.try_into().map_or(0, u128::from_be_bytes);
                self.is_v6 |= 1 << at;
            }
            _ => {}
        }
    }

    #[inline]
    fn place(&self, behind: u32) -> usize {
        ((self.front + behind) % WINDOW) as usize
    }

    /// The places of these packets: a range, and another one when they go across the end of the window.
    #[inline]
    fn window(&self, from: u32, to: u32) -> (Range<usize>, Range<usize>) {
        let begin = self.place(from);
        let end = begin + (to - from) as usize;
        let size = WINDOW as usize;
        (begin..end.min(size), 0..end.saturating_sub(size))
    }

    /// Goes through the IPv6 destinations of these packets.
    #[inline]
    fn each_v6(&self, from: u32, to: u32, see: impl Fn(u128)) {
        if self.is_v6 == 0 {
            return;
        }
        for place in (from..to).map(|behind| self.place(behind)) {
            if self.is_v6 & 1 << place != 0 {
                see(self.v6[place]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Mirror;
    use crate::xsk::frames::Packet;
    use crate::xsk::kernel_side::KernelSide;

    /// A ring with a kernel behind it, and what is looked ahead at.
    struct Ring {
        frames: Frames,
        rx: Consumer<Desc>,
        kernel: KernelSide,
        routes: RouteReader,
        ahead: LookAhead,
        taken: Vec<Packet>,
    }

    impl Ring {
        fn new() -> Self {
            let (mut frames, mut queues, kernel) = KernelSide::new(1).unwrap();
            let mut queue = queues.remove(0);
            queue.turn_over(&mut frames);
            Self {
                frames,
                rx: queue.rx.remove(0).packets,
                kernel,
                routes: Mirror::default().reader(),
                ahead: LookAhead::default(),
                taken: Vec::new(),
            }
        }

        /// A packet to the `number`th destination: of IPv4 when that is even, of IPv6 when it is odd.
        fn arrive(&mut self, number: u32) -> bool {
            let mut frame = [0; 60];
            if number.is_multiple_of(2) {
                frame[12] = 8;
                frame[30..34].copy_from_slice(&number.to_be_bytes());
            } else {
                frame[12..14].copy_from_slice(&[0x86, 0xdd]);
                frame[50..54].copy_from_slice(&number.to_be_bytes());
            }
            self.kernel.receive(0, &frame)
        }

        /// A turn: up to so many packets leave the ring, then the look goes ahead.
        fn turn(&mut self, at_most: usize) -> usize {
            let (n, _) = self
                .frames
                .take_received(&mut self.rx, at_most, &mut self.taken);
            self.ahead.taken(n as u32);
            self.ahead
                .go_on(&self.frames, &mut self.rx, &mut self.routes);
            n
        }

        fn steps(&self) -> [u32; 4] {
            let a = &self.ahead;
            [a.loaded, a.read, a.nodes, a.leaves]
        }
    }

    #[test]
    fn a_packet_takes_one_step_at_a_time_and_steps_stay_apart() {
        let mut ring = Ring::new();
        for number in 0..20 {
            assert!(ring.arrive(number));
        }
        let mut seen = Vec::new();
        for _ in 0..5 {
            ring.turn(0);
            seen.push(ring.steps());
        }
        assert_eq!(
            seen,
            [
                [20, 0, 0, 0],
                [20, 20, 0, 0],
                [20, 20, 16, 0],
                [20, 20, 16, 8],
                [20, 20, 16, 8]
            ]
        );
        assert_eq!(ring.turn(4), 4);
        assert_eq!(ring.steps(), [16, 16, 16, 8]);
        assert_eq!(ring.turn(16), 16);
        assert_eq!(
            ring.steps(),
            [0; 4],
            "nothing waits, and nothing is waited for"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_taken_the_destinations_kept_are_those_of_the_packets_that_wait(
            events in prop::collection::vec((0u32..40, 0usize..70), 1..30),
        ) {
            let mut ring = Ring::new();
            let (mut arrived, mut front) = (0u32, 0u32);
            for (arrivals, at_most) in events {
                for _ in 0..arrivals {
                    arrived += u32::from(ring.arrive(arrived));
                }
                front += ring.turn(at_most) as u32;
                for packet in ring.taken.drain(..) {
                    ring.frames.discard(packet);
                }
                let [loaded, read, nodes, leaves] = ring.steps();
                prop_assert!(leaves <= nodes && nodes <= read && read <= loaded);
                prop_assert!(loaded <= arrived - front);
                for behind in 0..read {
                    let (number, place) = (front + behind, ring.ahead.place(behind));
                    let is_v6 = ring.ahead.is_v6 & 1 << place != 0;
                    prop_assert_eq!(is_v6, number % 2 == 1);
                    let kept = if is_v6 { ring.ahead.v6[place] as u32 } else { ring.ahead.v4[place] };
                    prop_assert_eq!(kept, number);
                }
            }
        }
    }
}
