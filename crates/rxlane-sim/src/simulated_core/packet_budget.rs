//! rxlane's first controller, as its BPF program computed until 2026-11-23: what the guard is compared with.
//!
//! While overloaded a poll passes b = T* / x packets of each class, with x the measured service time; overload ends when what
//! arrived in a window, times x, would have fitted into it. x contains drops, redirects and whatever else the core
//! does, so shedding makes packets look dear, and dear packets are shed: a trap.

use std::ops::Range;

use rxlane_policy::Nanos;
use rxlane_policy::class::MAX_CLASSES;
use rxlane_policy::overload::{PollEnd, Verdict};

const SATURATED_POLLS: u32 = 5;
const SATURATED_NS: u64 = 2_000_000;
const EXPRESS_RECENT_NS: u64 = 200_000_000;
const WINDOW_NS: u64 = 10_000_000;
const MAX_BACKOFF: u32 = 7;
const IDLE_GAP_NS: u64 = 2_000;
const MAX_DEBT_X256: i64 = 64 << 8;
const MIN_SERVICE_NS: u64 = 100;
const STALL_NS: u64 = 50_000;
const MAX_SERVICE_NS: u64 = 1_000_000;

/// Its state, named as there.
#[derive(Debug, Default)]
pub(super) struct PacketBudget {
    classes: Range<usize>,
    target_ns: u64,
    overloaded: bool,
    limit: [u32; MAX_CLASSES],
    seen: [u32; MAX_CLASSES],
    passed: [u32; MAX_CLASSES],
    demand_x16: [u32; MAX_CLASSES],
    saturated: u32,
    saturated_since_ns: u64,
    poll_start_ns: u64,
    service_ns_x256: u64,
    last_end_ns: u64,
    balance_x256: i64,
    window_start_ns: u64,
    window_work_ns: u64,
    last_exit_ns: u64,
    backoff: u32,
    shed_last: bool,
    last_express_ns: u64,
}

impl PacketBudget {
    pub(super) fn new(classes: Range<usize>, target_ns: u64) -> Self {
        Self {
            classes,
            target_ns,
            ..Self::default()
        }
    }

    pub(super) fn packet(&mut self, class: usize, now: Nanos) -> Verdict {
        if !self.overloaded {
            return Verdict::Pass;
        }
        if self.poll_start_ns == 0 {
            self.poll_start_ns = now.0;
        }
        self.seen[class] += 1;
        if self.passed[class] >= self.limit[class] {
            return Verdict::Drop;
        }
        self.passed[class] += 1;
        Verdict::Pass
    }

    pub(super) fn poll_ends(&mut self, end: PollEnd) {
        let now = end.at.now.0;
        self.saturated = if end.work >= end.budget {
            self.saturated + 1
        } else {
            0
        };
        if end.express {
            self.last_express_ns = now;
        }
        let protect = now - self.last_express_ns < EXPRESS_RECENT_NS;
        if self.overloaded {
            self.learn(now);
            if self.is_over(now) || !protect {
                self.overloaded = false;
                self.saturated = 0;
                self.last_exit_ns = now;
            } else {
                self.set_limits();
            }
            self.seen = [0; MAX_CLASSES];
            self.passed = [0; MAX_CLASSES];
            self.poll_start_ns = 0;
        } else if self.is_outrun(now) && protect {
            self.estimate(u64::from(end.budget), now);
            self.enter(now);
        }
    }

    fn is_outrun(&mut self, now: u64) -> bool {
        if self.saturated == 1 {
            self.saturated_since_ns = now;
        }
        self.saturated >= SATURATED_POLLS
            || (self.saturated > 1 && now - self.saturated_since_ns > SATURATED_NS)
    }

    fn estimate(&mut self, budget: u64, now: u64) {
        let packets = u64::from(self.saturated - 1) * budget;
        let most = match self.service_ns_x256 {
            0 => MAX_SERVICE_NS,
            x => x >> 7,
        };
        let sample = (now - self.saturated_since_ns)
            .checked_div(packets)
            .unwrap_or(0);
        let sample = sample.max(MIN_SERVICE_NS).min(most);
        self.service_ns_x256 = self.service_ns_x256.max(sample << 8);
    }

    fn enter(&mut self, now: u64) {
        self.backoff = if now - self.last_exit_ns < 10 * WINDOW_NS {
            (self.backoff + 1).min(MAX_BACKOFF)
        } else {
            0
        };
        self.overloaded = true;
        self.window_start_ns = now;
        self.window_work_ns = 0;
        self.set_limits();
    }

    fn set_limits(&mut self) {
        let mut taken = 0;
        for class in self.classes.clone() {
            let x = self.service_ns_x256;
            let mut budget = (((self.target_ns << 8) + x / 2) / x) as i64;
            budget += (self.balance_x256 >> 8) - taken;
            self.limit[class] = budget.max(1) as u32;
            taken += i64::from(self.demand_x16[class] >> 4);
        }
    }

    fn learn(&mut self, now: u64) {
        for class in 0..MAX_CLASSES {
            self.demand_x16[class] =
                self.demand_x16[class] + self.seen[class] - (self.demand_x16[class] >> 4);
        }
        let passed: u32 = self.passed.iter().sum();
        let seen: u32 = self.seen.iter().sum();
        if passed > 0 && passed < seen && self.poll_start_ns > 0 && now > self.poll_start_ns {
            let most = (self.service_ns_x256 >> 7).clamp(STALL_NS, MAX_SERVICE_NS);
            let sample = (now - self.poll_start_ns) / u64::from(passed);
            let sample = sample.max(MIN_SERVICE_NS).min(most);
            let step = ((sample << 8) as i64 - self.service_ns_x256 as i64) >> 3;
            self.service_ns_x256 = self.service_ns_x256.saturating_add_signed(step);
        }
        self.window_work_ns += u64::from(seen) * (self.service_ns_x256 >> 8);
        if self.saturated > 0 {
            self.balance_x256 -= if self.balance_x256 > -MAX_DEBT_X256 {
                256
            } else {
                0
            };
        } else if self.poll_start_ns > self.last_end_ns + IDLE_GAP_NS && self.shed_last {
            self.balance_x256 = if self.balance_x256 < 0 {
                self.balance_x256 / 2
            } else {
                self.balance_x256 + 256
            };
        } else {
            self.balance_x256 -= self.balance_x256 >> if self.balance_x256 > 0 { 6 } else { 4 };
        }
        let long = now - self.poll_start_ns > 2 * self.target_ns;
        if self.balance_x256 > 0 && (self.saturated > 0 || long) {
            self.balance_x256 >>= 1;
        }
        self.shed_last = passed < seen;
        self.last_end_ns = now;
    }

    fn is_over(&mut self, now: u64) -> bool {
        let window = now - self.window_start_ns;
        if window < WINDOW_NS << self.backoff {
            return false;
        }
        let fits = self.window_work_ns < window;
        self.window_start_ns = now;
        self.window_work_ns = 0;
        fits
    }
}
