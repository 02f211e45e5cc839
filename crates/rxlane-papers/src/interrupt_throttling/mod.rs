//! "Optimizing Latency and CPU Load in Packet Processing Systems": its scenarios, fit, rows and figures.

mod figures;
mod fit;
mod rows;
mod wrong;

use crate::paper::Paper;

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
    parameters: fit::PARAMETERS,
    residuals: fit::residuals,
    judge: rows::judge,
    wrong: wrong::WRONG,
    fewer: &[],
    figures: figures::draw,
};
