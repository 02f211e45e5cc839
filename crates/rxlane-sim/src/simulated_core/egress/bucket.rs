//! A token bucket: a rate in the long run, and bursts above it.

use rxlane_policy::Ps;

/// Tokens are bytes that may be sent.
#[derive(Debug)]
pub(super) struct TokenBucket {
    bytes_per_ps: f64,
    burst: f64,
    tokens: f64,
    /// When there were so many.
    at: Ps,
}

impl TokenBucket {
    /// A full one.
    pub(super) fn new(rate_bps: f64, burst: u32) -> Self {
        Self {
            bytes_per_ps: rate_bps / 8e12,
            burst: f64::from(burst),
            tokens: f64::from(burst),
            at: Ps::ZERO,
        }
    }

    /// When a frame may be sent, at `from` or later.
    pub(super) fn ready(&self, from: Ps, frame: u32) -> Ps {
        let missing = f64::from(frame) - self.tokens;
        if missing <= 0.0 {
            return from;
        }
        from.max(self.at + Ps((missing / self.bytes_per_ps).ceil() as u64))
    }

    /// A frame is sent at a time at which it may be.
    pub(super) fn take(&mut self, at: Ps, frame: u32) {
        let came = (at - self.at).0 as f64 * self.bytes_per_ps;
        self.tokens = (self.tokens + came).min(self.burst) - f64::from(frame);
        self.at = at;
    }
}
