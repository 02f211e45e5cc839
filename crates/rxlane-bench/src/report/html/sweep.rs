//! The page of a sweep.

use maud::{Markup, html};
use rxlane_report::page::{Page, TestBed};
use rxlane_report::plot::{Axis, Line, Plot};
use rxlane_report::table;
use rxlane_report::unit::{Unit, us};

use super::{bed, change, data, percent, share};
use crate::BenchError;
use crate::hog::Hog;
use crate::results::{Prediction, SweepPoint, SweepReport};

/// A figure: what it shows of each point, and what a model says of it.
struct Figure {
    title: &'static str,
    y: &'static str,
    unit: Unit,
    log: bool,
    value: fn(&SweepPoint) -> f64,
    model: Option<fn(&Prediction) -> f64>,
}

const FIGURES: [Figure; 7] = [
    Figure {
        title: "RT latency, 99th percentile",
        y: "latency",
        unit: Unit::Us,
        log: true,
        value: |p| p.dut.classes[0].latency_us.p99,
        model: None,
    },
    Figure {
        title: "RT latency, mean",
        y: "latency",
        unit: Unit::Us,
        log: true,
        value: |p| p.dut.classes[0].latency_us.mean,
        model: Some(|m| m.mean_us[0]),
    },
    Figure {
        title: "BE latency, mean",
        y: "latency",
        unit: Unit::Us,
        log: true,
        value: |p| p.dut.classes[1].latency_us.mean,
        model: Some(|m| m.mean_us[1]),
    },
    Figure {
        title: "RT loss",
        y: "lost, %",
        unit: Unit::Number,
        log: false,
        value: |p| 100.0 * share(p.dut.classes[0].lost, p.dut.classes[0].sent),
        model: None,
    },
    Figure {
        title: "Forwarded, all classes",
        y: "Mpps",
        unit: Unit::Number,
        log: false,
        value: |p| p.dut.forwarded_pps / 1e6,
        model: Some(|m| m.forwarded_pps / 1e6),
    },
    Figure {
        title: "Utilisation of the router's core",
        y: "in use, %",
        unit: Unit::Number,
        log: false,
        value: |p| 100.0 * p.dut.cpu,
        model: None,
    },
    Figure {
        title: "Interrupts: wake-ups of NAPI and worker threads",
        y: "a second",
        unit: Unit::Number,
        log: false,
        value: |p| p.dut.wakeups_per_s + p.dut.worker_wakeups_per_s,
        model: None,
    },
];

/// What the x axis is.
struct Over {
    says: &'static str,
    of: fn(&SweepPoint) -> f64,
    /// At one load, over what others take of the core.
    hogs: bool,
}

