//! Costs of the paper's machine, from the rows that may set them.

use rxlane_sim::SimError;

use crate::fit::{Parameter, Residual, at_loads, parameter, residual};
use crate::paper::Paper;

/// The handler's cost is assumed (machine.toml): rows of SQ tell only its sum with waking up.
pub(super) const PARAMETERS: &[Parameter] = &[
    parameter("cpu.packet_ns", 571.0, 8.0, 400.0, 700.0),
    parameter("cpu.wake_ns", 2000.0, 400.0, 0.0, 8000.0),
    parameter("cpu.class_ns", 16.0, 16.0, 0.0, 200.0),
    parameter("nic.fixed_latency_us", 7.0, 1.0, 0.0, 12.0),
];

pub(super) fn residuals(paper: &Paper, mut sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    sets.push("traffic.rt_ratio=0.3".into());
    let sq = at_loads(paper, "SQ", &[1.5e6, 1.7e6, 2.0e6], &sets, 1.0)?;
    let ll = at_loads(paper, "LL-RR", &[2.0e6], &sets, 1.0)?;
    let capacity = sq[2].require("throughput_pps")?;
    Ok(vec![
        residual("LL-01", "capacity of SQ, pps", 1.75e6, capacity),
        residual("LL-07", "the same, as load at 100 % CPU", 1.7e6, capacity),
        residual(
            "LL-07",
            "capacity of LL-RR, pps",
            1.7e6,
            ll[0].require("throughput_pps")?,
        ),
        residual(
            "LL-10",
            "IRQ/s of SQ at 1.5 Mpps",
            32_000.0,
            sq[0].require("irq_per_s")?,
        ),
        residual(
            "LL-15",
            "IRQ/s of SQ at 1.7 Mpps",
            0.0,
            sq[1].require("irq_per_s")?,
        ),
        residual(
            "LL-18",
            "mean latency of SQ at 1.5 Mpps, us",
            11.7,
            sq[0].require("latency_us.mean")?,
        ),
    ])
}
