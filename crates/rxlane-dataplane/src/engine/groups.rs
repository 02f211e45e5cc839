//! Next hops, and groups of them that share flows.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rxlane_fib::{Hop, NO_ROUTE};
use rxlane_system::routes::NextHop;

/// The kernel's business.
pub(super) const KERNEL: Hop = 1;

/// Ways on for the flows of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    hops: Vec<NextHop>,
    /// Up to where in 32 bits of hash a hop's share goes, as the kernel cuts them (`fib_rebalance`).
    upper: Vec<u32>,
}

impl Group {
    fn new(hops: &[NextHop]) -> Self {
        let total: u64 = hops.iter().map(|h| u64::from(h.weight)).sum();
        let mut sum = 0u64;
        let upper = hops
            .iter()
            .map(|h| {
                sum += u64::from(h.weight);
                ((sum << 32) / total.max(1)).saturating_sub(1) as u32
            })
            .collect();
        Self {
            hops: hops.to_vec(),
            upper,
        }
    }

    /// The next hops that flows of this group are spread over.
    pub fn hops(&self) -> &[NextHop] {
        &self.hops
    }

    /// The hop of a flow, by 32 bits of hash.
    #[inline]
    pub fn pick(&self, hash: u32) -> &NextHop {
        let i = match self.upper.len() {
            1 => 0,
            _ => self.upper.iter().position(|u| hash <= *u).unwrap_or(0),
        };
        &self.hops[i]
    }
}

/// Groups by number. Numbers are never used again, so whoever holds an old table finds what it meant.
#[derive(Debug)]
pub(super) struct Groups {
    numbers: HashMap<Vec<NextHop>, Hop>,
    all: Vec<Group>,
    shared: Arc<ArcSwap<Vec<Group>>>,
}

/// Numbers below are [`NO_ROUTE`] and [`KERNEL`].
pub(super) const FIRST: Hop = KERNEL + 1;

impl Default for Groups {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            all: Vec::new(),
            shared: Arc::new(ArcSwap::from_pointee(Vec::new())),
        }
    }
}

impl Groups {
    /// The number of a group of usable hops: [`NO_ROUTE`] without any, [`KERNEL`] once all are taken.
    pub(super) fn number(&mut self, hops: &[NextHop]) -> Hop {
        let usable: Vec<NextHop> = hops.iter().copied().filter(|h| !h.dead).collect();
        if usable.is_empty() {
            return NO_ROUTE;
        }
        if let Some(number) = self.numbers.get(&usable) {
            return *number;
        }
        let Ok(number) = Hop::try_from(self.all.len() + usize::from(FIRST)) else {
            tracing::warn!(
                "more than 65,000 groups of next hops have been seen: routes of new ones go through the kernel"
            );
            return KERNEL;
        };
        self.all.push(Group::new(&usable));
        self.numbers.insert(usable, number);
        number
    }

    /// Makes new groups known; before the tables that use them.
    pub(super) fn publish(&self) {
        if self.shared.load().len() != self.all.len() {
            self.shared.store(Arc::new(self.all.clone()));
        }
    }

    pub(super) fn shared(&self) -> Arc<ArcSwap<Vec<Group>>> {
        Arc::clone(&self.shared)
    }

    /// The hops of a number; none for what is no group.
    fn hops(&self, hop: Hop) -> &[NextHop] {
        hop.checked_sub(FIRST)
            .and_then(|i| self.all.get(usize::from(i)))
            .map_or(&[], |g| &g.hops)
    }

    /// The number of a group without some of its hops.
    pub(super) fn without(&mut self, hop: Hop, gone: impl Fn(&NextHop) -> bool) -> Hop {
        let left: Vec<NextHop> = self
            .hops(hop)
            .iter()
            .copied()
            .filter(|h| !gone(h))
            .collect();
        self.number(&left)
    }

    /// The number of a group without the hops of another.
    pub(super) fn minus(&mut self, hop: Hop, other: Hop) -> Hop {
        let gone = self.hops(other).to_vec();
        self.without(hop, |h| {
            gone.iter()
                .any(|g| (g.ifindex, g.gateway) == (h.ifindex, h.gateway))
        })
    }

    /// Whether a group has a hop through a device.
    pub(super) fn uses(&self, hop: Hop, ifindex: u32) -> bool {
        self.hops(hop).iter().any(|h| h.ifindex == ifindex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(ifindex: u32, weight: u16) -> NextHop {
        NextHop {
            ifindex,
            gateway: None,
            weight,
            dead: false,
        }
    }

    #[test]
    fn flows_are_shared_by_weight() {
        let group = Group::new(&[hop(1, 1), hop(2, 2), hop(3, 1)]);
        let mut seen = [0u32; 4];
        for i in 0..4000u32 {
            let hash = i.wrapping_mul(2_654_435_761);
            seen[group.pick(hash).ifindex as usize] += 1;
        }
        for (ifindex, share) in [(1, 1000), (2, 2000), (3, 1000)] {
            assert!(seen[ifindex].abs_diff(share) < 20, "{seen:?}");
        }
        assert_eq!(
            (group.pick(0).ifindex, group.pick(u32::MAX).ifindex),
            (1, 3)
        );
    }

    #[test]
    fn equal_groups_have_one_number_and_dead_hops_do_not_count() {
        let mut groups = Groups::default();
        let a = groups.number(&[hop(1, 1), hop(2, 1)]);
        assert_eq!(groups.number(&[hop(1, 1), hop(2, 1)]), a);
        let dead = NextHop {
            dead: true,
            ..hop(2, 1)
        };
        let one = groups.number(&[hop(1, 1), dead]);
        assert_ne!(one, a);
        assert_eq!(groups.number(&[hop(1, 1)]), one);
        assert_eq!(groups.number(&[dead]), NO_ROUTE);
        assert!(groups.uses(a, 2) && !groups.uses(one, 2) && !groups.uses(KERNEL, 1));
    }
}
