//! A stage whose service times are given by code.

use rxlane_policy::Ps;

use super::{Fault, Faults, time};

/// Service times of a stage.
pub trait ServiceTimes: Send {
    /// Adds the service times, ns, of the next packets of a class to `batch`, which is empty: as many as it likes, at least one.
    ///
    /// # Errors
    /// Whatever keeps it from going on; the run ends with it.
    fn next(&mut self, class: usize, batch: &mut Vec<f64>) -> Result<(), Fault>;
}

/// A stage at work, checked.
pub(crate) struct Served {
    from: Box<dyn ServiceTimes>,
    /// Of each class, the next one last.
    waiting: Vec<Vec<f64>>,
    faults: Faults,
}

impl Served {
    pub(crate) fn new(from: Box<dyn ServiceTimes>, classes: usize, faults: Faults) -> Self {
        Self {
            from,
            waiting: vec![Vec::new(); classes],
            faults,
        }
    }

    /// What the next packet of a class takes.
    pub(crate) fn next(&mut self, class: usize) -> Ps {
        let taken = self.take(class).and_then(|ns| Ok(time(ns)?));
        taken.unwrap_or_else(|fault| {
            self.faults.report("stage", fault);
            Ps::ZERO
        })
    }

    fn take(&mut self, class: usize) -> Result<f64, Fault> {
        let waiting = &mut self.waiting[class];
        if waiting.is_empty() {
            self.from.next(class, waiting)?;
            waiting.reverse();
        }
        let none = || Fault::from("no service times: give at least one a batch");
        waiting.pop().ok_or_else(none)
    }
}
