//! Realtime response under load, as a table, as a page, and as data files of flent.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::UNIX_EPOCH;

use flate2::Compression;
use flate2::write::GzEncoder;
use maud::html;
use rxlane_report::page::{Page, TestBed};
use rxlane_report::plot::{Axis, Line, Plot};
use serde_json::{Value, json};

use super::html::{bed, data};
use super::table::{settings, table};
use crate::BenchError;
use crate::call::{RrulReport, RrulTrial, Series, within};

/// Probes by their names.
const PING: &str = "Ping (ms) UDP ";

impl RrulTrial {
    fn name(&self) -> String {
        format!("{} {}", self.dut, self.round)
    }

    /// Name of its data file for flent.
    pub fn file(&self) -> String {
        format!("rrul-{}-{}.flent.gz", self.dut, self.round)
    }

    fn named<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Series> {
        self.series
            .iter()
            .filter(move |s| s.name.starts_with(prefix))
    }

    /// Mean of what connections brought together, Mbit/s.
    fn brought(&self, prefix: &str) -> f64 {
        let mean = |s: &Series| {
            let sum: f64 = s.points.iter().map(|(_, value)| value).sum();
            sum / s.points.len().max(1) as f64
        };
        // A sum of nothing is -0.
        self.named(prefix).map(mean).sum::<f64>() + 0.0
    }
}

impl RrulReport {
    fn length_s(&self) -> f64 {
        self.seconds + 2.0 * self.delay_s
    }

    /// A data file of flent (`.flent.gz`, format 4) of one device, which its plots of the test `rrul` take.
    ///
    /// # Errors
    /// When a time or a number has no text.
    pub fn flent(&self, trial: &RrulTrial) -> Result<Vec<u8>, BenchError> {
        let wrong = |e: &dyn std::fmt::Display| BenchError::Parameter(format!("a data file: {e}"));
        let text = serde_json::to_vec(&self.as_flent(trial)).map_err(|e| wrong(&e))?;
        let mut file = GzEncoder::new(Vec::new(), Compression::default());
        file.write_all(&text).map_err(|e| wrong(&e))?;
        file.finish().map_err(|e| wrong(&e))
    }

    /// Seconds since a trial began, and every series then, with the sums and means that flent computes while it measures, and not
    /// when it plots.
    fn on_grid(&self, trial: &RrulTrial) -> (Vec<f64>, BTreeMap<String, Vec<Option<f64>>>) {
        let steps = (self.length_s() / self.step_s).ceil() as usize;
        let mut results: BTreeMap<String, Vec<Option<f64>>> = trial
            .series
            .iter()
            .map(|s| (s.name.clone(), binned(s, self.step_s, steps)))
            .collect();
        for (name, prefix, mean) in [
            ("TCP upload sum", "TCP upload", false),
            ("TCP upload avg", "TCP upload", true),
            ("TCP download sum", "TCP download", false),
            ("TCP download avg", "TCP download", true),
            ("TCP totals", "TCP", false),
            ("Ping (ms) avg", "Ping", true),
        ] {
            let of: Vec<&Vec<Option<f64>>> =
                trial.named(prefix).map(|s| &results[&s.name]).collect();
            let combined = (0..steps).map(|i| {
                let known: Vec<f64> = of.iter().filter_map(|values| values[i]).collect();
                let sum: f64 = known.iter().sum();
                let count = if mean { known.len() } else { 1 };
                (!known.is_empty()).then(|| sum / count as f64)
            });
            let combined = combined.collect();
            results.insert(name.into(), combined);
        }
        let at = (0..steps).map(|i| i as f64 * self.step_s);
        (at.collect(), results)
    }

