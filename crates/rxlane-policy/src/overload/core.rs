//! The guard of one core: what it is told, and when it drops.

use super::clock::Clock;
use super::demand::{Demand, Sample};
use super::plan::Plan;
use super::shares::Shares;
use super::{PollEnd, Verdict};
use crate::Nanos;
use crate::class::MAX_CLASSES;

/// Rings of a core that are told apart, by the low bits of their NAPI id. Those that share a slot share an age.
pub const RINGS: usize = 8;
/// Below this idle share (1.4 %) the limit is the target; each further 0.2 % double it: sources that send in batches leave 1 %.
const IDLE_FREE_NS: u64 = 7 << 13;
const IDLE_DOUBLING_SHIFT: u32 = 13;
/// Doublings of the limit at most.
const MOST_DOUBLINGS: u64 = 9;
/// As many, while more is asked for than there is and a packet takes more than an eighth of the target: a poll then passes so
/// few that its ring is empty again and again, which the balance alone does not make up for.
const MOST_DOUBLINGS_DEAR: u64 = 3;
const DEAR_SHIFT: u32 = 3;
/// A ring that the polls' limits do not empty is cut after so many targets at the latest.
const RING_TARGETS_SHIFT: u32 = 3;
/// The first guess of what a packet takes is no more than this, where nothing is known, and may always be so much, ns.
const MOST_GUESS_NS: u64 = 1 << 20;
const LEAST_GUESS_NS: u64 = 1 << 12;
/// The balance is kept above this, ns: polls that pass nothing for a while.
const LEAST_BALANCE_NS: i64 = -(1 << 17);
/// The balance returns to nothing by this part each poll, from above and from below.
const BALANCE_FADES: (u32, u32) = (6, 4);
/// A core that had nothing to do for so long before a poll has slept, ns.
const SLEPT_NS: u64 = 512;
/// The guard is left at an idle share of 3 %.
const IDLE_LEAVE_NS: u64 = 1 << 17;
/// A ring that was full at the end of polls for so long is guarded, ns; doubled each time that it proves to be a burst.
const PATIENCE_NS: (u64, u64) = (1 << 20, 1 << 25);
/// A guard that is left this soon had been entered for a burst, ns.
const BURST_NS: u64 = 1 << 24;
/// After so long without the guard, patience is forgotten, ns.
const FORGET_NS: u64 = 1 << 30;
/// RT traffic counts as present this long, ns.
const PRESENT_NS: u64 = 200_000_000;
/// The size of the ring makes limits no shorter than this, ns.
const SHORTEST_CAP_NS: u64 = 1 << 14;
/// What is never passed otherwise passes once in so long, so that no class starves, ns.
const TRICKLE_NS: u64 = 1 << 20;
/// The limit of a ring in 1/16 of the target at most.
const MOST_STRETCH_X16: u64 = 1 << 14;

/// What the time until the next event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Nothing,
    Passed,
    Dropped,
}

/// One ring of the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ring {
    /// When it was last empty, on the core's own clock, ns.
    pub(super) empty_ns: u64,
    /// When the first packet was dropped for the ring's age, on the own clock, ns.
    pub(super) cut_ns: u64,
    /// Whether one was, since it was last empty.
    pub(super) cut: bool,
    /// Stack packets dropped since then.
    pub(super) cut_drops: u32,
    /// Whether one was dropped because ring or poll were too old.
    pub(super) ran_out: bool,
    /// Whether anything that the guard was asked about passed since then.
    pub(super) passed: bool,
    /// End of the first of the polls in a row that left packets, ns of the wall; 0 for none. Not guarded only.
    pub(super) full_since_ns: u64,
    /// Packets of the polls since then.
    pub(super) full_work: u32,
}

/// The guard of one core. All rings that the core polls share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    pub(super) guarded: bool,
    pub(super) clock: Clock,
    pub(super) rings: [Ring; RINGS],
    pub(super) ring: usize,
    /// How long dropping takes until a ring is empty, ns: a decaying maximum.
    pub(super) drain_ns: u64,
    /// What became of the last packet, and its class and hash if it was passed.
    pub(super) last: Last,
    pub(super) class: u32,
    pub(super) hash: u32,
    pub(super) passed_ns: u64,
    pub(super) shares: Shares,
    pub(super) demand: Demand,
    pub(super) sample: Sample,
    /// How old a ring may be, in 1/16 of the target: what the demand allows.
    pub(super) stretch_x16: u64,
    /// What polls may pass longer than the target, or shorter, so that the core does not sleep after it has dropped, and polls
    /// take less than the device budget all the same, ns.
    pub(super) balance_ns: i64,
    /// Whether the poll before dropped stack packets.
    pub(super) dropped_last: bool,
    /// Whether what was asked for fits into the time that there is.
    pub(super) fits: bool,
    /// What the size of the ring allows, ns.
    pub(super) cap_ns: u64,
    /// When the poll began, on the own clock, ns.
    pub(super) poll_ns: u64,
    /// The ring was too old when the poll began; packets that were dropped since without reading the clock.
    pub(super) dropping: bool,
    pub(super) unread: u32,
    pub(super) counted_ns: u64,
    pub(super) counting: bool,
    pub(super) express_ns: u64,
    pub(super) entered_ns: u64,
    pub(super) left_ns: u64,
    pub(super) patience_ns: u64,
}

