//! A set of matching rules, one bit a rule, the first rule in bit 0.
//!
//! The classifier intersects one such set per packet field and takes the lowest bit: the bit-vector
//! scheme of Lakshman and Stiliadis (SIGCOMM 1998), whose cost does not depend on the number of rules.

use serde::{Deserialize, Serialize};

/// Most rules that all classes may have together.
pub const MAX_RULES: usize = 256;
/// 64-bit words of a rule set.
pub const WORDS: usize = MAX_RULES / 64;

/// A set of up to 256 rules: bit `i` is set when rule `i` is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct RuleSet(pub [u64; WORDS]);

impl RuleSet {
    /// No rule.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// Adds rule `index`, which must be below [`MAX_RULES`].
    pub fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    /// Whether rule `index` is in the set.
    pub fn contains(&self, index: usize) -> bool {
        self.0[index / 64] & (1 << (index % 64)) != 0
    }

    /// Rules that are in both sets.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for (word, o) in self.0.iter_mut().zip(&other.0) {
            *word &= o;
        }
        self
    }

    /// Rules that are in either set.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        for (word, o) in self.0.iter_mut().zip(&other.0) {
            *word |= o;
        }
        self
    }

    /// The rule that wins: the lowest one.
    pub fn first(&self) -> Option<usize> {
        self.0
            .iter()
            .position(|w| *w != 0)
            .map(|i| i * 64 + self.0[i].trailing_zeros() as usize)
    }
}

impl FromIterator<usize> for RuleSet {
    fn from_iter<T: IntoIterator<Item = usize>>(iter: T) -> Self {
        let mut set = Self::EMPTY;
        for index in iter {
            set.insert(index);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rule_wins() {
        let set: RuleSet = [200, 64, 255].into_iter().collect();
        assert_eq!(set.first(), Some(64));
        assert_eq!(RuleSet::EMPTY.first(), None);
        let other: RuleSet = [255].into_iter().collect();
        assert_eq!(set.and(&other).first(), Some(255));
    }
}
