//! BBR, the first version (N. Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 2016, and
//! draft-cardwell-iccrg-bbr-congestion-control-00): at the rate that the path delivers, with two of its products of rate and delay under way.

use std::collections::VecDeque;

use rxlane_policy::Ps;

use super::acked::{Acked, FIRST_WINDOW};

/// Doubles the rate each round.
const STARTUP_GAIN: f64 = 2.885;
/// Ends startup when the rate has not grown by a quarter in so many rounds.
const GROWTH: f64 = 1.25;
const ROUNDS_WITHOUT: u32 = 3;
const WINDOW_GAIN: f64 = 2.0;
/// One round faster, one slower, six as delivered.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The rate is the greatest of so many rounds, the delay the least of so long.
const RATE_ROUNDS: u64 = 10;
const DELAY_LASTS: Ps = Ps(10_000_000_000_000);
/// To see the delay, so few packets are under way for so long.
const LEAST_WINDOW: f64 = 4.0;
const PROBE_TAKES: Ps = Ps(200_000_000_000);
/// Linux paces at a hundredth less.
const MARGIN: f64 = 0.99;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeRate {
        phase: usize,
        since: Ps,
    },
    /// Until when; not known before so few are under way.
    ProbeDelay {
        until: Option<Ps>,
    },
}

#[derive(Debug)]
pub(super) struct Bbr {
    state: State,
    round: u64,
    /// Greatest rates by round, falling.
    rates: VecDeque<(u64, f64)>,
    least_rtt: Ps,
    least_seen: Ps,
    full_rate: f64,
    rounds_without_growth: u32,
    /// After a loss: what may be under way until the next round.
    saves: Option<f64>,
}

impl Default for Bbr {
    fn default() -> Self {
        Self {
            state: State::Startup,
            round: 0,
            rates: VecDeque::new(),
            least_rtt: Ps::NEVER,
            least_seen: Ps::ZERO,
            full_rate: 0.0,
            rounds_without_growth: 0,
            saves: None,
        }
    }
}

impl Bbr {
    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    /// Packets that fill the path without waiting anywhere.
    fn product(&self) -> Option<f64> {
        (self.least_rtt != Ps::NEVER).then(|| self.rate() * self.least_rtt.as_s())
    }

    pub(super) fn window(&self) -> f64 {
        let gain = match self.state {
            State::Startup | State::Drain => STARTUP_GAIN,
            State::ProbeRate { .. } => WINDOW_GAIN,
            State::ProbeDelay { .. } => return LEAST_WINDOW,
        };
        let window = match self.product() {
            // Three more, so that what is sent or acknowledged in lots does not starve it.
            Some(product) => (gain * product + 3.0).max(LEAST_WINDOW),
            None => FIRST_WINDOW,
        };
        window.min(self.saves.unwrap_or(f64::INFINITY))
    }

    pub(super) fn gap(&self) -> Option<Ps> {
        let gain = match self.state {
            State::Startup => STARTUP_GAIN,
            State::Drain => 1.0 / STARTUP_GAIN,
            State::ProbeRate { phase, .. } => CYCLE[phase],
            State::ProbeDelay { .. } => 1.0,
        };
        let rate = gain * self.rate() * MARGIN;
        (rate > 0.0).then(|| Ps::from_s(1.0 / rate))
    }

    pub(super) fn acked(&mut self, acked: &Acked) {
        if acked.begins_round {
            self.round += 1;
            self.saves = None;
        }
        self.see_rate(acked);
        let is_old = acked.now - self.least_seen.min(acked.now) > DELAY_LASTS;
        if acked.rtt <= self.least_rtt || is_old {
            self.least_rtt = acked.rtt;
            self.least_seen = acked.now;
        }
        match self.state {
            State::Startup => self.look_for_growth(acked),
            State::Drain => {
                if f64::from(acked.in_flight) <= self.product().unwrap_or(0.0) {
                    self.probe_rate(acked.now);
                }
            }
            State::ProbeRate { phase, since } => self.go_round(phase, since, acked),
            State::ProbeDelay { until: None } => {
                if f64::from(acked.in_flight) <= LEAST_WINDOW {
                    self.least_rtt = acked.rtt;
                    self.state = State::ProbeDelay {
                        until: Some(acked.now + PROBE_TAKES),
                    };
                }
            }
            State::ProbeDelay { until: Some(until) } => {
                if acked.now >= until {
                    self.least_seen = acked.now;
                    self.probe_rate(acked.now);
                }
            }
        }
        if is_old && !matches!(self.state, State::ProbeDelay { .. }) {
            self.state = State::ProbeDelay { until: None };
        }
    }