impl Default for Core {
    fn default() -> Self {
        Self {
            guarded: false,
            clock: Clock::default(),
            rings: [Ring::default(); RINGS],
            ring: 0,
            drain_ns: 0,
            last: Last::Nothing,
            class: 0,
            hash: 0,
            passed_ns: 0,
            shares: Shares::default(),
            demand: Demand::default(),
            sample: Sample::default(),
            stretch_x16: 16,
            balance_ns: 0,
            dropped_last: false,
            fits: false,
            cap_ns: PATIENCE_NS.0,
            poll_ns: 0,
            dropping: false,
            unread: 0,
            counted_ns: 0,
            counting: false,
            express_ns: 0,
            entered_ns: 0,
            left_ns: 0,
            patience_ns: PATIENCE_NS.0,
        }
    }
}

/// How long a ring may go without being empty at most while a class with a target passes, ns: what the demand allows, within what
/// the size of the ring does. Both are numbers of a [`Core`].
pub fn longest_turn_ns(target: u64, stretch_x16: u64, cap_ns: u64) -> u64 {
    (target.saturating_mul(stretch_x16) >> 4)
        .max(target << RING_TARGETS_SHIFT)
        .min(cap_ns.max(target))
}

/// [`longest_turn_ns`] in an overload so deep that the demand stretches nothing, and before the size of the ring is known.
pub fn shortest_turn_ns(target: Nanos) -> u64 {
    longest_turn_ns(target.0, 16, PATIENCE_NS.0)
}

impl Core {
    /// Whether the host must tell of the begin of polls and ask about packets. If not, all of them pass.
    pub fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// Whether the host must read the clock for a packet that the guard is asked about. Not in polls of a ring that had
    /// been too old before they began: all that matters there is to be rid of the packets.
    pub fn reads_clock(&self) -> bool {
        self.guarded && !self.dropping
    }

    /// The idle share that the guard sees, in 1/1024.
    pub fn idle_share(&self) -> u32 {
        (self.clock.idle_ns >> 12) as u32
    }

    /// How long a poll may go on while a stack class with this target passes, ns of the core's own clock.
    fn passing_limit_ns(&self, target: u64) -> u64 {
        let above = self.clock.idle_ns.saturating_sub(IDLE_FREE_NS);
        let most = match (self.fits, self.clock.cost_ns << DEAR_SHIFT > target) {
            (true, _) => MOST_DOUBLINGS,
            (false, true) => MOST_DOUBLINGS_DEAR,
            (false, false) => 0,
        };
        let rest = above & ((1 << IDLE_DOUBLING_SHIFT) - 1);
        let whole = target << (above >> IDLE_DOUBLING_SHIFT).min(most);
        let lengthened = match most {
            0 => 0,
            _ => whole + ((whole * rest) >> IDLE_DOUBLING_SHIFT),
        };
        // Near the point where everything fits, polls may be long: that is where it begins to fit.
        target
            .saturating_add_signed(self.balance_ns)
            .max(lengthened)
            .max((target * self.stretch_x16) >> 6)
            .min(self.cap_ns.max(target))
    }

    /// How long the ring may go without being empty while `class` passes, ns of the core's own clock.
    fn ring_limit_ns(&self, plan: &Plan, class: usize) -> u64 {
        let target = plan.limit_ns[class];
        if plan.stack & (1 << class) == 0 {
            // Dropping the stack comes first, and must have had the time to empty the ring.
            let beyond = target.saturating_sub(plan.longest_ns);
            return self.turn_limit_ns(plan.longest_ns) + self.drain_ns + beyond;
        }
        self.turn_limit_ns(target)
    }

    fn turn_limit_ns(&self, target: u64) -> u64 {
        let limit = longest_turn_ns(target, self.stretch_x16, self.cap_ns)
            .max(self.passing_limit_ns(target));
        // The drops that empty the ring belong to the wait, but leave a quarter: it is passing that is wanted.
        limit.saturating_sub(self.drain_ns).max(limit >> 2)
    }

