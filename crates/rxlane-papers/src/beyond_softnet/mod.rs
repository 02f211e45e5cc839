//! "Beyond Softnet": its scenarios, fit, rows and figures.

mod claims;
mod figures;
mod fit;
mod rows;
mod wrong;

use crate::paper::Paper;
use crate::profile::{assumed, fitted};

pub(crate) const PAPER: Paper = Paper {
    name: "beyond-softnet",
    title: "Beyond Softnet",
    files: &[
        ("calibration.toml", include_str!("calibration.toml")),
        ("fig-4-6.toml", include_str!("fig-4-6.toml")),
        ("greedy.toml", include_str!("greedy.toml")),
        ("machine.toml", include_str!("machine.toml")),
        ("nics.toml", include_str!("nics.toml")),
        ("rings.toml", include_str!("rings.toml")),
        ("smp-load.toml", include_str!("smp-load.toml")),
        ("smp.toml", include_str!("smp.toml")),
    ],
    experiments: &[
        "fig-4-6.toml",
        "greedy.toml",
        "nics.toml",
        "rings.toml",
        "smp.toml",
        "smp-load.toml",
    ],
    rows: include_str!("rows.csv"),
    statements: include_str!("statements.csv"),
    parameters: fit::PARAMETERS,
    profile: &[
        fitted("cpu.isr_ns", "SOFT-01"),
        fitted("cpu.packet_ns", "SOFT-01, SOFT-02"),
        assumed(
            "nic.descriptors",
            "no row gives it; SOFT-05 and SOFT-06 are judged with three",
        ),
        assumed(
            "reception.backlog",
            "netdev_max_backlog of kernels of that time",
        ),
    ],
    residuals: fit::residuals,
    judge: rows::judge,
    claims: claims::judge,
    wrong: wrong::WRONG,
    fewer: &[(
        "fig-4-6.toml",
        "sweep={ \"traffic.pps\" = [5e3, 20e3, 24e3, 27e3, 30e3, 40e3, 45e3, 50e3, 55e3, 60e3, 80e3, 100e3, 140e3] }",
    )],
    figures: figures::draw,
};
