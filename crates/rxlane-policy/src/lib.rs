//! The decisions of rxlane, and nothing else.
//!
//! Purpose: say which class a packet belongs to, whether a class is within its rate, which ring a core
//! polls next, how often a device may interrupt, and what latency bound a configuration implies.
//! Guarantee: no I/O, no clock, no threads, no unsafe; time and randomness are always arguments. Hosts
//! (the XDP lanes, the simulator) act on the answers.
//!
//! Terms, here and in all crates: RT is traffic that cannot wait and BE, best effort, everything else. SQ, RR, LL-RR and
//! LL-WFQ are the strategies of "Building a Low Latency Linux Software Router" (2016), III.C: one ring, a device a class, a
//! ring a class with equal budgets, and with budgets by priority. `b` is a ring budget in packets, `x` the time that a
//! packet takes, `rho` the share of a core's time that a class takes.
//!
//! A device whose RT ring, number 0, holds 10 packets, and whose BE ring holds 100: a classified RT packet waits for at
//! most 4 others. Classes and rings are numbered from the highest, here and everywhere.
//!
//! ```
//! use rxlane_policy::poll::{Order, QVector, Rounds, Step};
//!
//! let mut device = QVector::new(&[60, 4], 64, Order::LowestFirst, Rounds::UntilSpent)?;
//! let mut held = [10, 100];
//! let mut turns = Vec::new();
//! device.begin();
//! while let Step::Serve { ring, at_most } = device.next(|ring| held[ring] > 0) {
//!     let served = at_most.min(held[ring]);
//!     held[ring] -= served;
//!     device.served(served);
//!     turns.push((ring, served));
//! }
//! assert_eq!(turns[..2], [(1, 4), (0, 10)]);
//! assert_eq!(turns.iter().map(|(_, served)| served).sum::<u32>(), 64);
//! # Ok::<(), rxlane_policy::PolicyError>(())
//! ```

#![forbid(unsafe_code)]

pub mod bits;
pub mod bound;
pub mod buffers;
pub mod checksum;
pub mod class;
pub mod compile;
pub mod control;
pub mod dscp;
pub mod egress;
pub mod global;
pub mod headers;
pub mod hook;
pub mod overlap;
pub mod overload;
pub mod placement;
pub mod plan;
pub mod police;
pub mod poll;
mod port_ranges;
pub mod prefixes;
pub mod rate;
pub mod rule;
pub mod samples;
pub mod snaplen;
pub mod strategy;
pub mod throttle;
pub mod tunneled;
pub mod units;

mod error;

pub use error::PolicyError;
pub use units::{Bps, Nanos, Pps, Ps};
