//! The routes themselves, from which tries are built.

use std::collections::BTreeMap;

use crate::{Hop, Key};

/// A prefix: an address of which the first `len` bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix<K> {
    address: K,
    len: u8,
}

/// A length beyond that of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixError(pub u32);

impl std::fmt::Display for PrefixError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "prefix length {} is longer than an address: use at most its bits",
            self.0
        )
    }
}

impl std::error::Error for PrefixError {}

impl<K: Key> Prefix<K> {
    /// A prefix; bits of the address beyond `len` do not matter.
    ///
    /// # Errors
    /// [`PrefixError`].
    pub fn new(address: K, len: u32) -> Result<Self, PrefixError> {
        if len > K::BITS {
            return Err(PrefixError(len));
        }
        Ok(Self {
            address: address.masked(len),
            len: len as u8,
        })
    }

    /// Its first address.
    pub fn address(&self) -> K {
        self.address
    }

    /// Bits that count.
    pub fn len(&self) -> u32 {
        u32::from(self.len)
    }

    /// Whether it is the default route.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it contains an address.
    pub fn contains(&self, address: K) -> bool {
        address.masked(self.len()) == self.address
    }
}

/// A route that comes, changes or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<K> {
    /// Addresses that the change is about.
    pub prefix: Prefix<K>,
    /// Its next hop from now on; [`crate::NO_ROUTE`] removes it.
    pub hop: Hop,
}

/// All routes, by prefix.
#[derive(Debug, Clone)]
pub struct Routes<K> {
    by_prefix: BTreeMap<Prefix<K>, Hop>,
}

impl<K: Key> Default for Routes<K> {
    fn default() -> Self {
        Self {
            by_prefix: BTreeMap::new(),
        }
    }
}

impl<K: Key> Routes<K> {
    /// Applies a change. Returns whether it changed anything.
    pub fn apply(&mut self, change: &Change<K>) -> bool {
        let before = if change.hop == crate::NO_ROUTE {
            self.by_prefix.remove(&change.prefix)
        } else {
            self.by_prefix.insert(change.prefix, change.hop)
        };
        before.unwrap_or(crate::NO_ROUTE) != change.hop
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.by_prefix.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_prefix.is_empty()
    }

    /// All of them, by address, shorter ones first.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<K>, Hop)> + '_ {
        self.by_prefix.iter().map(|(p, hop)| (*p, *hop))
    }

    /// The next hop by the plainest of algorithms: the reference that tries are held to.
    pub fn lookup(&self, address: K) -> Hop {
        self.covering(address, K::BITS)
    }

    /// The next hop of the longest prefix of at most `len` bits that contains an address.
    pub(crate) fn covering(&self, address: K, len: u32) -> Hop {
        (0..=len)
            .rev()
            .find_map(|len| {
                let prefix = Prefix::new(address, len).ok()?;
                self.by_prefix.get(&prefix).copied()
            })
            .unwrap_or(crate::NO_ROUTE)
    }

    /// Prefixes whose first address is in a range.
    pub(crate) fn between(&self, low: K, high: K) -> impl Iterator<Item = (Prefix<K>, Hop)> + '_ {
        let first = Prefix {
            address: low,
            len: 0,
        };
        let last = Prefix {
            address: high,
            len: u8::MAX,
        };
        self.by_prefix
            .range(first..=last)
            .map(|(p, hop)| (*p, *hop))
    }

    /// Prefixes of more than `len` bits within the first `len` bits of an address, by address, shorter ones
    /// first.
    pub(crate) fn within(&self, address: K, len: u32) -> Vec<(Prefix<K>, Hop)> {
        self.between(address.masked(len), address.filled(len))
            .filter(|(p, _)| p.len() > len)
            .collect()
    }
}
