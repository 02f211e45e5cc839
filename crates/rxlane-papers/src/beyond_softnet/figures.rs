//! The paper's figures, redrawn from the model.

use maud::Markup;
use rxlane_report::PlotError;

use crate::figure::{BASE, Figure, KPPS, draw_all};
use crate::table::Data;

const KERNELS: &[&str] = &["plain", "HFC", "FF", "FF + Random Lie", "NAPI"];

const FIGURES: &[Figure] = &[
    Figure {
        title: "SOFT 4, 5: throughput",
        file: "fig-4-6.toml",
        cases: KERNELS,
        x: KPPS,
        y: ("forwarded, kpps", 1e-3),
        metrics: &[("throughput_pps", "")],
        stated: &[(27.0, 27.0, "MLFFR"), (60.0, 0.0, "collapse")],
        ..BASE
    },
    Figure {
        title: "SOFT 6 to 8: latency",
        file: "fig-4-6.toml",
        cases: KERNELS,
        x: KPPS,
        y: ("mean latency, ms", 1e-3),
        log_y: true,
        to: 60e3,
        ..BASE
    },
];

pub(super) fn draw(data: &Data) -> Result<Markup, PlotError> {
    draw_all(FIGURES, data)
}
