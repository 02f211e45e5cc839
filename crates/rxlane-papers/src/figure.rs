//! The papers' result figures, redrawn from the model, with what the papers state as marks.

use maud::{Markup, html};
use rxlane_report::PlotError;
use rxlane_report::plot::{Axis, Line, Mark, Plot};
use rxlane_report::unit::Unit;

use crate::table::{Data, Rows};

pub(crate) const LOAD: &str = "traffic.pps";
pub(crate) const RATIO: &str = "traffic.rt_ratio";
pub(crate) const FRAME: &str = "traffic.frame";

/// A number the paper states: where it is, and its text.
pub(crate) type Stated = (f64, f64, &'static str);

/// Curves of a metric over a swept key.
pub(crate) struct Figure {
    pub(crate) title: &'static str,
    pub(crate) file: &'static str,
    pub(crate) cases: &'static [&'static str],
    /// Key, axis, factor.
    pub(crate) x: (&'static str, &'static str, f64),
    pub(crate) y: (&'static str, f64),
    pub(crate) metrics: &'static [(&'static str, &'static str)],
    /// Cases to which another one's values are added: two cores that are simulated apart.
    pub(crate) beside: &'static [(&'static str, &'static str)],
    /// Largest x shown.
    pub(crate) to: f64,
    pub(crate) log_y: bool,
    pub(crate) stated: &'static [Stated],
}

pub(crate) const MPPS: (&str, &str, f64) = (LOAD, "offered load, Mpps", 1e-6);
pub(crate) const KPPS: (&str, &str, f64) = (LOAD, "offered load, kpps", 1e-3);
pub(crate) const RT: (&str, &str, f64) = (RATIO, "share of RT packets, %", 100.0);
pub(crate) const BYTES: (&str, &str, f64) = (FRAME, "frame, bytes without preamble", 1.0);
pub(crate) const KIRQ: (&str, f64) = ("interrupts, 1000 a second", 1e-3);
pub(crate) const CPU: (&str, f64) = ("CPU utilisation, %", 100.0);
pub(crate) const US: (&str, f64) = ("mean latency", 1.0);

pub(crate) const BASE: Figure = Figure {
    title: "",
    file: "",
    cases: &[],
    x: MPPS,
    y: US,
    metrics: &[("latency_us.mean", "")],
    beside: &[],
    to: f64::INFINITY,
    log_y: false,
    stated: &[],
};

pub(crate) const IRQ: &[(&str, &str)] = &[("irq_per_s", "")];
pub(crate) const UTILISATION: &[(&str, &str)] = &[("cpu", "")];

fn draw(figure: &Figure, rows: &Rows) -> Result<Markup, PlotError> {
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
            let other = figure.beside.iter().find(|(of, _)| of == case);
            let added = other.map(|(_, other)| rows.curve(other, &[], key, metric));
            let points = rows
                .curve(case, &[], key, metric)
                .into_iter()
                .enumerate()
                .map(|(i, (x, y))| {
                    (
                        x,
                        y + added.as_ref().and_then(|a| a.get(i)).map_or(0.0, |a| a.1),
                    )
                })
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
    let plot = Plot {
        title: figure.title,
        x: Axis {
            says: x,
            ..Axis::default()
        },
        y: Axis {
            says: y,
            unit: if figure.y == US {
                Unit::Us
            } else {
                Unit::Number
            },
            log: figure.log_y,
            range: None,
        },
        lines: &drawn,
        marks: &marks(figure.stated),
        ..Plot::default()
    };
    plot.figure()
}

pub(crate) fn marks(stated: &[Stated]) -> Vec<Mark> {
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

/// These figures of a paper, one after the other.
pub(crate) fn draw_all(figures: &[Figure], data: &Data) -> Result<Markup, PlotError> {
    let drawn = figures.iter().map(|f| draw(f, data.of(f.file)));
    let drawn = drawn.collect::<Result<Vec<Markup>, PlotError>>()?;
    Ok(html! { @for figure in &drawn { (figure) } })
}
