//! Interrupt throttling by code.

use rxlane_policy::Ps;
use rxlane_policy::throttle::Sample;

use super::{Fault, Faults, time};

/// The least time between two interrupts of a vector.
pub trait Controller: Send {
    /// The interval, ns, from what was received since the last update; 0: no limit. Asked at the end of each poll that drained
    /// the vector.
    ///
    /// # Errors
    /// Whatever keeps it from going on; the run ends with it.
    fn update(&mut self, sample: Sample) -> Result<f64, Fault>;
}

/// Throttling at work, checked.
pub(crate) struct Controlled {
    by: Box<dyn Controller>,
    faults: Faults,
}

impl std::fmt::Debug for Controlled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controlled").finish_non_exhaustive()
    }
}

impl Controlled {
    pub(crate) fn new(by: Box<dyn Controller>, faults: Faults) -> Self {
        Self { by, faults }
    }

    pub(crate) fn update(&mut self, sample: Sample) -> Ps {
        let interval = self.by.update(sample).and_then(|ns| Ok(time(ns)?));
        interval.unwrap_or_else(|fault| {
            self.faults.report("throttling", fault);
            Ps::ZERO
        })
    }
}
