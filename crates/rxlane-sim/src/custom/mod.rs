//! What a scenario file cannot say: traffic, service times and throttling by code.
//!
//! Each is a trait, whose objects are made anew for every replication, from a seed: so equal seeds give equal results as
//! long as the code draws from nothing else. They work in batches, because whoever implements them may be slow to call. What they
//! give is checked; what is wrong ends the run with [`SimError::Custom`].
//!
//! ```
//! use rxlane_policy::Ps;
//! use rxlane_sim::custom::{Arrivals, Coming, Custom, Fault};
//! use rxlane_sim::outcome::simulate;
//! use rxlane_sim::scenario::Scenario;
//!
//! /// A packet of the highest class every microsecond.
//! struct Clockwork(u64);
//!
//! impl Arrivals for Clockwork {
//!     fn next(&mut self, batch: &mut Vec<Coming>) -> Result<(), Fault> {
//!         let coming = |i| Coming { at: Ps::from_us(i as f64), class: 0, bytes: 64 };
//!         batch.extend((self.0..self.0 + 1000).map(coming));
//!         self.0 += 1000;
//!         Ok(())
//!     }
//! }
//!
//! let mut scenario = Scenario { seconds: 0.01, ..Scenario::default() };
//! scenario.custom = Custom::default().arrivals(|_| Ok(Box::new(Clockwork(0))));
//! scenario.check()?;
//! assert_eq!(simulate(&scenario, 0)?.get("arrived"), Some(1e4));
//! # Ok::<(), rxlane_sim::SimError>(())
//! ```

mod arrivals;
mod controller;
mod service;

use std::fmt;
use std::sync::{Arc, Mutex};

pub(crate) use arrivals::Incoming;
pub use arrivals::{Arrivals, Coming};
pub(crate) use controller::Controlled;
pub use controller::Controller;
pub(crate) use service::Served;
pub use service::ServiceTimes;

use crate::SimError;
use crate::scenario::{Scenario, Scheme};

/// Why code could not go on.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// What an object is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Another one for each replication, and for each NIC (arrivals) or core (all others).
    pub seed: u64,
    /// Number of classes; the highest is 0.
    pub classes: usize,
}

/// Makes an object for a run.
pub type Maker<T> = Arc<dyn Fn(Start) -> Result<Box<T>, Fault> + Send + Sync>;

/// Code in the place of what a scenario file says.
#[derive(Clone, Default)]
pub struct Custom {
    /// Packets instead of `traffic.pattern`.
    pub arrivals: Option<Maker<dyn Arrivals>>,
    /// A stage behind all others.
    pub service: Option<Maker<dyn ServiceTimes>>,
    /// Throttling instead of `interrupt.throttling`.
    pub controller: Option<Maker<dyn Controller>>,
}

impl Custom {
    /// Packets instead of `traffic.pattern`. Made for each NIC, on each of its cores, with the same seed.
    #[must_use]
    pub fn arrivals(
        mut self,
        make: impl Fn(Start) -> Result<Box<dyn Arrivals>, Fault> + Send + Sync + 'static,
    ) -> Self {
        self.arrivals = Some(Arc::new(make));
        self
    }

    /// A stage behind all others, whose service times are given.
    #[must_use]
    pub fn service(
        mut self,
        make: impl Fn(Start) -> Result<Box<dyn ServiceTimes>, Fault> + Send + Sync + 'static,
    ) -> Self {
        self.service = Some(Arc::new(make));
        self
    }

    /// Throttling instead of `interrupt.throttling`. Made for each vector.
    #[must_use]
    pub fn controller(
        mut self,
        make: impl Fn(Start) -> Result<Box<dyn Controller>, Fault> + Send + Sync + 'static,
    ) -> Self {
        self.controller = Some(Arc::new(make));
        self
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_none() && self.service.is_none() && self.controller.is_none()
    }

    /// Whether a scenario has a place for it.
    pub(crate) fn check(&self, scenario: &Scenario) -> Result<(), SimError> {
        let refuse = |key: &str, cure: &'static str| {
            Err(SimError::Value {
                key: key.into(),
                value: "code".into(),
                cure,
            })
        };
        let reception = scenario.reception.scheme;
        let is_polled = matches!(reception, Scheme::Napi | Scheme::BusyPolling);
        if self.service.is_some()
            && (!is_polled || scenario.worker.is_some() || scenario.host.is_some())
        {
            return refuse(
                "stage",
                "a stage by code needs the scheme napi or busy-polling, without worker and host",
            );
        }
        if self.controller.is_some()
            && (scenario.worker.is_some() || scenario.interrupt.estimate.is_some())
        {
            return refuse(
                "interrupt.throttling",
                "throttling by code needs NAPI's vectors: leave out worker and interrupt.estimate",
            );
        }
        Ok(())
    }
}

/// Equal where the objects are made by the same code.
impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        fn same<T: ?Sized>(a: &Option<Arc<T>>, b: &Option<Arc<T>>) -> bool {
            match (a, b) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (a, b) => a.is_none() && b.is_none(),
            }
        }
        same(&self.arrivals, &other.arrivals)
            && same(&self.service, &other.service)
            && same(&self.controller, &other.controller)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom")
            .field("arrivals", &self.arrivals.is_some())
            .field("service", &self.service.is_some())
            .field("controller", &self.controller.is_some())
            .finish()
    }
}

/// Where the first fault of a core's code is left, which ends the run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<Option<SimError>>>);

impl Faults {
    pub(crate) fn report(&self, what: &'static str, source: Fault) {
        let mut first = self.0.lock().unwrap_or_else(|e| e.into_inner());
        first.get_or_insert(SimError::Custom { what, source });
    }

    pub(crate) fn are_there(&self) -> bool {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).is_some()
    }

    pub(crate) fn take(&self) -> Option<SimError> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

/// Makes an object by code.
pub(crate) fn made<T: ?Sized>(
    make: &Maker<T>,
    what: &'static str,
    start: Start,
) -> Result<Box<T>, SimError> {
    make(start).map_err(|source| SimError::Custom { what, source })
}

/// Time of so many ns.
///
/// # Errors
/// What is no time.
pub(crate) fn time(ns: f64) -> Result<rxlane_policy::Ps, String> {
    match (0.0..=1e12).contains(&ns) {
        true => Ok(rxlane_policy::Ps::from_ns(ns)),
        false => Err(format!("{ns} ns is no time: give 0 to 1e12 ns")),
    }
}
