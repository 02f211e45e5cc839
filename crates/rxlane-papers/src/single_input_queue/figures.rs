//! The paper's figures, redrawn from the model.

use maud::{Markup, html};
use rxlane_report::PlotError;
use rxlane_sim::distribution;

use super::rows::loads;
use crate::figure::{BASE, BYTES, Figure, UTILISATION, draw_all, marks};
use crate::table::{Data, Rows};

/// The cases of the paper's scenarios.
const CASES: &[&str] = &[
    "default",
    "proposed",
    "default, non-preemptive",
    "proposed, non-preemptive",
];
/// What is left of the default's core 0 in the proposed system.
const FREED: &str = "core 0 freed";

const FIGURES: &[Figure] = &[
    Figure {
        title: "SIQ 4: load of the core with NET_RX, and of core 0 freed of it",
        file: "fig-4-10.toml",
        cases: &[
            "default",
            "proposed",
            "default, non-preemptive",
            "proposed, non-preemptive",
            FREED,
        ],
        x: BYTES,
        y: ("mean core load, %", 100.0),
        metrics: UTILISATION,
        ..BASE
    },
    Figure {
        title: "SIQ 10: load of all cores together: NET_RX, the application, and core 0 where that is freed of NET_RX",
        file: "fig-4-10.toml",
        cases: CASES,
        x: BYTES,
        y: ("sum of core loads, %", 100.0),
        metrics: &[("cores_in_use", "")],
        beside: &[("proposed", FREED), ("proposed, non-preemptive", FREED)],
        ..BASE
    },
    Figure {
        title: "SIQ 8, 9: loss in the kernel and at the application",
        file: "fig-4-10.toml",
        cases: &["default", "proposed"],
        x: BYTES,
        y: ("packets lost, %", 100.0),
        metrics: &[("loss_ring", ", kernel"), ("loss_socket", ", application")],
        stated: &[(492.0, 1.0, "kernel, default"), (372.0, 0.0, "application")],
        ..BASE
    },
];

/// Distributions of core load (SIQ 5 to 7).
fn distributions(rows: &Rows) -> Result<Markup, PlotError> {
    const CASES: [&str; 3] = ["default", "proposed", "core 0 freed"];
    let cases = CASES.map(|case| (case.to_owned(), loads(rows, case)));
    let stated = marks(&[(10.0, 0.12, "default"), (10.0, 0.75, "proposed")]);
    distribution::figures(&cases, ["SIQ 5: ", "SIQ 6: ", "SIQ 7: "], &stated)
}

pub(super) fn draw(data: &Data) -> Result<Markup, PlotError> {
    let distributions = distributions(data.of("fig-4-10.toml"))?;
    Ok(html! { (distributions) (draw_all(FIGURES, data)?) })
}
