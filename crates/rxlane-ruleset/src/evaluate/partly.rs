//! Bytes of which some bits are known.

use std::cmp::Ordering;

use crate::meets::Outcome;

/// As many bytes as it has; of each bit whether it is known, and what it is then.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Partly {
    /// 0 where nothing is known.
    value: Vec<u8>,
    known: Vec<u8>,
}

impl Partly {
    pub(crate) fn unknown(len: usize) -> Self {
        Self {
            value: vec![0; len],
            known: vec![0; len],
        }
    }

    pub(crate) fn known(bytes: &[u8]) -> Self {
        Self {
            value: bytes.to_vec(),
            known: vec![u8::MAX; bytes.len()],
        }
    }

    /// Known where it is said.
    pub(crate) fn said(bytes: Option<&[u8]>, len: usize) -> Self {
        bytes.map_or_else(|| Self::unknown(len), Self::known)
    }

    /// The same, of which only these bits are known.
    pub(crate) fn with_known(mut self, bits: &[u8]) -> Self {
        for (at, bits) in bits.iter().enumerate().take(self.len()) {
            self.known[at] &= bits;
            self.value[at] &= self.known[at];
        }
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.value.len()
    }

    /// All bytes, where all bits are known.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        let all = self.known.iter().all(|known| *known == u8::MAX);
        all.then_some(&self.value[..])
    }

    /// A part; what is behind the end is not known.
    pub(crate) fn get(&self, offset: usize, len: usize) -> Self {
        let end = offset.saturating_add(len).min(self.len());
        let part = |all: &[u8]| {
            let mut part = all.get(offset..end).unwrap_or_default().to_vec();
            part.resize(len, 0);
            part
        };
        Self {
            value: part(&self.value),
            known: part(&self.known),
        }
    }

    /// What does not fit is left out.
    pub(crate) fn put(&mut self, offset: usize, part: &Self) {
        for at in 0..part.len() {
            if let Some(to) = offset.checked_add(at).filter(|to| *to < self.len()) {
                self.value[to] = part.value[at];
                self.known[to] = part.known[at];
            }
        }
    }

    /// What is the same in both.
    pub(crate) fn common(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for at in 0..self.len() {
            let (value, known) = match (other.value.get(at), other.known.get(at)) {
                (Some(value), Some(known)) => (*value, *known),
                _ => (0, 0),
            };
            both.known[at] &= known & !(self.value[at] ^ value);
            both.value[at] &= both.known[at];
        }
        both
    }

    /// `(self & mask) ^ xor`.
    pub(crate) fn masked(&self, mask: &[u8], xor: &[u8]) -> Self {
        let mut new = self.clone();
        for at in 0..new.len() {
            let (mask, xor) = (
                mask.get(at).copied().unwrap_or(0),
                xor.get(at).copied().unwrap_or(0),
            );
            new.known[at] |= !mask;
            new.value[at] = ((new.value[at] & mask) ^ xor) & new.known[at];
        }
        new
    }

    /// Words of so many bytes, each backwards.
    pub(crate) fn swapped(&self, size: usize) -> Self {
        let mut new = self.clone();
        if size > 0 {
            new.value.chunks_mut(size).for_each(<[u8]>::reverse);
            new.known.chunks_mut(size).for_each(<[u8]>::reverse);
        }
        new
    }

    /// The byte in the middle of two.
    pub(crate) fn shifted_by_four(&self) -> Self {
        let middle = |all: &[u8]| vec![all[0] << 4 | all[1] >> 4];
        Self {
            value: middle(&self.value),
            known: middle(&self.known),
        }
    }

    /// One less, of a byte.
    pub(crate) fn decrement(&mut self, at: usize) {
        if self.known[at] == u8::MAX {
            self.value[at] = self.value[at].wrapping_sub(1);
        }
    }

    pub(crate) fn equals(&self, wanted: &[u8]) -> Outcome {
        let all = self.value.iter().zip(&self.known).zip(wanted);
        let mut outcome = Outcome::Holds;
        for ((value, known), wanted) in all {
            if (value ^ wanted) & known != 0 {
                return Outcome::Fails;
            }
            if *known != u8::MAX {
                outcome = Outcome::May;
            }
        }
        outcome
    }

    /// As `memcmp` has it, where that is known.
    pub(crate) fn order(&self, wanted: &[u8]) -> Option<Ordering> {
        for ((value, known), wanted) in self.value.iter().zip(&self.known).zip(wanted) {
            if *known != u8::MAX {
                return None;
            }
            match value.cmp(wanted) {
                Ordering::Equal => {}
                other => return Some(other),
            }
        }
        Some(Ordering::Equal)
    }

    /// Whether it lies between two, both included.
    pub(crate) fn lies_within(&self, first: &[u8], last: &[u8]) -> Outcome {
        match (self.order(first), self.order(last)) {
            (Some(Ordering::Less), _) | (_, Some(Ordering::Greater)) => Outcome::Fails,
            (Some(_), Some(_)) => Outcome::Holds,
            _ => Outcome::May,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_are_not_known_decide_nothing_unless_others_do() {
        let mut partly = Partly::known(&[0x45, 0xb8, 0, 0]);
        partly.put(2, &Partly::unknown(2));
        assert_eq!(partly.equals(&[0x45, 0xb8, 1, 1]), Outcome::May);
        assert_eq!(partly.equals(&[0x45, 0, 1, 1]), Outcome::Fails);
        let masked = partly.masked(&[0xff, 0xfc, 0, 0], &[0, 0, 0, 0]);
        assert_eq!(masked.bytes(), Some(&[0x45, 0xb8, 0, 0][..]));
        assert_eq!(partly.order(&[0x45, 0xb9]), Some(Ordering::Less));
        assert_eq!(partly.order(&[0x45, 0xb8, 0]), None);
        let common = partly.common(&Partly::known(&[0x46, 0xb8, 0, 0]));
        assert_eq!(common.get(0, 1).equals(&[0x44]), Outcome::May);
        assert_eq!(common.get(0, 1).equals(&[0x04]), Outcome::Fails);
        assert_eq!(common.get(1, 1).bytes(), Some(&[0xb8][..]));
        assert_eq!(partly.get(3, 4), Partly::unknown(4));
        assert_eq!(
            Partly::known(&[1, 2, 3, 4]).swapped(2),
            Partly::known(&[2, 1, 4, 3])
        );
    }
}