    /// The first packet of a poll, of whatever class. `idle` is how much of the time since the last poll of this core it had
    /// nothing to do, nor had anybody else.
    pub fn poll_begins(&mut self, napi: u32, now: Nanos, idle: Nanos) {
        if self.guarded {
            self.ring = napi as usize & (RINGS - 1);
            self.sample.idle_ns += self.clock.poll_begins(now.0, idle.0);
            self.poll_ns = self.clock.own_ns;
            self.last = Last::Nothing;
            self.unread = 0;
            let starved = self.poll_ns.wrapping_sub(self.passed_ns) > TRICKLE_NS;
            self.dropping = self.rings[self.ring].cut && !starved;
        }
    }

    /// A packet of a class that the [`Plan`] [asks](Plan::asks) about, with the hash of its flow.
    pub fn packet(&mut self, plan: &Plan, class: usize, hash: u32, now: Nanos) -> Verdict {
        if !self.guarded || !plan.asks(class) {
            return Verdict::Pass;
        }
        let class = class & (MAX_CLASSES - 1);
        let stack = plan.stack & (1 << class) != 0;
        if self.dropping {
            if stack {
                self.unread = self.unread.saturating_add(1);
                let ring = &mut self.rings[self.ring];
                ring.cut_drops = ring.cut_drops.saturating_add(1);
                return Verdict::Drop;
            }
            let age = self.poll_ns.wrapping_sub(self.rings[self.ring].empty_ns);
            return match age >= self.ring_limit_ns(plan, class) {
                true => Verdict::Drop,
                false => Verdict::Pass,
            };
        }
        self.advance(plan, now.0, false);
        let own = self.clock.own_ns;
        let ring = &self.rings[self.ring];
        let first = !ring.passed;
        let starved = own.wrapping_sub(self.passed_ns) > TRICKLE_NS;
        let poll_limit = match stack {
            true => self.passing_limit_ns(plan.limit_ns[class]),
            false => u64::MAX,
        };
        let ring_limit = self.ring_limit_ns(plan, class);
        // What has been passed and not been served yet takes its time, too.
        let served = own.wrapping_add(self.clock.owed_ns);
        let old = served.wrapping_sub(ring.empty_ns) >= ring_limit;
        let long = served.wrapping_sub(self.poll_ns) >= poll_limit;
        if !first && !starved {
            if old || long {
                let ring = &mut self.rings[self.ring];
                // Shares are of the stack: that an express class had to go says nothing about them.
                if stack {
                    if old && !ring.cut {
                        ring.cut = true;
                        ring.cut_ns = own;
                    }
                    ring.cut_drops = ring.cut_drops.saturating_add(u32::from(ring.cut));
                    ring.ran_out = true;
                    self.last = Last::Dropped;
                }
                return Verdict::Drop;
            }
            if stack && !self.shares.allow(plan, class, hash, poll_limit) {
                self.last = Last::Dropped;
                return Verdict::Drop;
            }
        }
        if stack {
            self.rings[self.ring].passed = true;
            self.passed_ns = own;
            self.last = Last::Passed;
            self.class = class as u32;
            self.hash = hash;
        }
        Verdict::Pass
    }

    /// Charges the time since the last event to whom it belongs. At the end of a poll that is sending and waking, too.
    fn advance(&mut self, plan: &Plan, now: u64, end: bool) {
        let passed = self.last == Last::Passed;
        let mut ns = self.clock.advance(now, passed && !end, self.unread);
        if self.unread > 0 {
            self.sample.dropped_ns += ns;
            self.sample.dropped = self.sample.dropped.saturating_add(self.unread);
            self.unread = 0;
        }
        if end {
            ns = self.clock.poll_ended(ns, passed);
            if !passed {
                self.sample.passed_ns += ns;
                ns = 0;
            }
        }
        match self.last {
            Last::Nothing => {}
            Last::Passed => {
                let class = self.class as usize & (MAX_CLASSES - 1);
                self.shares.charge(plan, class, self.hash, ns);
                self.sample.passed_ns += ns;
                self.sample.passed += 1;
            }
            Last::Dropped => {
                self.sample.dropped_ns += ns;
                self.sample.dropped += 1;
            }
        }
        self.last = Last::Nothing;
    }

    /// The end of a poll.
    pub fn poll_ends(&mut self, plan: &Plan, end: PollEnd) {
        let now = end.now.0;
        if end.express {
            self.express_ns = now;
        }
        let protect = plan.always || now.saturating_sub(self.express_ns) < PRESENT_NS;
        let slot = end.napi as usize & (RINGS - 1);
        // A budget of 0 takes nothing off the ring, and so does not show that it is empty.
        let emptied = end.work < end.budget;
        if !self.guarded {
            self.unguarded_poll_ends(plan, slot, emptied, protect, end.work, now);
            return;
        }
        self.ring = slot;
        self.advance(plan, now, true);
        self.sample.work = self.sample.work.saturating_add(end.work);
        self.sample.had_ns = self.clock.own_ns.wrapping_sub(self.counted_ns) + self.sample.idle_ns;
        self.counted_ns = self.clock.own_ns;
        self.balance(plan, emptied);
        // What was in the rings when the guard began came before the time that is counted.
        if self.counting {
            self.demand.add(&self.sample);
        }
        self.sample = Sample::default();
        if emptied {
            self.counting = true;
            self.ring_is_empty(plan, slot);
            self.stretch(end.budget);
        }
        let idle = self.clock.idle_ns >= IDLE_LEAVE_NS && self.fits;
        if (idle || !protect) && !end.held {
            self.leave(now);
        }
    }

