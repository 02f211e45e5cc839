//! The prototype of a budget in time: what was learned from, and is compared with.
//!
//! A poll passes stack packets while it is younger than its budget T. T halves when the ring is not empty after it, and grows
//! when the core had idle time. It takes the wall's time for its own, so whatever else the core does is charged to packets.

use rxlane_policy::Nanos;
use rxlane_policy::overload::{PollEnd, Verdict};

const SATURATED_POLLS: u32 = 5;
const FIRST_NS: u64 = 512_000;
const LONGEST_NS: u64 = 1_000_000;
const WINDOW_NS: u64 = 5_000_000;

/// Its state.
#[derive(Debug)]
pub(super) struct TimeBudget {
    target: u64,
    guarded: bool,
    saturated: u32,
    t: u64,
    budget: u64,
    poll_ns: u64,
    busy_ns: u64,
    window_ns: u64,
    idle_ns: u64,
    dropped: bool,
    halvings: u32,
}

impl TimeBudget {
    pub(super) fn new(target: u64) -> Self {
        Self {
            target: target.max(1),
            guarded: false,
            saturated: 0,
            t: FIRST_NS,
            budget: FIRST_NS,
            poll_ns: 0,
            busy_ns: 0,
            window_ns: 0,
            idle_ns: 0,
            dropped: false,
            halvings: 0,
        }
    }

    pub(super) fn is_guarded(&self) -> bool {
        self.guarded
    }

    pub(super) fn poll_begins(&mut self, now: Nanos, idle: Nanos) {
        self.poll_ns = now.0;
        self.idle_ns += idle.0;
        if self.busy_ns == 0 {
            self.busy_ns = now.0;
        }
    }

    pub(super) fn packet(&mut self, now: Nanos) -> Verdict {
        if !self.guarded || now.0 - self.poll_ns < self.budget {
            return Verdict::Pass;
        }
        self.dropped = true;
        Verdict::Drop
    }

    pub(super) fn poll_ends(&mut self, end: PollEnd) {
        let now = end.at.now.0;
        let full = end.work >= end.budget;
        self.saturated = if full { self.saturated + 1 } else { 0 };
        if !self.guarded {
            if self.saturated >= SATURATED_POLLS {
                self.guarded = true;
                self.t = FIRST_NS;
                self.budget = self.t;
                self.window_ns = now;
                self.idle_ns = 0;
                self.busy_ns = now;
            }
            return;
        }
        let age = now.saturating_sub(self.busy_ns);
        if !full {
            self.busy_ns = 0;
            self.budget = self.t;
            self.halvings = 0;
        } else if age < self.t {
            self.budget = self.t - age;
        } else {
            if self.halvings == 0 {
                self.t = (self.t / 2).max(self.target);
            }
            self.halvings = (self.halvings + 1).min(20);
            self.budget = self.target >> self.halvings;
        }
        if now - self.window_ns > WINDOW_NS {
            if self.idle_ns > (now - self.window_ns) / 16 {
                self.t += if self.dropped { self.t / 4 } else { self.t };
            }
            self.guarded = self.t <= LONGEST_NS;
            self.saturated = 0;
            self.window_ns = now;
            self.idle_ns = 0;
            self.dropped = false;
        }
    }
}
