//! A hog: what takes a fixed part of the router's core from whatever router is on it, as a thread of higher
//! priority, an interrupt storm or a hypervisor does.
//!
//! Guarantee: it is the same for all devices under test, and what it got is measured, not what it asked for. A period
//! that it slept through as a whole is not made up for. A kernel that does not preempt itself lets it wait for the end of a poll;
//! it takes what is due then. Waking it by a timer costs the core some us more, which are nobody's.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use rxlane_system::SystemError;
use serde::Serialize;

use crate::clock::{now_ns, ns_of};
use crate::occupant::Occupant;

/// Above the NAPI threads of a lab, which have 50, and below the kernel's own threads of priority 99.
pub const FIFO_PRIORITY: i32 = 60;

/// Shorter periods are mostly timer interrupts, longer ones are outages.
const PERIODS_US: std::ops::RangeInclusive<f64> = 20.0..=100_000.0;
/// Something must be left for the kernel's own threads.
const LARGEST_SHARE: f64 = 0.95;

/// How much of a core is taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Hog {
    /// What it takes of each period.
    takes_us: f64,
    /// The period.
    every_us: f64,
}

impl Hog {
    /// Share of the core that it asks for, 0 to 1.
    pub fn share(self) -> f64 {
        self.takes_us / self.every_us
    }

    /// A thread that takes it while it works.
    pub(crate) fn start(self, core: usize) -> Result<Occupant, SystemError> {
        Occupant::start(core, FIFO_PRIORITY, move |working| self.take(working))
    }

    fn take(self, working: &AtomicBool) {
        let ns = |us: f64| (us * 1e3) as u64;
        let (takes, every) = (ns(self.takes_us), ns(self.every_us));
        // By its own CPU time, not by the clock on the wall: on a virtual machine sleeping and waking cost it 30 us of
        // each period, and they are part of what it takes.
        let had_ns = || ns_of(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let (mut due, mut had) = (now_ns(), had_ns());
        while working.load(Ordering::Relaxed) {
            while had_ns() < had + takes {
                std::hint::spin_loop();
            }
            had = had_ns();
            due = next_due(due, now_ns(), every);
            let at = TimeSpec::new((due / 1_000_000_000) as _, (due % 1_000_000_000) as _);
            let _ = clock_nanosleep(
                ClockId::CLOCK_MONOTONIC,
                ClockNanosleepFlags::TIMER_ABSTIME,
                &at,
            );
        }
    }
}

/// The next period, of which at most a part has passed.
fn next_due(due: u64, now: u64, every: u64) -> u64 {
    let next = due + every;
    next + now.saturating_sub(next) / every * every
}

impl std::fmt::Display for Hog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}us", self.takes_us, self.every_us)
    }
}

impl FromStr for Hog {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = [("us", 1.0), ("ms", 1e3)].iter().find_map(|(name, us)| {
            let (takes, every) = text.strip_suffix(name)?.split_once('/')?;
            let us = |n: &str| n.parse().ok().map(|n: f64| n * us);
            Some((us(takes)?, us(every)?))
        });
        let Some((takes_us, every_us)) = parsed else {
            return Err(format!(
                "`{text}` is no hog: write what it takes of every period, as 60/100us or 0.6/1ms"
            ));
        };
        if !PERIODS_US.contains(&every_us) {
            return Err(format!("`{text}`: use periods of 20 us to 100 ms"));
        }
        if !(takes_us > 0.0 && takes_us <= LARGEST_SHARE * every_us) {
            return Err(format!(
                "`{text}`: use more than 0 and at most {} % of the period",
                LARGEST_SHARE * 100.0
            ));
        }
        Ok(Self { takes_us, every_us })
    }
}

#[cfg(test)]
mod tests {
    use super::{Hog, next_due};

    #[test]
    fn hogs_are_read_as_they_are_printed() {
        for text in ["60/100us", "12.5/50us", "20/1000us"] {
            let hog: Hog = text.parse().unwrap();
            assert_eq!(hog.to_string(), text);
        }
        assert_eq!("0.6/1ms".parse::<Hog>(), "600/1000us".parse());
        for wrong in [
            "",
            "60",
            "60/100",
            "/us",
            "0/100us",
            "96/100us",
            "-1/100us",
            "nan/100us",
            "5/10us",
            "1/200ms",
            "inf/100us",
        ] {
            assert!(wrong.parse::<Hog>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_late_hog_keeps_its_grid_and_makes_up_for_no_whole_period() {
        assert_eq!(next_due(0, 60, 100), 100, "in time");
        assert_eq!(next_due(0, 160, 100), 100, "late by a part: at once");
        assert_eq!(next_due(0, 250, 100), 200, "a whole period is lost");
        assert_eq!(next_due(0, 1_234, 100), 1_200);
    }
}
