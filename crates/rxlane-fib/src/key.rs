//! Addresses as keys of a trie.

/// An IPv4 or IPv6 address as an unsigned integer, first bit highest.
pub trait Key: Copy + Ord + std::fmt::Debug + Send + Sync + 'static {
    /// Bits of an address.
    const BITS: u32;

    /// The six bits from `offset` on, counted from the highest; beyond the end they are 0.
    fn stride(self, offset: u32) -> usize;

    /// The first `bits` bits, as a number; at most 32.
    fn first(self, bits: u32) -> usize;

    /// The address with all but its first `len` bits set to 0.
    fn masked(self, len: u32) -> Self;

    /// The address with all but its first `len` bits set to 1.
    fn filled(self, len: u32) -> Self;

    /// The address whose first `bits` bits are `index`, and the others 0.
    fn from_first(index: usize, bits: u32) -> Self;
}

macro_rules! key {
    ($key:ty) => {
        impl Key for $key {
            const BITS: u32 = <$key>::BITS;

            #[inline(always)]
            fn stride(self, offset: u32) -> usize {
                // Never more than BITS - 1: the last stride begins within the address.
                ((self << offset) >> (Self::BITS - 6)) as usize
            }

            #[inline(always)]
            fn first(self, bits: u32) -> usize {
                (self >> (Self::BITS - bits)) as usize
            }

            fn masked(self, len: u32) -> Self {
                self & !Self::MAX.checked_shr(len).unwrap_or(0)
            }

            fn filled(self, len: u32) -> Self {
                self | Self::MAX.checked_shr(len).unwrap_or(0)
            }

            fn from_first(index: usize, bits: u32) -> Self {
                (index as $key) << (Self::BITS - bits)
            }
        }
    };
}

key!(u32);
key!(u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_six_bits_and_padded_with_zeros_at_the_end() {
        let strides = [0b101010u32, 0b010101, 0b111111, 0, 0b110011];
        let a = strides.iter().fold(0, |a, s| a << 6 | s) << 2 | 0b01;
        for (i, stride) in strides.iter().chain(&[0b010000]).enumerate() {
            assert_eq!(a.stride(6 * i as u32), *stride as usize);
        }
        assert_eq!(
            (a.first(6), u32::from_first(0b101010, 6)),
            (0b101010, 0b101010 << 26)
        );
    }

    #[test]
    fn masks_hold_for_every_length() {
        assert_eq!(
            (0xffff_ffffu32.masked(0), 0xffff_ffffu32.masked(32)),
            (0, u32::MAX)
        );
        assert_eq!((0u32.filled(0), 0u32.filled(32)), (u32::MAX, 0));
        assert_eq!(
            (u128::MAX.masked(64), 0u128.filled(128)),
            (u128::MAX << 64, 0)
        );
    }
}
