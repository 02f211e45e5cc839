//! The paper's figures, redrawn from the model.

use maud::Markup;
use rxlane_report::PlotError;

use crate::figure::{BASE, CPU, Figure, IRQ, KIRQ, UTILISATION, draw_all};
use crate::table::Data;

const NICS: &[&str] = &["2 NICs", "3 NICs", "4 NICs"];

const FIGURES: &[Figure] = &[
    Figure {
        title: "NIC 4a: interrupts, constant bit rate",
        file: "fig-4.toml",
        cases: NICS,
        y: KIRQ,
        metrics: IRQ,
        ..BASE
    },
    Figure {
        title: "NIC 4b: CPU utilisation, constant bit rate",
        file: "fig-4.toml",
        cases: NICS,
        y: CPU,
        metrics: UTILISATION,
        ..BASE
    },
    Figure {
        title: "NIC 5a: interrupts, Poisson",
        file: "fig-5-6.toml",
        cases: NICS,
        y: KIRQ,
        metrics: IRQ,
        stated: &[(0.3, 270.0, "2"), (0.3, 310.0, "4"), (0.9, 0.0, "all")],
        ..BASE
    },
    Figure {
        title: "NIC 5b: CPU utilisation, Poisson",
        file: "fig-5-6.toml",
        cases: NICS,
        y: CPU,
        metrics: UTILISATION,
        stated: &[(0.3, 79.0, "2"), (0.3, 86.0, "4")],
        ..BASE
    },
    Figure {
        title: "NIC 6: latency, Poisson, below the capacity of 0.9 Mpps",
        file: "fig-5-6.toml",
        cases: NICS,
        to: 0.86e6,
        ..BASE
    },
];

pub(super) fn draw(data: &Data) -> Result<Markup, PlotError> {
    draw_all(FIGURES, data)
}
