//! "How Do Multiple Network Cards Influence the Software Router Performance?": its scenarios, fit, rows and figures.

mod claims;
mod figures;
mod fit;
mod rows;
mod wrong;

use crate::paper::Paper;
use crate::profile::{fitted, stated};

pub(crate) const PAPER: Paper = Paper {
    name: "multiple-nics",
    title: "How Do Multiple Network Cards Influence the Software Router Performance?",
    files: &[
        ("calibration.toml", include_str!("calibration.toml")),
        ("fig-4.toml", include_str!("fig-4.toml")),
        ("fig-5-6.toml", include_str!("fig-5-6.toml")),
        ("machine.toml", include_str!("machine.toml")),
        ("phases.toml", include_str!("phases.toml")),
    ],
    experiments: &["fig-4.toml", "fig-5-6.toml", "phases.toml"],
    rows: include_str!("rows.csv"),
    statements: include_str!("statements.csv"),
    parameters: fit::PARAMETERS,
    profile: &[
        stated("cpu.packet_ns", "VI.B: 940 ns"),
        stated("cpu.tx_clean_ns", "VI.B: 154 ns"),
        fitted(
            "cpu.isr_ns",
            "NIC-05, NIC-06; VI.B says 3400, which can only be cycles",
        ),
        fitted("interrupt.tx_delay_ns", "NIC-05, NIC-06"),
    ],
    residuals: fit::residuals,
    judge: rows::judge,
    claims: claims::judge,
    wrong: wrong::WRONG,
    fewer: &[
        (
            "fig-4.toml",
            "sweep={ \"traffic.pps\" = [0.1e6, 0.15e6, 0.2e6, 0.25e6, 0.3e6, 0.35e6, 0.4e6, 0.45e6, 0.5e6, 0.9e6, 0.95e6] }",
        ),
        (
            "fig-5-6.toml",
            "sweep={ \"traffic.pps\" = [0.1e6, 0.15e6, 0.2e6, 0.25e6, 0.3e6, 0.35e6, 0.4e6, 0.45e6, 0.5e6, 0.6e6, 0.8e6, 0.9e6, 1.0e6] }",
        ),
    ],
    figures: figures::draw,
};
