//! The lanes: packets on live interfaces, served by class.
//!
//! Purpose: attach the express datapath to ports, keep it there across reloads and crashes, and read
//! its counters. Guarantees: a reload replaces the program of a port in one step; a failed start leaves
//! nothing behind; a killed daemon leaves a working router, because everything is pinned.
//! The programs are in `bpf/`; ARCHITECTURE.md draws the way of a packet.

mod attach_points;
mod batches;
mod bound;
mod bridges;
mod changeover;
pub mod cost;
pub mod engine;
pub mod features;
pub mod foreign;
pub mod help;
mod hooks;
pub mod instance;
pub mod layout;
mod macvlans;
mod masters;
mod named_vlans;
pub mod options;
mod port_links;
pub mod port_names;
mod port_warnings;
pub mod queues;
mod refresh;
pub mod rehearsal;
pub mod router;
pub mod status;
pub mod surroundings;
pub mod trace;
pub mod undo;
pub mod verifier;
mod vlans;
mod watch;

mod error;
mod kept;
mod lanes;
mod link_queues;
mod pinned;
mod ports;
mod pppoe;
mod private;
mod qdiscs;
mod refusing;
mod rests;
mod sentry;
mod silent;
mod skeletons;
mod tags;
mod tunnels;
mod xsk;

#[cfg(feature = "testing")]
pub mod lockstep;
#[cfg(feature = "testing")]
pub mod testing;

pub use attach_points::unfit as unfit_vlan;
pub use error::DataplaneError;
pub use lanes::rings::possible_cores;
pub use named_vlans::NamedVlans;
pub use verifier::log_libbpf;

/// What the BPF programs in this crate are: the compiler, then name and SHA-256 of each object, separated by `;`.
pub const BPF: &str = env!("RXLANE_BPF");
