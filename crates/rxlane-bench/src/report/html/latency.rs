//! The page of one rate.

use hdrhistogram::Histogram;
use maud::{Markup, html};
use rxlane_report::page::{Page, TestBed, invalid};
use rxlane_report::plot::{Axis, Band, Line, Plot};
use rxlane_report::unit::{Unit, decades, nines, us};
use rxlane_report::{PlotError, table};

use super::{BEHIND, alternating, bed, change, data, percent, share};
use crate::BenchError;
use crate::results::{DutResult, LatencyReport};

/// Names of the classes for readers.
const NAMES: [&str; 2] = ["real-time (marked EF)", "best effort"];
/// What a percentile is told from: fewer packets beyond it are chance.
const BEYOND: f64 = 10.0;

impl LatencyReport {
    /// The report as one HTML file, made on `machine`.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub fn html(&self, machine: &TestBed) -> Result<String, BenchError> {
        let classes: Vec<usize> = (0..NAMES.len())
            .filter(|c| self.duts.iter().any(|d| d.classes[*c].received > 0.0))
            .collect();
        let scale = self.scale(&classes);
        let mut plots = Vec::new();
        for class in &classes {
            plots.push(self.distribution(*class, scale)?);
        }
        for class in &classes {
            plots.push(self.tail(*class, scale)?);
        }
        let spread = self.spread.iter().flat_map(|(pair, of)| {
            let p99 = of.get("rt_p99").or_else(|| of.get("be_p99"))?;
            let text = format!("{:.2} to {:.2} in {} rounds", p99[0], p99[1], self.repeat);
            Some((format!("p99, {pair}"), text))
        });
        let more = [
            ("traffic".to_owned(), self.traffic_text()),
            (
                "trials".to_owned(),
                format!("{} of {} s", self.repeat, self.seconds),
            ),
        ];
        let page = Page {
            title: "Latency through a router".into(),
            lead: self.lead(),
            body: html! {
                @for plot in &plots { (plot) }
                h2 { "Figures" }
                @for one in self.tables() { (table::of(&one)) }
            },
            test_bed: bed(machine, more.into_iter().chain(spread), &self.settings),
            data: data("latency", self)?,
        };
        Ok(page.render())
    }

    fn traffic_text(&self) -> String {
        format!(
            "{:.3} Mpps offered, {} % RT, frames of {} bytes, {} flows a class",
            self.offered_pps / 1e6,
            self.traffic.rt_ratio * 100.0,
            self.traffic.frame,
            self.traffic.flows
        )
    }

    /// What came of it, the ratio first; nothing of a run that is not valid.
    fn lead(&self) -> Markup {
        if !self.valid {
            return invalid(BEHIND);
        }
        let Some((first, others)) = self.duts.split_first() else {
            return html! {};
        };
        let hog = self.hog.map_or_else(String::new, |hog| {
            format!(", of which something else takes {hog}")
        });
        html! {
            @for dut in others { (self.compared(first, dut)) }
            p {
                "One router core" (hog) ", offered " (format!("{:.2}", self.offered_pps / 1e6)) " million packets a second, "
                (format!("{:.0}", self.traffic.rt_ratio * 100.0)) " % of them real-time traffic."
            }
            (alternating(self.seconds, self.repeat))
        }
    }

    fn compared(&self, first: &DutResult, dut: &DutResult) -> Markup {
        let ratios = self.ratios.get(&format!("{}/{}", dut.name, first.name));
        let ratio = |what: &str| ratios.and_then(|r| r.get(what)).copied();
        let (class, key) = match ratio("rt_p99") {
            Some(_) => (0, "rt_p99"),
            None => (1, "be_p99"),
        };
        let name = ["RT", "BE"][class];
        let of = |d: &DutResult| us(d.classes[class].latency_us.p99);
        let lost = |d: &DutResult| percent(share(d.classes[class].lost, d.classes[class].sent));
        html! {
            p.ratio {
                @if let Some(p99) = ratio(key) {
                    (name) " p99 " strong { (change(p99)) } " with " (dut.name) ": " (of(dut)) " against " (of(first)) " with " (first.name) ". "
                }
                (name) " lost: " (lost(dut)) " against " (lost(first)) ". "
                @if let Some(forwarded) = ratio("forwarded") {
                    "Forwarded in all: " (format!("{forwarded:.2}")) " times as much."
                }
            }
        }
    }

    /// The scale that all plots of latency share, us.
    fn scale(&self, classes: &[usize]) -> Option<(f64, f64)> {
        let seen = || {
            let all = self.latency_ns.iter();
            all.flat_map(|of| classes.iter().filter_map(|c| of.get(*c)))
                .filter(|h| !h.is_empty())
        };
        let least = seen().map(Histogram::min).min()?.max(1) as f64 / 1e3;
        let most = seen().map(Histogram::max).max()? as f64 / 1e3;
        Some(decades(least, most))
    }

    /// What of each device's packets of a class arrived, and how late.
    fn of_class(&self, class: usize) -> impl Iterator<Item = (&str, f64, &Histogram<u64>)> {
        self.duts.iter().zip(&self.latency_ns).map(move |(dut, h)| {
            let c = &dut.classes[class];
            (dut.name.as_str(), share(c.received, c.sent), &h[class])
        })
    }

    fn distribution(&self, class: usize, scale: Option<(f64, f64)>) -> Result<Markup, PlotError> {
        let (mut lines, mut bands) = (Vec::new(), Vec::new());
        for (colour, (name, arrived, h)) in self.of_class(class).enumerate() {
            // Lost packets never arrive, so the curve of a lossy router ends below 100 %.
            let steps = (0..=400).map(|i| f64::from(i) / 400.0);
            let points: Vec<(f64, f64)> = steps.map(|q| (at(h, q), 100.0 * q * arrived)).collect();
            let lost = 1.0 - arrived;
            let label = match lost > 0.0005 {
                true => format!("{name}, {} lost", percent(lost)),
                false => name.to_owned(),
            };
            if lost > 0.0005 {
                bands.push(Band {
                    x: (at(h, 1.0), f64::INFINITY),
                    y: (100.0 * arrived, 100.0),
                    colour,
                    label: format!("{} lost", percent(lost)),
                });
            }
            lines.push(Line {
                label,
                points,
                colour,
                dashed: colour % 2 == 1,
            });
        }
        let plot = Plot {
            title: &format!("Latency of {} packets", NAMES[class]),
            x: Axis {
                says: "latency",
                unit: Unit::Us,
                log: true,
                range: scale,
            },
            y: Axis {
                says: "packets delivered within it, %",
                range: Some((0.0, 100.0)),
                ..Axis::default()
            },
            lines: &lines,
            bands: &bands,
            ..Plot::default()
        };
        plot.figure()
    }

    /// Percentiles of all packets sent, those that were lost included, as far as there are enough for them.
    fn tail(&self, class: usize, scale: Option<(f64, f64)>) -> Result<Markup, PlotError> {
        let sent = self.duts.iter().map(|d| d.classes[class].sent);
        let sent = sent.fold(0.0, f64::max) * f64::from(self.repeat);
        let most = (sent / BEYOND).max(10.0).log10().floor();
        let of_device = |(colour, (name, arrived, h)): (usize, (&str, f64, &Histogram<u64>))| {
            let steps = (0..=(most * 50.0) as u32).map(|i| f64::from(i) / 50.0);
            let known = steps.filter(|n| *n <= nines(arrived.min(1.0)));
            let points = known.map(|n| (n, at(h, (1.0 - 10f64.powf(-n)) / arrived)));
            Line {
                label: match arrived < 0.9995 {
                    true => format!("{name}, then lost"),
                    false => name.to_owned(),
                },
                points: points.collect(),
                colour,
                dashed: colour % 2 == 1,
            }
        };
        let lines: Vec<Line> = self.of_class(class).enumerate().map(of_device).collect();
        let plot = Plot {
            title: &format!("The slowest {} packets", NAMES[class]),
            x: Axis {
                says: "share of all that were sent",
                unit: Unit::Nines,
                range: Some((0.0, most)),
                ..Axis::default()
            },
            y: Axis {
                says: "arrived within",
                unit: Unit::Us,
                log: true,
                range: scale,
            },
            lines: &lines,
            ..Plot::default()
        };
        plot.figure()
    }
}

/// A quantile, us.
fn at(h: &Histogram<u64>, quantile: f64) -> f64 {
    h.value_at_quantile(quantile.min(1.0)).max(1) as f64 / 1e3
}