impl SweepReport {
    /// The report as one HTML file, made on `machine`.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub fn html(&self, machine: &TestBed) -> Result<String, BenchError> {
        let over = self.over();
        let mut plots = Vec::new();
        for figure in &FIGURES {
            let lines = self.lines(figure, &over);
            let plot = Plot {
                title: figure.title,
                x: Axis {
                    says: over.says,
                    ..Axis::default()
                },
                y: Axis {
                    says: figure.y,
                    unit: figure.unit,
                    log: figure.log,
                    range: None,
                },
                lines: &lines,
                ..Plot::default()
            };
            plots.push(plot.figure()?);
        }
        let traffic = format!(
            "frames of {} bytes, {} flows a class",
            self.traffic.frame, self.traffic.flows
        );
        let page = Page {
            title: "Latency and loss over the load".into(),
            lead: html! {
                @for line in self.compared() { p.ratio { (line) } }
                p {
                    "Every router at every load, in turn, under the same settings. Points at which the generator fell behind are left out."
                }
            },
            body: html! {
                @for plot in &plots { (plot) }
                h2 { "Figures" }
                @for one in self.tables() { (table::of(&one)) }
            },
            test_bed: bed(machine, [("traffic".to_owned(), traffic)], &self.settings),
            data: data("sweep", self)?,
        };
        Ok(page.render())
    }

    fn over(&self) -> Over {
        let Some(first) = self.points.first() else {
            return Over {
                says: "",
                of: |_| 0.0,
                hogs: false,
            };
        };
        let at_one_load = || self.points.iter().all(|p| p.asked_pps == first.asked_pps);
        match at_one_load() && self.points.iter().any(|p| p.hog != first.hog) {
            true => Over {
                says: "share of the core that a hog had, %",
                of: |p| 100.0 * p.dut.hog_share,
                hogs: true,
            },
            false => Over {
                says: "offered load, Mpps",
                of: |p| p.asked_pps / 1e6,
                hogs: false,
            },
        }
    }

    /// Names of the devices, the first first.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for point in &self.points {
            if !names.contains(&point.dut.name.as_str()) {
                names.push(&point.dut.name);
            }
        }
        names
    }

    fn ratios(&self) -> Vec<f64> {
        let mut ratios: Vec<f64> = self.points.iter().map(|p| p.rt_ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.dedup();
        ratios
    }

    /// RT at the highest load that both could be offered, for each share of RT and each device but the first.
    fn compared(&self) -> Vec<Markup> {
        let names = self.names();
        let Some((first, others)) = names.split_first() else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        for ratio in self.ratios().into_iter().filter(|ratio| *ratio > 0.0) {
            for name in others {
                let of = |name: &str| {
                    let points = self.points.iter();
                    let name = name.to_owned();
                    points.filter(move |p| p.valid && p.rt_ratio == ratio && p.dut.name == name)
                };
                let same =
                    |a: &&SweepPoint, b: &SweepPoint| a.asked_pps == b.asked_pps && a.hog == b.hog;
                let pairs = of(first).filter_map(|a| Some((a, of(name).find(|b| same(b, a))?)));
                let Some((a, b)) = pairs.max_by(|x, y| {
                    let load = |p: &SweepPoint| (p.hog.map_or(0.0, Hog::share), p.asked_pps);
                    let (x, y) = (load(x.0), load(y.0));
                    x.0.total_cmp(&y.0).then(x.1.total_cmp(&y.1))
                }) else {
                    continue;
                };
                let (p99, lost) = (
                    [a, b].map(|p| p.dut.classes[0].latency_us.p99),
                    [a, b].map(|p| share(p.dut.classes[0].lost, p.dut.classes[0].sent)),
                );
                lines.push(html! {
                    "RT p99 " strong { (change(p99[1] / p99[0])) } " with " (name) " at " (format!("{:.3}", a.asked_pps / 1e6)) " Mpps, "
                    (format!("{:.0}", ratio * 100.0)) " % RT: " (us(p99[1])) " against " (us(p99[0])) " with " (first) ". RT lost: "
                    (percent(lost[1])) " against " (percent(lost[0])) "."
                });
            }
        }
        lines
    }

    fn lines(&self, figure: &Figure, over: &Over) -> Vec<Line> {
        let names = self.names();
        let mut hogs: Vec<Option<Hog>> = Vec::new();
        for point in &self.points {
            if !hogs.contains(&point.hog) {
                hogs.push(point.hog);
            }
        }
        if over.hogs {
            hogs.truncate(1);
        }
        let mut drawn = Vec::new();
        let ratios = self.ratios();
        let series = ratios
            .iter()
            .flat_map(|ratio| hogs.iter().map(move |hog| (*ratio, *hog)))
            .enumerate();
        for (s, (ratio, hog)) in series {
            for (n, name) in names.iter().enumerate() {
                let of_series = || {
                    self.points.iter().filter(move |p| {
                        p.dut.name == *name && p.rt_ratio == ratio && (over.hogs || p.hog == hog)
                    })
                };
                let mut label = format!("{name}, {:.0} % RT", ratio * 100.0);
                if let (Some(hog), false) = (hog, over.hogs) {
                    label += &format!(", hog {hog}");
                }
                let measured = of_series().filter(|p| p.valid);
                drawn.push(Line {
                    label: label.clone(),
                    points: measured
                        .map(|p| ((over.of)(p), (figure.value)(p)))
                        .collect(),
                    colour: n,
                    dashed: s % 2 == 1,
                });
                let Some(model) = figure.model else { continue };
                let points: Vec<(f64, f64)> = of_series()
                    .filter_map(|p| Some(((over.of)(p), model(&p.predicted?))))
                    .collect();
                if !points.is_empty() {
                    drawn.push(Line {
                        label: format!("{label}, model"),
                        points,
                        colour: names.len() + n,
                        dashed: true,
                    });
                }
            }
        }
        drawn
    }
}