    /// Polls that take the whole device budget leave packets behind: they were too long. A core that slept after a poll
    /// that dropped could have served more.
    fn balance(&mut self, plan: &Plan, emptied: bool) {
        let cost = self.clock.cost_ns as i64;
        let slept = self.sample.idle_ns > SLEPT_NS;
        if !emptied {
            self.balance_ns = (self.balance_ns - cost).max(LEAST_BALANCE_NS);
        } else if slept && self.dropped_last {
            self.balance_ns = match self.balance_ns < 0 {
                true => self.balance_ns >> 1,
                false => self.balance_ns + cost,
            };
        } else if self.balance_ns > 0 {
            self.balance_ns -= self.balance_ns >> BALANCE_FADES.0;
        } else {
            self.balance_ns -= self.balance_ns >> BALANCE_FADES.1;
        }
        let took = self.clock.own_ns.wrapping_sub(self.poll_ns);
        if self.balance_ns > 0 && (!emptied || took > 2 * plan.longest_ns) {
            self.balance_ns >>= 1;
        }
        self.dropped_last = self.sample.dropped > 0;
    }

    /// A ring that is served for T at an overload of L, and then emptied, makes a packet wait T (1 - 1/L) at most.
    fn stretch(&mut self, budget: u32) {
        let (asked, had) = self.demand.asked_and_had(budget);
        self.fits = asked < had - (had >> 6);
        self.stretch_x16 = match asked.saturating_sub(had) {
            0 => MOST_STRETCH_X16,
            excess => (asked.min(1 << 40) * 16 / excess).clamp(16, MOST_STRETCH_X16),
        };
    }

    fn ring_is_empty(&mut self, plan: &Plan, slot: usize) {
        let own = self.clock.own_ns;
        let ring = &mut self.rings[slot];
        if ring.cut {
            let took = own.wrapping_sub(ring.cut_ns);
            self.drain_ns = took.max(self.drain_ns - (self.drain_ns >> 3));
            // A ring that was nearly full when it was cut will be full before, some time: RT packets are lost then.
            self.cap_ns = if ring.cut_drops > plan.backlog {
                (self.cap_ns - (self.cap_ns >> 2)).max(SHORTEST_CAP_NS)
            } else {
                (self.cap_ns + (self.cap_ns >> 4)).min(self.patience_ns)
            };
        }
        self.shares.turn_ends(ring.ran_out);
        ring.cut = false;
        ring.cut_drops = 0;
        ring.ran_out = false;
        ring.passed = false;
        ring.empty_ns = own;
    }

    fn unguarded_poll_ends(
        &mut self,
        plan: &Plan,
        slot: usize,
        emptied: bool,
        protect: bool,
        work: u32,
        now: u64,
    ) {
        let ring = &mut self.rings[slot];
        if emptied || !protect || plan.stack == 0 {
            ring.full_since_ns = 0;
        } else if ring.full_since_ns == 0 {
            ring.full_since_ns = now.max(1);
            ring.full_work = 0;
        } else {
            ring.full_work = ring.full_work.saturating_add(work);
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
                self.enter(now);
            }
        }
    }

    fn enter(&mut self, now: u64) {
        if now.saturating_sub(self.left_ns) > FORGET_NS {
            self.patience_ns = PATIENCE_NS.0;
        }
        self.guarded = true;
        self.entered_ns = now;
        self.clock.start(now);
        self.drain_ns = 0;
        self.last = Last::Nothing;
        self.demand = Demand::default();
        self.sample = Sample::default();
        self.stretch_x16 = 16;
        self.balance_ns = 0;
        self.dropped_last = false;
        self.fits = false;
        self.counting = false;
        self.dropping = false;
        self.unread = 0;
        self.cap_ns = self.patience_ns;
        self.counted_ns = self.clock.own_ns;
        self.poll_ns = self.clock.own_ns;
        self.passed_ns = self.clock.own_ns;
        self.shares = Shares::default();
        // Rings are taken to have been empty now: what is in them is older, but emptying them is the first thing that happens
        // if it cannot be served.
        self.rings = [Ring {
            empty_ns: self.clock.own_ns,
            ..Ring::default()
        }; RINGS];
    }

    fn leave(&mut self, now: u64) {
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
