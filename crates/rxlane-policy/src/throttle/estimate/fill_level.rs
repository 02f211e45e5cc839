//! The interval from how many packets wait in the ring (interrupt-throttling VI).

use serde::{Deserialize, Serialize};

use super::Steered;
use crate::{Nanos, PolicyError};

/// How many packets an interrupt shall find.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FillLevelGoal {
    /// Packets in the mean, those that come while the others are served included.
    pub packets: u32,
    /// Fewest interrupts a second.
    pub r_min: f64,
    /// Most interrupts a second.
    pub r_max: f64,
}

impl Default for FillLevelGoal {
    /// Half of a device budget; the limits are those of the linear law.
    fn default() -> Self {
        Self {
            packets: 32,
            r_min: 8_000.0,
            r_max: 100_000.0,
        }
    }
}

/// Lengthens the interval while polls find fewer packets than are wanted, and shortens it while they find more.
#[derive(Debug, Clone, PartialEq)]
pub struct FillLevel {
    wanted: f64,
    interval: Steered,
    packets: u32,
}

impl FillLevel {
    /// Starts with the most interrupts.
    ///
    /// # Errors
    /// [`PolicyError::Throttling`] unless packets are wanted, and `0 < r_min <= r_max`.
    pub fn new(goal: FillLevelGoal) -> Result<Self, PolicyError> {
        if goal.packets == 0 {
            return Err(PolicyError::Throttling(
                "the fill level needs packets of at least 1",
            ));
        }
        Ok(Self {
            wanted: f64::from(goal.packets),
            interval: Steered::new(goal.r_min, goal.r_max)?,
            packets: 0,
        })
    }

    pub(super) fn packet(&mut self) {
        self.packets += 1;
    }

    pub(super) fn update(&mut self) -> Nanos {
        if self.packets > 0 {
            self.interval
                .steer(self.wanted, f64::from(self.packets), 1.0);
        }
        self.packets = 0;
        self.interval.interval()
    }
}
