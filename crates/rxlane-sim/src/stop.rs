//! Ending simulations early.
//!
//! A run looks at its [`Stop`] whenever it generates more packets and at every disturbance, which is some hundred times in a
//! millisecond of wall clock and cannot be measured beside what it does in between. So it ends at once, in the middle of a
//! replication, also where interrupts take all of a core for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks simulations to end early. Clones ask the same ones.
#[derive(Debug, Clone, Default)]
pub struct Stop(Asked);

#[derive(Debug, Clone, Default)]
enum Asked {
    #[default]
    Never,
    /// By a signal handler, which can only reach what lives for ever.
    BySignal(&'static AtomicBool),
    ByOwner(Arc<AtomicBool>),
}

impl Stop {
    /// One that [`Stop::ask`] sets.
    pub fn new() -> Self {
        Self(Asked::ByOwner(Arc::default()))
    }

    /// One that nobody sets.
    pub const fn never() -> Self {
        Self(Asked::Never)
    }

    /// From now on simulations that heed it end, with [`crate::SimError::Stopped`].
    pub fn ask(&self) {
        match &self.0 {
            Asked::Never => {}
            Asked::BySignal(flag) => flag.store(true, Ordering::Relaxed),
            Asked::ByOwner(flag) => flag.store(true, Ordering::Relaxed),
        }
    }

    /// Whether simulations are to end.
    pub fn is_asked(&self) -> bool {
        match &self.0 {
            Asked::Never => false,
            Asked::BySignal(flag) => flag.load(Ordering::Relaxed),
            Asked::ByOwner(flag) => flag.load(Ordering::Relaxed),
        }
    }
}

impl From<&'static AtomicBool> for Stop {
    fn from(flag: &'static AtomicBool) -> Self {
        Self(Asked::BySignal(flag))
    }
}
