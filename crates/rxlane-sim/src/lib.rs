//! The receive path of a Linux router in virtual time.
//!
//! Purpose: say what happens to packets at a load, with these budgets, this throttling, so many NICs and
//! cores, before anyone buys or breaks anything. Guarantee: the decisions are those of `rxlane-policy`, the
//! same code as in the router; equal seeds give equal results; memory does not grow with simulated time.
//! Use: [`scenario::load`] reads what to simulate,
//! [`sweep::Sweep`] makes its points, [`run::run_sweep`] runs them, [`output::write`] writes the rows.

#![forbid(unsafe_code)]

pub mod congestion;
#[cfg(feature = "plots")]
pub mod distribution;
pub mod engine;
pub mod histogram;
pub mod outcome;
pub mod output;
pub mod ring;
pub mod run;
pub mod scenario;
pub mod stats;
pub mod sweep;
pub mod tally;
pub mod time;
pub mod traffic;

mod capture;
mod error;
mod lockstep;

pub use error::SimError;
