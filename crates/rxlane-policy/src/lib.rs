//! The decisions of rxlane, and nothing else.
//!
//! Purpose: say which class a packet belongs to, whether a class is within its rate, and what
//! latency bound a configuration implies. Guarantee: no I/O, no clock, no threads, no unsafe; time is
//! always an argument. Hosts (the XDP lanes, the bench, later the simulator) act on the answers.

#![forbid(unsafe_code)]

pub mod bits;
pub mod bound;
pub mod class;
pub mod compile;
pub mod dscp;
pub mod headers;
pub mod overlap;
pub mod police;
pub mod rule;

mod error;

pub use error::PolicyError;
