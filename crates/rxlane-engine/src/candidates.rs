//! All routes of every prefix, and which of them is used.

use std::collections::{BTreeMap, HashSet};

use ipnet::IpNet;
use rxlane_fib::{Key, Net};
use rxlane_system::routes::{Kind, TABLE_LOCAL, TABLE_MAIN};

use crate::groups::{GroupNumber, KERNEL};

/// A route of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) table: u32,
    pub(super) metric: u32,
    pub(super) tos: u8,
    /// Sources that it is for; `None` for all.
    pub(super) source: Option<IpNet>,
    pub(super) kind: Kind,
    /// The nexthop object that its hop comes from.
    pub(super) nexthop: Option<u32>,
    /// Largest packet that it takes, bytes.
    pub(super) mtu: Option<u32>,
    /// Whether this is an IPv6 route through gateways: those of one metric become one route, whose hops are
    /// announced together.
    pub(super) merges: bool,
    /// `None` without a usable hop.
    pub(super) hop: Option<GroupNumber>,
}

impl Candidate {
    fn is_asked_with(&self, other: &Self) -> bool {
        (self.table, self.metric, self.tos, self.source)
            == (other.table, other.metric, other.tos, other.source)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.is_asked_with(other) && self.merges == other.merges
    }
}

/// Candidates by prefix. Those of equal metric are in the order in which the kernel asks them.
#[derive(Debug)]
pub(super) struct Candidates<N> {
    by_prefix: BTreeMap<N, Vec<Candidate>>,
}

impl<N: Net> Default for Candidates<N> {
    fn default() -> Self {
        Self {
            by_prefix: BTreeMap::new(),
        }
    }
}

impl<N: Net> Candidates<N> {
    /// Adds a candidate: in place of one that is like it, or after or before those of the same metric.
    pub(super) fn add(&mut self, prefix: N, new: Candidate, replaces: bool, last: bool) {
        let all = self.by_prefix.entry(prefix).or_default();
        let like = all.iter().position(|c| c.is_like(&new));
        let first = all.iter().position(|c| c.is_asked_with(&new));
        match like.or(first) {
            Some(at) if replaces => all[at] = new,
            _ if like.is_some() && new.merges => all[like.unwrap_or(0)] = new,
            // A route that is announced while all routes are dumped comes twice.
            _ if all.contains(&new) => {}
            Some(at) if !last => all.insert(at, new),
            _ => all.push(new),
        }
    }

    /// Removes the candidate `old` or, where it is missing, the first that is like it. `rest` says what is
    /// left of a candidate's hops when those of `old` are gone.
    pub(super) fn remove(
        &mut self,
        prefix: N,
        old: Candidate,
        rest: impl FnOnce(GroupNumber, GroupNumber) -> Option<GroupNumber>,
    ) {
        let Some(all) = self.by_prefix.get_mut(&prefix) else {
            return;
        };
        let exact = all.iter().position(|c| *c == old);
        let like = |c: &Candidate| c.is_like(&old) && c.nexthop == old.nexthop;
        if let Some(at) = exact.or_else(|| all.iter().position(like)) {
            let left = match (all[at].hop, old.hop) {
                (Some(has), Some(loses)) => rest(has, loses),
                (has, _) => has,
            };
            if old.merges && left.is_some() {
                all[at].hop = left;
            } else {
                all.remove(at);
            }
        }
        if all.is_empty() {
            self.by_prefix.remove(&prefix);
        }
    }

    /// Applies `change` to each candidate's hop. Returns the prefixes that it changed.
    pub(super) fn change_hops(
        &mut self,
        mut change: impl FnMut(GroupNumber) -> Option<GroupNumber>,
    ) -> Vec<N> {
        let mut changed = Vec::new();
        for (prefix, all) in &mut self.by_prefix {
            for candidate in all {
                let hop = candidate.hop.and_then(&mut change);
                if hop != candidate.hop {
                    candidate.hop = hop;
                    changed.push(*prefix);
                }
            }
        }
        changed
    }

    /// Gives candidates of these nexthop objects their hops anew. Returns the prefixes that it changed.
    pub(super) fn follow_nexthops(
        &mut self,
        ids: &HashSet<u32>,
        mut hop: impl FnMut(&Candidate) -> Option<GroupNumber>,
    ) -> Vec<N> {
        let mut changed = Vec::new();
        for (prefix, all) in &mut self.by_prefix {
            for candidate in all {
                if candidate.nexthop.is_some_and(|id| ids.contains(&id)) {
                    candidate.hop = hop(candidate);
                    changed.push(*prefix);
                }
            }
        }
        changed
    }

    /// Takes candidates of these nexthop objects away. Returns their prefixes.
    pub(super) fn drop_nexthops(&mut self, ids: &HashSet<u32>) -> Vec<N> {
        let mut changed = Vec::new();
        self.by_prefix.retain(|prefix, all| {
            let before = all.len();
            all.retain(|c| !c.nexthop.is_some_and(|id| ids.contains(&id)));
            if all.len() < before {
                changed.push(*prefix);
            }
            !all.is_empty()
        });
        changed
    }

    pub(super) fn prefixes(&self) -> impl Iterator<Item = N> + '_ {
        self.by_prefix.keys().copied()
    }

    /// Prefixes within a prefix, itself included.
    pub(super) fn within(&self, prefix: &N) -> Vec<N> {
        let last = prefix.last();
        self.by_prefix
            .range(*prefix..)
            .map(|(p, _)| *p)
            .take_while(|p| p.first() <= last)
            .collect()
    }

    /// The hop that is used for a prefix. The local table is asked before the main one for every address, so
    /// a local prefix hides what the main table has within it.
    pub(super) fn best(&self, prefix: &N) -> Option<GroupNumber> {
        for len in 0..=prefix.len() {
            let covering = N::new(prefix.first(), len);
            let local = |c: &Candidate| c.table == TABLE_LOCAL;
            if self
                .by_prefix
                .get(&covering)
                .is_some_and(|all| all.iter().any(local))
            {
                return Some(KERNEL);
            }
        }
        let all = self.by_prefix.get(prefix)?;
        let main = || all.iter().filter(|c| c.table == TABLE_MAIN);
        // Telling routes by type of service or by source apart is left to the kernel.
        if main().any(|c| c.tos != 0 || c.source.is_some()) {
            return Some(KERNEL);
        }
        // A route without a usable hop is passed over.
        let usable = || main().filter(|c| c.hop.is_some());
        let best = usable().min_by_key(|c| c.metric)?;
        let rivals = usable().filter(|c| c.metric == best.metric).count() > 1;
        // Of equal metrics the first one wins in IPv4, but of default routes the one whose gateway answers
        // (fib_select_default), and in IPv6 what the router's preference and more say (rt6_score_route).
        if rivals && (N::Key::BITS > 32 || prefix.len() == 0) {
            return Some(KERNEL);
        }
        best.hop
    }

    /// Whether a prefix has routes in the local table.
    pub(super) fn is_local(&self, prefix: &N) -> bool {
        self.by_prefix
            .get(prefix)
            .is_some_and(|all| all.iter().any(|c| c.table == TABLE_LOCAL))
    }
}
