//! Costs of the paper's machine, from the rows that may set them.

use rxlane_sim::SimError;

use crate::fit::{Parameter, Residual, at_loads, parameter, residual};
use crate::paper::Paper;

pub(super) const PARAMETERS: &[Parameter] = &[
    parameter("cpu.isr_ns", 16_000.0, 800.0, 1000.0, 60_000.0),
    parameter("cpu.packet_ns", 20_000.0, 800.0, 1000.0, 60_000.0),
];

pub(super) fn residuals(paper: &Paper, sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    // The line from 27 kpps down to 0 at 60 kpps, at its ends and in its middle.
    let rows = at_loads(paper, "plain", &[27e3, 43.5e3, 60e3], &sets, 5.0)?;
    Ok(vec![
        residual(
            "SOFT-02",
            "forwarded of 27 kpps",
            27e3,
            rows[0].require("throughput_pps")?,
        ),
        residual(
            "SOFT-01",
            "forwarded half-way to 60 kpps",
            13.5e3,
            rows[1].require("throughput_pps")?,
        ),
        residual(
            "SOFT-01",
            "forwarded of 60 kpps",
            0.0,
            rows[2].require("throughput_pps")?,
        ),
    ])
}
