//! The lanes of the XDP program: its constants and tables, the rings of stack classes, the guard of each core,
//! the witness of what Linux forwards, the sessions of ppp devices, the entries of tunnels,
//! and what Linux is told of what it does not see.

pub(crate) mod asks;
pub(crate) mod constants;
pub(crate) mod fast;
pub(crate) mod flows;
pub(crate) mod gates;
pub(crate) mod guard;
pub(crate) mod latency;
pub(crate) mod next_hops;
pub(crate) mod overload;
pub(crate) mod polls;
pub(crate) mod program;
pub(crate) mod rings;
pub(crate) mod senders;
pub(crate) mod sessions;
pub(crate) mod tables;
pub(crate) mod trace;
pub(crate) mod tracker;
pub(crate) mod tunnels;
pub(crate) mod witness;
