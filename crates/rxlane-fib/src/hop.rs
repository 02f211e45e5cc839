//! Next hops as the numbers that a trie holds.

use std::num::NonZeroU16;

/// What a route leads to: any type of the caller that converts to a number from 1 to 65,535 and back, for instance an index
/// into a table of neighbours. [`NonZeroU16`] itself is such a type.
pub trait NextHop:
    Copy + Eq + std::fmt::Debug + Send + Sync + From<NonZeroU16> + Into<NonZeroU16> + 'static
{
}

impl<H> NextHop for H where
    H: Copy + Eq + std::fmt::Debug + Send + Sync + From<NonZeroU16> + Into<NonZeroU16> + 'static
{
}

/// A next hop as the trie stores it.
pub(crate) type Number = u16;

/// The number that says that no prefix covers the address.
pub(crate) const NO_ROUTE: Number = 0;

#[inline(always)]
pub(crate) fn number<H: NextHop>(hop: Option<H>) -> Number {
    hop.map_or(NO_ROUTE, |hop| Into::<NonZeroU16>::into(hop).get())
}

#[inline(always)]
pub(crate) fn hop_of<H: NextHop>(number: Number) -> Option<H> {
    NonZeroU16::new(number).map(H::from)
}
