//! The lanes: packets on live interfaces, served by class.
//!
//! Purpose: attach the express datapath to ports, keep it there across reloads and crashes, and read
//! its counters. Guarantees: a reload replaces the program of a port in one step; a failed start leaves
//! nothing behind; a killed daemon leaves a working router, because everything is pinned.
//! The programs are in `bpf/`; ARCHITECTURE.md draws the way of a packet.

pub mod afxdp;
pub mod config;
pub mod engine_status;
pub mod features;
pub mod instance;
pub mod layout;
pub mod router;
pub mod status;

mod error;
mod lane;
mod pinned;
mod rings;
mod tables;
mod watch;

#[doc(hidden)]
pub mod testing;

pub use error::DataplaneError;
pub use pinned::create_link;

/// Sends libbpf's messages to the log: they are many lines, and matter only to whoever debugs.
pub fn log_libbpf() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, |level, text| {
        let text = text.trim_end();
        match level {
            libbpf_rs::PrintLevel::Debug => tracing::trace!("{text}"),
            _ => tracing::debug!("{text}"),
        }
    })));
}
