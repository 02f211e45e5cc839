//! Cubic (RFC 9438), with HyStart's end of slow start by delay, as Linux has it.

use rxlane_policy::Ps;

use super::window::{Acked, FIRST_WINDOW, reduced};

/// What is left of the window after a loss.
const BETA: f64 = 0.7;
/// Packets for each second to the third.
const C: f64 = 0.4;
/// So many packets a round as Reno would add, for what is left of its window (RFC 9438, 4.3).
const RENO_ADDS: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// HyStart: from what window on, by what increase of the delay, seen on so many packets of a round.
const HYSTART_WINDOW: f64 = 16.0;
const HYSTART_LEAST: Ps = Ps(4_000_000_000);
const HYSTART_MOST: Ps = Ps(16_000_000_000);
const HYSTART_SAMPLES: u32 = 8;

#[derive(Debug)]
pub(super) struct Cubic {
    pub(super) window: f64,
    threshold: f64,
    /// Where the window was at the last loss.
    most: f64,
    /// When it began to grow after that, how long until it is there again, and what Reno's would be.
    epoch: Option<Epoch>,
    least_rtt: Ps,
    /// The least of this round, of so many packets.
    of_round: (Ps, u32),
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
            of_round: (Ps::NEVER, 0),
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

    /// Slow start ends when packets wait.
    fn look_at_delay(&mut self, acked: &Acked) {
        if acked.begins_round {
            self.of_round = (Ps::NEVER, 0);
        }
        let (least, samples) = &mut self.of_round;
        *least = (*least).min(acked.rtt);
        *samples += 1;
        let more = Ps(self.least_rtt.0 / 8).clamp(HYSTART_LEAST, HYSTART_MOST);
        if self.window >= HYSTART_WINDOW
            && *samples >= HYSTART_SAMPLES
            && *least > self.least_rtt + more
        {
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
