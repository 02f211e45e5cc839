//! A reload that is undone unless somebody confirms it: who has cut himself off with it cannot undo it himself.
//!
//! What it goes back to is the last configuration that was confirmed, or that came without such a condition. It is part of
//! the router's state, so that a daemon that takes the router over goes on waiting. A reboot forgets it, as everything in /run.

use std::time::Duration;

use rxlane_config::RouterConfig;
use rxlane_policy::Nanos;
use serde::{Deserialize, Serialize};

use crate::clock::monotonic;
use crate::options::Options;

/// What a client wants of the daemon, which it tells with SIGHUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// To read the configuration again.
    Reload {
        /// To undo that, unless it is confirmed within so many seconds.
        undo_after_s: Option<u32>,
    },
    /// To keep what waits to be confirmed.
    Confirm,
    /// To undo it now.
    Undo,
}

/// What an unconfirmed reload goes back to, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unconfirmed {
    /// The configuration before.
    pub config: RouterConfig,
    /// And how it was run.
    pub options: Options,
    /// Where metrics were shown, as the file says it.
    pub metrics: Option<String>,
    /// When, CLOCK_MONOTONIC.
    pub(crate) until_ns: u64,
}

impl Unconfirmed {
    /// How long it may still be confirmed.
    #[must_use]
    pub fn left(&self) -> Duration {
        Duration::from_nanos(Nanos(self.until_ns).since(monotonic()).0)
    }
}
