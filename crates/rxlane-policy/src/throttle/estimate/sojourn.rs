//! The interval from the time that packets wait in the ring (interrupt-throttling VI).

use serde::{Deserialize, Serialize};

use super::Steered;
use crate::{Nanos, PolicyError};

/// How long packets shall wait.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SojournGoal {
    /// From arrival until the core takes them, in the mean, us.
    pub target_us: f64,
    /// Fewest interrupts a second.
    pub r_min: f64,
    /// Most interrupts a second.
    pub r_max: f64,
}

impl Default for SojournGoal {
    /// The limits are those of the linear law.
    fn default() -> Self {
        Self {
            target_us: 10.0,
            r_min: 8_000.0,
            r_max: 100_000.0,
        }
    }
}

/// Lengthens the interval while packets wait for less than is wanted, and shortens it while they wait for longer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sojourn {
    target_ns: f64,
    interval: Steered,
    waited_ns: u64,
    packets: u64,
}

impl Sojourn {
    /// Starts with the most interrupts.
    ///
    /// # Errors
    /// [`PolicyError::Throttling`] unless the target is positive, and `0 < r_min <= r_max`.
    pub fn new(goal: SojournGoal) -> Result<Self, PolicyError> {
        if !(goal.target_us > 0.0 && goal.target_us.is_finite()) {
            return Err(PolicyError::Throttling(
                "the time that packets wait needs target_us > 0",
            ));
        }
        Ok(Self {
            target_ns: goal.target_us * 1e3,
            interval: Steered::new(goal.r_min, goal.r_max)?,
            waited_ns: 0,
            packets: 0,
        })
    }

    pub(super) fn packet(&mut self, waited: Nanos) {
        self.waited_ns += waited.0;
        self.packets += 1;
    }

    pub(super) fn update(&mut self) -> Nanos {
        if self.packets > 0 {
            let (waited, packets) = (self.waited_ns as f64, self.packets as f64);
            self.interval.steer(self.target_ns, waited, packets);
        }
        self.waited_ns = 0;
        self.packets = 0;
        self.interval.interval()
    }
}
