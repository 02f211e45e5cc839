//! The guard of one core: what it is told, and when it drops.

use super::arrivals::Arrivals;
use super::clock::Clock;
use super::demand::{Demand, Sample};
use super::plan::Plan;
use super::shares::Shares;
use super::{Gap, Moment, PollEnd, Verdict};
use crate::class::MAX_CLASSES;

/// Rings of a core that are told apart, by the low bits of their NAPI id. Those that share a slot share an age.
pub const RINGS: usize = 8;
/// The guard is left at an idle share of 3 %.
const IDLE_LEAVE_NS: u64 = 1 << 17;
/// A ring that was full at the end of polls for so long is guarded, ns; doubled each time that it proves to be a burst.
pub(super) const PATIENCE_NS: (u64, u64) = (1 << 20, 1 << 25);
/// A guard that is left this soon had been entered for a burst, ns.
pub(super) const BURST_NS: u64 = 1 << 24;
/// Longer than this, and what came while others had the core did not all find room in the ring: then it says nothing of how fast
/// packets come, ns.
const MOST_OTHERS_NS: u64 = 1 << 17;
/// What is never passed otherwise passes once in so long, so that no class starves, ns.
pub(super) const TRICKLE_NS: u64 = 1 << 20;
/// RT traffic counts as present this long, ns.
const PRESENT_NS: u64 = 200_000_000;

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
    /// Whether anything that the guard was asked about passed since then.
    pub(super) passed: bool,
    /// Packets taken since then, without those of the poll under way.
    pub(super) taken: u32,
    /// How fast they come, and when the ring was empty on the clock that they come by, ns.
    pub(super) since_ns: u64,
    pub(super) arrivals: Arrivals,
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
    /// How much longer than the target polls may pass, in 1/64: what the demand allows.
    pub(super) stretch_x64: u64,
    /// How long a ring may go without being empty, ns: as long as what comes to it comes as expected.
    pub(super) turn_ns: u64,
    /// When the turn of the shares began, on the own clock, ns.
    pub(super) shared_ns: u64,
    /// Whether one was dropped in it because it, the poll or the ring was too old.
    pub(super) ran_out: bool,
    /// Whether what was asked for fits into the time that there is, and whether it does without a guard.
    pub(super) fits: bool,
    pub(super) fits_alone: bool,
    /// What a packet of any kind took, others' time included, when the guard was entered, ns.
    pub(super) alone_ns: u64,
    /// What the size of the ring allows, ns.
    pub(super) cap_ns: u64,
    /// When the poll began, on the own clock, ns.
    pub(super) poll_ns: u64,
    /// The ring was too old when the poll began; packets that were dropped since without reading the clock.
    pub(super) dropping: bool,
    pub(super) unread: u32,
    pub(super) counted_ns: u64,
    pub(super) counted_others_ns: u64,
    pub(super) counting: bool,
    pub(super) express_ns: u64,
    pub(super) entered_ns: u64,
    pub(super) left_ns: u64,
    /// Whether it was left because a core without a guard was thought to keep up, until when it is not left for that again, and
    /// for how long that was forbidden, ns.
    pub(super) left_alone: bool,
    pub(super) alone_after_ns: u64,
    pub(super) alone_wait_ns: u64,
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
            stretch_x64: 64,
            turn_ns: 0,
            shared_ns: 0,
            ran_out: false,
            fits: false,
            fits_alone: false,
            alone_ns: 0,
            cap_ns: PATIENCE_NS.0,
            poll_ns: 0,
            dropping: false,
            unread: 0,
            counted_ns: 0,
            counted_others_ns: 0,
            counting: false,
            express_ns: 0,
            entered_ns: 0,
            left_ns: 0,
            left_alone: false,
            alone_after_ns: 0,
            alone_wait_ns: 0,
            patience_ns: PATIENCE_NS.0,
        }
    }
}

impl Core {
    /// Whether the host must tell of the begin of polls and ask about packets. If not, all of them pass.
    pub fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// The idle share that the guard sees, in 1/1024.
    pub fn idle_share(&self) -> u32 {
        (self.clock.idle_ns >> 12) as u32
    }

    /// The first packet of a poll, of whatever class; `at.others` is what others had of the time since the last poll of this core.
    pub fn poll_begins(&mut self, napi: u32, at: Moment, gap: impl Into<Gap>) {
        if self.guarded {
            let before = std::mem::replace(&mut self.ring, napi as usize & (RINGS - 1));
            let (Gap { idle, deferred }, others) = (gap.into(), at.others.0);
            let begun = self.clock.poll_begins(at.now.0, idle.0, deferred.0, others);
            let (idle, of_packets) = begun;
            self.sample.idle_ns += idle;
            self.sample.passed_ns += of_packets;
            self.poll_ns = self.clock.own_ns;
            let ring = &mut self.rings[self.ring];
            // While others were polled nobody looked. A few packets since then are no sign of a ring that has long been full.
            if ring.taken == 0 && self.ring != before {
                ring.since_ns = self.clock.busy_ns();
                ring.empty_ns = self.clock.own_ns;
            }
            self.last = Last::Nothing;
            self.unread = 0;
            let starved = self.poll_ns.wrapping_sub(self.passed_ns) > TRICKLE_NS;
            self.dropping = self.rings[self.ring].cut && !starved;
        }
    }

