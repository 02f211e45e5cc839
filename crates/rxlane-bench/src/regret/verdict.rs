//! A device beside another one.

use serde::Serialize;

use crate::results::DutResult;

/// A device beside the first one, at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Regret {
    /// Ratio of packets forwarded.
    pub forwarded: f64,
    /// Ratio of the 99th percentiles of RT latency; `None` without RT.
    pub rt_p99: Option<f64>,
    /// The same of BE.
    pub be_p99: Option<f64>,
    /// Share of RT packets lost by this device, without those that were sent while the machine stalled, 0 to 1.
    pub rt_loss: f64,
}

/// At least this is to be forwarded of what the first device forwards.
pub const FORWARDED: f64 = 0.97;
/// At most this may the 99th percentile be of the first device's as long as that is not overloaded,
pub const P99_BELOW: f64 = 1.1;
/// and of RT at most this when it is.
pub const RT_P99_ABOVE: f64 = 1.0 / 8.0;

impl Regret {
    /// Of `dut`, compared with `first`.
    pub fn of(dut: &DutResult, first: &DutResult) -> Self {
        let p99 = |class: usize| {
            let (a, b) = (
                dut.classes[class].latency_us.p99,
                first.classes[class].latency_us.p99,
            );
            (a > 0.0 && b > 0.0).then_some(a / b)
        };
        let rt = &dut.classes[0];
        Self {
            forwarded: dut.forwarded_pps / first.forwarded_pps,
            rt_p99: p99(0),
            be_p99: p99(1),
            rt_loss: if rt.sent > 0.0 {
                rt.lost_unstalled / rt.sent
            } else {
                0.0
            },
        }
    }

    /// Whether nothing is worse than wanted at this multiple of the capacity.
    pub fn is_none(&self, load: f64) -> bool {
        let rt = if load < 1.0 { P99_BELOW } else { RT_P99_ABOVE };
        self.forwarded >= FORWARDED
            && self.rt_p99.is_none_or(|r| r <= rt)
            && (load >= 1.0 || self.be_p99.is_none_or(|r| r <= P99_BELOW))
            && self.rt_loss == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_and_above_the_capacity_other_latencies_are_wanted() {
        let r = Regret {
            forwarded: 0.98,
            rt_p99: Some(1.05),
            be_p99: Some(1.0),
            rt_loss: 0.0,
        };
        assert!(r.is_none(0.5));
        assert!(!r.is_none(2.0));
        let slow = Regret {
            be_p99: Some(1.2),
            ..r
        };
        assert!(!slow.is_none(0.5));
    }
}
