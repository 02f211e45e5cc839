//! How much may wait on a link for those who send to it directly.
//!
//! A frame that is redirected goes into the driver's ring, behind all that is there. So the ring of a link that is full must stay short: what
//! has been sent and not transmitted is a bucket that empties at the link's rate, and once it would hold more than a millisecond's worth,
//! lower classes wait in the queueing discipline instead, where the highest class does not wait behind them.
//!
//! The bucket is the [GCRA](crate::police), one word a port. The BPF program computes with the same integers.

use crate::police::{Gcra, Police, Rate};
use crate::{Nanos, PolicyError};

/// What a link sends in one of so many parts of a second may wait in its ring.
const TARGETS_PER_S: u64 = 1000;
/// Bytes of a full frame on the wire: with preamble, checksum and gap.
const FRAME_BYTES: u64 = 1538;
/// So many full frames may wait in any case: the batch of redirects that a driver is given at once.
const LEAST_FRAMES: u64 = 16;

/// The bucket of a link of so many bits a second.
///
/// # Errors
/// [`PolicyError::Police`] for rates below 8 kbit/s and above 1 Tbit/s.
pub fn link_queue(bits_per_s: u64) -> Result<Gcra, PolicyError> {
    let target = bits_per_s / 8 / TARGETS_PER_S;
    Police {
        rate: Rate::Bps(bits_per_s),
        burst: target.max(LEAST_FRAMES * FRAME_BYTES),
    }
    .compile()
}

/// Whether the other ports together may receive more than a port sends. Rates in bits a second; `None` where nobody knows.
pub fn can_be_filled(link: Option<u64>, others: impl IntoIterator<Item = Option<u64>>) -> bool {
    let mut others = others.into_iter();
    let all = others.try_fold(0_u64, |sum, rate| Some(sum.saturating_add(rate?)));
    link.is_some_and(|link| all.is_none_or(|all| all > link))
}

/// For so long a driver must have taken no more, again and again, until its link counts as full: a queue that a burst leaves is gone by then.
const STANDING: Nanos = Nanos(100_000_000);
/// A driver that takes all for so long has nothing waiting.
const STANDING_GAP: Nanos = Nanos(10_000_000);

/// A queue in front of a link that does not go away, as CoDel tells good queues from bad ones (RFC 8289, 3): by how long it has lasted, not
/// by how long it is. For ports of which all packets leave through the queueing discipline, and no bucket is charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StandingQueue {
    since: Nanos,
    seen: Nanos,
}

impl StandingQueue {
    /// The driver takes no more at `now`. Returns whether that has lasted long enough for the link to be full.
    pub fn driver_is_off(&mut self, now: Nanos) -> bool {
        if now.0.wrapping_sub(self.seen.0) > STANDING_GAP.0 {
            self.since = now;
        }
        self.seen = now;
        now.0.wrapping_sub(self.since.0) >= STANDING.0
    }

    /// All of the state, in the order that the BPF program has it.
    pub fn numbers(&self) -> [u64; 2] {
        [self.since.0, self.seen.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIGABIT: u64 = 1_000_000_000;

    #[test]
    fn a_link_takes_its_own_rate_for_ever_and_a_millisecond_of_a_faster_one() {
        let queue = link_queue(GIGABIT).unwrap();
        let mut state = 0;
        // 1,538 bytes take 12.304 us.
        let own = |n: u64| Nanos(n * 12_304 + 1);
        assert!((1..100_000).all(|n| queue.conforms(&mut state, own(n), 1538)));
        // At twice its rate it fills by half a frame a frame.
        let start = 2_000_000_000;
        let mut taken = 0;
        while queue.conforms(&mut state, Nanos(start + taken * 6_152), 1538) {
            taken += 1;
        }
        assert!((161..=162).contains(&taken), "{taken}");
    }

    #[test]
    fn a_slow_link_takes_a_batch_at_once() {
        let queue = link_queue(10_000_000).unwrap();
        let mut state = 0;
        let taken = (0..100).filter(|_| queue.conforms(&mut state, Nanos(1), 1538));
        assert_eq!(taken.count(), 16);
    }

    #[test]
    fn a_queue_stands_after_a_tenth_of_a_second_without_a_gap() {
        let mut queue = StandingQueue::default();
        let ms = |n: u64| Nanos(5_000_000_000 + n * 1_000_000);
        assert!((0..100).step_by(10).all(|n| !queue.driver_is_off(ms(n))));
        assert!(queue.driver_is_off(ms(100)) && queue.driver_is_off(ms(105)));
        assert!(!queue.driver_is_off(ms(116)), "11 ms without");
        assert!((120..216).step_by(4).all(|n| !queue.driver_is_off(ms(n))));
        assert!(queue.driver_is_off(ms(216)));
        // A clock of another core is behind: it begins anew.
        assert!(!queue.driver_is_off(ms(215)));
    }

    #[test]
    fn only_a_link_that_others_can_fill_is_watched() {
        let (one, ten) = (Some(GIGABIT), Some(10 * GIGABIT));
        assert!(can_be_filled(one, [ten]));
        assert!(!can_be_filled(ten, [one]));
        assert!(!can_be_filled(one, [one]));
        assert!(can_be_filled(one, [one, one]));
        assert!(can_be_filled(one, [one, None]));
        assert!(!can_be_filled(None, [ten]));
        assert!(!can_be_filled(one, []));
    }

    proptest! {
        /// Whatever comes, no more is under way than the target.
        #[test]
        fn what_waits_is_bounded(
            gaps_ns in proptest::collection::vec(0u64..50_000, 1..500),
            bytes in 84u32..1538,
            mbit in 10u64..100_000,
        ) {
            let queue = link_queue(mbit * 1_000_000).unwrap();
            let (mut state, mut now_ns, mut waits_ns) = (0, 1, 0.0_f64);
            let ns_per_byte = 8000.0 / mbit as f64;
            let bound_ns = (16.0 * 1538.0 * ns_per_byte).max(1e6);
            for gap_ns in gaps_ns {
                now_ns += gap_ns;
                waits_ns = (waits_ns - gap_ns as f64).max(0.0);
                if queue.conforms(&mut state, Nanos(now_ns), bytes) {
                    waits_ns += f64::from(bytes) * ns_per_byte;
                }
                prop_assert!(waits_ns <= bound_ns * 1.001 + 10.0, "{} of {}", waits_ns, bound_ns);
            }
        }
    }
}
