//! Addresses as keys of a trie, and the prefixes that consist of them.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// A prefix of one address family: [`Ipv4Net`] or [`Ipv6Net`].
pub trait Net: Copy + Ord + std::fmt::Debug + Send + Sync + 'static {
    /// An address of the family as a number.
    type Key: Key;

    /// The prefix of the first `len` bits of an address. A `len` that exceeds the address is cut to its
    /// length.
    fn new(address: Self::Key, len: u32) -> Self;

    /// Its first address.
    fn first(&self) -> Self::Key;

    /// Its last address.
    fn last(&self) -> Self::Key;

    /// Length of the prefix, in bits.
    fn len(&self) -> u32;

    /// Whether the length is 0: the default route.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

macro_rules! net {
    ($net:ty, $address:ty, $key:ty) => {
        impl Net for $net {
            type Key = $key;

            fn new(address: $key, len: u32) -> Self {
                let len = len.min(<$key>::BITS);
                Self::new_assert(<$address>::from(address.masked(len)), len as u8)
            }

            fn first(&self) -> $key {
                self.network().into()
            }

            fn last(&self) -> $key {
                self.broadcast().into()
            }

            fn len(&self) -> u32 {
                u32::from(self.prefix_len())
            }
        }
    };
}

net!(Ipv4Net, Ipv4Addr, u32);
net!(Ipv6Net, Ipv6Addr, u128);

/// An IPv4 or IPv6 address as an unsigned integer, first bit highest.
pub trait Key: Copy + Ord + std::fmt::Debug + Send + Sync + 'static {
    /// Number of bits of an address.
    const BITS: u32;

    /// The six bits from `offset` on, counted from the highest; beyond the end they are 0.
    fn stride(self, offset: u32) -> usize;

    /// The first `bits` bits, as a number; at most 32.
    fn leading(self, bits: u32) -> usize;

    /// The address with all but its first `len` bits set to 0.
    fn masked(self, len: u32) -> Self;

    /// The address with all but its first `len` bits set to 1.
    fn filled(self, len: u32) -> Self;

    /// How many 0 bits follow the last 1 bit; all bits of an address that is 0.
    fn trailing_zeros(self) -> u32;

    /// The address whose first `bits` bits are `index`, and the others 0.
    fn from_leading(index: usize, bits: u32) -> Self;
}

macro_rules! key {
    ($key:ty) => {
        impl Key for $key {
            const BITS: u32 = <$key>::BITS;

            #[inline(always)]
            fn stride(self, offset: u32) -> usize {
                // `offset` is at most BITS - 1, because the last stride begins within the address.
                ((self << offset) >> (Self::BITS - 6)) as usize
            }

            #[inline(always)]
            fn leading(self, bits: u32) -> usize {
                (self >> (Self::BITS - bits)) as usize
            }

            fn masked(self, len: u32) -> Self {
                self & !Self::MAX.checked_shr(len).unwrap_or(0)
            }

            fn filled(self, len: u32) -> Self {
                self | Self::MAX.checked_shr(len).unwrap_or(0)
            }

            fn trailing_zeros(self) -> u32 {
                <$key>::trailing_zeros(self)
            }

            fn from_leading(index: usize, bits: u32) -> Self {
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
            (a.leading(6), u32::from_leading(0b101010, 6)),
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
