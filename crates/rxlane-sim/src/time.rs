//! Virtual time: integer picoseconds, so that a byte on a 100 Gbit/s link is more than nothing and sums do
//! not depend on their order. 64 bits hold 213 days.

/// A point in virtual time or a span of it, ps.
pub type Ps = u64;

/// Later than everything.
pub const NEVER: Ps = u64::MAX;

/// Picoseconds of so many nanoseconds; negative spans are none.
pub fn from_ns(ns: f64) -> Ps {
    (ns * 1e3).round() as Ps
}

/// Picoseconds of so many seconds.
pub fn from_s(s: f64) -> Ps {
    (s * 1e12).round() as Ps
}

/// A time in seconds.
pub fn to_s(t: Ps) -> f64 {
    t as f64 / 1e12
}
