//! All routes of every prefix, and which of them counts.

use std::collections::BTreeMap;

use rxlane_fib::{Hop, Key, NO_ROUTE, Prefix};
use rxlane_system::routes::{Kind, TABLE_LOCAL, TABLE_MAIN};

use super::groups::KERNEL;

/// A route of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) table: u32,
    pub(super) metric: u32,
    pub(super) tos: u8,
    pub(super) kind: Kind,
    /// IPv6 routes through gateways: those of one metric become one route, whose hops are announced together.
    pub(super) merges: bool,
    pub(super) hop: Hop,
}

impl Candidate {
    fn is_asked_with(&self, other: &Self) -> bool {
        (self.table, self.metric, self.tos) == (other.table, other.metric, other.tos)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.is_asked_with(other) && self.merges == other.merges
    }
}

/// Candidates by prefix, in the order in which the kernel asks those of equal metric.
#[derive(Debug)]
pub(super) struct Candidates<K> {
    by_prefix: BTreeMap<Prefix<K>, Vec<Candidate>>,
}

impl<K: Key> Default for Candidates<K> {
    fn default() -> Self {
        Self {
            by_prefix: BTreeMap::new(),
        }
    }
}

impl<K: Key> Candidates<K> {
    /// Adds one: in place of its like, or after or before those of the same metric.
    pub(super) fn add(&mut self, prefix: Prefix<K>, new: Candidate, replaces: bool, last: bool) {
        let all = self.by_prefix.entry(prefix).or_default();
        let like = all.iter().position(|c| c.is_like(&new));
        let first = all.iter().position(|c| c.is_asked_with(&new));
        match like.or(first) {
            Some(at) if replaces => all[at] = new,
            _ if like.is_some() && new.merges => all[like.unwrap_or(0)] = new,
            // What is dumped and announced at once comes twice.
            _ if all.contains(&new) => {}
            Some(at) if !last => all.insert(at, new),
            _ => all.push(new),
        }
    }

    /// Removes one; without its very self, the first that is like it. `rest` says what is left of a
    /// candidate's hops when those of `old` are gone.
    pub(super) fn remove(
        &mut self,
        prefix: Prefix<K>,
        old: Candidate,
        rest: impl FnOnce(Hop, Hop) -> Hop,
    ) {
        let Some(all) = self.by_prefix.get_mut(&prefix) else {
            return;
        };
        let exact = all.iter().position(|c| *c == old);
        if let Some(at) = exact.or_else(|| all.iter().position(|c| c.is_like(&old))) {
            let left = rest(all[at].hop, old.hop);
            if old.merges && left != NO_ROUTE {
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
    pub(super) fn change_hops(&mut self, mut change: impl FnMut(Hop) -> Hop) -> Vec<Prefix<K>> {
        let mut changed = Vec::new();
        for (prefix, all) in &mut self.by_prefix {
            for candidate in all {
                let hop = change(candidate.hop);
                if hop != candidate.hop {
                    candidate.hop = hop;
                    changed.push(*prefix);
                }
            }
        }
        changed
    }

    pub(super) fn prefixes(&self) -> impl Iterator<Item = Prefix<K>> + '_ {
        self.by_prefix.keys().copied()
    }

    /// Prefixes within a prefix, itself included.
    pub(super) fn within(&self, prefix: &Prefix<K>) -> Vec<Prefix<K>> {
        let last = prefix.address().filled(prefix.len());
        self.by_prefix
            .range(*prefix..)
            .map(|(p, _)| *p)
            .take_while(|p| p.address() <= last)
            .collect()
    }

    /// The hop that counts for a prefix. The local table is asked before the main one for every address, so
    /// a local prefix hides what the main table has within it.
    pub(super) fn best(&self, prefix: &Prefix<K>) -> Hop {
        for len in 0..=prefix.len() {
            let Ok(covering) = Prefix::new(prefix.address(), len) else {
                continue;
            };
            let local = |c: &Candidate| c.table == TABLE_LOCAL;
            if self
                .by_prefix
                .get(&covering)
                .is_some_and(|all| all.iter().any(local))
            {
                return KERNEL;
            }
        }
        let Some(all) = self.by_prefix.get(prefix) else {
            return NO_ROUTE;
        };
        let main = || all.iter().filter(|c| c.table == TABLE_MAIN);
        // Routes by type of service are for the kernel to tell apart.
        if main().any(|c| c.tos != 0) {
            return KERNEL;
        }
        // Of equal metrics the first; without a usable hop, the next.
        main()
            .filter(|c| c.hop != NO_ROUTE)
            .min_by_key(|c| c.metric)
            .map_or(NO_ROUTE, |c| c.hop)
    }

    /// Whether a prefix has routes in the local table.
    pub(super) fn is_local(&self, prefix: &Prefix<K>) -> bool {
        self.by_prefix
            .get(prefix)
            .is_some_and(|all| all.iter().any(|c| c.table == TABLE_LOCAL))
    }
}
