//! Rate limits as a virtual-scheduling policer: the GCRA of ITU-T I.371, one integer of state.
//!
//! The state is the theoretical arrival time of the next packet. A packet conforms while that time is not further ahead
//! of now than the burst allows. The state of a class is one 64-bit word, so all cores share the bucket with a single
//! compare-and-swap and no lock. Times are in 1/256 ns, so the word wraps round after 834 days. That does no harm,
//! because only differences are used. The BPF program computes with the same integers.

use serde::{Deserialize, Serialize};

use crate::{Nanos, PolicyError};

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Packets a second.
    Pps(u64),
    /// Bits a second of Ethernet frames without preamble and FCS, as XDP sees them.
    Bps(u64),
}

/// A rate and the burst that may exceed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Police {
    /// The long-term limit.
    pub rate: Rate,
    /// Packets (for a packet rate) or bytes (for a bit rate) that may come at once.
    pub burst: u64,
}

/// A [`Police`] in the integers of the packet path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gcra {
    /// Cost of a packet or byte in 2^-20 ns.
    pub cost: u64,
    /// How far ahead the theoretical arrival time may be, in 1/256 ns.
    pub limit: u64,
    /// Whether bytes are counted rather than packets.
    pub per_byte: bool,
}

/// Fraction bits of the state's nanoseconds.
pub const TIME_SHIFT: u32 = 8;
/// Fraction bits of the cost's nanoseconds.
pub const COST_SHIFT: u32 = 20;
/// How far the clocks of two cores may differ: a second, in 1/256 ns.
const SKEW: u64 = 1_000_000_000 << TIME_SHIFT;

impl Police {
    /// Turns the limit into integers.
    ///
    /// # Errors
    /// [`PolicyError::Police`] for a rate of 0, one beyond what the integers resolve, or a burst that
    /// lets no packet through.
    pub fn compile(&self) -> Result<Gcra, PolicyError> {
        let (units_per_s, per_byte) = match self.rate {
            Rate::Pps(0) | Rate::Bps(0) => {
                return Err(PolicyError::Police(
                    "the rate is 0: nothing would pass; leave the class out instead",
                ));
            }
            Rate::Pps(pps) if pps > 1_000_000_000 => {
                return Err(PolicyError::Police(
                    "pps is above 1000000000: use a rate that a core can reach",
                ));
            }
            Rate::Bps(bps) if !(8_000..=1_000_000_000_000).contains(&bps) => {
                return Err(PolicyError::Police(
                    "bps is outside 8000 to 1000000000000 (8 kbit/s to 1 Tbit/s)",
                ));
            }
            Rate::Pps(pps) => (pps as f64, false),
            Rate::Bps(bps) => (bps as f64 / 8.0, true),
        };
        if self.burst == 0 {
            return Err(PolicyError::Police("burst is 0: allow at least one packet"));
        }
        if per_byte && self.burst < 1514 {
            return Err(PolicyError::Police(
                "burst is below 1514 bytes: a full-sized frame would never pass",
            ));
        }
        let cost = (1e9 / units_per_s * f64::from(1u32 << COST_SHIFT)).round();
        let limit = cost * self.burst as f64 / f64::from(1u32 << (COST_SHIFT - TIME_SHIFT));
        if limit > 3600e9 * f64::from(1u32 << TIME_SHIFT) {
            return Err(PolicyError::Police(
                "burst is worth more than an hour of the rate: lower it",
            ));
        }
        Ok(Gcra {
            cost: cost as u64,
            limit: limit as u64,
            per_byte,
        })
    }
}

