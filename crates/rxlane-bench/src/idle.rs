//! Core utilisation by what is left over: a thread below everything that matters soaks up the idle time.
//!
//! Tick-sampled counters showed 10 % on a saturated core. The soaking thread also keeps a virtual core
//! from halting, as `idle=poll` does on a real one: a halted virtual core takes 50 us to wake, which
//! would otherwise be most of every latency. It is there for every device under test. It runs as
//! SCHED_FIFO at priority 1, below the NAPI threads: a SCHED_IDLE thread would wake the scheduler's fair
//! server, which takes 50 ms a second from saturated NAPI threads. Where the core is to halt, as in
//! production, the time in which the router's threads ran is what is in use.

use std::sync::atomic::{AtomicBool, Ordering};

use rxlane_system::SystemError;

use crate::occupant::Occupant;

/// Below everything else that is SCHED_FIFO.
const PRIORITY: i32 = 1;

/// A thread that soaks up one core's idle time while it works.
pub(crate) fn idle_meter(core: usize) -> Result<Occupant, SystemError> {
    Occupant::start(core, PRIORITY, |working: &AtomicBool| {
        while working.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    })
}
