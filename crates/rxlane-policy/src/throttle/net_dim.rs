//! Linux's dynamic interrupt moderation (`lib/dim/net_dim.c`): climbs towards the profile with the best
//! throughput, first in bytes, then in packets, then in fewer interrupts. It has no term for latency.

use super::{Sample, Throttle};
use crate::Nanos;

/// Intervals of the Rx profiles, us.
const PROFILES_US: [u64; 5] = [1, 8, 64, 128, 256];
/// The profile that the kernel starts Rx queues with.
const FIRST_PROFILE: usize = 1;
/// Interrupts between decisions.
const EVENTS: u64 = 64;
/// A difference counts only above this many percent.
const SIGNIFICANT_PERCENT: f64 = 10.0;
/// Steps that the search takes before it rests.
const STAMINA: u32 = 2 * PROFILES_US.len() as u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tuning {
    OnTop,
    Tired,
    Right,
    Left,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Better,
    Worse,
    Same,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Rates {
    bytes: f64,
    packets: f64,
    events: f64,
}

/// The state machine that climbs from profile to profile.
#[derive(Debug, Clone, PartialEq)]
pub struct NetDim {
    tuning: Tuning,
    profile: usize,
    steps_right: u32,
    steps_left: u32,
    tired: u32,
    before: Rates,
    // Collected since the last decision.
    events: u64,
    sum: Sample,
}

impl Default for NetDim {
    fn default() -> Self {
        Self {
            tuning: Tuning::Right,
            profile: FIRST_PROFILE,
            steps_right: 0,
            steps_left: 0,
            tired: 0,
            before: Rates::default(),
            events: 0,
            sum: Sample::default(),
        }
    }
}

/// Compares one rate with its value `before`. `None` where that says nothing.
fn compare_one(now: f64, before: f64, more_is_better: bool) -> Option<Verdict> {
    if before == 0.0 {
        return (more_is_better && now > 0.0).then_some(Verdict::Better);
    }
    if (now - before).abs() / before * 100.0 <= SIGNIFICANT_PERCENT {
        return None;
    }
    Some(if (now > before) == more_is_better {
        Verdict::Better
    } else {
        Verdict::Worse
    })
}

impl NetDim {
    fn compare(&self, now: &Rates) -> Verdict {
        compare_one(now.bytes, self.before.bytes, true)
            .or_else(|| compare_one(now.packets, self.before.packets, true))
            .or_else(|| compare_one(now.events, self.before.events, false))
            .unwrap_or(Verdict::Same)
    }

    /// Whether this is the best profile nearby: both directions were tried, and the last step back found the
    /// better neighbour.
    fn is_on_top(&self) -> bool {
        match self.tuning {
            Tuning::OnTop | Tuning::Tired => true,
            Tuning::Right => self.steps_left > 1 && self.steps_right == 1,
            Tuning::Left => self.steps_right > 1 && self.steps_left == 1,
        }
    }

    fn park(&mut self, how: Tuning) {
        self.steps_right = 0;
        self.steps_left = 0;
        if how == Tuning::OnTop {
            self.tired = 0;
        }
        self.tuning = how;
    }

    fn turn(&mut self) {
        match self.tuning {
            Tuning::Right => {
                self.tuning = Tuning::Left;
                self.steps_left = 0;
            }
            Tuning::Left => {
                self.tuning = Tuning::Right;
                self.steps_right = 0;
            }
            Tuning::OnTop | Tuning::Tired => {}
        }
    }

    fn step(&mut self) {
        if self.tired == STAMINA {
            return self.park(Tuning::Tired);
        }
        match self.tuning {
            Tuning::Right if self.profile + 1 == PROFILES_US.len() => {
                return self.park(Tuning::OnTop);
            }
            Tuning::Left if self.profile == 0 => return self.park(Tuning::OnTop),
            Tuning::Right => {
                self.profile += 1;
                self.steps_right += 1;
            }
            Tuning::Left => {
                self.profile -= 1;
                self.steps_left += 1;
            }
            Tuning::OnTop | Tuning::Tired => {}
        }
        self.tired += 1;
    }

    fn leave_parking(&mut self) {
        self.tuning = if self.profile > 0 {
            Tuning::Left
        } else {
            Tuning::Right
        };
        self.step();
    }

    fn decide(&mut self, now: Rates) {
        let was = self.tuning;
        match self.tuning {
            Tuning::OnTop => {
                if self.compare(&now) != Verdict::Same {
                    self.leave_parking();
                }
            }
            Tuning::Tired => {
                self.tired = self.tired.saturating_sub(1);
                if self.tired == 0 {
                    self.leave_parking();
                }
            }
            Tuning::Right | Tuning::Left => {
                if self.compare(&now) != Verdict::Better {
                    self.turn();
                }
                if self.is_on_top() {
                    self.park(Tuning::OnTop);
                } else {
                    self.step();
                }
            }
        }
        // While the state stays on top, the rates that led there remain the ones to compare with.
        if was != Tuning::OnTop || self.tuning != Tuning::OnTop {
            self.before = now;
        }
    }
}

impl Throttle for NetDim {
    fn update(&mut self, sample: Sample) -> Nanos {
        self.events += 1;
        self.sum.packets += sample.packets;
        self.sum.bytes += sample.bytes;
        self.sum.elapsed += sample.elapsed;
        if self.events >= EVENTS && self.sum.elapsed > Nanos(0) {
            let per_ms = 1e6 / self.sum.elapsed.0 as f64;
            self.decide(Rates {
                bytes: self.sum.bytes as f64 * per_ms,
                packets: self.sum.packets as f64 * per_ms,
                events: self.events as f64 * per_ms,
            });
            self.events = 0;
            self.sum = Sample::default();
        }
        Nanos(PROFILES_US[self.profile] * 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds it the interrupts of a steady stream, each as soon as the interval allows.
    fn settle(pps: f64, updates: usize) -> Vec<u64> {
        let mut dim = NetDim::default();
        let mut interval_ns = PROFILES_US[FIRST_PROFILE] * 1000;
        (0..updates)
            .map(|_| {
                let elapsed_ns = interval_ns.max((1e9 / pps) as u64);
                let packets = (pps * elapsed_ns as f64 / 1e9).round().max(1.0) as u64;
                interval_ns = dim
                    .update(Sample {
                        packets,
                        bytes: packets * 64,
                        elapsed: Nanos(elapsed_ns),
                    })
                    .0;
                interval_ns
            })
            .collect()
    }

    #[test]
    fn fewer_interrupts_for_the_same_throughput_are_better() {
        let last = *settle(1_000_000.0, 5_000).last().unwrap();
        assert!(last >= 128_000, "{last}");
    }

    #[test]
    fn it_decides_once_in_64_interrupts() {
        let intervals = settle(1_000_000.0, 200);
        assert!(intervals[..EVENTS as usize - 1].iter().all(|i| *i == 8_000));
        assert_ne!(intervals[EVENTS as usize], 8_000);
    }

    #[test]
    fn it_only_ever_uses_its_profiles() {
        for interval in settle(50_000.0, 10_000) {
            assert!(PROFILES_US.contains(&(interval / 1000)), "{interval}");
        }
    }
}
