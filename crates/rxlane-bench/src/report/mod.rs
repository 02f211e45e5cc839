//! Results as tables and pages.

mod call;
mod html;
mod regret;
mod rrul;
mod steps;
mod table;

pub use self::regret::Worst;
