//! The kernel around the router: what there is, what would be better, and changing it so that it can be undone.

pub mod cpus;
pub mod interrupts;
pub mod inventory;
pub mod journal;
pub mod load;
pub mod machine;
pub mod measure;
pub mod plan;
pub mod watch;

mod apply;
mod knob;

pub use apply::{Left, Reverted, apply, revert};
pub use knob::Knob;
pub use machine::{Live, Machine, Recorded};
