//! What a changing load does: stages as a table, ms by ms as a picture.

use comfy_table::Table;
use maud::{Markup, html};
use rxlane_report::PlotError;
use rxlane_report::page::{Page, TestBed, invalid};
use rxlane_report::plot::{Axis, Line, Plot};
use rxlane_report::unit::Unit;

use super::html::{BEHIND, bed, data, percent, share};
use super::table::{settings, table};
use crate::BenchError;
use crate::steps::{StageResult, StepsDut, StepsPoint, StepsReport};
use crate::traffic::CLASSES;

impl StepsReport {
    /// The report as one HTML file, made on `machine`.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub fn html(&self, machine: &TestBed) -> Result<String, BenchError> {
        let mut plots = Vec::new();
        let load = Line {
            label: "offered".into(),
            points: self.duts.first().map_or(Vec::new(), |dut| {
                let per_bin = self.capacity_pps * self.bin_ms / 1e3 * f64::from(self.repeat);
                let sent = dut.points.iter();
                sent.map(|p| (p.at_ms, (p.sent[0] + p.sent[1]) / per_bin))
                    .collect()
            }),
            colour: 2,
            dashed: false,
        };
        let y = Axis {
            says: "multiple of the kernel's capacity",
            ..Axis::default()
        };
        plots.push(over_time("Load", y, &[load])?);
        for class in [0, 1] {
            let name = CLASSES[class].to_uppercase();
            let of = |value: fn(&StepsPoint, usize) -> f64| -> Vec<Line> {
                let duts = self.duts.iter().enumerate();
                duts.map(|(colour, dut)| Line {
                    label: dut.name.clone(),
                    points: dut
                        .points
                        .iter()
                        .map(|p| (p.at_ms, value(p, class)))
                        .collect(),
                    colour,
                    dashed: false,
                })
                .collect()
            };
            let lost = of(|p, c| 100.0 * p.lost[c] / p.sent[c].max(1.0));
            let y = Axis {
                says: "lost, %",
                ..Axis::default()
            };
            plots.push(over_time(&format!("{name} lost"), y, &lost)?);
            let slowest = of(|p, c| p.max_us[c]);
            let y = Axis {
                says: "latency",
                unit: Unit::Us,
                log: true,
                range: None,
            };
            plots.push(over_time(
                &format!("{name}, the slowest packet"),
                y,
                &slowest,
            )?);
        }
        let traffic = format!(
            "{} % RT, frames of {} bytes, {} flows a class; the kernel forwards {:.3} Mpps without loss",
            self.traffic.rt_ratio * 100.0,
            self.traffic.frame,
            self.traffic.flows,
            self.capacity_pps / 1e6
        );
        let trials = self.repeat.to_string();
        let page = Page {
            title: "A load that changes".into(),
            lead: self.lead(),
            body: html! {
                @for plot in &plots { (plot) }
                h2 { "Figures" }
                (rxlane_report::table::of(&self.table()))
            },
            test_bed: bed(
                machine,
                [
                    ("traffic".to_owned(), traffic),
                    ("trials".to_owned(), trials),
                ],
                &self.settings,
            ),
            data: data("steps", self)?,
        };
        Ok(page.render())
    }

    fn lead(&self) -> Markup {
        if !self.valid {
            return invalid(BEHIND);
        }
        let lost = |dut: &StepsDut| {
            let of = |f: fn(&StageResult) -> f64| dut.stages.iter().map(f).sum::<f64>();
            percent(share(of(|s| s.lost[0]), of(|s| s.sent[0])))
        };
        html! {
            @if let Some((first, others)) = self.duts.split_first() {
                @for dut in others {
                    p.ratio { "RT lost with " (dut.name) ": " strong { (lost(dut)) } ", with " (first.name) ": " strong { (lost(first)) } "." }
                }
            }
            p {
                "A load of 1 is what the kernel forwards without loss. Each point is a piece of " (self.bin_ms) " ms, of "
                (self.repeat) " trials together."
            }
        }
    }

    fn table(&self) -> Table {
        let mut stages = table(&[
            "router", "load", "from ms", "RT sent", "RT lost", "last ms", "max us", "BE sent",
            "BE lost", "last ms", "max us",
        ]);
        for dut in &self.duts {
            for s in &dut.stages {
                let mut row = vec![
                    dut.name.clone(),
                    s.load.clone(),
                    format!("{:.0}", s.begins_s * 1e3),
                ];
                for class in [0, 1] {
                    row.extend([
                        format!("{:.0}", s.sent[class]),
                        format!("{:.0}", s.lost[class]),
                        format!("{:.0}", s.last_loss_ms[class]),
                        format!("{:.0}", s.max_us[class]),
                    ]);
                }
                stages.add_row(row);
            }
        }
        stages
    }
}

fn over_time(title: &str, y: Axis<'_>, lines: &[Line]) -> Result<Markup, PlotError> {
    let plot = Plot {
        title,
        x: Axis {
            says: "time at which packets are sent, ms",
            ..Axis::default()
        },
        y,
        lines,
        ..Plot::default()
    };
    plot.figure()
}

impl std::fmt::Display for StepsReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.valid {
            writeln!(
                f,
                "INVALID: the generator fell behind; give lower loads (--profile). These are no results:"
            )?;
        }
        writeln!(
            f,
            "the kernel forwards {:.3} Mpps without loss, {} % RT, frames of {} bytes, medians of {} trials\n",
            self.capacity_pps / 1e6,
            self.traffic.rt_ratio * 100.0,
            self.traffic.frame,
            self.repeat
        )?;
        write!(
            f,
            "{}\n\nlast ms: how long into the stage the last lost packet was sent\n\nsettings, the same for all:\n{}",
            self.table(),
            settings(&self.settings)
        )
    }
}
