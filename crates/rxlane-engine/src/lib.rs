//! The engine in user space: per-class Rx rings with exact budgets on AF_XDP.
//!
//! The XDP program puts each packet on the ring of its class; workers poll the rings as `rxlane-policy` says and
//! forward with mirrors of the kernel's routes and neighbours. What they cannot forward goes to the kernel,
//! as if it had just been received.

mod assemble;
mod candidates;
mod control;
mod counters;
mod error;
mod follow;
mod forward;
mod groups;
mod header;
#[cfg(any(test, feature = "testing"))]
mod in_memory;
mod look_ahead;
mod mirror;
mod neighbours;
mod nexthops;
mod programs;
mod reason;
mod ring_map;
mod settings;
mod signals;
mod worker;
mod xsk;

pub use control::{Engine, Maps};
pub use counters::{WORKER_BYTES, create_map, read as read_worker};
pub use programs::Programs;
pub use ring_map::RingMap;
pub use settings::WantedPorts;

pub use counters::WorkerCounters;
pub use error::EngineError;
pub use forward::{Forwarder, Port, Ports, Verdict};
pub use groups::{Group, GroupNumber};
#[cfg(any(test, feature = "testing"))]
pub use in_memory::InMemory;
pub use look_ahead::When;
pub use mirror::{Decision, Mirror, RouteReader};
pub use neighbours::{NeighbourReader, Neighbours};
pub use reason::Reason;
pub use xsk::socket::SocketError;
