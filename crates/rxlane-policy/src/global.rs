//! Strict priority over all devices of a core, which the papers do not have.
//!
//! RT is traffic that cannot wait. The papers' loop polls one device at a time, so an RT packet of another
//! device waits until that poll ends. Here the highest class that holds packets on any device goes first, and
//! its devices take turns. A lower class is served for one turn of its ring budget; then all classes are asked
//! again. A higher class that fills the core starves the lower ones: police it.

use crate::PolicyError;
use crate::poll::MAX_RINGS;

/// Which ring is served next, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Number of the device.
    pub device: usize,
    /// Number of the ring, 0 for the highest class.
    pub ring: usize,
    /// Packets to serve at most, never 0.
    pub at_most: u32,
}

/// The rings of all devices of a core, ordered by class first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobalPriority {
    ring_budgets: [u32; MAX_RINGS],
    rings: usize,
    devices: usize,
    /// For each ring, the device after the one that was served last.
    next: [usize; MAX_RINGS],
}

impl GlobalPriority {
    /// The order for `devices` devices with the same rings: one ring for each budget, highest class first.
    ///
    /// # Errors
    /// [`PolicyError::Budget`] without a ring or with more than [`MAX_RINGS`], and with a budget of 0.
    pub fn new(ring_budgets: &[u32], devices: usize) -> Result<Self, PolicyError> {
        if ring_budgets.is_empty() || ring_budgets.len() > MAX_RINGS {
            return Err(PolicyError::Budget(format!(
                "{} ring budgets: use 1 to {MAX_RINGS}",
                ring_budgets.len()
            )));
        }
        if ring_budgets.contains(&0) {
            return Err(PolicyError::Budget(
                "a budget of 0 would never serve a packet: use at least 1".into(),
            ));
        }
        let mut budgets = [0; MAX_RINGS];
        budgets[..ring_budgets.len()].copy_from_slice(ring_budgets);
        Ok(Self {
            ring_budgets: budgets,
            rings: ring_budgets.len(),
            devices,
            next: [0; MAX_RINGS],
        })
    }

    /// The next turn, given which rings hold packets; `None` when all are empty.
    #[inline]
    pub fn next(&mut self, holds: impl Fn(usize, usize) -> bool) -> Option<Turn> {
        for ring in 0..self.rings {
            for i in 0..self.devices {
                let mut device = self.next[ring] + i;
                if device >= self.devices {
                    device -= self.devices;
                }
                if holds(device, ring) {
                    self.next[ring] = if device + 1 == self.devices {
                        0
                    } else {
                        device + 1
                    };
                    return Some(Turn {
                        device,
                        ring,
                        at_most: self.ring_budgets[ring],
                    });
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_class_of_all_devices_goes_first_and_devices_take_turns() {
        let mut g = GlobalPriority::new(&[60, 4], 3).unwrap();
        let all = |_: usize, _: usize| true;
        let order: Vec<usize> = (0..4).map(|_| g.next(all).unwrap().device).collect();
        assert_eq!(order, [0, 1, 2, 0]);
        let be = g.next(|_, ring| ring == 1).unwrap();
        assert_eq!((be.ring, be.at_most), (1, 4));
        assert_eq!(g.next(|d, ring| ring == 1 || d == 2).unwrap().ring, 0);
        assert_eq!(g.next(|_, _| false), None);
    }

    proptest::proptest! {
        #[test]
        fn a_lower_class_is_served_only_while_the_higher_ones_are_empty(
            held in proptest::collection::vec(proptest::collection::vec(0u32..20, 3), 1..5),
        ) {
            let mut held = held;
            let mut g = GlobalPriority::new(&[9, 5, 2], held.len()).unwrap();
            let mut served = 0;
            let all: u32 = held.iter().flatten().sum();
            while let Some(turn) = g.next(|d, r| held[d][r] > 0) {
                proptest::prop_assert!(held.iter().all(|d| d[..turn.ring].iter().all(|n| *n == 0)));
                let n = turn.at_most.min(held[turn.device][turn.ring]);
                proptest::prop_assert!(n > 0);
                held[turn.device][turn.ring] -= n;
                served += n;
            }
            proptest::prop_assert_eq!(served, all);
        }
    }

    #[test]
    fn budgets_that_cannot_work_are_refused() {
        assert!(GlobalPriority::new(&[], 1).is_err());
        assert!(GlobalPriority::new(&[4, 0], 1).is_err());
    }
}
