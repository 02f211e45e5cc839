//! What a window answers to.

use rxlane_policy::Ps;

/// Packets that a connection begins with (RFC 6928).
pub(super) const FIRST_WINDOW: f64 = 10.0;
/// The least that goes on being sent.
const LEAST_WINDOW: f64 = 2.0;

/// What an acknowledgement tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acked {
    pub(super) now: Ps,
    /// Of the packet that it is for.
    pub(super) rtt: Ps,
    /// The first one of a round trip: all that was sent before the last such is acknowledged.
    pub(super) begins_round: bool,
    /// Packets under way, without that one.
    pub(super) in_flight: u32,
    /// Packets a second that were delivered while it was under way.
    pub(super) rate: f64,
    /// The receiver takes no more than is under way.
    pub(super) is_limited: bool,
}

/// A window after a loss, of which a share is left.
pub(super) fn reduced(window: f64, to: f64) -> f64 {
    (window * to).max(LEAST_WINDOW)
}
