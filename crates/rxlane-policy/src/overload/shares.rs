//! Who of several passes when not all can: classes by weight, and within a class flows by hash.
//!
//! As in core-stateless fair queueing (Stoica, Shenker, Zhang 1998), there are no queues but a fair share that is searched:
//! whoever took more than it since the ring was last empty is dropped. When time runs out all the same, the share
//! was too large; when the ring is empty before that although somebody was dropped, it was too small. What a turn
//! takes beyond its share is owed in the next, so that shares of less than a packet come out right.

use crate::class::MAX_CLASSES;

use super::plan::{Plan, SHARE_SHIFT};

/// Flows of a class are told apart by so many values of their hash; a power of two.
pub const FLOW_BUCKETS: usize = 16;
/// A searched share is 1/1024 to 64 times what would be an equal one, in 1/1024.
const LEAST: u32 = 32;
const MOST: u32 = 64 << SHARE_SHIFT;

/// A share that is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Search(pub(super) u32);

impl Search {
    /// `ran_out`: time ran out before the ring was empty. `dropped`: somebody was above the share.
    fn turn_ends(&mut self, ran_out: bool, dropped: bool) {
        if ran_out {
            self.0 = (self.0 - (self.0 >> 3)).max(LEAST);
        } else if dropped {
            self.0 = (self.0 + (self.0 >> 3) + 1).min(MOST);
        }
    }

    fn of(self, ns: u64) -> u64 {
        (ns * u64::from(self.0)) >> SHARE_SHIFT
    }
}

/// What the flows of one hash took in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bucket {
    pub(super) turn: u32,
    pub(super) used_ns: u32,
}

/// The shares of a core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) turn: u32,
    pub(super) class: Search,
    pub(super) flow: [Search; MAX_CLASSES],
    pub(super) used_ns: [u64; MAX_CLASSES],
    pub(super) quota_ns: [u64; MAX_CLASSES],
    /// Classes that were dropped this turn because they, or one of their flows, were above their share; one bit each.
    pub(super) class_dropped: u32,
    pub(super) flow_dropped: u32,
    pub(super) buckets: [[Bucket; FLOW_BUCKETS]; MAX_CLASSES],
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            turn: 0,
            class: Search(MOST),
            flow: [Search(MOST); MAX_CLASSES],
            used_ns: [0; MAX_CLASSES],
            quota_ns: [0; MAX_CLASSES],
            class_dropped: 0,
            flow_dropped: 0,
            buckets: [[Bucket::default(); FLOW_BUCKETS]; MAX_CLASSES],
        }
    }
}

impl Shares {
    /// Whether a packet of a stack class is within its class's and its flow's share of a turn of `limit` ns.
    pub(super) fn allow(&mut self, plan: &Plan, class: usize, hash: u32, limit: u64) -> bool {
        let mut quota = limit;
        if plan.several {
            let equal = (limit * u64::from(plan.share[class])) >> SHARE_SHIFT;
            quota = self.class.of(equal).min(limit);
            self.quota_ns[class] = quota;
            if self.used_ns[class] >= quota {
                self.class_dropped |= 1 << class;
                return false;
            }
        }
        let quota = self.flow[class].of(quota) / FLOW_BUCKETS as u64;
        let bucket = &mut self.buckets[class][hash as usize & (FLOW_BUCKETS - 1)];
        if bucket.turn != self.turn {
            let next = bucket.turn.wrapping_add(1) == self.turn;
            let owed = u64::from(bucket.used_ns).saturating_sub(quota);
            bucket.used_ns = if next { owed as u32 } else { 0 };
            bucket.turn = self.turn;
        }
        if u64::from(bucket.used_ns) >= quota {
            self.flow_dropped |= 1 << class;
            return false;
        }
        true
    }

    /// A passed packet took `ns`.
    pub(super) fn charge(&mut self, plan: &Plan, class: usize, hash: u32, ns: u64) {
        if plan.several {
            self.used_ns[class] += ns;
        }
        let bucket = &mut self.buckets[class][hash as usize & (FLOW_BUCKETS - 1)];
        bucket.used_ns = (u64::from(bucket.used_ns) + ns).min(u64::from(u32::MAX)) as u32;
    }

    /// The ring is empty; `ran_out`: the limit was reached before.
    pub(super) fn turn_ends(&mut self, ran_out: bool) {
        self.turn = self.turn.wrapping_add(1);
        for class in 0..MAX_CLASSES {
            let bit = 1 << class;
            let full = ran_out || self.class_dropped & bit != 0;
            self.flow[class].turn_ends(full, self.flow_dropped & bit != 0);
            self.used_ns[class] = self.used_ns[class].saturating_sub(self.quota_ns[class]);
        }
        self.class.turn_ends(ran_out, self.class_dropped != 0);
        self.class_dropped = 0;
        self.flow_dropped = 0;
    }
}
