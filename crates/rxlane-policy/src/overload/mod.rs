//! Overload control of a core that forwards RT packets in the poll and passes the others to the stack.
//!
//! All classes wait in one Rx ring, so an RT packet waits for whatever was passed before it, and is lost, unclassified,
//! when the ring is full. What can be decided is only how long packets of lower classes pass before the rest of the
//! ring is dropped. Promises, of which the model tests each (docs/src/explanation/overload-control.md): nothing is
//! dropped that the core would have had time for; RT is lost last; equal loads give equal throughput, whatever came
//! before; stack classes share by weight, flows of a class by hash.
//!
//! The rule: **what has waited for more than half of the target is not passed, nor is anything once a poll has passed for the target.**
//! How long a packet has waited is told from how fast packets came between two moments at which the ring was empty
//! (`arrivals.rs`). So that what is told stays true, a ring that was not empty for a *turn* passes nothing more until it is; turns are as long as
//! what is found then was expected. At an overload of L the wait is T (1 - 1/L), so T is the
//! target times L / (L - 1) and more where nearly all that is asked for fits. L compares what all packets would have
//! taken, served in full polls, with the time there was. Nothing that a load can be trapped in is remembered: sums fade
//! within 4 ms, and they are only over what was seen between two moments at which the ring was empty.
//!
//! Integers only, bounded loops, unsigned division: the BPF side is to compute the same in lockstep. Calls come as the
//! kernel's events do: [`Core::poll_begins`] at a poll's first packet, [`Core::packet`] at each packet of a class that
//! may be dropped, [`Core::poll_ends`] at the tracepoint `napi_poll`. While the core is not guarded only the last is needed. Hosts
//! should not let a guarded core sleep between two packets of an overload.
//! Sources: low-latency-router III.B and III.D (target, budget), Beyond Softnet 2.2 (early drop).

mod arrivals;
mod clock;
mod core;
mod demand;
mod entry;
mod limits;
mod numbers;
mod park;
mod plan;
mod shares;

use crate::Nanos;

pub use clock::IDLE_MEMORY_NS;
pub use core::{Core, RINGS};
pub use limits::first_turn_ns;
pub use park::Park;
pub use plan::{GuardedClass, Plan, Service};
pub use shares::FLOW_BUCKETS;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Serve it.
    Pass,
    /// Drop it before anything is spent on it.
    Drop,
}

/// A reading of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// The wall clock.
    pub now: Nanos,
    /// How much of the time since the poll began others had, as far as the host knows: threads that the scheduler preferred.
    pub others: Nanos,
}

impl From<Nanos> for Moment {
    fn from(now: Nanos) -> Self {
        Self {
            now,
            others: Nanos(0),
        }
    }
}

/// What a core did between two polls of its rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gap {
    /// So long it had nothing to do, nor had anybody else. Too large a value loses RT, too small a one only BE.
    pub idle: Nanos,
    /// So long it worked on packets that earlier polls had passed, in polls of the kernel's own. Not a part of what others had.
    pub deferred: Nanos,
}

impl From<Nanos> for Gap {
    fn from(idle: Nanos) -> Self {
        Self {
            idle,
            deferred: Nanos(0),
        }
    }
}

/// The end of a poll, as the kernel's tracepoint `napi_poll` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollEnd {
    /// NAPI id of the ring.
    pub napi: u32,
    /// When it ended.
    pub at: Moment,
    /// What the driver says that it has done: less than the budget if the ring is empty. Some say more than they received.
    pub work: u32,
    /// Packets taken off the ring.
    pub packets: u32,
    /// How many it might have taken.
    pub budget: u32,
    /// Whether packets of the highest class were among them.
    pub express: bool,
    /// Whether packets wait in rings, of this core or others: then the guard stays, so that no flow is reordered.
    pub held: bool,
}
