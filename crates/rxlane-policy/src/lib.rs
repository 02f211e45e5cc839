//! The decisions of rxlane, and nothing else.
//!
//! Purpose: say which class a packet belongs to, whether a class is within its rate, which ring a core
//! polls next, how often a device may interrupt, and what latency bound a configuration implies.
//! Guarantee: no I/O, no clock, no threads, no unsafe; time and randomness are always arguments. Hosts
//! (the XDP lanes, the simulator) act on the answers.

#![forbid(unsafe_code)]

pub mod bits;
pub mod bound;
pub mod buffers;
pub mod class;
pub mod compile;
pub mod dscp;
pub mod global;
pub mod headers;
pub mod overlap;
pub mod placement;
pub mod plan;
pub mod police;
pub mod poll;
pub mod rule;
pub mod throttle;

mod error;

pub use error::PolicyError;
