//! The receive path of a Linux router in virtual time.
//!
//! Purpose: say what happens to packets at a given load, with given budgets, throttling, NICs and cores,
//! before anyone buys or breaks anything. Guarantee: the decisions are those of `rxlane-policy`, the same
//! code as in the router; equal seeds give equal results; memory does not grow with simulated time.
//! Use: [`scenario::load`] reads what to simulate,
//! [`sweep::Sweep`] makes its points, [`run::run_sweep`] runs them, [`output::write`] writes the rows.
//!
//! A core that takes 571 ns for a packet serves 1.75 million a second of the two million that it is offered:
//!
//! ```
//! use rxlane_sim::outcome::simulate;
//! use rxlane_sim::scenario::parse;
//!
//! let text = "seconds = 0.01\n[traffic]\npps = 2e6\n[cpu]\npacket_ns = 571";
//! let scenario = parse(text, "router.toml".as_ref(), &[])?.scenario;
//! let outcome = simulate(&scenario, 0)?;
//! let (_, pps) = outcome.metrics.iter().find(|(name, _)| name == "throughput_pps").expect("a metric");
//! assert!((pps / 1.75e6 - 1.0).abs() < 0.02, "{pps}");
//! # Ok::<(), rxlane_sim::SimError>(())
//! ```
//!
//! Sources: the five papers, against which `rxlane-papers` checks the simulator, and queueing theory (M/D/1, M/G/1),
//! against which its own tests check it.

#![forbid(unsafe_code)]

pub mod capture;
pub mod congestion;
pub mod custom;
pub mod descent;
#[cfg(feature = "plots")]
pub mod distribution;
pub mod histogram;
pub mod outcome;
pub mod output;
pub mod ring;
pub mod run;
pub mod scenario;
pub mod simulated_core;
pub mod stop;
pub mod sweep;
pub mod tally;
pub mod tcp;
pub mod traffic;

mod error;
mod exponential;
mod lockstep;
mod student;

pub use error::SimError;
