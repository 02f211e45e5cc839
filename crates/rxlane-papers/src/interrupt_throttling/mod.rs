//! "Optimizing Latency and CPU Load in Packet Processing Systems": its scenarios, fit, rows and figures.

mod claims;
mod figures;
mod fit;
mod rows;
mod wrong;

use crate::paper::Paper;
use crate::profile::fitted;

pub(crate) const PAPER: Paper = Paper {
    name: "interrupt-throttling",
    title: "Optimizing Latency and CPU Load in Packet Processing Systems",
    files: &[
        ("calibration.toml", include_str!("calibration.toml")),
        ("fig-3-8.toml", include_str!("fig-3-8.toml")),
        ("machine.toml", include_str!("machine.toml")),
    ],
    experiments: &["fig-3-8.toml"],
    rows: include_str!("rows.csv"),
    statements: include_str!("statements.csv"),
    parameters: fit::PARAMETERS,
    profile: &[
        fitted("cpu.packet_ns", "ITR-01"),
        fitted("cpu.isr_ns", "ITR-02"),
        fitted("nic.packet_buffer", "ITR-05"),
    ],
    residuals: fit::residuals,
    judge: rows::judge,
    claims: claims::judge,
    wrong: wrong::WRONG,
    fewer: &[("fig-3-8.toml", "seconds=0.2")],
    figures: figures::draw,
};
