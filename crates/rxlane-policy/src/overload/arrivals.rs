//! How fast packets come to a ring, and so how long its next packet has waited.
//!
//! Nobody tells how many packets wait in a ring, nor since when. But as many have come as were taken when it was found empty,
//! and if they come as fast as before, the n-th since then came at n times their mean distance. Times are those of the
//! clock that stands still while the core is idle, because then nothing waits.

use super::demand::fade;

/// Counts have so many fraction bits, and distances as many.
const COUNT_SHIFT: u32 = 10;
/// Time between two empty rings is no more than this, ns.
const LONGEST_NS: u64 = 1 << 30;
/// Longer than this, and what came before is forgotten, ns.
const FORGET_NS: u64 = 1 << 20;
/// No packets are farther apart than this, which is 2 ms.
const MOST_DISTANCE: u64 = 1 << 31;
/// Packets are taken to come faster than they do by this part, so that a ring that is said to be empty becomes so.
const FASTER_SHIFT: u32 = 6;

/// Packets that came to a ring over the last ms, between moments at which it was empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Arrivals {
    pub(super) during_ns: u64,
    pub(super) came: u64,
    /// Their mean distance, in 1/1024 ns; 0: not known.
    pub(super) distance: u64,
}

impl Arrivals {
    /// The ring is empty again: within `ns`, `taken` packets came.
    pub(super) fn add(&mut self, taken: u32, ns: u64) {
        let (ns, came) = (ns.min(LONGEST_NS), u64::from(taken) << COUNT_SHIFT);
        if ns > FORGET_NS {
            (self.during_ns, self.came) = (ns, came);
        } else {
            fade(&mut self.during_ns, ns, ns);
            fade(&mut self.came, ns, came);
        }
        let distance = (self.during_ns << (2 * COUNT_SHIFT)).checked_div(self.came);
        self.distance = distance.unwrap_or(self.distance).min(MOST_DISTANCE);
    }

    /// How long after the ring was empty the packet came before which `taken` others were taken, ns.
    pub(super) fn at_ns(&self, taken: u32) -> u64 {
        u64::from(taken).saturating_mul(self.distance) >> COUNT_SHIFT
    }

    /// As [`Self::at_ns`], but rather too early than too late.
    pub(super) fn not_before_ns(&self, taken: u32) -> u64 {
        let at = self.at_ns(taken);
        at - (at >> FASTER_SHIFT)
    }
}
