//! Cubic (RFC 9438), with HyStart's end of slow start by delay, as Linux has it.

use rxlane_policy::Ps;

use super::acked::{Acked, FIRST_WINDOW, reduced};

/// What is left of the window after a loss.
const BETA: f64 = 0.7;
/// Packets for each second to the third.
const C: f64 = 0.4;
/// So many packets a round as Reno would add, for what is left of its window (RFC 9438, 4.3).
const RENO_ADDS: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// HyStart (net/ipv4/tcp_cubic.c): from what window on, by what increase of the delay, seen on so many packets of a round.
const HYSTART_WINDOW: f64 = 16.0;
const HYSTART_LEAST: Ps = Ps(4_000_000_000);
const HYSTART_MOST: Ps = Ps(16_000_000_000);
const HYSTART_SAMPLES: u32 = 8;
/// Acknowledgements no further apart than this are one train; one that is longer than half of the delay fills the path.
const HYSTART_APART: Ps = Ps(2_000_000_000);
/// What a sender may hold back to send at once: four of its largest buffers, 64 KiB in full frames, at most so long.
const HELD_BACK: f64 = 4.0 * 65_536.0 / 1448.0;
const HELD_BACK_MOST: Ps = Ps(1_000_000_000);

#[derive(Debug)]
pub(super) struct Cubic {
    pub(super) window: f64,
    threshold: f64,
    /// Where the window was at the last loss.
    most: f64,
    /// When it began to grow after that, how long until it is there again, and what Reno's would be.
    epoch: Option<Epoch>,
    least_rtt: Ps,
    round: Round,
}

/// What slow start goes by in a round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    begun: Ps,
    /// The last acknowledgement of its train.
    train: Ps,
    /// The least of so many.
    least_rtt: Option<Ps>,
    samples: u32,
}

#[derive(Debug, Clone, Copy)]
struct Epoch {
    begun: Ps,
    until_most_s: f64,
    origin: f64,
    reno: f64,
}

impl Default for Cubic {
    fn default() -> Self {
        Self {
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            most: 0.0,
            epoch: None,
            least_rtt: Ps::NEVER,
            round: Round::default(),
        }
    }
}

impl Cubic {
    pub(super) fn acked(&mut self, acked: &Acked) {
        self.least_rtt = self.least_rtt.min(acked.rtt);
        if self.window < self.threshold {
            self.window += 1.0;
            return self.look_at_delay(acked);
        }
        let window = self.window;
        let most = self.most;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            begun: acked.now,
            until_most_s: libm::cbrt((most - window).max(0.0) / C),
            origin: most.max(window),
            reno: window,
        });
        epoch.reno += RENO_ADDS / window;
        let t = (acked.now - epoch.begun + self.least_rtt).as_s() - epoch.until_most_s;
        let target = (epoch.origin + C * t * t * t)
            .max(epoch.reno)
            .min(1.5 * window);
        // At least a packet in a hundred round trips, as Linux.
        self.window += ((target - window) / window).max(0.01 / window);
    }

    /// Slow start ends when a train of acknowledgements is as long as the path, or packets wait.
    fn look_at_delay(&mut self, acked: &Acked) {
        if acked.begins_round {
            self.round = Round {
                begun: acked.now,
                train: acked.now,
                ..Round::default()
            };
        }
        if self.window < HYSTART_WINDOW {
            return;
        }
        let round = &mut self.round;
        let mut is_found = false;
        if acked.now - round.train <= HYSTART_APART {
            round.train = acked.now;
            // At the rate of slow start, two windows a round trip.
            let held_back = Ps((HELD_BACK * acked.rtt.0 as f64 / (2.0 * self.window)) as u64);
            let path = self.least_rtt + held_back.min(HELD_BACK_MOST);
            is_found = acked.now - round.begun > Ps(path.0 / 2);
        }
        let least = round.least_rtt.map_or(acked.rtt, |rtt| rtt.min(acked.rtt));
        if round.samples < HYSTART_SAMPLES {
            round.least_rtt = Some(least);
            round.samples += 1;
        } else {
            let more = Ps(self.least_rtt.0 / 8).clamp(HYSTART_LEAST, HYSTART_MOST);
            is_found |= round.least_rtt > Some(self.least_rtt + more);
        }
        if is_found {
            self.threshold = self.window;
        }
    }

    pub(super) fn congested(&mut self) {
        // Who has lost before he was there again leaves room to others.
        self.most = match self.window < self.most {
            true => self.window * (1.0 + BETA) / 2.0,
            false => self.window,
        };
        self.window = reduced(self.window, BETA);
        self.threshold = self.window;
        self.epoch = None;
    }
}
