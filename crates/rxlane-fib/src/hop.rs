//! Next hops as the numbers that a trie holds.

use std::num::NonZeroU16;

/// What a route leads to: any type of the caller that is as good as a number from 1 to 65,535, for instance an index into a
/// table of neighbours. [`NonZeroU16`] is one itself.
pub trait NextHop:
    Copy + Eq + std::fmt::Debug + Send + Sync + From<NonZeroU16> + Into<NonZeroU16> + 'static
{
}

impl<H> NextHop for H where
    H: Copy + Eq + std::fmt::Debug + Send + Sync + From<NonZeroU16> + Into<NonZeroU16> + 'static
{
}

/// A next hop in a trie.
pub(crate) type Number = u16;

/// No prefix covers the address.
pub(crate) const NO_ROUTE: Number = 0;

#[inline(always)]
pub(crate) fn number<H: NextHop>(hop: Option<H>) -> Number {
    hop.map_or(NO_ROUTE, |hop| Into::<NonZeroU16>::into(hop).get())
}

#[inline(always)]
pub(crate) fn hop_of<H: NextHop>(number: Number) -> Option<H> {
    NonZeroU16::new(number).map(H::from)
}
