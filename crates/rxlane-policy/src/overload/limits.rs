//! How long may be passed, and how old what waits may be.

use super::Verdict;
use super::core::{Core, TRICKLE_NS};
use super::plan::Plan;
use crate::Nanos;

/// Below this idle share (1.4 %) the limit is the target; each further 0.2 % double it: sources that send in batches leave 1 %.
const IDLE_FREE_NS: u64 = 7 << 13;
const IDLE_DOUBLING_SHIFT: u32 = 13;
/// Doublings of the limit at most.
const MOST_DOUBLINGS: u64 = 9;
/// As many, while more is asked for than there is, where a packet takes more than so many 64ths of the target: a poll then passes
/// so few that its ring is empty again and again. RT pays for each with its wait.
const DEAR_X64: u64 = 8;
const MOST_DOUBLINGS_DEAR: u64 = 3;
const RATHER_DEAR_X64: u64 = 6;
const MOST_DOUBLINGS_RATHER_DEAR: u64 = 1;
/// Polls pass for so many targets at most, in 1/64.
const MOST_STRETCH_X64: u64 = 1 << 14;
/// The next packet of a ring may have waited for this part of what a poll may pass.
const AGE_SHIFT: u32 = 1;
/// A turn is that many targets at first (a power of two), and never shorter than half of one.
const RING_TARGETS_SHIFT: u32 = 3;
/// It is never longer than this, ns.
const LONGEST_TURN_NS: u64 = 1 << 19;
/// The size of the ring makes limits no shorter than this, ns.
const SHORTEST_CAP_NS: u64 = 1 << 14;

/// How long a ring may go without being empty at first, ns.
pub fn first_turn_ns(target: Nanos) -> u64 {
    (target.0 << RING_TARGETS_SHIFT).min(LONGEST_TURN_NS)
}

impl Core {
    /// How long a poll may go on while a stack class with this target passes, ns of the core's own clock.
    pub(super) fn passing_limit_ns(&self, target: u64) -> u64 {
        let above = self.clock.idle_ns.saturating_sub(IDLE_FREE_NS);
        let most = match self.clock.cost_ns << 6 {
            _ if self.fits => MOST_DOUBLINGS,
            cost if cost > target * DEAR_X64 => MOST_DOUBLINGS_DEAR,
            cost if cost > target * RATHER_DEAR_X64 => MOST_DOUBLINGS_RATHER_DEAR,
            _ => 0,
        };
        let rest = above & ((1 << IDLE_DOUBLING_SHIFT) - 1);
        let whole = target << (above >> IDLE_DOUBLING_SHIFT).min(most);
        let lengthened = match most {
            0 => 0,
            _ => whole + ((whole * rest) >> IDLE_DOUBLING_SHIFT),
        };
        // Near the point where everything fits, polls may be long: that is where it begins to fit.
        let stretched = (target * self.stretch_x64) >> 6;
        stretched.max(lengthened).min(self.cap_ns.max(target))
    }

    /// How long the ring may go without being empty while `class` passes, ns of the core's own clock.
    pub(super) fn ring_limit_ns(&self, plan: &Plan, class: usize) -> u64 {
        let turn = self
            .turn_ns
            .max(self.passing_limit_ns(plan.limit_ns[class]));
        if plan.stack & (1 << class) == 0 {
            // Dropping the stack comes first, and must have had the time to empty the ring.
            return turn + self.drain_ns + plan.limit_ns[class].saturating_sub(plan.longest_ns);
        }
        // The drops that empty the ring belong to the turn, but leave a quarter: it is passing that is wanted.
        turn.saturating_sub(self.drain_ns).max(turn >> 2)
    }

    /// The first packet of the stack from a ring that was empty passes, and one now and then.
    pub(super) fn must_pass(&self) -> bool {
        let starved = self.clock.own_ns.wrapping_sub(self.passed_ns) > TRICKLE_NS;
        !self.rings[self.ring].passed || starved
    }

    /// When all that was passed so far will have been served, on the own clock.
    fn served_ns(&self) -> u64 {
        self.clock.own_ns.wrapping_add(self.clock.owed_ns)
    }

    /// How long the ring has not been empty; what was passed and has not been served yet takes its time, too.
    pub(super) fn since_empty_ns(&self) -> u64 {
        self.served_ns()
            .wrapping_sub(self.rings[self.ring].empty_ns)
    }

    /// Whether ring, poll or packet are too old to pass it.
    pub(super) fn is_spent(
        &self,
        stack: bool,
        before: u32,
        poll_limit: u64,
        ring_limit: u64,
    ) -> bool {
        if stack && self.must_pass() {
            return false;
        }
        let ring = &self.rings[self.ring];
        let nth = ring.taken.saturating_add(before);
        let came = ring.since_ns.wrapping_add(ring.arrivals.not_before_ns(nth));
        let waited = self.clock.own_since(came) + self.clock.owed_ns;
        let long = self.served_ns().wrapping_sub(self.poll_ns) >= poll_limit;
        self.since_empty_ns() >= ring_limit || long || waited >= poll_limit >> AGE_SHIFT
    }

    /// Shares are of the stack: that an express class had to go says nothing about them.
    pub(super) fn drop_spent(&mut self, stack: bool, ring_limit: u64) -> Verdict {
        if stack {
            let old = self.since_empty_ns() >= ring_limit;
            let ring = &mut self.rings[self.ring];
            if old && !ring.cut {
                ring.cut = true;
                ring.cut_ns = self.clock.own_ns;
            }
            ring.cut_drops = ring.cut_drops.saturating_add(u32::from(ring.cut));
            self.ran_out = true;
        }
        Verdict::Drop
    }

    /// What is served for T at an overload of L, and then dropped until nothing waits, waits T (1 - 1/L) at most.
    pub(super) fn stretch(&mut self, budget: u32) {
        let (asked, had) = self.demand.asked_and_had(budget);
        self.fits = asked < had - (had >> 6);
        self.fits_alone = self.demand.is_slower_than(self.alone_ns);
        self.stretch_x64 = match asked.saturating_sub(had) {
            0 => MOST_STRETCH_X64,
            excess => (asked.min(1 << 40) * 16 / excess).clamp(64, MOST_STRETCH_X64),
        };
    }

    /// A poll has emptied the ring: what came since it was empty last is known now.
    pub(super) fn ring_is_empty(&mut self, plan: &Plan, slot: usize) {
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
        // More than were expected waited: the next turn is to find that out sooner.
        let during = self.clock.busy_ns().wrapping_sub(ring.since_ns);
        let unexpected = ring.arrivals.at_ns(ring.taken).saturating_sub(during);
        if unexpected > plan.longest_ns {
            self.turn_ns = (self.turn_ns >> 1).max(plan.longest_ns >> 1);
        } else if ring.cut {
            self.turn_ns = (self.turn_ns + (self.turn_ns >> 2)).min(LONGEST_TURN_NS);
        }
        ring.arrivals.add(ring.taken, during);
        ring.since_ns = self.clock.busy_ns();
        ring.taken = 0;
        ring.cut = false;
        ring.cut_drops = 0;
        ring.passed = false;
        ring.empty_ns = own;
    }
}
