//! The packet rate from the time between packets (interrupt-throttling VI).

use crate::throttle::{Linear, LinearLaw};
use crate::{Nanos, PolicyError, Pps};

/// What share of the way the mean goes to each new gap.
const WEIGHT: f64 = 1.0 / 64.0;

/// The linear law over a moving mean of the gaps between arrivals.
#[derive(Debug, Clone, PartialEq)]
pub struct InterArrival {
    law: LinearLaw,
    last: Option<Nanos>,
    mean_gap_ns: f64,
}

impl InterArrival {
    /// Starts as if idle.
    ///
    /// # Errors
    /// As [`Linear::new`].
    pub fn new(law: LinearLaw) -> Result<Self, PolicyError> {
        Linear::new(law)?;
        Ok(Self {
            law,
            last: None,
            mean_gap_ns: f64::INFINITY,
        })
    }

    pub(super) fn packet(&mut self, arrived: Nanos) {
        if let Some(last) = self.last {
            let gap = arrived.since(last).0 as f64;
            self.mean_gap_ns = match self.mean_gap_ns.is_finite() {
                true => self.mean_gap_ns + WEIGHT * (gap - self.mean_gap_ns),
                false => gap,
            };
        }
        self.last = Some(arrived);
    }

    pub(super) fn update(&mut self) -> Nanos {
        let rate = Pps(1e9 / self.mean_gap_ns.max(1e-3));
        Nanos((1e9 / self.law.interrupts_per_second(rate)) as u64)
    }
}
