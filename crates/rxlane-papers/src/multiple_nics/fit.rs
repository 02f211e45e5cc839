//! Costs of the paper's machine, from the rows that may set them.

use rxlane_sim::SimError;

use crate::fit::{Parameter, Residual, at_loads, parameter, residual};
use crate::paper::Paper;

pub(super) const PARAMETERS: &[Parameter] = &[
    parameter("cpu.isr_ns", 1700.0, 160.0, 200.0, 5000.0),
    parameter("interrupt.tx_delay_ns", 3000.0, 1600.0, 100.0, 10_000.0),
];

pub(super) fn residuals(paper: &Paper, sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    let rows = at_loads(paper, "2 NICs", &[0.3e6, 1.0e6], &sets, 2.0)?;
    Ok(vec![
        residual(
            "NIC-01",
            "capacity, pps",
            0.9e6,
            rows[1].require("throughput_pps")?,
        ),
        residual(
            "NIC-05",
            "IRQ/s at 0.3 Mpps",
            270_000.0,
            rows[0].require("irq_per_s")?,
        ),
        residual("NIC-06", "CPU at 0.3 Mpps", 0.79, rows[0].require("cpu")?),
    ])
}
