//! What to measure, of which devices, under which traffic.

use crate::dut::Dut;
use crate::hog::Hog;
use crate::lab::LabConfig;
use crate::traffic::Traffic;
use crate::wire::RealPorts;

/// How much to offer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Offered {
    /// Packets a second.
    Pps(f64),
    /// A multiple of what the kernel forwards without loss.
    TimesKernel(f64),
}

impl std::str::FromStr for Offered {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "`{text}` is no rate: use packets a second (500000, 500k, 1.2M) or a multiple of the kernel's capacity (2x)"
            )
        };
        let (number, make): (&str, fn(f64) -> Self) = match text.strip_suffix('x') {
            Some(times) => (times, Self::TimesKernel),
            None => (text, Self::Pps),
        };
        let (number, unit) = match number.strip_suffix(['k', 'M']) {
            Some(n) if number.ends_with('k') => (n, 1e3),
            Some(n) => (n, 1e6),
            None => (number, 1.0),
        };
        let value: f64 = number.parse().map_err(|_| bad())?;
        if value.is_finite() && value > 0.0 {
            Ok(make(value * unit))
        } else {
            Err(bad())
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The lab to build.
    pub lab: LabConfig,
    /// Real ports instead of a lab; then there is one device, which is only named.
    pub ports: Option<RealPorts>,
    /// What takes its part of the lab's router core.
    pub hog: Option<Hog>,
    /// Bulk TCP connections beside the packets; only [`crate::bench::latency`] and [`crate::bench::sweep`] say what they brought.
    pub tcp: u32,
    /// What was offered.
    pub traffic: Traffic,
    /// Devices under test; they alternate, and ratios are to the first.
    pub duts: Vec<Dut>,
    /// Length of a trial.
    pub seconds: f64,
    /// Repetitions; results are medians.
    pub repeat: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_multiples_are_read() {
        assert_eq!("2x".parse(), Ok(Offered::TimesKernel(2.0)));
        assert_eq!("250k".parse(), Ok(Offered::Pps(250_000.0)));
        assert_eq!("1.5M".parse(), Ok(Offered::Pps(1_500_000.0)));
        for bad in ["", "x", "-1", "0", "nanx", "5G"] {
            assert!(bad.parse::<Offered>().is_err(), "{bad}");
        }
    }
}