    fn as_flent(&self, trial: &RrulTrial) -> Value {
        let (xs, results) = self.on_grid(trial);
        let epoch = trial
            .began
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64();
        let raw: BTreeMap<&str, Vec<Value>> = trial
            .series
            .iter()
            .map(|s| {
                let points = s.points.iter();
                let raw = points.map(|(at, value)| json!({"t": epoch + at, "val": value}));
                (s.name.as_str(), raw.collect())
            })
            .collect();
        let units = |s: &Series| {
            let units = if s.name.starts_with(PING) {
                "ms"
            } else {
                "Mbits/s"
            };
            (s.name.clone(), json!({"UNITS": units}))
        };
        let began = humantime::format_rfc3339_micros(trial.began).to_string();
        json!({
            "version": 4,
            "x_values": xs,
            "results": results,
            "raw_values": raw,
            "metadata": {
                "NAME": "rrul",
                "TITLE": trial.name(),
                "TIME": began,
                "T0": began,
                "HOST": "10.20.0.2",
                "HOSTS": ["10.20.0.2"],
                "LOCAL_HOST": "rxlane-lab lab",
                "LENGTH": self.seconds,
                "TOTAL_LENGTH": self.length_s(),
                "STEP_SIZE": self.step_s,
                "IP_VERSION": 4,
                "TEST_PARAMETERS": {},
                "NOTE": format!("rxlane {}; {}; {}", env!("CARGO_PKG_VERSION"), self.load, settings(&self.settings)),
                "DATA_FILENAME": trial.file(),
                "SERIES_META": trial.series.iter().map(units).collect::<BTreeMap<_, _>>(),
            },
        })
    }

    /// The report as one HTML file, made on `machine`.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub fn html(&self, machine: &TestBed) -> Result<String, BenchError> {
        let mut plots = Vec::new();
        let grids: Vec<_> = self.trials.iter().map(|t| self.on_grid(t)).collect();
        let mut draw = |title: &str, says: &str, log: bool, name: &str| {
            let line = |(trial, (at, series)): (&RrulTrial, &(Vec<f64>, BTreeMap<_, _>))| {
                let of_dut = |t: &RrulTrial| t.dut == trial.dut;
                let values: Option<&Vec<Option<f64>>> = series.get(name);
                let known = at.iter().zip(values.into_iter().flatten());
                Line {
                    label: trial.name(),
                    points: known.filter_map(|(at, v)| Some((*at, (*v)?))).collect(),
                    colour: self.trials.iter().position(of_dut).unwrap_or(0),
                    dashed: trial.round > 1,
                }
            };
            let lines: Vec<Line> = self.trials.iter().zip(&grids).map(line).collect();
            let plot = Plot {
                title,
                x: Axis {
                    says: "s; the load begins at 5",
                    ..Axis::default()
                },
                y: Axis {
                    says,
                    log,
                    ..Axis::default()
                },
                lines: &lines,
                ..Plot::default()
            };
            plots.push(plot.figure()?);
            Ok::<_, BenchError>(())
        };
        for mark in ["EF", "BE", "BK"] {
            let title = format!("Round trip of probes in {mark}, mean of 0.2 s");
            draw(&title, "ms", true, &format!("{PING}{mark}"))?;
        }
        for way in ["download", "upload"] {
            let title = format!("TCP {way}, four connections");
            draw(&title, "Mbit/s", false, &format!("TCP {way} sum"))?;
        }
        let page = Page {
            title: "Realtime response under load".into(),
            lead: html! {
                p { "Four TCP connections each way (best effort, CS1, CS5, EF) beside probes of 50 packets/s in three code points: " (self.load) "." }
            },
            body: html! {
                @for plot in &plots { (plot) }
                h2 { "Figures" }
                (rxlane_report::table::of(&self.table()))
            },
            test_bed: bed(machine, [], &self.settings),
            data: data("rrul", self)?,
        };
        Ok(page.render())
    }

    fn table(&self) -> comfy_table::Table {
        let mut rows = table(&[
            "router",
            "down Mbit/s",
            "up Mbit/s",
            "sent again",
            "probe",
            "lost",
            "idle p50 ms",
            "p50 ms",
            "p99 ms",
        ]);
        let ms = |value: Option<f64>| value.map_or_else(|| "none".into(), |ms| format!("{ms:.2}"));
        let (from, to) = (self.delay_s, self.delay_s + self.seconds);
        for trial in &self.trials {
            for (i, probe) in trial.named(PING).enumerate() {
                let once = |text: String| if i == 0 { text } else { String::new() };
                rows.add_row([
                    once(trial.name()),
                    once(format!("{:.0}", trial.brought("TCP download"))),
                    once(format!("{:.0}", trial.brought("TCP upload"))),
                    once(format!("{:.0}", trial.retransmits)),
                    probe.name.trim_start_matches(PING).to_owned(),
                    probe.lost.to_string(),
                    ms(within(probe, 0.0, from, 0.5)),
                    ms(within(probe, from, to, 0.5)),
                    ms(within(probe, from, to, 0.99)),
                ]);
            }
        }
        rows
    }
}

