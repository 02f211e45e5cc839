//! When a link is full, so that express packets wait in its queueing discipline: the egress policy of the lanes.

use rxlane_policy::egress::link_queue;
use rxlane_policy::police::Gcra;
use rxlane_policy::{Bps, Ps};

/// For so long nothing may have waited before packets are redirected again (rxlane-dataplane's `refusing.rs`).
const QUIET: Ps = Ps(1_000_000_000_000);

/// Preamble, start delimiter and the gap to the next frame, bytes.
const WIRE_OVERHEAD: u32 = 20;

/// What of an egress is full.
#[derive(Debug)]
pub(super) struct Full {
    /// None where the policy knows no such rate.
    bucket: Option<Gcra>,
    state: u64,
    frame: u32,
    link: bool,
    ring: bool,
    last_waited: Ps,
}

impl Full {
    pub(super) fn new(link: Bps, frame: u32) -> Self {
        Self {
            bucket: link_queue(link.0 as u64).ok(),
            state: 0,
            frame: frame + WIRE_OVERHEAD,
            link: false,
            ring: false,
            last_waited: Ps::ZERO,
        }
    }

    /// Whether an express packet is redirected at `now`, or waits with the stack's.
    pub(super) fn redirects(&mut self, class: u8, has_room: bool, waits: bool, now: Ps) -> bool {
        if waits {
            self.last_waited = now;
        } else if now - self.last_waited >= QUIET {
            (self.link, self.ring) = (false, false);
        }
        if !has_room && !self.ring {
            self.ring = true;
            self.last_waited = now;
        }
        if self.ring || self.link && class > 0 {
            return false;
        }
        let frame = self.frame;
        let fits = self
            .bucket
            .as_ref()
            .is_none_or(|b| b.conforms(&mut self.state, now.into(), frame));
        if !fits && !self.link {
            self.link = true;
            self.last_waited = now;
        }
        fits || class == 0
    }
}
