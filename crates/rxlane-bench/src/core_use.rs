//! Core utilisation from the run time of the threads that do the work.
//!
//! The kernel accounts a thread's run time in ns at every switch; tick-sampled counters showed 10 % on a
//! saturated core. A thread that soaks up idle time is no alternative: it wakes the scheduler's fair
//! server, which then takes 50 ms a second from saturated NAPI threads.

use std::time::Instant;

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rxlane_system::threads;

/// A measurement of one core.
pub(crate) struct CoreUse {
    clocks: Vec<(ClockId, f64)>,
    since: Instant,
}

fn seconds(clock: ClockId) -> f64 {
    clock_gettime(clock).map_or(0.0, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
}

impl CoreUse {
    /// Begins to measure: the NAPI threads given, and the rings' threads of `core`.
    pub(crate) fn start(napi: &[i32], core: usize) -> Self {
        let ring = format!("cpumap/{core}/");
        let clocks = napi
            .iter()
            .copied()
            .chain(threads::find(|name| name.starts_with(&ring)))
            .filter_map(|thread| clock_getcpuclockid(Pid::from_raw(thread)).ok())
            .map(|clock| (clock, seconds(clock)))
            .collect();
        Self {
            clocks,
            since: Instant::now(),
        }
    }

    /// Share of the core in use since then, 0 to 1.
    pub(crate) fn utilisation(&self) -> f64 {
        let used: f64 = self
            .clocks
            .iter()
            .map(|(clock, before)| seconds(*clock) - before)
            .sum();
        (used / self.since.elapsed().as_secs_f64()).clamp(0.0, 1.0)
    }
}
