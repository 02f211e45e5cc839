//! When a core begins to be guarded, and when that ends.

use super::core::{BURST_NS, Core, Last, PATIENCE_NS, RINGS, Ring};
use super::demand::{Demand, Sample};
use super::limits::first_turn_ns;
use super::plan::Plan;
use super::shares::Shares;
use crate::Nanos;

/// The first guess of what a packet takes is no more than this, where nothing is known, and may always be so much, ns.
const MOST_GUESS_NS: u64 = 1 << 20;
const LEAST_GUESS_NS: u64 = 1 << 12;
/// Who left because it would do without a guard, and is back this soon, was wrong, ns; and does not try again for so long, ns.
const WRONG_NS: u64 = 1 << 24;
const ALONE_WAIT_NS: (u64, u64) = (1 << 24, 1 << 28);
/// After so long without the guard, patience is forgotten, ns.
const FORGET_NS: u64 = 1 << 30;

impl Core {
    /// The end of a poll of a core that is not guarded.
    pub(super) fn unguarded_poll_ends(
        &mut self,
        plan: &Plan,
        slot: usize,
        emptied: bool,
        protect: bool,
        packets: u32,
        now: u64,
    ) {
        let ring = &mut self.rings[slot];
        if emptied || !protect || plan.stack == 0 {
            ring.full_since_ns = 0;
        } else if ring.full_since_ns == 0 {
            ring.full_since_ns = now.max(1);
            ring.full_work = 0;
        } else {
            ring.full_work = ring.full_work.saturating_add(packets);
            let took = now.saturating_sub(ring.full_since_ns);
            if took >= self.patience_ns {
                // The first guess counts all that the polls did as what their packets took.
                let guess = took / u64::from(ring.full_work.max(1));
                // A machine that had stalled may be part of it.
                let most = match self.clock.cost_ns {
                    0 => MOST_GUESS_NS,
                    known => (2 * known).max(LEAST_GUESS_NS),
                };
                self.clock.guess(guess.min(most));
                self.enter(plan, now, guess);
            }
        }
    }

    /// `each`: what a packet of any kind has just taken without the guard, ns.
    pub(super) fn enter(&mut self, plan: &Plan, now: u64, each: u64) {
        if now.saturating_sub(self.left_ns) > FORGET_NS {
            self.patience_ns = PATIENCE_NS.0;
            self.alone_wait_ns = 0;
        }
        if self.left_alone && now.saturating_sub(self.left_ns) < WRONG_NS {
            self.alone_wait_ns = (2 * self.alone_wait_ns).clamp(ALONE_WAIT_NS.0, ALONE_WAIT_NS.1);
            self.alone_after_ns = now.saturating_add(self.alone_wait_ns);
            self.alone_ns = each;
        } else {
            // A stall may be the reason for the guard, and is no part of what packets take.
            self.alone_ns = match self.alone_ns {
                0 => each,
                known => each.min(known.saturating_add(known >> 3)),
            };
        }
        self.left_alone = false;
        self.guarded = true;
        self.entered_ns = now;
        self.clock.start(now);
        self.drain_ns = 0;
        self.last = Last::Nothing;
        self.demand = Demand::default();
        self.sample = Sample::default();
        self.stretch_x64 = 64;
        self.turn_ns = first_turn_ns(Nanos(plan.longest_ns));
        self.shared_ns = self.clock.own_ns;
        self.ran_out = false;
        self.fits = false;
        self.fits_alone = false;
        self.counting = false;
        self.dropping = false;
        self.unread = 0;
        self.cap_ns = self.patience_ns;
        self.counted_ns = self.clock.own_ns;
        self.counted_others_ns = self.clock.others_ns;
        self.poll_ns = self.clock.own_ns;
        self.passed_ns = self.clock.own_ns;
        self.shares = Shares::default();
        // Rings are taken to have been empty now: what is in them is older, but emptying them is the first thing that happens
        // if it cannot be served.
        self.rings = [Ring {
            empty_ns: self.clock.own_ns,
            since_ns: self.clock.busy_ns(),
            ..Ring::default()
        }; RINGS];
    }

    pub(super) fn leave(&mut self, now: u64) {
        self.patience_ns = if now.saturating_sub(self.entered_ns) < BURST_NS {
            (2 * self.patience_ns).min(PATIENCE_NS.1)
        } else {
            PATIENCE_NS.0
        };
        self.guarded = false;
        self.left_ns = now;
        self.rings = [Ring::default(); RINGS];
    }
}