    fn see_rate(&mut self, acked: &Acked) {
        if acked.is_limited && acked.rate < self.rate() {
            return;
        }
        self.rates
            .retain(|(round, _)| round + RATE_ROUNDS > self.round);
        while self
            .rates
            .back()
            .is_some_and(|(_, rate)| *rate <= acked.rate)
        {
            self.rates.pop_back();
        }
        self.rates.push_back((self.round, acked.rate));
    }

    fn look_for_growth(&mut self, acked: &Acked) {
        if !acked.begins_round {
            return;
        }
        if self.rate() >= self.full_rate * GROWTH {
            self.full_rate = self.rate();
            self.rounds_without_growth = 0;
            return;
        }
        self.rounds_without_growth += 1;
        if self.rounds_without_growth >= ROUNDS_WITHOUT {
            self.state = State::Drain;
        }
    }

    fn probe_rate(&mut self, now: Ps) {
        self.state = State::ProbeRate {
            phase: 2,
            since: now,
        };
    }

    /// A phase takes a least round trip; the faster one goes on until more is under way, the slower one ends when no more waits.
    fn go_round(&mut self, phase: usize, since: Ps, acked: &Acked) {
        let product = self.product().unwrap_or(0.0);
        let in_flight = f64::from(acked.in_flight);
        let is_over = acked.now - since > self.least_rtt;
        let ends = match phase {
            0 => is_over && (in_flight >= CYCLE[0] * product || self.saves.is_some()),
            1 => is_over || in_flight <= product,
            _ => is_over,
        };
        if ends {
            self.state = State::ProbeRate {
                phase: (phase + 1) % CYCLE.len(),
                since: acked.now,
            };
        }
    }

    /// For a round, no more is sent than arrives.
    pub(super) fn lost(&mut self, acked: &Acked) {
        self.saves = Some(f64::from(acked.in_flight + 1).max(LEAST_WINDOW));
    }

    pub(super) fn timed_out(&mut self) {
        self.saves = Some(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that delivers a packet each ms after 50 ms, in which what else is under way waits.
    #[test]
    fn it_finds_the_rate_and_the_delay_of_a_path() {
        let mut bbr = Bbr::default();
        let (mut round_ends_ms, mut in_flight) = (0u64, FIRST_WINDOW);
        let mut waits = Vec::new();
        for now_ms in 1..8000u64 {
            let delivered = (in_flight / 50.0).min(1.0);
            in_flight -= delivered;
            let rtt_ms = in_flight.max(50.0);
            let begins_round = now_ms >= round_ends_ms;
            if begins_round {
                round_ends_ms = now_ms + rtt_ms as u64;
            }
            bbr.acked(&Acked {
                now: Ps(now_ms * 1_000_000_000),
                rtt: Ps::from_us(rtt_ms * 1e3),
                begins_round,
                in_flight: in_flight as u32,
                rate: 1000.0 * delivered,
                is_limited: false,
            });
            let paced = bbr.gap().map_or(f64::INFINITY, |gap| 1e-3 / gap.as_s());
            in_flight += paced.min((bbr.window() - in_flight).max(0.0));
            waits.push(rtt_ms - 50.0);
        }
        assert!((bbr.rate() - 1000.0).abs() < 1.0, "{}", bbr.rate());
        assert!((bbr.window() - 103.0).abs() < 2.0, "{}", bbr.window());
        // Startup has let a product of rate and delay wait, or two.
        assert!(waits[..2000].iter().any(|ms| *ms > 40.0));
        let mean: f64 = waits[4000..].iter().sum::<f64>() / 3999.0;
        assert!(mean < 15.0, "{mean} ms");
    }
}
