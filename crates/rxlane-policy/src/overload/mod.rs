//! Overload control of a core that forwards RT packets in the poll and passes the others to the stack.
//!
//! All classes wait in one Rx ring, so an RT packet waits for whatever was passed before it, and is lost, unclassified,
//! when the ring is full. What can be decided is only how long packets of lower classes pass before the rest of the
//! ring is dropped. Promises, of which the model tests each (docs/src/explanation/overload-control.md): nothing is
//! dropped that the core would have had time for; RT is lost last; equal loads give equal throughput, whatever came
//! before; stack classes share by weight, flows of a class by hash.
//!
//! The rule: **a ring that was not empty for its limit passes nothing more until it is empty.** Every packet in it came
//! after it was last empty, so none has waited longer. At an overload of L the wait is T (1 - 1/L), so T is the
//! target times L / (L - 1), and without end where all that is asked for fits. L compares what all packets would have
//! taken, served in full polls, with the time there was. Nothing that a load can be trapped in is remembered: sums fade
//! within 4 ms, and they are only over what was seen between two moments at which the ring was empty.
//!
//! Integers only, bounded loops, unsigned division: the BPF side is to compute the same in lockstep. Calls come as the
//! kernel's events do: [`Core::poll_begins`] at a poll's first packet, [`Core::packet`] at each packet of a class that
//! may be dropped, [`Core::poll_ends`] at the tracepoint `napi_poll`. While the core is not guarded only the last is needed.
//! Sources: low-latency-router III.B and III.D (target, budget), Beyond Softnet 2.2 (early drop).

mod clock;
mod core;
mod demand;
mod numbers;
mod plan;
mod shares;

use crate::Nanos;

pub use clock::IDLE_MEMORY_NS;
pub use core::{Core, RINGS, longest_turn_ns, shortest_turn_ns};
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

/// The end of a poll, as the kernel's tracepoint `napi_poll` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollEnd {
    /// NAPI id of the ring.
    pub napi: u32,
    /// The wall clock.
    pub now: Nanos,
    /// Packets taken off the ring.
    pub work: u32,
    /// How many it might have taken.
    pub budget: u32,
    /// Whether packets of the highest class were among them.
    pub express: bool,
    /// Whether packets wait in rings of other cores: then the guard stays, so that no flow is reordered.
    pub held: bool,
}
