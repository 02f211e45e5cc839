//! Throttling by what packets show themselves: the time between them, the time that they wait, how many wait.
//!
//! Interrupt-throttling VI names these beside the packet rate, and finds the first two too expensive, for they take a look at
//! the clock at each packet. A host tells an estimator of each packet that it takes off a ring, and asks for the least time to
//! the next interrupt at the end of each poll that emptied it.

mod fill_level;
mod inter_arrival;
mod sojourn;

pub use fill_level::{FillLevel, FillLevelGoal};
pub use inter_arrival::InterArrival;
pub use sojourn::{Sojourn, SojournGoal};

use serde::{Deserialize, Serialize};

use super::LinearLaw;
use crate::{Nanos, PolicyError};

/// Which estimate, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "algorithm", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Estimate {
    /// The packet rate is one by the mean time between packets, and goes into the linear law.
    InterArrival(LinearLaw),
    /// Packets shall wait for so long.
    Sojourn(SojournGoal),
    /// An interrupt shall find so many packets.
    FillLevel(FillLevelGoal),
}

impl Estimate {
    /// The algorithm in its initial state.
    ///
    /// # Errors
    /// [`PolicyError::Throttling`] for parameters that make no sense.
    pub fn start(&self) -> Result<Estimator, PolicyError> {
        Ok(match *self {
            Self::InterArrival(law) => Estimator::InterArrival(InterArrival::new(law)?),
            Self::Sojourn(goal) => Estimator::Sojourn(Sojourn::new(goal)?),
            Self::FillLevel(goal) => Estimator::FillLevel(FillLevel::new(goal)?),
        })
    }
}

/// A running estimate.
#[derive(Debug, Clone, PartialEq)]
pub enum Estimator {
    /// See [`InterArrival`].
    InterArrival(InterArrival),
    /// See [`Sojourn`].
    Sojourn(Sojourn),
    /// See [`FillLevel`].
    FillLevel(FillLevel),
}

impl Estimator {
    /// A packet that arrived at `arrived` is taken off the ring at `now`. Packets come in the order of their arrival.
    pub fn packet(&mut self, arrived: Nanos, now: Nanos) {
        match self {
            Self::InterArrival(e) => e.packet(arrived),
            Self::Sojourn(e) => e.packet(now.since(arrived)),
            Self::FillLevel(e) => e.packet(),
        }
    }

    /// The poll has emptied the ring: the least time from one interrupt to the next.
    pub fn update(&mut self) -> Nanos {
        match self {
            Self::InterArrival(e) => e.update(),
            Self::Sojourn(e) => e.update(),
            Self::FillLevel(e) => e.update(),
        }
    }
}

/// What share of the way the mean goes at each poll, and what power of the wanted change the interval makes.
///
/// What a poll finds depends on how long the poll before it took: a long one leaves little for the next. Near half load that
/// alternation hardly fades by itself, and an interval that followed each poll would feed it.
const GAIN: f64 = 1.0 / 16.0;

/// An interval that is moved towards a goal, within two limits.
#[derive(Debug, Clone, PartialEq)]
struct Steered {
    interval_ns: f64,
    shortest_ns: f64,
    longest_ns: f64,
    /// Moving means of what polls found, and of how much of it there was.
    mean: Option<(f64, f64)>,
}

impl Steered {
    /// Starts with the shortest interval.
    fn new(r_min: f64, r_max: f64) -> Result<Self, PolicyError> {
        if !(r_min > 0.0 && r_min <= r_max && r_max.is_finite()) {
            return Err(PolicyError::Throttling(
                "an estimate needs 0 < r_min <= r_max interrupts a second",
            ));
        }
        Ok(Self {
            interval_ns: 1e9 / r_max,
            shortest_ns: 1e9 / r_max,
            longest_ns: 1e9 / r_min,
            mean: None,
        })
    }

