//! "Beyond Softnet": its scenarios, fit, rows and figures.

mod figures;
mod fit;
mod rows;

use crate::paper::Paper;

pub(crate) const PAPER: Paper = Paper {
    name: "beyond-softnet",
    title: "Beyond Softnet",
    files: &[
        ("calibration.toml", include_str!("calibration.toml")),
        ("fig-4-6.toml", include_str!("fig-4-6.toml")),
        ("greedy.toml", include_str!("greedy.toml")),
        ("machine.toml", include_str!("machine.toml")),
        ("smp.toml", include_str!("smp.toml")),
    ],
    experiments: &["fig-4-6.toml", "greedy.toml", "smp.toml"],
    rows: include_str!("rows.csv"),
    parameters: fit::PARAMETERS,
    residuals: fit::residuals,
    judge: rows::judge,
    figures: figures::draw,
};
