//! The paper's figures, redrawn from the model.

use maud::Markup;
use rxlane_report::PlotError;

use crate::figure::{BASE, CPU, Figure, IRQ, KIRQ, UTILISATION, draw_all};
use crate::table::Data;

const LAWS: &[&str] = &["off", "default", "improved"];

const FIGURES: &[Figure] = &[
    Figure {
        title: "ITR 3, 5, 7: latency",
        file: "fig-3-8.toml",
        cases: LAWS,
        log_y: true,
        stated: &[(1.0, 60.0, "default"), (2.3, 2300.0, "overload")],
        ..BASE
    },
    Figure {
        title: "ITR 3, 5, 7: CPU utilisation",
        file: "fig-3-8.toml",
        cases: LAWS,
        y: CPU,
        metrics: UTILISATION,
        stated: &[(0.5, 100.0, "off")],
        ..BASE
    },
    Figure {
        title: "ITR 4, 6, 7: interrupts",
        file: "fig-3-8.toml",
        cases: LAWS,
        y: KIRQ,
        metrics: IRQ,
        log_y: true,
        stated: &[(0.5, 500.0, "peak, off")],
        ..BASE
    },
    Figure {
        title: "ITR 8: load-latency product",
        file: "fig-3-8.toml",
        cases: &["default", "improved"],
        y: ("cycles a packet x mean latency, 1000 cycles us", 1e-3),
        metrics: &[("load_latency_cycles_us", "")],
        to: 2.1e6,
        ..BASE
    },
];

pub(super) fn draw(data: &Data) -> Result<Markup, PlotError> {
    draw_all(FIGURES, data)
}
