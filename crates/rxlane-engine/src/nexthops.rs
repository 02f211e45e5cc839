//! Nexthop objects, which routes name by a number.

use std::collections::{HashMap, HashSet};

use rxlane_system::nexthops::Nexthop;
use rxlane_system::routes::NextHop;

/// All nexthop objects of a network namespace, and which of them have changed since routes were last looked through.
#[derive(Debug, Default)]
pub(super) struct Nexthops {
    by_id: HashMap<u32, Nexthop>,
    /// Numbers that routes or groups name, and that are not there (yet).
    missing: HashSet<u32>,
    changed: HashSet<u32>,
    gone: HashSet<u32>,
}

impl Nexthops {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// An object is there, or has become this.
    pub(super) fn put(&mut self, id: u32, nexthop: Nexthop) {
        let missed = self.missing.remove(&id);
        let before = self.by_id.insert(id, nexthop);
        // Routing daemons make an object for each new way; only routes that use one already must follow.
        if missed || (before.is_some() && before.as_ref() != self.by_id.get(&id)) {
            self.changed.insert(id);
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.by_id.remove(&id);
        self.gone.insert(id);
    }

    /// Whether an object of that number has gone, and its routes have not been taken away yet.
    pub(super) fn is_gone(&self, id: u32) -> bool {
        self.gone.contains(&id)
    }

    /// The ways on behind a number; `None` when only the kernel knows them.
    pub(super) fn hops(&mut self, id: u32) -> Option<Vec<NextHop>> {
        let hop = |of: u32, missing: &mut HashSet<u32>| match self.by_id.get(&of) {
            Some(Nexthop::Hop(hop)) => Some(*hop),
            Some(_) => None,
            None => {
                missing.insert(of);
                None
            }
        };
        match self.by_id.get(&id) {
            Some(Nexthop::Group(members)) => members
                .iter()
                .map(|(of, weight)| {
                    let hop = hop(*of, &mut self.missing)?;
                    Some(NextHop {
                        weight: *weight,
                        ..hop
                    })
                })
                .collect(),
            _ => hop(id, &mut self.missing).map(|hop| vec![hop]),
        }
    }

    /// Numbers whose routes are gone, since the last call.
    pub(super) fn take_gone(&mut self) -> HashSet<u32> {
        std::mem::take(&mut self.gone)
    }

    /// Numbers whose routes go elsewhere now, since the last call: those that have changed, and groups of these.
    pub(super) fn take_changed(&mut self) -> HashSet<u32> {
        let mut changed = std::mem::take(&mut self.changed);
        if !changed.is_empty() {
            let groups = self.by_id.iter().filter(|(_, nexthop)| match nexthop {
                Nexthop::Group(members) => members.iter().any(|(of, _)| changed.contains(of)),
                _ => false,
            });
            let groups: Vec<u32> = groups.map(|(id, _)| *id).collect();
            changed.extend(groups);
        }
        changed
    }
}
