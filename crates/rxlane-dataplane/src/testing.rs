//! Doors for tests: single packets through the program of a router, without a wire.

use rxlane_policy::class::{Aim, Lane, Overload, Ring, ThreadScheduling};

use crate::DataplaneError;
pub use crate::cost::TestRun;
use crate::cost::test_run;
use crate::layout::{ClassCounters, Core, REASONS};
use crate::pinned::get_percpu;
use crate::router::Router;

/// Counters of one port, summed over cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Counters of each class.
    pub classes: [ClassCounters; rxlane_policy::class::MAX_CLASSES],
    /// Packets left to the kernel, for each of `layout::REASONS`.
    pub reasons: [u64; REASONS.len()],
}

/// The stack lane as a configuration has it that says nothing of it, with a short ring.
pub fn stack_lane() -> Lane {
    Lane::Stack {
        ring: Ring {
            packets: 64,
            cores: Vec::new(),
            thread: ThreadScheduling::Nice(0),
        },
        overload: Overload::Auto,
        aim: Aim::Auto,
    }
}

/// Runs the router's program once on a frame received on `ifindex`; 0 stands for loopback.
///
/// # Errors
/// When the kernel refuses the test run, for instance because the frame is shorter than 14 bytes.
pub fn run(router: &Router, frame: &[u8], ifindex: u32) -> Result<TestRun, std::io::Error> {
    test_run(router.program(), frame, ifindex, 1).map(|(outcome, _)| outcome)
}

/// Reads the counters of a port.
///
/// # Errors
/// When the map cannot be read.
pub fn counts(router: &Router, slot: u8) -> Result<Counts, DataplaneError> {
    let mut sum = Counts {
        classes: Default::default(),
        reasons: [0; REASONS.len()],
    };
    for core in get_percpu::<Core>(router.cores(), u32::from(slot))? {
        for (to, from) in sum.classes.iter_mut().zip(core.classes.0) {
            *to += from;
        }
        for (to, from) in sum.reasons.iter_mut().zip(core.reasons) {
            *to += from;
        }
    }
    Ok(sum)
}
