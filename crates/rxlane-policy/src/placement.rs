//! Which core serves the receive softirq (single-input-queue III.B, step b): the least loaded one over a
//! window, with hysteresis so that two cores do not take turns.

use std::collections::VecDeque;

use crate::PolicyError;

/// Loads of all cores over the last samples, 0 to 1 each.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreLoads {
    window: usize,
    samples: VecDeque<Vec<f64>>,
}

/// A core and why it was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Number of the core.
    pub core: usize,
    /// Its mean load over the window, without the softirq that is being placed.
    pub load: f64,
}

impl CoreLoads {
    /// Remembers the last `window` samples.
    ///
    /// # Errors
    /// [`PolicyError::Placement`] for a window of 0.
    pub fn new(window: usize) -> Result<Self, PolicyError> {
        if window == 0 {
            return Err(PolicyError::Placement(
                "a window of 0 samples decides nothing: use at least 1",
            ));
        }
        Ok(Self {
            window,
            samples: VecDeque::with_capacity(window),
        })
    }

    /// Adds a sample: the load of each core by everything but the softirq that is being placed.
    pub fn add(&mut self, loads: Vec<f64>) {
        if self.samples.len() == self.window {
            self.samples.pop_front();
        }
        self.samples.push_back(loads);
    }

    /// Mean load of a core; `None` when some sample does not know it, as after hot-plugging.
    pub fn mean(&self, core: usize) -> Option<f64> {
        let loads: Option<Vec<f64>> = self.samples.iter().map(|s| s.get(core).copied()).collect();
        let loads = loads.filter(|l| !l.is_empty())?;
        Some(loads.iter().sum::<f64>() / loads.len() as f64)
    }

    /// The least loaded of the `allowed` cores, once the window is full. The `current` core stays unless
    /// another one is less loaded by more than `margin`.
    pub fn choose(&self, allowed: &[usize], current: Option<usize>, margin: f64) -> Option<Choice> {
        if self.samples.len() < self.window {
            return None;
        }
        let best = allowed
            .iter()
            .filter_map(|core| {
                Some(Choice {
                    core: *core,
                    load: self.mean(*core)?,
                })
            })
            .min_by(|a, b| a.load.total_cmp(&b.load))?;
        let kept = current
            .filter(|core| allowed.contains(core))
            .and_then(|core| {
                Some(Choice {
                    core,
                    load: self.mean(core)?,
                })
            })
            .filter(|kept| kept.load <= best.load + margin);
        Some(kept.unwrap_or(best))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(samples: &[&[f64]]) -> CoreLoads {
        let mut l = CoreLoads::new(2).unwrap();
        samples.iter().for_each(|s| l.add(s.to_vec()));
        l
    }

    #[test]
    fn the_least_loaded_core_over_the_window_is_chosen() {
        let l = loads(&[&[0.0, 0.9, 0.9], &[0.9, 0.1, 0.3], &[0.9, 0.1, 0.3]]);
        let choice = l.choose(&[0, 1, 2], None, 0.1).unwrap();
        assert_eq!((choice.core, choice.load), (1, 0.1));
        assert_eq!(l.choose(&[0, 2], None, 0.1).unwrap().core, 2);
    }

    #[test]
    fn nothing_is_chosen_before_the_window_is_full() {
        assert_eq!(loads(&[&[0.1, 0.2]]).choose(&[0, 1], None, 0.1), None);
        assert!(CoreLoads::new(0).is_err());
    }

    #[test]
    fn a_small_advantage_moves_nothing() {
        let l = loads(&[&[0.30, 0.25], &[0.30, 0.25]]);
        assert_eq!(l.choose(&[0, 1], Some(0), 0.1).unwrap().core, 0);
        assert_eq!(l.choose(&[0, 1], Some(0), 0.01).unwrap().core, 1);
        assert_eq!(l.choose(&[1], Some(0), 0.1).unwrap().core, 1);
    }
}
