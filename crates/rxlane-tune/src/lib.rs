//! Tunes the kernel around a router: takes stock of it, plans what would be better and why, changes it so that every
//! change can be undone, and follows the traffic afterwards.
//!
//! [`inventory`] reads; [`plan`] decides, with the formulas of `rxlane-policy`; [`apply`] and [`revert`] change, through
//! the [`journal`], where every old value is on disk before its new one is written; [`watch`] does the same again and
//! again. A [`Machine`] is where all of this happens: this one ([`Live`]), or a tree of files that another one has left
//! ([`Recorded`]), which is how plans for hardware that nobody has at hand are tested.
//!
//! Guarantee: after [`apply`] everything is as planned or as before, also when the machine was interrupted, once
//! [`revert`] has run.

pub mod confirm;
pub mod cpus;
pub mod interrupts;
pub mod inventory;
pub mod journal;
pub mod load;
pub mod machine;
pub mod management;
pub mod measure;
pub mod plan;
pub mod record_tables;
pub mod watch;

mod apply;
mod error;
mod knob;
mod value;

pub use apply::{Left, Reverted, apply, revert};
pub use error::TuneError;
pub use knob::Knob;
pub use machine::{Live, Machine, Recorded};
pub use value::Value;
