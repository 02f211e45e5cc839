//! "Building a Low Latency Linux Software Router": its scenarios, fit, rows and figures.

mod claims;
mod figures;
mod fit;
mod rows;
mod wrong;

use crate::paper::Paper;
use crate::profile::{assumed, fitted};

pub(crate) const PAPER: Paper = Paper {
    name: "low-latency-router",
    title: "Building a Low Latency Linux Software Router",
    files: &[
        ("calibration.toml", include_str!("calibration.toml")),
        ("fig-5a.toml", include_str!("fig-5a.toml")),
        ("fig-5b-6b-7b.toml", include_str!("fig-5b-6b-7b.toml")),
        ("fig-6a-7a.toml", include_str!("fig-6a-7a.toml")),
        ("grid.toml", include_str!("grid.toml")),
        ("livelock.toml", include_str!("livelock.toml")),
        ("machine.toml", include_str!("machine.toml")),
        ("vmdq.toml", include_str!("vmdq.toml")),
    ],
    experiments: &[
        "fig-5a.toml",
        "fig-5b-6b-7b.toml",
        "fig-6a-7a.toml",
        "vmdq.toml",
        "livelock.toml",
    ],
    rows: include_str!("rows.csv"),
    statements: include_str!("statements.csv"),
    parameters: fit::PARAMETERS,
    profile: &[
        fitted("cpu.packet_ns", "LL-01, LL-07"),
        fitted("cpu.wake_ns", "LL-10, LL-15"),
        fitted("cpu.class_ns", "LL-07"),
        fitted("nic.fixed_latency_us", "LL-18"),
        assumed(
            "cpu.isr_ns",
            "the cycles that multiple-nics is fitted to, at this clock; SQ tells only the sum with waking up",
        ),
    ],
    residuals: fit::residuals,
    judge: rows::judge,
    claims: claims::judge,
    wrong: wrong::WRONG,
    fewer: &[
        (
            "fig-5a.toml",
            "sweep={ \"traffic.rt_ratio\" = [0.0, 0.3, 0.85, 0.95] }",
        ),
        (
            "fig-5b-6b-7b.toml",
            "sweep={ \"traffic.pps\" = [0.05e6, 0.2e6, 0.7e6, 0.75e6, 0.9e6, 1.2e6, 1.4e6, 1.5e6, 1.55e6, 1.6e6, 1.65e6, 1.7e6, 1.75e6, 2.0e6] }",
        ),
        (
            "fig-6a-7a.toml",
            "sweep={ \"traffic.rt_ratio\" = [0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0] }",
        ),
    ],
    figures: figures::draw,
};
