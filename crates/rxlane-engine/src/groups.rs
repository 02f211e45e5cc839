//! Groups of next hops that share the flows of a route.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rxlane_system::routes::NextHop;

/// Number of a group of next hops. A number is never used again for another group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupNumber(NonZeroU16);

impl From<NonZeroU16> for GroupNumber {
    fn from(number: NonZeroU16) -> Self {
        Self(number)
    }
}

impl From<GroupNumber> for NonZeroU16 {
    fn from(number: GroupNumber) -> Self {
        number.0
    }
}

/// Stands for no group: the packets go to the kernel.
pub(super) const KERNEL: GroupNumber = GroupNumber(NonZeroU16::MIN);

impl GroupNumber {
    /// The number of the group at `index`; groups follow [`KERNEL`]. `None` when no number is left.
    fn of(index: usize) -> Option<Self> {
        u16::try_from(index + 2)
            .ok()
            .and_then(NonZeroU16::new)
            .map(Self)
    }

    /// Index for what a worker remembers of a route; having no route has an index, too.
    #[inline]
    pub(super) fn slot(hop: Option<Self>) -> usize {
        hop.map_or(0, |group| usize::from(group.0.get()))
    }

    /// Place in the table of groups; `None` for [`KERNEL`].
    #[inline]
    pub(super) fn index(self) -> Option<usize> {
        usize::from(self.0.get()).checked_sub(2)
    }
}

/// The next hops of a route, among which its flows are shared, and the largest packet that it takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    hops: Vec<NextHop>,
    mtu: Option<u32>,
}

impl Group {
    /// The next hops that flows of this group are spread over.
    pub fn hops(&self) -> &[NextHop] {
        &self.hops
    }

    /// Largest packet, bytes; `None`: what the link takes.
    pub fn mtu(&self) -> Option<u32> {
        self.mtu
    }
}

/// Groups by number. Numbers are never used again, so whoever holds an old table finds what it meant.
#[derive(Debug)]
pub(super) struct Groups {
    numbers: HashMap<Group, GroupNumber>,
    all: Vec<Group>,
    shared: Arc<ArcSwap<Vec<Group>>>,
}

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
    /// The number of a group of hops: `None` if none of them is usable, [`KERNEL`] once all numbers are taken.
    ///
    /// A dead hop beside others counts, because the kernel does not tell when it comes alive: so the group has more than one hop,
    /// and is the kernel's.
    pub(super) fn number(&mut self, hops: &[NextHop], mtu: Option<u32>) -> Option<GroupNumber> {
        if hops.iter().all(|hop| hop.dead) {
            return None;
        }
        let group = Group {
            hops: hops.to_vec(),
            mtu,
        };
        if let Some(number) = self.numbers.get(&group) {
            return Some(*number);
        }
        let Some(number) = GroupNumber::of(self.all.len()) else {
            tracing::warn!(
                "more than 65,000 groups of next hops have been seen: routes of new ones go through the kernel"
            );
            return Some(KERNEL);
        };
        self.all.push(group.clone());
        self.numbers.insert(group, number);
        Some(number)
    }

    /// Makes new groups known. Call it before publishing the tables that use them.
    pub(super) fn publish(&self) {
        if self.shared.load().len() != self.all.len() {
            self.shared.store(Arc::new(self.all.clone()));
        }
    }

    pub(super) fn shared(&self) -> Arc<ArcSwap<Vec<Group>>> {
        Arc::clone(&self.shared)
    }

    /// The hops of a group; empty for a number that is no group.
    fn hops(&self, group: GroupNumber) -> &[NextHop] {
        self.group(group).map_or(&[], |g| &g.hops)
    }

    fn group(&self, group: GroupNumber) -> Option<&Group> {
        self.all.get(group.index()?)
    }

    /// The number of a group without some of its hops.
    pub(super) fn without(
        &mut self,
        group: GroupNumber,
        gone: impl Fn(&NextHop) -> bool,
    ) -> Option<GroupNumber> {
        let left: Vec<NextHop> = self
            .hops(group)
            .iter()
            .copied()
            .filter(|h| !gone(h))
            .collect();
        let mtu = self.group(group).and_then(Group::mtu);
        self.number(&left, mtu)
    }

    /// The number of a group without the hops of another.
    pub(super) fn minus(&mut self, group: GroupNumber, other: GroupNumber) -> Option<GroupNumber> {
        let gone = self.hops(other).to_vec();
        self.without(group, |h| {
            gone.iter()
                .any(|g| (g.ifindex, g.gateway) == (h.ifindex, h.gateway))
        })
    }

    /// Whether a group has a hop through a device.
    pub(super) fn uses(&self, group: GroupNumber, ifindex: u32) -> bool {
        self.hops(group).iter().any(|h| h.ifindex == ifindex)
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
    fn equal_groups_have_one_number_and_a_dead_hop_leaves_the_choice_to_the_kernel() {
        let mut groups = Groups::default();
        let a = groups.number(&[hop(1, 1), hop(2, 1)], None).unwrap();
        assert_eq!(groups.number(&[hop(1, 1), hop(2, 1)], None), Some(a));
        let dead = NextHop {
            dead: true,
            ..hop(2, 1)
        };
        let one = groups.number(&[hop(1, 1)], None).unwrap();
        assert_ne!(one, a);
        let both = groups.number(&[hop(1, 1), dead], None).unwrap();
        assert_eq!(groups.group(both).unwrap().hops.len(), 2);
        assert_eq!(groups.number(&[dead], None), None);
        let small = groups.number(&[hop(1, 1)], Some(1300)).unwrap();
        assert_ne!(small, one, "another MTU");
        let alone = groups.without(a, |h| h.ifindex == 2);
        assert_eq!(alone, Some(one));
        assert!(groups.uses(a, 2) && !groups.uses(one, 2) && !groups.uses(KERNEL, 1));
    }
}
