//! Ports at tc ingress where the program rests, because what it forwards is not worth what it costs (rxlane_policy::hook). Nothing is attached
//! there then, and Linux serves all of their packets, as it would alone.

use std::time::Duration;

use rxlane_policy::Nanos;
use rxlane_policy::hook::{Hook, Seen};

/// Between two looks while the program is at work: bulk traffic does not pay for it for longer.
pub(crate) const EVERY: Duration = Duration::from_millis(250);

/// The decision, where there is one to make.
#[derive(Debug, Default)]
pub(crate) struct Rests(pub(crate) Option<Looks>);

/// What the last look found.
#[derive(Debug)]
pub(crate) struct Looks {
    pub(crate) hook: Hook,
    pub(crate) counted: Counted,
}

/// Packets received by ports at tc ingress, and of these forwarded by the lane.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) received: u64,
    pub(crate) forwarded: u64,
}

impl Looks {
    /// Whether the program rests from now on. Whether packets wait is asked only if that decides.
    pub(crate) fn look<E>(
        &mut self,
        now: Nanos,
        counted: Counted,
        waits: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        // What is counted anew, for a port that came or went, is nothing yet.
        let mut seen = Seen {
            received: counted.received.saturating_sub(self.counted.received),
            forwarded: counted.forwarded.saturating_sub(self.counted.forwarded),
            waits: false,
        };
        let before = self.hook;
        let mut counts = self.hook.look(now, seen);
        if self.hook.rests() {
            self.hook = before;
            seen.waits = waits()?;
            counts = self.hook.look(now, seen);
        }
        if counts {
            self.counted = counted;
        }
        Ok(self.hook.rests())
    }
}
