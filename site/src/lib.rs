//! The planner page: what a router does, in a browser, while one moves its sliders.
//!
//! Purpose: answer "what if" at once, for somebody who has not installed anything. Guarantee: the numbers are those of
//! `rxlane-lab sim run`, bit by bit, because it is the same code with the same seeds and no arithmetic of the platform's.
//! Use: a [`Study`] is made of settings, steps through its replications, and has an answer after each; `page/` shows it.
//!
//! ```
//! let mut study = rxlane_site::Study::new("traffic.pps=600e3\nreplications=2\nseconds=0.01")?;
//! while study.step()? {}
//! assert_eq!(study.answer().done, 2);
//! # Ok::<(), rxlane_site::SiteError>(())
//! ```

#![forbid(unsafe_code)]

mod answer;
mod bound;
mod error;
mod settings;
mod study;

#[cfg(target_arch = "wasm32")]
mod browser;

pub use answer::{Answer, ClassAnswer};
pub use bound::{Bound, bound};
pub use error::SiteError;
pub use study::Study;
