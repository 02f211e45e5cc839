//! The papers' result figures, redrawn from the model, with what the papers state as marks.

use rxlane_report::PlotError;
use rxlane_report::plot::{Axes, Legend, Line, Mark, lines};

use super::low_latency_router::max_throughput;
use super::single_input_queue::loads;
use super::table::{Data, Rows};
use crate::distribution;

const LOAD: &str = "traffic.pps";
const RATIO: &str = "traffic.rt_ratio";
const FRAME: &str = "traffic.frame";
const STRATEGIES: &[&str] = &["SQ", "RR", "LL-RR", "LL-WFQ"];
const NICS: &[&str] = &["2 NICs", "3 NICs", "4 NICs"];
const LAWS: &[&str] = &["off", "default", "improved"];
const KERNELS: &[&str] = &["plain", "HFC", "FF", "FF + Random Lie", "NAPI"];

/// A number the paper states: where it is, and its text.
type Stated = (f64, f64, &'static str);

/// Curves of a metric over a swept key.
struct Figure {
    title: &'static str,
    file: &'static str,
    cases: &'static [&'static str],
    /// Key, axis, factor.
    x: (&'static str, &'static str, f64),
    y: (&'static str, f64),
    metrics: &'static [(&'static str, &'static str)],
    /// Largest x shown.
    to: f64,
    log_y: bool,
    legend: Legend,
    stated: &'static [Stated],
}

const MPPS: (&str, &str, f64) = (LOAD, "offered load, Mpps", 1e-6);
const KPPS: (&str, &str, f64) = (LOAD, "offered load, kpps", 1e-3);
const RT: (&str, &str, f64) = (RATIO, "share of RT packets, %", 100.0);
const BYTES: (&str, &str, f64) = (FRAME, "frame, bytes without preamble", 1.0);
const KIRQ: (&str, f64) = ("interrupts, 1000 a second", 1e-3);
const CPU: (&str, f64) = ("CPU utilisation, %", 100.0);
const US: (&str, f64) = ("mean latency, us", 1.0);

const BASE: Figure = Figure {
    title: "",
    file: "",
    cases: STRATEGIES,
    x: MPPS,
    y: US,
    metrics: &[("latency_us.mean", "")],
    to: f64::INFINITY,
    log_y: false,
    legend: Legend::LowerRight,
    stated: &[],
};

const CLASSES: &[(&str, &str)] = &[("latency_us.rt.mean", " RT"), ("latency_us.be.mean", " BE")];
const IRQ: &[(&str, &str)] = &[("irq_per_s", "")];
const UTILISATION: &[(&str, &str)] = &[("cpu", "")];

const LOW_LATENCY_ROUTER: &[Figure] = &[
    Figure {
        title: "LL 5b: CPU utilisation, 30 % RT",
        file: "fig-5b-6b-7b.toml",
        y: CPU,
        metrics: UTILISATION,
        stated: &[(1.55, 100.0, "RR; next: SQ, LL"), (1.7, 100.0, "")],
        ..BASE
    },
    Figure {
        title: "LL 6a: interrupts at 1.5 Mpps",
        file: "fig-6a-7a.toml",
        x: RT,
        y: KIRQ,
        metrics: IRQ,
        legend: Legend::UpperRight,
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
        y: KIRQ,
        metrics: IRQ,
        legend: Legend::UpperRight,
        stated: &[(0.9, 25.0, "SQ"), (1.5, 32.0, "SQ"), (1.85, 17.0, "RR")],
        ..BASE
    },
    Figure {
        title: "LL 7a: latency at 1.5 Mpps",
        file: "fig-6a-7a.toml",
        x: RT,
        metrics: CLASSES,
        legend: Legend::UpperRight,
        stated: &[(30.0, 11.7, "SQ"), (25.0, 10.4, "LL, RT")],
        ..BASE
    },
    Figure {
        title: "LL 7b: latency, 30 % RT",
        file: "fig-5b-6b-7b.toml",
        metrics: CLASSES,
        log_y: true,
        legend: Legend::UpperLeft,
        stated: &[(1.5, 11.7, "SQ"), (1.9, 11.4, "LL, RT")],
        ..BASE
    },
];

const MULTIPLE_NICS: &[Figure] = &[
    Figure {
        title: "NIC 4a: interrupts, constant bit rate",
        file: "fig-4.toml",
        cases: NICS,
        y: KIRQ,
        metrics: IRQ,
        legend: Legend::UpperRight,
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
        legend: Legend::UpperRight,
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
        legend: Legend::UpperLeft,
        ..BASE
    },
];

const INTERRUPT_THROTTLING: &[Figure] = &[
    Figure {
        title: "ITR 3, 5, 7: latency",
        file: "fig-3-8.toml",
        cases: LAWS,
        log_y: true,
        legend: Legend::UpperLeft,
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
        legend: Legend::UpperRight,
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
        legend: Legend::UpperRight,
        ..BASE
    },
];

const SINGLE_INPUT_QUEUE: &[Figure] = &[
    Figure {
        title: "SIQ 4, 10: load of the core with NET_RX, and of core 0 freed of it",
        file: "fig-4-10.toml",
        cases: &["default", "proposed", "core 0 freed"],
        x: BYTES,
        y: ("mean core load, %", 100.0),
        metrics: UTILISATION,
        legend: Legend::UpperRight,
        ..BASE
    },
    Figure {
        title: "SIQ 8, 9: loss in the kernel and at the application",
        file: "fig-4-10.toml",
        cases: &["default", "proposed"],
        x: BYTES,
        y: ("packets lost, %", 100.0),
        metrics: &[("loss_ring", ", kernel"), ("loss_socket", ", application")],
        legend: Legend::UpperRight,
        stated: &[(492.0, 1.0, "kernel, default"), (372.0, 0.0, "application")],
        ..BASE
    },
];

const BEYOND_SOFTNET: &[Figure] = &[
    Figure {
        title: "SOFT 4, 5: throughput",
        file: "fig-4-6.toml",
        cases: KERNELS,
        x: KPPS,
        y: ("forwarded, kpps", 1e-3),
        metrics: &[("throughput_pps", "")],
        legend: Legend::UpperLeft,
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
        legend: Legend::UpperLeft,
        ..BASE
    },
];

fn draw(figure: &Figure, rows: &Rows) -> Result<String, PlotError> {
    let mut drawn = Vec::new();
    let (key, x, x_factor) = figure.x;
    let (y, y_factor) = figure.y;
    for (colour, case) in figure.cases.iter().enumerate() {
        // SQ has no classes, so one curve.
        let both = [("latency_us.mean", "")];
        let metrics = if *case == "SQ" && figure.metrics.len() > 1 {
            &both[..]
        } else {
            figure.metrics
        };
        for (i, (metric, suffix)) in metrics.iter().enumerate() {
            let points = rows
                .curve(case, &[], key, metric)
                .into_iter()
                .filter(|(x, y)| *x <= figure.to && (*y > 0.0 || !metric.starts_with("latency")))
                .map(|(x, y)| (x * x_factor, y * y_factor))
                .collect();
            drawn.push(Line {
                label: format!("{case}{suffix}"),
                points,
                colour,
                dashed: i > 0,
            });
        }
    }
    let axes = Axes {
        title: figure.title,
        x,
        y,
        log_y: figure.log_y,
        legend: figure.legend,
        ..Axes::default()
    };
    lines(&axes, &drawn, &marks(figure.stated))
}

fn marks(stated: &[Stated]) -> Vec<Mark> {
    stated
        .iter()
        .map(|(x, y, label)| Mark {
            at: (*x, *y),
            label: if label.is_empty() {
                String::new()
            } else {
                format!("paper: {label}")
            },
        })
        .collect()
}

/// LL 5a is not a metric but a search.
fn throughput_over_ratio(rows: &Rows) -> Result<String, PlotError> {
    let drawn: Vec<Line> = STRATEGIES
        .iter()
        .enumerate()
        .map(|(colour, case)| Line {
            label: (*case).into(),
            points: rows
                .values(RATIO)
                .into_iter()
                .map(|r| (r * 100.0, max_throughput(rows, case, r) / 1e6))
                .collect(),
            colour,
            dashed: false,
        })
        .collect();
    let axes = Axes {
        title: "LL 5a: highest throughput without loss, in steps of 0.05 Mpps",
        x: RT.1,
        y: "throughput, Mpps",
        ..Axes::default()
    };
    lines(
        &axes,
        &drawn,
        &marks(&[(30.0, 1.75, "SQ"), (30.0, 1.62, "RR")]),
    )
}

/// Distributions of core load (SIQ 5 to 7).
fn distributions(rows: &Rows) -> Result<String, PlotError> {
    const CASES: [&str; 3] = ["default", "proposed", "core 0 freed"];
    let cases = CASES.map(|case| (case.to_owned(), loads(rows, case)));
    let stated = marks(&[(10.0, 0.12, "default"), (10.0, 0.75, "proposed")]);
    distribution::figures(&cases, ["SIQ 5: ", "SIQ 6: ", "SIQ 7: "], &stated)
}

/// All figures of a paper as SVGs.
pub(super) fn of(paper: &str, data: &Data) -> Result<String, PlotError> {
    let (figures, mut svg) = match paper {
        "low-latency-router" => (
            LOW_LATENCY_ROUTER,
            throughput_over_ratio(data.of("fig-5a.toml"))?,
        ),
        "multiple-nics" => (MULTIPLE_NICS, String::new()),
        "interrupt-throttling" => (INTERRUPT_THROTTLING, String::new()),
        "single-input-queue" => (SINGLE_INPUT_QUEUE, distributions(data.of("fig-4-10.toml"))?),
        _ => (BEYOND_SOFTNET, String::new()),
    };
    for figure in figures {
        svg += &draw(figure, data.of(figure.file))?;
    }
    Ok(svg)
}
