//! Packets by code.

use rxlane_policy::Ps;

use super::{Fault, Faults};

/// A packet on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coming {
    /// When its last bit arrives, from the beginning of the run, warm-up included. The link may make it later.
    pub at: Ps,
    /// Class, 0 the highest.
    pub class: usize,
    /// Frame with FCS, bytes: how long it takes the link. Work on the core is that of `traffic.frame`.
    pub bytes: u32,
}

/// Packets that arrive at a NIC.
pub trait Arrivals: Send {
    /// Adds the next packets to `batch`, which is empty: as many as it likes, in the order of time. None: that was all.
    ///
    /// # Errors
    /// Whatever keeps it from going on; the run ends with it.
    fn next(&mut self, batch: &mut Vec<Coming>) -> Result<(), Fault>;
}

/// Arrivals at work, checked.
pub(crate) struct Incoming {
    from: Box<dyn Arrivals>,
    batch: Vec<Coming>,
    next: usize,
    last: Ps,
    classes: usize,
    faults: Faults,
    over: bool,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming")
            .field("last", &self.last)
            .finish()
    }
}

impl Incoming {
    pub(crate) fn new(from: Box<dyn Arrivals>, classes: usize, faults: Faults) -> Self {
        Self {
            from,
            batch: Vec::new(),
            next: 0,
            last: Ps::ZERO,
            classes,
            faults,
            over: false,
        }
    }

    /// Whether no packet comes any more.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The next packet; none at the end, which a fault is, too.
    pub(crate) fn next(&mut self) -> Option<Coming> {
        if self.over {
            return None;
        }
        if self.next == self.batch.len() {
            self.batch.clear();
            self.next = 0;
            let filled = self.from.next(&mut self.batch);
            if let Err(fault) = filled.and_then(|()| Ok(self.check()?)) {
                self.faults.report("arrivals", fault);
                self.batch.clear();
            }
            self.over = self.batch.is_empty();
        }
        let coming = self.batch.get(self.next).copied();
        self.next += 1;
        coming
    }

    fn check(&mut self) -> Result<(), String> {
        for coming in &self.batch {
            if coming.at < self.last {
                let (at, last) = (coming.at.0 as f64 / 1e3, self.last.0 as f64 / 1e3);
                return Err(format!(
                    "a packet at {at} ns comes after one at {last} ns: give them in the order of time"
                ));
            }
            if coming.class >= self.classes {
                return Err(format!(
                    "class {}: there are {}, from 0 on: give a class that there is, or traffic.shares of more",
                    coming.class, self.classes
                ));
            }
            if !(64..=65_535).contains(&coming.bytes) {
                return Err(format!(
                    "a frame of {} bytes: frames have 64 to 65535 bytes, with FCS",
                    coming.bytes
                ));
            }
            self.last = coming.at;
        }
        Ok(())
    }
}
