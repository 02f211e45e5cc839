//! The lanes: packets on live interfaces, served by class.
//!
//! Purpose: attach the express datapath to ports, keep it there across reloads and crashes, and read
//! its counters. Guarantees: a reload replaces the program of a port in one step; a failed start leaves
//! nothing behind; a killed daemon leaves a working router, because everything is pinned.
//! The programs are `rxlane-bpf`'s, the engine is `rxlane-engine`'s; ARCHITECTURE.md draws the way of a packet.

mod attached;
mod bound;
mod bridge_fdb;
mod changeover;
mod clock;
pub mod cost;
mod device_over;
mod engine_status;
mod filters;
pub mod flows;
pub mod foreign;
mod gro_batch;
pub mod help;
pub mod instance;
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
mod vlans;

mod error;
mod export;
mod kept;
mod lanes;
mod link_queues;
mod ports;
mod pppoe;
mod private;
mod refusing;
mod rests;
mod sentry;
mod subscriptions;
mod tags;
mod tunnels;
mod xdp_health;

#[cfg(feature = "testing")]
pub mod testing;

pub use engine_status::EngineStatus;
pub use error::DataplaneError;
pub use named_vlans::NamedVlans;
