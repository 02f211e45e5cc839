//! How much may be under way: what all congestion controls decide from, and Reno.

use rxlane_policy::Ps;

use super::CongestionControl;
use super::acked::{Acked, FIRST_WINDOW, reduced};
use super::bbr::Bbr;
use super::cubic::Cubic;

/// A congestion control at work.
#[derive(Debug)]
pub(super) enum Window {
    Reno(Reno),
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

impl Window {
    pub(super) fn new(control: CongestionControl) -> Self {
        match control {
            CongestionControl::Reno => Self::Reno(Reno::default()),
            CongestionControl::Cubic => Self::Cubic(Cubic::default()),
            CongestionControl::Bbr => Self::Bbr(Box::default()),
        }
    }

    /// Packets that may be under way.
    pub(super) fn packets(&self) -> f64 {
        match self {
            Self::Reno(reno) => reno.window,
            Self::Cubic(cubic) => cubic.window,
            Self::Bbr(bbr) => bbr.window(),
        }
    }

    /// The time from a packet to the next, where packets are paced.
    pub(super) fn gap(&self) -> Option<Ps> {
        match self {
            Self::Reno(_) | Self::Cubic(_) => None,
            Self::Bbr(bbr) => bbr.gap(),
        }
    }

    /// Takes in an acknowledgement; `recovering` from a loss windows do not grow.
    pub(super) fn acked(&mut self, acked: &Acked, recovering: bool) {
        match self {
            Self::Bbr(bbr) => bbr.acked(acked),
            _ if recovering || acked.is_limited => {}
            Self::Reno(reno) => reno.acked(),
            Self::Cubic(cubic) => cubic.acked(acked),
        }
    }

    /// Packets were lost, or marked: once for all that was sent before that was known.
    pub(super) fn congested(&mut self, acked: &Acked, lost: bool) {
        match self {
            Self::Reno(reno) => reno.congested(),
            Self::Cubic(cubic) => cubic.congested(),
            Self::Bbr(bbr) if lost => bbr.lost(acked),
            Self::Bbr(_) => {}
        }
    }

    /// All that was under way is taken for lost.
    pub(super) fn timed_out(&mut self) {
        match self {
            Self::Reno(reno) => {
                reno.congested();
                reno.window = 1.0;
            }
            Self::Cubic(cubic) => {
                cubic.congested();
                cubic.window = 1.0;
            }
            Self::Bbr(bbr) => bbr.timed_out(),
        }
    }
}

/// RFC 5681.
#[derive(Debug)]
pub(super) struct Reno {
    window: f64,
    threshold: f64,
}

impl Default for Reno {
    fn default() -> Self {
        Self {
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
        }
    }
}

impl Reno {
    fn acked(&mut self) {
        self.window += match self.window < self.threshold {
            true => 1.0,
            false => 1.0 / self.window,
        };
    }

    fn congested(&mut self) {
        self.threshold = reduced(self.window, 0.5);
        self.window = self.threshold;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(now_us: f64, rtt_us: f64) -> Acked {
        Acked {
            now: Ps::from_us(now_us),
            rtt: Ps::from_us(rtt_us),
            begins_round: false,
            in_flight: 0,
            rate: 0.0,
            is_limited: false,
        }
    }

    /// Rounds of 100 ms, in each of which a whole window is acknowledged; returns the window after each.
    fn rounds(window: &mut Window, from_s: f64, n: usize) -> Vec<f64> {
        let round = |i: usize| {
            let packets = window.packets() as u32;
            for k in 0..packets {
                let at_us = from_s * 1e6 + (i as f64 + f64::from(k) / f64::from(packets)) * 1e5;
                window.acked(&acked(at_us, 1e5), false);
            }
            window.packets()
        };
        (0..n).map(round).collect()
    }

    #[test]
    fn slow_start_doubles_each_round_and_reno_then_adds_a_packet() {
        let mut reno = Window::new(CongestionControl::Reno);
        assert_eq!(rounds(&mut reno, 0.0, 3), [20.0, 40.0, 80.0]);
        reno.congested(&acked(3e5, 1e5), true);
        assert_eq!(reno.packets(), 40.0);
        let after = rounds(&mut reno, 0.3, 10);
        assert!((after[9] - 50.0).abs() < 0.5, "{after:?}");
        reno.timed_out();
        assert_eq!(reno.packets(), 1.0);
        assert_eq!(rounds(&mut reno, 1.3, 3), [2.0, 4.0, 8.0]);
    }

    /// RFC 9438: W(t) = C (t - K)^3 + W_max, K the cube root of W_max (1 - beta) / C.
    #[test]
    fn cubic_is_where_it_was_after_the_time_that_the_rfc_says() {
        let mut cubic = Window::new(CongestionControl::Cubic);
        rounds(&mut cubic, 0.0, 5);
        let most = cubic.packets();
        assert_eq!(most, 320.0);
        cubic.congested(&acked(5e5, 1e5), true);
        assert!((cubic.packets() - 0.7 * most).abs() < 1e-9);
        let k_s = (most * 0.3 / 0.4_f64).cbrt();
        let after = rounds(&mut cubic, 0.5, 90);
        let at = |s: f64| after[(s * 10.0) as usize];
        assert!(
            (at(k_s) / most - 1.0).abs() < 0.01,
            "{} at {k_s} s",
            at(k_s)
        );
        let half = most - 0.4 * (k_s / 2.0).powi(3);
        assert!(
            (at(k_s / 2.0) / half - 1.0).abs() < 0.02,
            "{}",
            at(k_s / 2.0)
        );
        assert!(after[89] > most + 5.0, "it looks for more: {}", after[89]);
    }

    #[test]
    fn a_window_that_the_receiver_limits_does_not_grow() {
        for control in [CongestionControl::Reno, CongestionControl::Cubic] {
            let mut window = Window::new(control);
            let limited = Acked {
                is_limited: true,
                ..acked(1.0, 1.0)
            };
            window.acked(&limited, false);
            window.acked(&acked(1.0, 1.0), true);
            assert_eq!(window.packets(), FIRST_WINDOW);
        }
    }
}
