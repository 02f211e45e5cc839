//! The points that there are.

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::frame::Frame;
use crate::lab::Firewall;
use crate::results::DutResult;

/// What is varied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Firewalls of the router.
    pub firewalls: Vec<Firewall>,
    /// Frame sizes.
    pub frames: Vec<Frame>,
    /// Shares of RT packets, 0 to 1.
    pub rt_ratios: Vec<f64>,
    /// Multiples of what the kernel forwards without loss, in ascending order.
    pub loads: Vec<f64>,
}

/// One load, firewall, frame size and share of RT.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Point {
    /// Firewall of the router.
    pub firewall: Firewall,
    /// Frame size.
    pub frame: Frame,
    /// Share of RT packets.
    pub rt_ratio: f64,
    /// Multiple of the kernel's capacity.
    pub load: f64,
    /// What the kernel forwards without loss behind this firewall, packets a second.
    pub capacity_pps: f64,
    /// Whether the generator, not the kernel, set that limit.
    pub capacity_limited: bool,
    /// Rate asked for, packets a second.
    pub offered_pps: f64,
    /// False when the generator cannot offer that; then no device was measured.
    pub valid: bool,
    /// Repetitions behind each median.
    pub rounds: u32,
    /// The devices, in the order of `--dut`.
    pub duts: Vec<DutResult>,
}

/// One firewall, frame size and share of RT: the loads are measured in one lab.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) firewall: Firewall,
    pub(super) frame: Frame,
    pub(super) rt_ratio: f64,
}

impl Row {
    pub(super) fn holds(&self, p: &Point) -> bool {
        p.firewall == self.firewall && p.frame == self.frame && p.rt_ratio == self.rt_ratio
    }
}

impl Matrix {
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.firewalls.iter().flat_map(move |firewall| {
            self.frames.iter().flat_map(move |frame| {
                self.rt_ratios.iter().map(move |rt_ratio| Row {
                    firewall: *firewall,
                    frame: *frame,
                    rt_ratio: *rt_ratio,
                })
            })
        })
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        let ascending = self.loads.windows(2).all(|w| w[0] < w[1]);
        let some = !self.firewalls.is_empty() && !self.frames.is_empty();
        if !some || self.rt_ratios.is_empty() || self.loads.is_empty() || !ascending {
            return Err(BenchError::Parameter(
                "give at least one firewall, frame, RT ratio and load, and loads in ascending order"
                    .into(),
            ));
        }
        Ok(())
    }
}
