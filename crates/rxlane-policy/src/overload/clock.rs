//! The time that packets take, told from the time that others take, and the core's idle share.
//!
//! Two clocks: `now` is the wall's. The core's own clock runs only in polls, and there a gap between two packets counts at
//! most four times what a packet takes: what is longer was an interrupt, a hypervisor or a thread of higher priority. But the
//! stack takes packets in batches: of sixteen gaps fifteen are short, and the last, or that to the end of the poll, has all
//! their work. So what a gap was shorter than half of the usual is owed, and counts with the next long one.

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
/// Owed are at most so many times the usual cost: a batch (`VETH_XDP_BATCH` of drivers/net/veth.c, twice
/// `gro_normal_batch` of net/core/dev.c).
const OWED_COSTS: u64 = 16;
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
    /// What gaps were shorter than that lately, ns.
    pub(super) owed_ns: u64,
    /// Idle time, each nanosecond weighted by how long ago it was, ns.
    pub(super) idle_ns: u64,
    pub(super) idle_at_ns: u64,
}

impl Clock {
    /// Starts both clocks; the cost is remembered.
    pub(super) fn start(&mut self, now: u64) {
        self.last_ns = now;
        self.owed_ns = 0;
        self.idle_ns = 0;
        self.idle_at_ns = now;
    }

    /// A poll begins, before which the core had nothing to do for `idle` ns. Returns how much of that counts.
    pub(super) fn poll_begins(&mut self, now: u64, idle: u64) -> u64 {
        let gap = now.saturating_sub(self.last_ns);
        let idle = idle.min(gap).saturating_sub(WAKE_NS).min(LONGEST_IDLE_NS);
        self.own_ns = self.own_ns.wrapping_add((gap - idle).min(BETWEEN_POLLS_NS));
        self.last_ns = self.last_ns.max(now);
        // Half of the memory at most, or a long sleep would take the product beyond what shifting can undo.
        let passed = now
            .saturating_sub(self.idle_at_ns)
            .min(1 << (MEMORY_SHIFT - 1));
        self.idle_at_ns = self.idle_at_ns.max(now);
        self.idle_ns -= (self.idle_ns * passed) >> MEMORY_SHIFT;
        self.idle_ns = (self.idle_ns + idle).min(MOST_IDLE_NS);
        idle
    }

    /// The next packet of the poll, or its end. `passed`: the packet before was passed, so this gap says what that took.
    /// Returns the part of the gap that counts, ns.
    /// `unread`: packets for which the clock was not read meanwhile.
    pub(super) fn advance(&mut self, now: u64, passed: bool, unread: u32) -> u64 {
        let gap = now.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now);
        let most = GAP_COSTS * self.cost_ns + GAP_SLACK_NS + self.owed_ns;
        let counted = gap.min(most + u64::from(unread) * DROP_NS);
        self.own_ns = self.own_ns.wrapping_add(counted);
        if passed {
            let short = counted < self.cost_ns >> 1;
            let owed = self.owed_ns + if short { self.cost_ns } else { 0 };
            self.owed_ns = owed.saturating_sub(counted).min(OWED_COSTS * self.cost_ns);
            self.learn(self.cost_ns, counted);
        }
        counted
    }

    /// The poll has ended, and `gap` ns of the time since its last packet count; `passed`: that was passed. Returns how
    /// much of it is of packets: what is owed for them. The rest went into sending and waking.
    pub(super) fn poll_ended(&mut self, gap: u64, passed: bool) -> u64 {
        let usual = if passed { self.cost_ns } else { 0 };
        let of_packets = gap.min(self.owed_ns + usual);
        self.learn(usual, of_packets);
        self.owed_ns = 0;
        of_packets
    }

    /// A packet that would usually have taken `usual` has taken `ns`.
    fn learn(&mut self, usual: u64, ns: u64) {
        let cost = self.cost_ns - (usual >> COST_SHIFT) + (ns >> COST_SHIFT);
        self.cost_ns = cost.min(MOST_COST_NS);
    }

    /// What a packet takes is not known by itself yet.
    pub(super) fn guess(&mut self, cost_ns: u64) {
        self.cost_ns = cost_ns.min(MOST_COST_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_takes_60_of_100_us_hardly_moves_the_core_s_own_clock() {
        let mut clock = Clock::default();
        clock.start(0);
        let mut now = 0;
        for packet in 0..5_000u64 {
            now += 700 + if packet % 57 == 0 { 60_000 } else { 0 };
            clock.advance(now, true, 0);
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
            clock.advance(now, true, 0);
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
                clock.advance(now, true, 0);
            }
            now += 40_000;
            let gap = clock.advance(now, false, 0);
            let of_packets = clock.poll_ended(gap, true);
            assert!((17_000..21_000).contains(&of_packets), "{of_packets}");
        }
        assert!((2_200..2_400).contains(&clock.cost_ns), "{}", clock.cost_ns);
    }

    #[test]
    fn packets_that_became_dear_are_believed_after_some_dozens() {
        let mut clock = Clock::default();
        clock.start(0);
        let mut now = 0;
        for _ in 0..100 {
            now += 600;
            clock.advance(now, true, 0);
        }
        for _ in 0..60 {
            now += 250_000;
            clock.advance(now, true, 0);
        }
        now += 250_000;
        assert_eq!(clock.advance(now, true, 0), 250_000);
    }

    #[test]
    fn the_idle_share_is_found_within_two_memories_and_forgotten_as_fast() {
        let mut clock = Clock::default();
        clock.start(0);
        let mut now = 0;
        // 2 us of 100 are idle, once waking up is taken off.
        for _ in 0..100 {
            now += 100_000;
            clock.poll_begins(now, 2_000 + WAKE_NS);
        }
        let two_per_cent = (1 << MEMORY_SHIFT) / 50;
        assert!((two_per_cent * 8 / 10..two_per_cent * 11 / 10).contains(&clock.idle_ns));
        for _ in 0..200 {
            now += 100_000;
            clock.poll_begins(now, 0);
        }
        assert!(clock.idle_ns < two_per_cent / 50, "{}", clock.idle_ns);
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let mut clock = Clock::default();
        clock.start(1_000_000);
        clock.poll_begins(500, u64::MAX);
        assert_eq!((clock.advance(400, true, 0), clock.own_ns), (0, 0));
    }
}
