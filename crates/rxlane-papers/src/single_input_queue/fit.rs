//! Costs of the paper's machine, from the rows that may set them.

use rxlane_policy::samples::Samples;
use rxlane_sim::SimError;

use crate::fit::{Parameter, Residual, parameter, residual, rows_of};
use crate::paper::Paper;

/// Two rows cannot set three costs: how long the other work takes at a time is assumed.
pub(crate) const OTHER_WORK_NS: f64 = 500_000.0;

pub(super) const PARAMETERS: &[Parameter] = &[
    parameter("cpu.packet_ns", 800.0, 80.0, 200.0, 4000.0),
    parameter("disturbance.per_second", 200.0, 40.0, 1.0, 2000.0),
];

pub(super) fn residuals(paper: &Paper, sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    let rows = rows_of(paper, "fig-4-10.toml", "default", &sets)?;
    let loads = Samples::new(rows.iter().flat_map(|r| r.loads.iter().copied()));
    // Loss of 1 % at 500 bytes: where a plot in per cent begins to show it.
    let at_500 = rows
        .iter()
        .find(|r| r.key("traffic.frame") == Some(492.0))
        .map_or(Ok(f64::NAN), |r| r.require("loss_ring"))?;
    Ok(vec![
        residual("SIQ-02", "P(core load < 10 %)", 0.12, loads.below(0.1)),
        residual("SIQ-05", "kernel loss at 500 bytes", 0.01, at_500),
    ])
}