    /// A packet of a class that the [`Plan`] [asks](Plan::asks) about, with the hash of its flow, before which the poll has taken
    /// `before` others. `clock` is asked only where the time of the event before does not settle it.
    pub fn packet(
        &mut self,
        plan: &Plan,
        class: usize,
        hash: u32,
        before: u32,
        clock: impl FnOnce() -> Moment,
    ) -> Verdict {
        if !self.guarded || !plan.asks(class) {
            return Verdict::Pass;
        }
        let class = class & (MAX_CLASSES - 1);
        let stack = plan.stack & (1 << class) != 0;
        if self.dropping && stack {
            self.unread = self.unread.saturating_add(1);
            let ring = &mut self.rings[self.ring];
            ring.cut_drops = ring.cut_drops.saturating_add(1);
            return Verdict::Drop;
        }
        let poll_limit = match stack {
            true => self.passing_limit_ns(plan.limit_ns[class]),
            false => u64::MAX,
        };
        let ring_limit = self.ring_limit_ns(plan, class);
        // Time only makes it worse. But what a packet took that was passed must be told from what drops take.
        if self.last != Last::Passed && self.is_spent(stack, before, poll_limit, ring_limit) {
            self.unread = self.unread.saturating_add(u32::from(stack));
            return self.drop_spent(stack, ring_limit);
        }
        self.advance(plan, clock(), None);
        if self.is_spent(stack, before, poll_limit, ring_limit) {
            if stack {
                self.last = Last::Dropped;
            }
            return self.drop_spent(stack, ring_limit);
        }
        if stack {
            let must = self.must_pass();
            if !must && !self.shares.allow(plan, class, hash, poll_limit) {
                self.last = Last::Dropped;
                return Verdict::Drop;
            }
            self.rings[self.ring].passed = true;
            self.passed_ns = self.clock.own_ns;
            self.last = Last::Passed;
            self.class = class as u32;
            self.hash = hash;
        }
        Verdict::Pass
    }

    /// Charges the time since the last event to whom it belongs. At the end of a poll, which may have emptied the ring, that is
    /// sending and waking, too.
    fn advance(&mut self, plan: &Plan, at: Moment, emptied: Option<bool>) {
        let passed = self.last == Last::Passed;
        let mut ns = self.clock.advance(at.now.0, at.others.0, self.unread);
        // Behind a packet that was passed the clock was read at once.
        if self.unread > 0 {
            if self.last == Last::Nothing {
                self.sample.dropped_ns += ns;
            }
            self.sample.dropped = self.sample.dropped.saturating_add(self.unread);
            self.unread = 0;
        }
        let mut charged = ns;
        if let Some(emptied) = emptied {
            let usual = self.clock.cost_ns;
            ns = self.clock.poll_ended(ns, passed, emptied);
            charged = ns.min(usual);
            if !passed {
                self.sample.passed_ns += ns;
                ns = 0;
            }
        } else if passed {
            charged = self.clock.passed(ns);
        }
        match self.last {
            Last::Nothing => {}
            Last::Passed => {
                let class = self.class as usize & (MAX_CLASSES - 1);
                self.shares.charge(plan, class, self.hash, charged);
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
        let now = end.at.now.0;
        if end.express {
            self.express_ns = now;
        }
        let protect = plan.always || now.saturating_sub(self.express_ns) < PRESENT_NS;
        let slot = end.napi as usize & (RINGS - 1);
        // A budget of 0 takes nothing off the ring, and so does not show that it is empty.
        let emptied = end.work < end.budget;
        if !self.guarded {
            self.unguarded_poll_ends(plan, slot, emptied, protect, end.packets, now);
            return;
        }
        self.ring = slot;
        self.advance(plan, end.at, Some(emptied));
        self.sample.work = self.sample.work.saturating_add(end.packets);
        self.sample.had_ns = self.clock.own_ns.wrapping_sub(self.counted_ns) + self.sample.idle_ns;
        let others = self.clock.others_ns.wrapping_sub(self.counted_others_ns);
        self.sample.wall_ns = self
            .sample
            .had_ns
            .saturating_add(others.min(MOST_OTHERS_NS));
        self.counted_ns = self.clock.own_ns;
        self.counted_others_ns = self.clock.others_ns;
        let ring = &mut self.rings[slot];
        ring.taken = ring.taken.saturating_add(end.packets);
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
        if emptied || self.clock.own_ns.wrapping_sub(self.shared_ns) >= plan.longest_ns {
            self.shares.turn_ends(self.ran_out);
            self.ran_out = false;
            self.shared_ns = self.clock.own_ns;
        }
        let idle = self.clock.idle_ns >= IDLE_LEAVE_NS && self.fits;
        // What the guard costs must not be what it is needed for.
        let alone = self.fits_alone
            && emptied
            && now.saturating_sub(self.entered_ns) > BURST_NS
            && now >= self.alone_after_ns;
        if (idle || alone || !protect) && !end.held {
            self.left_alone = alone && !idle && protect;
            self.leave(now);
        }
    }
}
