//! Clocks. Times without a name are of CLOCK_MONOTONIC, which BPF programs and threads of this machine share.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use rxlane_system::stop;

/// Now, ns.
pub(crate) fn now_ns() -> u64 {
    ns_of(ClockId::CLOCK_MONOTONIC)
}

/// What a clock says, ns; 0 if it does not exist.
pub(crate) fn ns_of(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |t| {
        t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64
    })
}

/// Sleeps until this time, or until somebody interrupts the command.
pub(crate) fn sleep_until(at_ns: u64) -> Result<(), stop::Interrupted> {
    stop::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns())))
}
