//! The routes themselves, from which tries are built.

use std::collections::BTreeMap;

use crate::{Key, Net, NextHop};

/// A route that is added, changed or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<N, H> {
    /// Addresses that the change is about.
    pub prefix: N,
    /// Its next hop from now on; `None` removes it.
    pub hop: Option<H>,
}

/// All routes, by prefix.
#[derive(Debug, Clone)]
pub struct Routes<N, H> {
    by_prefix: BTreeMap<N, H>,
}

impl<N: Net, H: NextHop> Default for Routes<N, H> {
    fn default() -> Self {
        Self {
            by_prefix: BTreeMap::new(),
        }
    }
}

impl<N: Net, H: NextHop> Routes<N, H> {
    /// Applies a change. Returns whether it changed anything.
    pub fn apply(&mut self, change: &Change<N, H>) -> bool {
        // Address bits beyond the prefix' length do not make it another prefix.
        let prefix = N::new(change.prefix.first(), change.prefix.len());
        let before = match change.hop {
            None => self.by_prefix.remove(&prefix),
            Some(hop) => self.by_prefix.insert(prefix, hop),
        };
        before != change.hop
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.by_prefix.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_prefix.is_empty()
    }

    /// All routes by address; of the same address, the shorter prefix first.
    pub fn iter(&self) -> impl Iterator<Item = (N, H)> + '_ {
        self.by_prefix.iter().map(|(p, hop)| (*p, *hop))
    }

    /// Finds the next hop with the plainest of algorithms: the reference that tries are held to.
    pub fn lookup(&self, address: impl Into<N::Key>) -> Option<H> {
        self.covering(address.into(), N::Key::BITS)
    }

    /// The next hop of the longest prefix of at most `len` bits that contains an address.
    pub(crate) fn covering(&self, address: N::Key, len: u32) -> Option<H> {
        (0..=len)
            .rev()
            .find_map(|len| self.by_prefix.get(&N::new(address, len)).copied())
    }

    /// Prefixes whose first address is in a range.
    pub(crate) fn between(&self, low: N::Key, high: N::Key) -> impl Iterator<Item = (N, H)> + '_ {
        self.by_prefix
            .range(at(low)..=N::new(high, N::Key::BITS))
            .map(|(p, hop)| (*p, *hop))
    }

    /// Prefixes of more than `len` bits whose first `len` bits are those of `address`. They are ordered by
    /// address, then by length, shorter ones first.
    pub(crate) fn within(&self, address: N::Key, len: u32) -> Vec<(N, H)> {
        self.between(address.masked(len), address.filled(len))
            .filter(|(p, _)| p.len() > len)
            .collect()
    }
}

/// The shortest prefix that begins at an address: prefixes are ordered by address, then by length.
fn at<N: Net>(address: N::Key) -> N {
    N::new(address, N::Key::BITS - address.trailing_zeros())
}
