//! Units as types: a number that means a time or a rate cannot be taken for another.
//!
//! Times are integers, so that sums do not depend on their order: nanoseconds where a clock is read, picoseconds where
//! time is computed (a byte on a 100 Gbit/s link takes 80 of them). Rates are real numbers. Fields of reports and files
//! are plain numbers with the unit in their names, because JSON and TOML know no types.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A point in time or a span of it, in nanoseconds: what `CLOCK_MONOTONIC` and `bpf_ktime_get_ns` count.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A point in virtual time or a span of it, in picoseconds. 64 bits hold 213 days.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Ps(pub u64);

/// Packets per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pps(pub f64);

/// Bits per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bps(pub f64);

impl Nanos {
    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// The span in seconds.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span from `earlier` to this; 0 where `earlier` is later, because the clocks of two cores may
    /// differ.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Ps> for Nanos {
    /// Picoseconds in whole nanoseconds, rounded down.
    fn from(ps: Ps) -> Self {
        Self(ps.0 / 1000)
    }
}

impl From<std::time::Duration> for Nanos {
    /// A duration beyond 584 years becomes the longest span.
    fn from(d: std::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Ps {
    /// A time beyond 213 days becomes [`Ps::NEVER`].
    fn from(ns: Nanos) -> Self {
        Self(ns.0.saturating_mul(1000))
    }
}

impl Ps {
    /// No time, and the time at which virtual time begins.
    pub const ZERO: Self = Self(0);
    /// Later than everything.
    pub const NEVER: Self = Self(u64::MAX);

    /// A span of `ns` nanoseconds, rounded; a negative one becomes 0.
    pub fn from_ns(ns: f64) -> Self {
        Self((ns * 1e3).round() as u64)
    }

    /// A span of `us` microseconds, rounded; a negative one becomes 0.
    pub fn from_us(us: f64) -> Self {
        Self::from_ns(us * 1e3)
    }

    /// A span of `s` seconds, rounded; a negative one becomes 0.
    pub fn from_s(s: f64) -> Self {
        Self((s * 1e12).round() as u64)
    }

    /// The time in nanoseconds.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The time in microseconds.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time in seconds.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

/// Preamble, start delimiter and the gap to the next frame, bytes (IEEE 802.3).
const WIRE_OVERHEAD: f64 = 20.0;

impl Bps {
    /// How long `bits` bits take at this rate.
    pub fn time_of(self, bits: f64) -> Ps {
        Ps::from_s(bits / self.0)
    }

    /// How long a link of this rate is busy with a frame of so many bytes, FCS included.
    pub fn wire_time(self, frame: u32) -> Ps {
        self.time_of((f64::from(frame) + WIRE_OVERHEAD) * 8.0)
    }

    /// How many such frames the link carries.
    pub fn line_rate(self, frame: u32) -> Pps {
        Pps(self.0 / ((f64::from(frame) + WIRE_OVERHEAD) * 8.0))
    }
}

impl Pps {
    /// The rate of `packets` packets in a `span`.
    pub fn of(packets: u64, span: Nanos) -> Self {
        Self(packets as f64 * 1e9 / span.0 as f64)
    }

    /// How many packets come in a span.
    pub fn packets_in(self, span: Nanos) -> f64 {
        self.0 * span.as_s()
    }
}

macro_rules! sums {
    ($unit:ty) => {
        impl Add for $unit {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $unit {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $unit {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl SubAssign for $unit {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
        impl Mul<u64> for $unit {
            type Output = Self;
            #[inline]
            fn mul(self, times: u64) -> Self {
                Self(self.0 * times)
            }
        }
        impl Sum for $unit {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                Self(all.map(|t| t.0).sum())
            }
        }
    };
}

sums!(Nanos);
sums!(Ps);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_inverse_to_each_other() {
        assert_eq!(Ps::from_ns(571.25), Ps(571_250));
        assert_eq!(Ps::from_us(2.5).as_ns(), 2500.0);
        assert_eq!(Ps::from_s(0.25).as_s(), 0.25);
        assert_eq!(Ps::from(Nanos(3)), Ps(3000));
        assert_eq!(Nanos::from_ms(2).as_s(), 0.002);
    }

    #[test]
    fn negative_spans_are_none_and_spans_backwards_too() {
        assert_eq!(Ps::from_ns(-1.0), Ps::ZERO);
        assert_eq!(Nanos(5).since(Nanos(7)), Nanos(0));
    }

    #[test]
    fn a_minimal_frame_at_10_gbit_takes_67_2_ns() {
        assert_eq!(Bps(10e9).wire_time(64), Ps::from_ns(67.2));
    }

    /// Low-latency-router V.A.4 and V.B.1.
    #[test]
    fn a_link_of_10_gbit_carries_14_88_mpps_of_64_bytes_and_8_45_of_128() {
        for (frame, mpps) in [(64, 14.88), (128, 8.45)] {
            let Pps(pps) = Bps(10e9).line_rate(frame);
            assert!((pps / 1e6 - mpps).abs() < 0.005, "{frame}: {pps}");
        }
    }
}
