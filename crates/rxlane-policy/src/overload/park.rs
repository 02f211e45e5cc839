//! When TCP waits for an overloaded core in a ring of that core, instead of being shed.

use super::Core;
use crate::Nanos;

/// So long nothing must have waited before the ring is left: connections that fill the core leave it empty for less.
const PARK_QUIET: Nanos = Nanos(10_000_000);

/// Whether TCP of a core waits, poll by poll. The senders answer to loss and to waiting alike, and what is lost is sent, and received, twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Park {
    waited: Nanos,
}

impl Park {
    /// Before [`Core::poll_begins`]; `empty`: no packet waits in the core's ring. Where everything fits and nothing has waited for
    /// a while TCP need not wait: else the guard could not be left while TCP goes on.
    pub fn poll_begins(&mut self, core: &Core, now: Nanos, empty: bool) -> bool {
        if !core.is_guarded() {
            return false;
        }
        if !empty {
            self.waited = now;
        }
        let since = self.waited.max(Nanos(core.entered_ns));
        !core.fits || Nanos(now.0.saturating_sub(since.0)) < PARK_QUIET
    }
}
