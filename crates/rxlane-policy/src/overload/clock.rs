//! The time that packets take, told from the time that others take, and the core's idle share.
//!
//! Two clocks: `now` is the wall's. The core's own clock runs only in polls, and there a gap between two packets counts at
//! most four times what a packet takes: what is longer was an interrupt, a hypervisor or a thread of higher priority. But the
//! stack takes packets in batches: the gaps within one are short, and the last, or that to the end of the poll, has all their
//! work. A poll that has used up the device budget hands what it has not handed over yet to the stack after its end. So what a
//! gap is shorter than the usual is owed. It is paid by a long gap, by the end of a poll, or by the begin of the next, and what
//! a packet usually takes is learned when nothing is owed any more.
//!
//! Of some packets the kernel does most of the work in polls of its own, after the poll that took them: what it takes out of tunnels
//! waits in a queue (net/core/gro_cells.c), as what comes by a ppp device or is steered to a core does (`process_backlog` in
//! net/core/dev.c). A host that sees these polls tells how long they were. That time is of the packets, whoever ran it, and no idleness.

/// The memory of the idle share, ns (4 ms): a share of 1 % is a sum of 41,943.
pub const IDLE_MEMORY_NS: u64 = 1 << MEMORY_SHIFT;
const MEMORY_SHIFT: u32 = 22;
/// The sum is kept below 6 % of its memory, so that a long sleep is forgotten in ms.
const MOST_IDLE_NS: u64 = 1 << 18;
/// An hour of sleep is as good as a second, ns.
const LONGEST_IDLE_NS: u64 = 1 << 30;
/// No packet is believed to take longer, ns (16 ms).
const MOST_COST_NS: u64 = 1 << 24;
/// Waking up is no idleness, though nothing shows where it begins, ns.
const WAKE_NS: u64 = 1_500;
/// A gap counts at most so many times a packet's usual cost, and so much more, ns.
const GAP_COSTS: u64 = 4;
const GAP_SLACK_NS: u64 = 4_096;
/// Owed are at most so many times the usual cost: what a poll can hand over at once (`NAPI_POLL_WEIGHT`; `gro_normal_batch` of
/// net/core/gro.c is 8 where nobody has changed it).
const OWED_COSTS: u64 = 64;
/// The usual cost is a mean over some 32 packets.
const COST_SHIFT: u32 = 5;
/// Packets that are dropped unread take at most so long each, ns.
const DROP_NS: u64 = 512;
/// Between two polls, ns: what NAPI itself takes. Longer, and others had the core.
const BETWEEN_POLLS_NS: u64 = 4_000;

/// The clocks of a core while it is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Clock {
    /// The last event, ns of the wall.
    pub(super) last_ns: u64,
    /// Time that polls have taken, ns.
    pub(super) own_ns: u64,
    /// What a passed packet usually takes, ns: a mean that one long gap cannot move far.
    pub(super) cost_ns: u64,
    /// What gaps were shorter than that since all was paid, ns.
    pub(super) owed_ns: u64,
    /// What packets would usually have taken since then, and what was counted for them, ns.
    pub(super) usual_ns: u64,
    pub(super) taken_ns: u64,
    /// Idle time, each nanosecond weighted by how long ago it was, ns.
    pub(super) idle_ns: u64,
    pub(super) idle_at_ns: u64,
    /// What others had since the poll began, ns.
    pub(super) told_ns: u64,
    /// Time that others had, ns; and the latest of it: until when, and for how long, on the clock of both.
    pub(super) others_ns: u64,
    pub(super) had_until_ns: u64,
    pub(super) had_for_ns: u64,
}

impl Clock {
    /// The clock that stands still only while the core is idle, ns.
    pub(super) fn busy_ns(&self) -> u64 {
        self.own_ns.wrapping_add(self.others_ns)
    }

