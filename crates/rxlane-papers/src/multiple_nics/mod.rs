//! "How Do Multiple Network Cards Influence the Software Router Performance?": its scenarios, fit, rows and figures.

mod figures;
mod fit;
mod rows;

use crate::paper::Paper;

pub(crate) const PAPER: Paper = Paper {
    name: "multiple-nics",
    title: "How Do Multiple Network Cards Influence the Software Router Performance?",
    files: &[
        ("calibration.toml", include_str!("calibration.toml")),
        ("fig-4.toml", include_str!("fig-4.toml")),
        ("fig-5-6.toml", include_str!("fig-5-6.toml")),
        ("machine.toml", include_str!("machine.toml")),
    ],
    experiments: &["fig-4.toml", "fig-5-6.toml"],
    rows: include_str!("rows.csv"),
    parameters: fit::PARAMETERS,
    residuals: fit::residuals,
    judge: rows::judge,
    figures: figures::draw,
};