/// The mean of the points of each step.
fn binned(series: &Series, step_s: f64, steps: usize) -> Vec<Option<f64>> {
    let mut bins = vec![(0.0, 0u32); steps];
    for (at, value) in &series.points {
        if let Some((sum, count)) = bins.get_mut((at / step_s) as usize) {
            *sum += value;
            *count += 1;
        }
    }
    bins.into_iter()
        .map(|(sum, count)| (count > 0).then(|| sum / f64::from(count)))
        .collect()
}

impl std::fmt::Display for RrulReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (load, s) = (&self.load, self.seconds);
        writeln!(f, "settings\n{}", settings(&self.settings))?;
        write!(
            f,
            "{}\n{load}, four code points; {s} s, each trial a row",
            self.table()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Direction;
    use crate::call::Load;
    use crate::lab::Firewall;

    #[test]
    fn flent_gets_sums_and_means_of_what_is_known_on_one_grid() {
        let series = |name: &str, points: &[(f64, f64)]| Series {
            name: name.into(),
            lost: 0,
            points: points.to_vec(),
        };
        let trial = RrulTrial {
            dut: "kernel".into(),
            round: 1,
            began: UNIX_EPOCH,
            retransmits: 0.0,
            series: vec![
                series("TCP upload BE", &[(0.5, 10.0)]),
                series("TCP upload EF", &[(0.5, 30.0)]),
                series("Ping (ms) UDP EF", &[(0.05, 1.0), (0.15, 3.0), (1.1, 9.0)]),
            ],
        };
        let report = RrulReport {
            seconds: 1.0,
            delay_s: 0.1,
            step_s: 0.2,
            settings: BTreeMap::new(),
            load: Load {
                firewall: Firewall::None,
                flows: 4,
                direction: Direction::Both,
                congestion: "cubic".into(),
                ecn: false,
                link_bps: None,
                link_in_bps: None,
            },
            trials: vec![trial],
        };
        let flent = report.as_flent(&report.trials[0]);
        assert_eq!(flent["x_values"].as_array().unwrap().len(), 6);
        let of = |name: &str| flent["results"][name].clone();
        assert_eq!(
            of("TCP upload sum"),
            json!([null, null, 40.0, null, null, null])
        );
        assert_eq!(
            of("TCP upload avg"),
            json!([null, null, 20.0, null, null, null])
        );
        assert_eq!(
            of("Ping (ms) avg"),
            json!([2.0, null, null, null, null, 9.0])
        );
        assert_eq!(
            flent["raw_values"]["Ping (ms) UDP EF"][2],
            json!({"t": 1.1, "val": 9.0})
        );
        assert_eq!(flent["metadata"]["TIME"], "1970-01-01T00:00:00.000000Z");
        let shown = report.to_string();
        let row = "kernel 1  0            40           0           EF     0     1.00         3.00    3.00";
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert!(
            shown.lines().any(|line| words(line) == words(row)),
            "{shown}"
        );
        assert!(!report.flent(&report.trials[0]).unwrap().is_empty());
    }
}