    /// How much of the time since `then`, on the clock that stands still while the core is idle, the core itself has had, ns,
    /// if others had it once since. What is owed counts as gone.
    pub(super) fn own_since(&self, then: u64) -> u64 {
        let since = self.busy_ns().wrapping_sub(then);
        // Not yet: a moment in the future.
        if since > u64::MAX >> 1 {
            return 0;
        }
        let until = self.busy_ns().wrapping_sub(self.had_until_ns);
        since - since.saturating_sub(until).min(self.had_for_ns)
    }

    /// The time since the last event, without what others had of it: of what they had since the poll began, what has not been
    /// told yet.
    fn gap_without(&mut self, now: u64, others: u64) -> u64 {
        let gap = now.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now);
        let theirs = others.saturating_sub(self.told_ns).min(gap);
        self.told_ns = self.told_ns.max(others);
        self.others(theirs);
        gap - theirs
    }

    fn others(&mut self, ns: u64) {
        self.others_ns = self.others_ns.wrapping_add(ns);
        if ns > BETWEEN_POLLS_NS {
            self.had_until_ns = self.busy_ns();
            self.had_for_ns = ns;
        }
    }

    /// Starts both clocks; the cost is remembered.
    pub(super) fn start(&mut self, now: u64) {
        self.last_ns = now;
        self.owed_ns = 0;
        self.usual_ns = 0;
        self.taken_ns = 0;
        self.idle_ns = 0;
        self.idle_at_ns = now;
    }

    /// A poll begins, before which the core had nothing to do for `idle` ns, and worked for `deferred` ns on packets of polls before.
    /// Returns how much of the first counts, and how much of the time since the last poll the packets of that one took.
    pub(super) fn poll_begins(
        &mut self,
        now: u64,
        idle: u64,
        deferred: u64,
        others: u64,
    ) -> (u64, u64) {
        self.told_ns = 0;
        let gap = self.gap_without(now, others);
        let deferred = deferred.min(gap);
        let idle = idle.min(gap - deferred);
        let idle = (idle - (idle >> 1).min(WAKE_NS)).min(LONGEST_IDLE_NS);
        let rest = gap - idle;
        let mut of_packets = deferred;
        if self.owed_ns > 0 {
            of_packets = of_packets.max(rest.min(self.owed_ns + GAP_COSTS * self.cost_ns));
        }
        if self.owed_ns > 0 || deferred > 0 {
            self.taken_ns += of_packets;
            self.settle();
        }
        let between = (rest - of_packets).min(BETWEEN_POLLS_NS);
        self.own_ns = self.own_ns.wrapping_add(of_packets + between);
        self.others(rest - of_packets - between);
        self.told_ns = 0;
        // Half of the memory at most, or a long sleep would take the product beyond what shifting can undo.
        let passed = now
            .saturating_sub(self.idle_at_ns)
            .min(1 << (MEMORY_SHIFT - 1));
        self.idle_at_ns = self.idle_at_ns.max(now);
        self.idle_ns -= (self.idle_ns * passed) >> MEMORY_SHIFT;
        self.idle_ns = (self.idle_ns + idle).min(MOST_IDLE_NS);
        (idle, of_packets)
    }

    /// The next packet of the poll, or its end. Returns the part of the gap that counts, ns.
    /// `unread`: packets for which the clock was not read meanwhile.
    pub(super) fn advance(&mut self, now: u64, others: u64, unread: u32) -> u64 {
        let gap = self.gap_without(now, others);
        let most = GAP_COSTS * self.cost_ns + GAP_SLACK_NS + self.owed_ns;
        let counted = gap.min(most + u64::from(unread) * DROP_NS);
        self.own_ns = self.own_ns.wrapping_add(counted);
        self.others(gap - counted);
        counted
    }

    /// A packet was passed, and the gap behind it counts `counted` ns. Returns what it is to be charged: its own part of a batch.
    pub(super) fn passed(&mut self, counted: u64) -> u64 {
        let (cost, before) = (self.cost_ns, self.owed_ns);
        self.usual_ns += cost;
        self.taken_ns += counted;
        let alone = before == 0 && counted >= cost >> 1;
        let pays = counted >= cost + (before >> 1);
        let owed = (before + cost).saturating_sub(counted);
        if alone || pays || owed == 0 {
            self.settle();
        } else {
            self.owed_ns = owed.min(OWED_COSTS * cost);
        }
        (counted + self.owed_ns).saturating_sub(before)
    }

    /// The poll has ended, and `gap` ns of the time since its last packet count; `passed`: that was passed; `emptied`: nothing
    /// will be handed to the stack after this. Returns how much of the gap is of packets. The rest went into sending and waking.
    pub(super) fn poll_ended(&mut self, gap: u64, passed: bool, emptied: bool) -> u64 {
        let usual = if passed { self.cost_ns } else { 0 };
        let of_packets = gap.min(self.owed_ns + usual);
        self.usual_ns += usual;
        self.taken_ns += of_packets;
        self.owed_ns = self.owed_ns + usual - of_packets;
        if emptied {
            self.settle();
        }
        of_packets
    }

    /// All is paid, or never will be: packets that usually take `usual_ns` have taken `taken_ns`.
    fn settle(&mut self) {
        let more = self.taken_ns.saturating_sub(self.usual_ns) >> COST_SHIFT;
        let less = self.usual_ns.saturating_sub(self.taken_ns) >> COST_SHIFT;
        let cost = self.cost_ns - less.min(self.cost_ns >> 1) + more;
        self.cost_ns = cost.min(MOST_COST_NS);
        self.owed_ns = 0;
        self.usual_ns = 0;
        self.taken_ns = 0;
    }

    /// What a packet takes is not known by itself yet.
    pub(super) fn guess(&mut self, cost_ns: u64) {
        self.cost_ns = cost_ns.min(MOST_COST_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next packet behind one that was passed.
    fn next(clock: &mut Clock, now: u64) {
        let counted = clock.advance(now, 0, 0);
        clock.passed(counted);
    }

    #[test]
    fn a_thread_that_takes_60_of_100_us_hardly_moves_the_core_s_own_clock() {
        let mut clock = Clock::default();
        clock.start(0);
        let mut now = 0;
        for packet in 0..5_000u64 {
            now += 700 + if packet % 57 == 0 { 60_000 } else { 0 };
            next(&mut clock, now);
        }
        let share = clock.own_ns as f64 / (5_000.0 * 700.0);
        assert!((1.0..1.3).contains(&share), "{share}");
        assert!((600..1_000).contains(&clock.cost_ns), "{}", clock.cost_ns);
    }

    #[test]
    fn batches_of_the_stack_count_though_a_hog_does_not() {
        let mut clock = Clock::default();
        clock.start(0);
        let mut now = 0;
        for packet in 0..4_000u64 {
            now += if packet % 16 == 15 { 32_300 } else { 300 };
            next(&mut clock, now);
        }
        let share = clock.own_ns as f64 / now as f64;
        assert!((0.97..=1.0).contains(&share), "{share}");
        assert!((1_500..3_000).contains(&clock.cost_ns), "{}", clock.cost_ns);
    }

    #[test]
    fn a_poll_whose_packets_are_served_at_its_end_leaves_the_usual_cost_as_it_is() {
        let mut clock = Clock::default();
        clock.start(0);
        clock.guess(2_300);
        let mut now = 0;
        for _ in 0..1_000 {
            for _ in 0..9 {
                now += 300;
                next(&mut clock, now);
            }
            now += 40_000;
            let gap = clock.advance(now, 0, 0);
            let of_packets = clock.poll_ended(gap, true, true);
            assert!((17_000..21_000).contains(&of_packets), "{of_packets}");
        }
        assert!((2_200..2_400).contains(&clock.cost_ns), "{}", clock.cost_ns);
    }

    #[test]
    fn what_a_full_poll_hands_over_after_its_end_counts_and_a_hog_between_polls_hardly() {
        let mut clock = Clock::default();
        clock.start(0);
        clock.guess(1_000);
        let mut now = 0;
        for poll in 0..1_000u64 {
            for _ in 0..50 {
                now += 150;
                next(&mut clock, now);
            }
            now += 150;
            let gap = clock.advance(now, 0, 0);
            clock.poll_ended(gap, true, false);
            // 1.2 us of each of the 51, of which 150 ns were in the poll, and 800 ns of NAPI itself.
            now += 51 * 1_050 + 800 + if poll % 9 == 8 { 400_000 } else { 0 };
            clock.poll_begins(now, 0, 0, 0);
        }
        let share = clock.own_ns as f64 / (1_000.0 * (51.0 * 1_200.0 + 800.0));
        assert!((0.95..1.15).contains(&share), "{share}");
        assert!((1_100..1_500).contains(&clock.cost_ns), "{}", clock.cost_ns);
    }

    #[test]
    fn what_the_kernel_does_in_polls_of_its_own_is_the_packets_and_no_idleness() {
        let mut clock = Clock::default();
        clock.start(0);
        let mut now = 0;
        for _ in 0..2_000u64 {
            for _ in 0..10 {
                now += 300;
                next(&mut clock, now);
            }
            let gap = clock.advance(now, 0, 0);
            clock.poll_ended(gap, false, true);
            // The thread that polls has done it, and the scheduler knows of nobody else.
            now += 10 * 2_000 + 1_000;
            clock.poll_begins(now, 21_000, 20_000, 0);
        }
        assert!((2_000..2_600).contains(&clock.cost_ns), "{}", clock.cost_ns);
        let share = clock.own_ns as f64 / now as f64;
        assert!((0.9..=1.0).contains(&share), "{share}");
        // Of the 1 us that is left half is waking up.
        assert!(
            clock.idle_ns < (1 << MEMORY_SHIFT) / 30,
            "{}",
            clock.idle_ns
        );
    }

    #[test]
    fn packets_that_became_cheap_are_believed_after_some_polls() {
        let mut clock = Clock::default();
        clock.start(0);
        clock.guess(8_000);
        let mut now = 0;
        for _ in 0..20 {
            for _ in 0..40 {
                now += 500;
                next(&mut clock, now);
            }
            let gap = clock.advance(now, 0, 0);
            clock.poll_ended(gap, false, true);
        }
        assert!((400..600).contains(&clock.cost_ns), "{}", clock.cost_ns);
    }

    #[test]
    fn packets_that_became_dear_are_believed_after_some_dozens() {
        let mut clock = Clock::default();
        clock.start(0);
        let mut now = 0;
        for _ in 0..100 {
            now += 600;
            next(&mut clock, now);
        }
        for _ in 0..60 {
            now += 250_000;
            next(&mut clock, now);
        }
        now += 250_000;
        assert_eq!(clock.advance(now, 0, 0), 250_000);
    }

    #[test]
    fn the_idle_share_is_found_within_two_memories_and_forgotten_as_fast() {
        let mut clock = Clock::default();
        clock.start(0);
        let mut now = 0;
        // 2 us of 100 are idle, once waking up is taken off.
        for _ in 0..100 {
            now += 100_000;
            clock.poll_begins(now, 2_000 + WAKE_NS, 0, 0);
        }
        let two_per_cent = (1 << MEMORY_SHIFT) / 50;
        assert!((two_per_cent * 8 / 10..two_per_cent * 11 / 10).contains(&clock.idle_ns));
        for _ in 0..200 {
            now += 100_000;
            clock.poll_begins(now, 0, 0, 0);
        }
        assert!(clock.idle_ns < two_per_cent / 50, "{}", clock.idle_ns);
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let mut clock = Clock::default();
        clock.start(1_000_000);
        clock.poll_begins(500, u64::MAX, u64::MAX, 0);
        assert_eq!((clock.advance(400, 0, 0), clock.own_ns), (0, 0));
    }
}
