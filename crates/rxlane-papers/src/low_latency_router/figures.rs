//! The paper's figures, redrawn from the model.

use maud::{Markup, html};
use rxlane_report::PlotError;
use rxlane_report::plot::{Axis, Line, Plot};

use super::rows::max_throughput;
use crate::figure::{BASE, CPU, Figure, IRQ, KIRQ, RATIO, RT, UTILISATION, draw_all, marks};
use crate::table::{Data, Rows};

const STRATEGIES: &[&str] = &["SQ", "RR", "LL-RR", "LL-WFQ"];

const CLASSES: &[(&str, &str)] = &[("latency_us.rt.mean", " RT"), ("latency_us.be.mean", " BE")];

const FIGURES: &[Figure] = &[
    Figure {
        title: "LL 5b: CPU utilisation, 30 % RT",
        file: "fig-5b-6b-7b.toml",
        cases: STRATEGIES,
        y: CPU,
        metrics: UTILISATION,
        stated: &[(1.55, 100.0, "RR; next: SQ, LL"), (1.7, 100.0, "")],
        ..BASE
    },
    Figure {
        title: "LL 6a: interrupts at 1.5 Mpps",
        file: "fig-6a-7a.toml",
        cases: STRATEGIES,
        x: RT,
        y: KIRQ,
        metrics: IRQ,
        stated: &[
            (30.0, 32.0, "SQ"),
            (0.0, 20.0, "RR, LL"),
            (50.0, 58.0, "RR"),
        ],
        ..BASE
    },
    Figure {
        title: "LL 6b: interrupts, 30 % RT",
        file: "fig-5b-6b-7b.toml",
        cases: STRATEGIES,
        y: KIRQ,
        metrics: IRQ,
        stated: &[(0.9, 25.0, "SQ"), (1.5, 32.0, "SQ"), (1.85, 17.0, "RR")],
        ..BASE
    },
    Figure {
        title: "LL 7a: latency at 1.5 Mpps",
        file: "fig-6a-7a.toml",
        cases: STRATEGIES,
        x: RT,
        metrics: CLASSES,
        stated: &[(30.0, 11.7, "SQ"), (25.0, 10.4, "LL, RT")],
        ..BASE
    },
    Figure {
        title: "LL 7b: latency, 30 % RT",
        file: "fig-5b-6b-7b.toml",
        cases: STRATEGIES,
        metrics: CLASSES,
        log_y: true,
        stated: &[(1.5, 11.7, "SQ"), (1.9, 11.4, "LL, RT")],
        ..BASE
    },
];

/// LL 5a is not a metric but a search.
fn throughput_over_ratio(rows: &Rows) -> Result<Markup, PlotError> {
    let drawn: Vec<Line> = STRATEGIES
        .iter()
        .enumerate()
        .map(|(colour, case)| Line {
            label: (*case).into(),
            points: rows
                .values(RATIO)
                .into_iter()
                .map(|r| (r * 100.0, max_throughput(rows, case, r).mean / 1e6))
                .collect(),
            colour,
            dashed: false,
        })
        .collect();
    let says = |says| Axis {
        says,
        ..Axis::default()
    };
    let plot = Plot {
        title: "LL 5a: highest throughput without loss, in steps of 0.05 Mpps",
        x: says(RT.1),
        y: says("throughput, Mpps"),
        lines: &drawn,
        marks: &marks(&[(30.0, 1.75, "SQ"), (30.0, 1.62, "RR")]),
        ..Plot::default()
    };
    plot.figure()
}

pub(super) fn draw(data: &Data) -> Result<Markup, PlotError> {
    let throughput = throughput_over_ratio(data.of("fig-5a.toml"))?;
    Ok(html! { (throughput) (draw_all(FIGURES, data)?) })
}