impl Gcra {
    /// Decides about a packet of `bytes` bytes at `now`; `state` is 0 at the start.
    pub fn conforms(&self, state: &mut u64, now: Nanos, bytes: u32) -> bool {
        let units = if self.per_byte { u64::from(bytes) } else { 1 };
        let cost = (units * self.cost) >> (COST_SHIFT - TIME_SHIFT);
        let now = now.0 << TIME_SHIFT;
        let mut ahead = state.wrapping_sub(now);
        // The state lies in the past, which looks far ahead on a clock that wraps round, or another rate has
        // left it.
        if ahead > self.limit + SKEW {
            ahead = 0;
        }
        let next = ahead + cost;
        if next > self.limit {
            return false;
        }
        *state = now.wrapping_add(next);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_passes_at_once_and_no_more() {
        let gcra = Police {
            rate: Rate::Pps(1),
            burst: 5,
        }
        .compile()
        .unwrap();
        let mut state = 0;
        let passed = (0..20)
            .filter(|_| gcra.conforms(&mut state, Nanos(1_000), 64))
            .count();
        assert_eq!(passed, 5);
    }

    fn ten_a_second(burst: u64) -> Gcra {
        let police = Police {
            rate: Rate::Pps(10),
            burst,
        };
        police.compile().unwrap()
    }

    #[test]
    fn a_rate_holds_across_the_end_of_its_clock() {
        let gcra = ten_a_second(2);
        let mut state = 0;
        // The word wraps round at 2^56 ns.
        let begin = (1u64 << 56) - 5_000_000_000;
        let passed = (0..1000u64)
            .filter(|i| gcra.conforms(&mut state, Nanos(begin + i * 10_000_000), 64))
            .count();
        assert!((99..=103).contains(&passed), "{passed} in ten seconds");
    }

    #[test]
    fn a_bucket_that_another_rate_has_emptied_for_long_is_full_again() {
        let slow = Police {
            rate: Rate::Pps(1),
            burst: 100,
        };
        let slow = slow.compile().unwrap();
        let mut state = 0;
        let now = Nanos(1_000_000_000_000);
        while slow.conforms(&mut state, now, 64) {}
        assert!(ten_a_second(2).conforms(&mut state, now, 64));
    }

    #[test]
    fn a_clock_that_is_behind_does_not_fill_the_bucket() {
        let gcra = ten_a_second(2);
        let mut state = 0;
        let now = 1_000_000_000_000u64;
        while gcra.conforms(&mut state, Nanos(now), 64) {}
        assert!(!gcra.conforms(&mut state, Nanos(now - 1_000_000), 64));
    }

    #[test]
    fn impossible_limits_are_refused() {
        for police in [
            Police {
                rate: Rate::Pps(0),
                burst: 1,
            },
            Police {
                rate: Rate::Pps(10),
                burst: 0,
            },
            Police {
                rate: Rate::Bps(1_000_000),
                burst: 100,
            },
            Police {
                rate: Rate::Pps(1),
                burst: 1_000_000,
            },
        ] {
            assert!(police.compile().is_err(), "{police:?}");
        }
    }

    proptest! {
        /// Against an ideal bucket in real numbers: never more than a packet apart over the trace.
        #[test]
        fn agrees_with_an_ideal_token_bucket(
            bps in 1_000_000u64..100_000_000_000,
            burst in 1514u64..100_000,
            trace in proptest::collection::vec((0u64..100_000, 60u32..1514), 1..400),
        ) {
            let gcra = Police { rate: Rate::Bps(bps), burst }.compile().unwrap();
            let (mut state, mut now_ns) = (0u64, 1_000_000_000u64);
            let (mut tokens, mut last) = (burst as f64, now_ns);
            let (mut passed, mut ideal) = (0i64, 0i64);
            for (gap, bytes) in trace {
                now_ns += gap;
                tokens = (tokens + (now_ns - last) as f64 * bps as f64 / 8e9).min(burst as f64);
                last = now_ns;
                if tokens >= f64::from(bytes) {
                    tokens -= f64::from(bytes);
                    ideal += i64::from(bytes);
                }
                if gcra.conforms(&mut state, Nanos(now_ns), bytes) {
                    passed += i64::from(bytes);
                }
                prop_assert!((passed - ideal).abs() <= 2 * 1514, "{passed} against {ideal}");
            }
        }
    }
}
