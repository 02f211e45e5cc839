//! Three interrupt rates by throughput in bytes, as ixgbe 3.x (interrupt-throttling II.B, Fig. 2).

use serde::{Deserialize, Serialize};

use super::{Sample, Throttle};
use crate::{Nanos, PolicyError};

/// How the time that the bytes of a sample took is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Elapsed {
    /// The driver's flaw: taken to be the programmed interval. At low load interrupts are rarer than that
    /// and the throughput is overestimated (interrupt-throttling V.B).
    #[default]
    Assumed,
    /// Measured.
    Measured,
}

/// Interrupts a second of the three states.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ThreeStateRates {
    /// Lowest latency.
    #[serde(deserialize_with = "crate::rate::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::rate::schema"))]
    pub lowest: f64,
    /// Low latency.
    #[serde(deserialize_with = "crate::rate::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::rate::schema"))]
    pub low: f64,
    /// Bulk; kernels after 3.x use 12,000.
    #[serde(deserialize_with = "crate::rate::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::rate::schema"))]
    pub bulk: f64,
}

impl Default for ThreeStateRates {
    fn default() -> Self {
        Self {
            lowest: 100_000.0,
            low: 20_000.0,
            bulk: 8_000.0,
        }
    }
}

/// Bytes per us above which the state moves towards bulk, and at which it moves back.
const LOWEST_ABOVE: u64 = 10;
const LOW_ABOVE: u64 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Lowest,
    Low,
    Bulk,
}

/// The three-state algorithm.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreeState {
    elapsed: Elapsed,
    rates: ThreeStateRates,
    state: State,
    interval_us: f64,
}

impl ThreeState {
    /// Starts in the low-latency state, as the driver does.
    ///
    /// # Errors
    /// [`PolicyError::Throttling`] unless all rates are positive.
    pub fn new(elapsed: Elapsed, rates: ThreeStateRates) -> Result<Self, PolicyError> {
        if [rates.lowest, rates.low, rates.bulk]
            .iter()
            .any(|r| !r.is_finite() || *r <= 0.0)
        {
            return Err(PolicyError::Throttling(
                "three-state rates must be positive interrupts a second",
            ));
        }
        Ok(Self {
            elapsed,
            rates,
            state: State::Low,
            interval_us: 1e6 / rates.low,
        })
    }
}

impl Throttle for ThreeState {
    fn update(&mut self, sample: Sample) -> Nanos {
        if sample.packets > 0 {
            let us = match self.elapsed {
                Elapsed::Assumed => self.interval_us,
                Elapsed::Measured => (sample.elapsed.0 as f64 / 1000.0).max(1.0),
            };
            let bytes_per_us = (sample.bytes as f64 / us) as u64;
            self.state = match self.state {
                State::Lowest if bytes_per_us > LOWEST_ABOVE => State::Low,
                State::Low if bytes_per_us > LOW_ABOVE => State::Bulk,
                State::Low if bytes_per_us <= LOWEST_ABOVE => State::Lowest,
                State::Bulk if bytes_per_us <= LOW_ABOVE => State::Low,
                same => same,
            };
            let target = 1e6
                / match self.state {
                    State::Lowest => self.rates.lowest,
                    State::Low => self.rates.low,
                    State::Bulk => self.rates.bulk,
                };
            // The driver's smoothing: the rate, not the interval, goes a tenth of the way to its target.
            let old = self.interval_us;
            self.interval_us = 10.0 * target * old / (9.0 * target + old);
        }
        Nanos((self.interval_us * 1000.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(elapsed: Elapsed, bytes_per_us: f64, updates: usize) -> f64 {
        let mut t = ThreeState::new(elapsed, ThreeStateRates::default()).unwrap();
        let mut interval = Nanos(50_000);
        for _ in 0..updates {
            let bytes = (bytes_per_us * interval.0 as f64 / 1000.0) as u64;
            interval = t.update(Sample {
                packets: 1 + bytes / 64,
                bytes,
                elapsed: interval,
            });
        }
        1.0 / interval.as_s()
    }

    #[test]
    fn each_throughput_settles_at_its_rate() {
        for elapsed in [Elapsed::Assumed, Elapsed::Measured] {
            assert!((run(elapsed, 5.0, 300) - 100_000.0).abs() < 500.0);
            assert!((run(elapsed, 15.0, 300) - 20_000.0).abs() < 100.0);
            assert!((run(elapsed, 40.0, 300) - 8_000.0).abs() < 50.0);
        }
    }

    #[test]
    fn one_update_goes_a_tenth_of_the_way_in_rates() {
        let mut t = ThreeState::new(Elapsed::Assumed, ThreeStateRates::default()).unwrap();
        let interval = t.update(Sample {
            packets: 1,
            bytes: 64,
            elapsed: Nanos(0),
        });
        assert!(
            (1.0 / interval.as_s() - 28_000.0).abs() < 5.0,
            "{interval:?}"
        );
    }

    #[test]
    fn the_assumed_time_overestimates_when_interrupts_are_rarer_than_programmed() {
        let sample = Sample {
            packets: 40,
            bytes: 2560,
            elapsed: Nanos(1_000_000),
        };
        let state = |elapsed| {
            let mut t = ThreeState::new(elapsed, ThreeStateRates::default()).unwrap();
            t.update(sample);
            t.state
        };
        assert_eq!(state(Elapsed::Assumed), State::Bulk);
        assert_eq!(state(Elapsed::Measured), State::Lowest);
    }

    #[test]
    fn nothing_received_changes_nothing() {
        let mut t = ThreeState::new(Elapsed::Assumed, ThreeStateRates::default()).unwrap();
        assert_eq!(t.update(Sample::default()), Nanos(50_000));
    }
}
