//! "Building a Low Latency Linux Software Router": its scenarios, fit, rows and figures.

mod figures;
mod fit;
mod rows;

use crate::paper::Paper;

pub(crate) const PAPER: Paper = Paper {
    name: "low-latency-router",
    title: "Building a Low Latency Linux Software Router",
    files: &[
        ("calibration.toml", include_str!("calibration.toml")),
        ("fig-5a.toml", include_str!("fig-5a.toml")),
        ("fig-5b-6b-7b.toml", include_str!("fig-5b-6b-7b.toml")),
        ("fig-6a-7a.toml", include_str!("fig-6a-7a.toml")),
        ("grid.toml", include_str!("grid.toml")),
        ("machine.toml", include_str!("machine.toml")),
    ],
    experiments: &["fig-5a.toml", "fig-5b-6b-7b.toml", "fig-6a-7a.toml"],
    rows: include_str!("rows.csv"),
    parameters: fit::PARAMETERS,
    residuals: fit::residuals,
    judge: rows::judge,
    figures: figures::draw,
};
