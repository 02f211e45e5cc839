//! What was asked of the core, against the time that it had.
//!
//! Short turns are dear: each poll wakes next hops, each drop takes time. So a core that drops can be busy all the time with
//! a load that it would carry if it just served it: the trap of every controller that looks at idle time only. Here
//! the time is added up that all packets would have taken, had they been served in full polls, from what
//! those took that were served meanwhile. Nothing is remembered for longer than some ms.

/// The memory of all sums, ns (4 ms).
const MEMORY_SHIFT: u32 = 22;
/// Counts have so many fraction bits, so that they fade smoothly.
const COUNT_SHIFT: u32 = 10;

/// What happened in one poll, from the end of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sample {
    /// Time that the core had: its own and idle, ns.
    pub(super) had_ns: u64,
    /// With what others had of it, ns.
    pub(super) wall_ns: u64,
    /// Of this idle, ns.
    pub(super) idle_ns: u64,
    /// Of this spent on packets that were passed, and on packets that were dropped, ns.
    pub(super) passed_ns: u64,
    pub(super) dropped_ns: u64,
    /// How many.
    pub(super) passed: u32,
    pub(super) dropped: u32,
    /// Packets in all.
    pub(super) work: u32,
}

/// Sums over the last ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Demand {
    pub(super) had_ns: u64,
    pub(super) wall_ns: u64,
    pub(super) idle_ns: u64,
    pub(super) passed_ns: u64,
    pub(super) dropped_ns: u64,
    pub(super) passed: u64,
    pub(super) dropped: u64,
    pub(super) work: u64,
    pub(super) polls: u64,
}

pub(super) fn fade(sum: &mut u64, passed: u64, add: u64) {
    *sum = *sum - ((*sum * passed) >> MEMORY_SHIFT) + add;
}

impl Demand {
    pub(super) fn add(&mut self, sample: &Sample) {
        // No more than half is forgotten at once, and no more than a ms added: products stay far below 2^64.
        let had = sample.had_ns.min(1 << (MEMORY_SHIFT - 2));
        let count = |n: u32| u64::from(n.min(4096)) << COUNT_SHIFT;
        fade(&mut self.had_ns, had, had);
        fade(&mut self.wall_ns, had, sample.wall_ns.min(1 << 30));
        fade(&mut self.idle_ns, had, sample.idle_ns.min(had));
        fade(&mut self.passed_ns, had, sample.passed_ns.min(had));
        fade(&mut self.dropped_ns, had, sample.dropped_ns.min(had));
        fade(&mut self.passed, had, count(sample.passed));
        fade(&mut self.dropped, had, count(sample.dropped));
        fade(&mut self.work, had, count(sample.work));
        fade(&mut self.polls, had, count(1));
    }

    /// Whether a core would keep up that needs `each_ns` for a packet, with a thirty-second to spare.
    pub(super) fn is_slower_than(&self, each_ns: u64) -> bool {
        let needed = (self.work >> COUNT_SHIFT) * each_ns.min(1 << 30);
        needed > 0 && self.wall_ns > needed + (needed >> 5)
    }

    /// What was asked for and what there was, ns. `budget`: packets of a full poll.
    pub(super) fn asked_and_had(&self, budget: u32) -> (u64, u64) {
        if self.passed == 0 && self.dropped >> COUNT_SHIFT > 0 {
            // Nothing is known of what a packet takes: no time would suffice.
            return (u64::MAX, self.had_ns);
        }
        let served = match self.passed {
            0 => 0,
            passed => self.passed_ns * (passed + self.dropped) / passed,
        };
        let other = self
            .had_ns
            .saturating_sub(self.idle_ns + self.passed_ns + self.dropped_ns);
        let full_polls = self.work / u64::from(budget.max(1));
        let other = if self.polls > full_polls {
            other * full_polls / self.polls
        } else {
            other
        };
        (served + other, self.had_ns)
    }
}
