//! All routes of every prefix, and which of them is used.

use std::collections::BTreeMap;

use rxlane_fib::Net;
use rxlane_system::routes::{Kind, TABLE_LOCAL, TABLE_MAIN};

use super::groups::{GroupNumber, KERNEL};

/// A route of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) table: u32,
    pub(super) metric: u32,
    pub(super) tos: u8,
    pub(super) kind: Kind,
    /// Whether this is an IPv6 route through gateways: those of one metric become one route, whose hops are
    /// announced together.
    pub(super) merges: bool,
    /// `None` without a usable hop.
    pub(super) hop: Option<GroupNumber>,
}

impl Candidate {
    fn is_asked_with(&self, other: &Self) -> bool {
        (self.table, self.metric, self.tos) == (other.table, other.metric, other.tos)
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
        if let Some(at) = exact.or_else(|| all.iter().position(|c| c.is_like(&old))) {
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
        // Telling routes by type of service apart is left to the kernel.
        if main().any(|c| c.tos != 0) {
            return Some(KERNEL);
        }
        // Of equal metrics the first one wins; a route without a usable hop is passed over.
        main()
            .filter(|c| c.hop.is_some())
            .min_by_key(|c| c.metric)
            .and_then(|c| c.hop)
    }

    /// Whether a prefix has routes in the local table.
    pub(super) fn is_local(&self, prefix: &N) -> bool {
        self.by_prefix
            .get(prefix)
            .is_some_and(|all| all.iter().any(|c| c.table == TABLE_LOCAL))
    }
}
