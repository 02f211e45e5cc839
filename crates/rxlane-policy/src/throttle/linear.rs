//! The interrupt rate falls linearly with the packet rate (interrupt-throttling V.C).

use serde::{Deserialize, Serialize};

use super::{Sample, Throttle};
use crate::{Nanos, PolicyError, Pps};

/// `r = r_max - rho (r_max - r_min) / rho_max`, held at `r_min` beyond `rho_max`, where the paper's
/// formula would become negative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LinearLaw {
    /// Interrupts a second when idle.
    #[serde(deserialize_with = "crate::rate::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::rate::schema"))]
    pub r_max: f64,
    /// Interrupts a second at `rho_max_pps`.
    #[serde(deserialize_with = "crate::rate::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::rate::schema"))]
    pub r_min: f64,
    /// The router's highest packet rate.
    #[serde(deserialize_with = "crate::rate::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::rate::schema"))]
    pub rho_max_pps: f64,
}

impl Default for LinearLaw {
    /// The paper's values, for its 3.3 GHz core.
    fn default() -> Self {
        Self {
            r_max: 100_000.0,
            r_min: 8_000.0,
            rho_max_pps: 2_100_000.0,
        }
    }
}

impl LinearLaw {
    /// Interrupts a second at a packet rate.
    pub fn interrupts_per_second(&self, rate: Pps) -> f64 {
        (self.r_max - rate.0 * (self.r_max - self.r_min) / self.rho_max_pps)
            .clamp(self.r_min, self.r_max)
    }
}

/// The linear algorithm. The packet rate is measured over the real time between updates.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    law: LinearLaw,
    interval: Nanos,
}

impl Linear {
    /// Starts as if idle.
    ///
    /// # Errors
    /// [`PolicyError::Throttling`] unless `0 < r_min <= r_max` and `rho_max > 0`.
    pub fn new(law: LinearLaw) -> Result<Self, PolicyError> {
        let sound = law.r_min > 0.0
            && law.r_min <= law.r_max
            && law.rho_max_pps > 0.0
            && law.r_max.is_finite()
            && law.rho_max_pps.is_finite();
        if !sound {
            return Err(PolicyError::Throttling(
                "the linear law needs 0 < r_min <= r_max and rho_max_pps > 0",
            ));
        }
        Ok(Self {
            law,
            interval: Nanos((1e9 / law.r_max) as u64),
        })
    }
}

impl Throttle for Linear {
    #[inline]
    fn update(&mut self, sample: Sample) -> Nanos {
        if sample.elapsed > Nanos(0) {
            let rate = Pps::of(sample.packets, sample.elapsed);
            self.interval = Nanos((1e9 / self.law.interrupts_per_second(rate)) as u64);
        }
        self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_is_that_of_the_paper_and_never_below_r_min() {
        let law = LinearLaw::default();
        assert_eq!(law.interrupts_per_second(Pps(0.0)), 100_000.0);
        assert_eq!(law.interrupts_per_second(Pps(1_050_000.0)), 54_000.0);
        assert_eq!(law.interrupts_per_second(Pps(2_100_000.0)), 8_000.0);
        assert_eq!(law.interrupts_per_second(Pps(2_500_000.0)), 8_000.0);
    }

    #[test]
    fn the_rate_is_taken_over_the_real_time() {
        let mut t = Linear::new(LinearLaw::default()).unwrap();
        let interval = t.update(Sample {
            packets: 21,
            bytes: 0,
            elapsed: Nanos(10_000),
        });
        assert_eq!(interval, Nanos(125_000));
    }

    #[test]
    fn senseless_laws_are_refused() {
        let law = LinearLaw::default();
        for bad in [
            LinearLaw { r_min: 0.0, ..law },
            LinearLaw {
                r_min: 200_000.0,
                ..law
            },
            LinearLaw {
                rho_max_pps: 0.0,
                ..law
            },
            LinearLaw {
                r_max: f64::NAN,
                ..law
            },
        ] {
            assert!(Linear::new(bad).is_err(), "{bad:?}");
        }
    }
}
