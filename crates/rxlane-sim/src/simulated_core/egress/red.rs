//! Random Early Detection (S. Floyd, V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions
//! on Networking 1993): drops begin before the queue is full, the likelier the longer it is in the mean.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::scenario::RedKeys;

/// The averaged queue, and the chance that decides.
#[derive(Debug)]
pub(super) struct Red {
    keys: RedKeys,
    average: f64,
    /// Packets since the last one that was dropped, while the average is between the thresholds.
    since: Option<f64>,
    rng: Pcg64Mcg,
}

impl Red {
    pub(super) fn new(keys: RedKeys, seed: u64) -> Self {
        Self {
            keys,
            average: 0.0,
            since: None,
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Whether a packet is let in that finds so many waiting. `idle` is how many packets the link could have sent since it
    /// had none: the average falls as if it had been looked at for each of them.
    pub(super) fn admits(&mut self, waiting: usize, idle: f64) -> bool {
        let RedKeys {
            min,
            max,
            probability,
            weight,
        } = self.keys;
        self.average *= libm::pow(1.0 - weight, idle);
        self.average += weight * (waiting as f64 - self.average);
        if self.average < min {
            self.since = None;
            return true;
        }
        if self.average >= max {
            self.since = Some(0.0);
            return false;
        }
        // The chance grows with each packet let in, so that drops are spread evenly.
        let since = self.since.map_or(0.0, |n| n + 1.0);
        let chance = probability * (self.average - min) / (max - min);
        let now = chance / (1.0 - since * chance).max(chance);
        let dropped = self.rng.random::<f64>() < now;
        self.since = Some(if dropped { 0.0 } else { since });
        !dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red() -> Red {
        let keys = RedKeys {
            weight: 1.0,
            ..RedKeys::default()
        };
        Red::new(keys, 1)
    }

    #[test]
    fn nothing_is_dropped_below_and_everything_above_the_thresholds() {
        let mut red = red();
        let let_in =
            |red: &mut Red, waiting| (0..1000).filter(|_| red.admits(waiting, 0.0)).count();
        assert_eq!(let_in(&mut red, 29), 1000);
        assert_eq!(let_in(&mut red, 90), 0);
        // Halfway the chance is 0.05, which spread evenly drops one of 1 to 20 packets: 10.5 in the mean.
        let dropped = 1000 - let_in(&mut red, 60);
        assert!((80..110).contains(&dropped), "{dropped}");
    }

    #[test]
    fn the_average_follows_slowly_and_falls_while_the_link_is_idle() {
        let mut red = Red::new(RedKeys::default(), 1);
        for _ in 0..100 {
            assert!(red.admits(100, 0.0), "a burst is let in");
        }
        assert!((red.average - 100.0 * (1.0 - 0.998f64.powi(100))).abs() < 1e-9);
        red.admits(0, 10_000.0);
        assert!(red.average < 1e-6);
    }
}
