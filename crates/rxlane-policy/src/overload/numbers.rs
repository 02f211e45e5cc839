//! The state of a guard as numbers, in the order of `struct guard` (guard.h of the data plane): for comparing the two.

use super::core::{Core, Last};

impl Core {
    /// All numbers of the state. Those of a flow's bucket are one: its turn, and 2^32 times what it used.
    pub fn numbers(&self) -> Vec<u64> {
        let mut all = vec![
            u64::from(self.guarded),
            self.clock.last_ns,
            self.clock.own_ns,
            self.clock.cost_ns,
            self.clock.owed_ns,
            self.clock.usual_ns,
            self.clock.taken_ns,
            self.clock.idle_ns,
            self.clock.idle_at_ns,
            self.clock.told_ns,
            self.clock.others_ns,
            self.clock.had_until_ns,
            self.clock.had_for_ns,
            self.ring as u64,
            self.drain_ns,
            match self.last {
                Last::Nothing => 0,
                Last::Passed => 1,
                Last::Dropped => 2,
            },
            self.class.into(),
            self.hash.into(),
            self.passed_ns,
            self.stretch_x64,
            self.turn_ns,
            self.shared_ns,
            self.ran_out.into(),
            self.fits.into(),
            self.fits_alone.into(),
            self.alone_ns,
            self.cap_ns,
            self.poll_ns,
            self.dropping.into(),
            self.unread.into(),
            self.counted_ns,
            self.counted_others_ns,
            self.counting.into(),
            self.express_ns,
            self.entered_ns,
            self.left_ns,
            self.left_alone.into(),
            self.alone_after_ns,
            self.alone_wait_ns,
            self.patience_ns,
        ];
        let s = &self.sample;
        all.extend([s.had_ns, s.wall_ns, s.idle_ns, s.passed_ns, s.dropped_ns]);
        all.extend([s.passed, s.dropped, s.work].map(u64::from));
        let d = &self.demand;
        all.extend([d.had_ns, d.wall_ns, d.idle_ns, d.passed_ns, d.dropped_ns]);
        all.extend([d.passed, d.dropped, d.work, d.polls]);
        for ring in &self.rings {
            all.extend([
                ring.empty_ns,
                ring.cut_ns,
                ring.cut.into(),
                ring.cut_drops.into(),
                ring.passed.into(),
                ring.taken.into(),
                ring.since_ns,
                ring.arrivals.during_ns,
                ring.arrivals.came,
                ring.arrivals.distance,
                ring.full_since_ns,
                ring.full_work.into(),
            ]);
        }
        let shares = &self.shares;
        all.extend([shares.turn, shares.class.0].map(u64::from));
        all.extend(shares.flow.map(|search| u64::from(search.0)));
        all.extend(shares.used_ns);
        all.extend(shares.quota_ns);
        all.extend([shares.class_dropped, shares.flow_dropped].map(u64::from));
        let buckets = shares.buckets.as_flattened().iter();
        all.extend(buckets.map(|b| u64::from(b.turn) | u64::from(b.used_ns) << 32));
        all
    }
}