    /// A poll has found `sum` over `count`, of which `wanted` is to be the mean.
    fn steer(&mut self, wanted: f64, sum: f64, count: f64) {
        let (sums, counts) = self.mean.get_or_insert((sum, count));
        *sums += GAIN * (sum - *sums);
        *counts += GAIN * (count - *counts);
        let found = (*sums / counts.max(1e-9)).max(1e-3);
        // The platform's own power would end in other bits elsewhere, and the model in other results.
        let step = libm::pow((wanted / found).clamp(0.1, 10.0), GAIN);
        self.interval_ns = (self.interval_ns * step).clamp(self.shortest_ns, self.longest_ns);
    }

    fn interval(&self) -> Nanos {
        Nanos(self.interval_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of smooth arrivals, emptied at each interrupt by a core that takes no time: the interval that `estimate`
    /// settles at, ns.
    fn settled(estimate: Estimate, gap_ns: u64) -> u64 {
        let mut e = estimate.start().unwrap();
        let (mut next, mut now, mut interval) = (gap_ns, 0, Nanos(10_000));
        for _ in 0..2000 {
            // Inside of the interval packets wait for its end; the first one after it interrupts at once.
            now = (now + interval.0).max(next);
            while next <= now {
                e.packet(Nanos(next), Nanos(now));
                next += gap_ns;
            }
            interval = e.update();
        }
        interval.0
    }

    #[test]
    fn the_linear_law_over_the_time_between_packets_is_that_over_the_rate() {
        let law = LinearLaw::default();
        for gap in [500, 1000, 5000] {
            let by_rate = 1e9 / law.interrupts_per_second(crate::Pps(1e9 / gap as f64));
            let found = settled(Estimate::InterArrival(law), gap) as f64;
            assert!(
                (found / by_rate - 1.0).abs() < 0.01,
                "{gap}: {found} {by_rate}"
            );
        }
    }

    #[test]
    fn packets_wait_for_as_long_as_is_wanted_at_any_rate_between_the_limits() {
        let goal = SojournGoal {
            target_us: 20.0,
            ..SojournGoal::default()
        };
        // In the mean, half of the interval.
        for gap in [200, 1000] {
            let found = settled(Estimate::Sojourn(goal), gap) as f64;
            assert!((found / 40_000.0 - 1.0).abs() < 0.05, "{gap}: {found}");
        }
        let longest = SojournGoal {
            target_us: 1e6,
            ..goal
        };
        assert_eq!(settled(Estimate::Sojourn(longest), 1000), 125_000);
    }

    #[test]
    fn an_interrupt_finds_as_many_packets_as_are_wanted_at_any_rate_between_the_limits() {
        let goal = FillLevelGoal {
            packets: 32,
            ..FillLevelGoal::default()
        };
        for gap in [500, 2000] {
            let found = settled(Estimate::FillLevel(goal), gap) as f64 / gap as f64;
            assert!((found / 32.0 - 1.0).abs() < 0.05, "{gap}: {found}");
        }
        // So many would not come within the longest interval.
        assert_eq!(settled(Estimate::FillLevel(goal), 10_000), 125_000);
    }

    #[test]
    fn senseless_goals_are_refused() {
        let sojourn = SojournGoal::default();
        let fill = FillLevelGoal::default();
        for bad in [
            Estimate::Sojourn(SojournGoal {
                target_us: 0.0,
                ..sojourn
            }),
            Estimate::Sojourn(SojournGoal {
                r_min: 0.0,
                ..sojourn
            }),
            Estimate::FillLevel(FillLevelGoal { packets: 0, ..fill }),
            Estimate::FillLevel(FillLevelGoal {
                r_max: f64::NAN,
                ..fill
            }),
            Estimate::InterArrival(LinearLaw {
                r_min: 0.0,
                ..LinearLaw::default()
            }),
        ] {
            assert!(bad.start().is_err(), "{bad:?}");
        }
    }
}
