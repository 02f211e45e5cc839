//! "How Do Multiple Network Cards Influence the Software Router Performance?": its scenarios, fit, rows and figures.

mod figures;
mod fit;
mod rows;
mod wrong;

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
    wrong: wrong::WRONG,
    fewer: &[
        (
            "fig-4.toml",
            "sweep={ \"traffic.pps\" = [0.1e6, 0.15e6, 0.2e6, 0.25e6, 0.3e6, 0.35e6, 0.4e6, 0.45e6, 0.5e6, 0.9e6, 0.95e6] }",
        ),
        (
            "fig-5-6.toml",
            "sweep={ \"traffic.pps\" = [0.1e6, 0.15e6, 0.2e6, 0.25e6, 0.3e6, 0.35e6, 0.4e6, 0.45e6, 0.5e6, 0.8e6, 0.9e6, 1.0e6] }",
        ),
    ],
    figures: figures::draw,
};
