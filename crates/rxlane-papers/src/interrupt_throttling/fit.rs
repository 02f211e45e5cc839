//! Costs of the paper's machine, from the rows that may set them.

use rxlane_sim::SimError;

use crate::fit::{Parameter, Residual, at_loads, parameter, residual};
use crate::paper::Paper;

pub(super) const PARAMETERS: &[Parameter] = &[
    parameter("cpu.packet_ns", 480.0, 16.0, 300.0, 700.0),
    parameter("cpu.isr_ns", 1500.0, 160.0, 200.0, 5000.0),
    parameter("nic.packet_buffer", 4096.0, 256.0, 0.0, 16_384.0),
];

pub(super) fn residuals(paper: &Paper, sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    let rows = at_loads(paper, "off", &[0.49e6, 2.5e6], &sets, 0.3)?;
    Ok(vec![
        residual(
            "ITR-01",
            "capacity, pps",
            2.1e6,
            rows[1].require("throughput_pps")?,
        ),
        residual(
            "ITR-02",
            "CPU just below 0.5 Mpps",
            0.98,
            rows[0].require("cpu")?,
        ),
        residual(
            "ITR-05",
            "mean latency under overload, us",
            2300.0,
            rows[1].require("latency_us.mean")?,
        ),
    ])
}
