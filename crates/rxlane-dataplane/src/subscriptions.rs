//! What a router listens to.

use std::time::Instant;

use rxlane_system::changes::Changes;
use rxlane_system::{SystemError, links};

/// What a router has subscribed to since before it was started.
pub(crate) struct Subscriptions {
    pub(crate) links: links::Monitor,
    /// Until the sentry listens to them.
    pub(crate) changes: Option<Changes>,
    /// Whether ports could not be followed when there was news of devices.
    pub(crate) missed: bool,
    /// When it was looked at what surrounds the router, and whether that is due again.
    pub(crate) looked: Option<Instant>,
    pub(crate) due: bool,
}

impl Subscriptions {
    /// Subscribes in the current network namespace.
    ///
    /// # Errors
    /// When netlink fails.
    pub(crate) fn subscribe() -> Result<Self, SystemError> {
        Ok(Self {
            links: links::Monitor::new()?,
            changes: Some(Changes::subscribe()?),
            missed: false,
            looked: None,
            due: false,
        })
    }
}
