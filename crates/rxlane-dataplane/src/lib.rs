//! The lanes: packets on live interfaces, served by class.
//!
//! Purpose: attach the express datapath to ports, keep it there across reloads and crashes, and read
//! its counters. Guarantees: a reload replaces the program of a port in one step; a failed start leaves
//! nothing behind; a killed daemon leaves a working router, because everything is pinned.
//! The programs are in `bpf/`; ARCHITECTURE.md draws the way of a packet.

mod attached;
mod batches;
mod bound;
mod bridges;
mod changeover;
mod clock;
pub mod cost;
mod cpus;
mod device_over;
pub mod engine;
pub mod features;
mod filters;
pub mod foreign;
pub mod help;
pub mod instance;
pub mod layout;
mod lock;
mod macvlans;
mod named_vlans;
pub mod options;
pub mod orphans;
mod port;
mod port_links;
pub mod port_names;
mod port_table;
mod port_warnings;
pub mod queues;
pub mod rehearsal;
mod requirements;
pub mod router;
pub mod state;
pub mod status;
pub mod surroundings;
pub mod trace;
pub mod undo;
pub mod verifier;
mod vlans;

mod error;
mod kept;
mod lanes;
mod link_queues;
mod pinned;
mod ports;
mod pppoe;
mod private;
mod refusing;
mod rests;
mod sentry;
mod silent;
mod skeletons;
mod subscriptions;
mod tags;
mod tunnels;
mod xsk;

#[cfg(feature = "testing")]
pub mod lockstep;
#[cfg(feature = "testing")]
pub mod testing;

pub use cpus::possible_cores;
pub use error::DataplaneError;
pub use named_vlans::NamedVlans;
pub use verifier::log_libbpf;

/// What the BPF programs in this crate are: the compiler, then name and SHA-256 of each object, separated by `;`.
pub const BPF: &str = env!("RXLANE_BPF");
