//! Self-contained HTML pages.

use rxlane_report::plot::{Axes, Line, lines};
use rxlane_report::{escape, page, preformatted};

use super::{LatencyReport, SweepReport};
use crate::BenchError;
use crate::hog::Hog;

impl LatencyReport {
    /// The report as one HTML file.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub fn html(&self) -> Result<String, BenchError> {
        let mut body = String::new();
        for (class, name) in [(0, "RT (marked EF)"), (1, "best effort")] {
            if self.duts.iter().all(|d| d.classes[class].received == 0.0) {
                continue;
            }
            let cdf: Vec<Line> = self
                .duts
                .iter()
                .zip(&self.latency_ns)
                .enumerate()
                .map(|(colour, (dut, histograms))| {
                    // Lost packets never arrive, so the curve of a lossy router ends below 100 %.
                    let arrived = share(dut.classes[class].received, dut.classes[class].sent);
                    let h = &histograms[class];
                    let points = (0..=400)
                        .map(|i| f64::from(i) / 400.0)
                        .map(|q| {
                            (
                                h.value_at_quantile(q).max(1) as f64 / 1000.0,
                                100.0 * q * arrived,
                            )
                        })
                        .collect();
                    Line {
                        label: dut.name.clone(),
                        points,
                        colour,
                        dashed: false,
                    }
                })
                .collect();
            let title = format!("Latency of {name} packets");
            body += &lines(
                &Axes {
                    title: &title,
                    x: "latency, us (logarithmic)",
                    y: "packets delivered within it, %",
                    log_x: true,
                    ..Axes::default()
                },
                &cdf,
                &[],
            )?;
        }
        let (first, last) = (&self.duts[0], &self.duts[self.duts.len() - 1]);
        let hog = self.hog.map_or_else(String::new, |hog| {
            format!(", of which something else takes {hog}")
        });
        let lead = format!(
            "{}<p>One router core{hog}, offered {:.2} million packets a second, {:.0} % of them real-time traffic. \
             Of the real-time packets <b>{}</b> lost {:.1} %, <b>{}</b> lost {:.1} %. Median and 99th percentile of their latency: \
             {:.0} and {:.0} us against {:.0} and {:.0} us. A curve that ends below 100 % lost the rest.</p>",
            if self.valid {
                ""
            } else {
                "<p class=invalid>Invalid: the generator fell behind. Nothing below is a result.</p>"
            },
            self.offered_pps / 1e6,
            self.traffic.rt_ratio * 100.0,
            escape(&first.name),
            100.0 * share(first.classes[0].lost, first.classes[0].sent),
            escape(&last.name),
            100.0 * share(last.classes[0].lost, last.classes[0].sent),
            first.classes[0].latency_us.p50,
            first.classes[0].latency_us.p99,
            last.classes[0].latency_us.p50,
            last.classes[0].latency_us.p99,
        );
        Ok(page(
            "rxlane: latency through a router",
            &lead,
            &(body + &preformatted(&self.to_string())),
        ))
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A figure of a sweep: title, axis, logarithmic, the value of a point, and what a model says.
type Figure = (
    &'static str,
    &'static str,
    bool,
    fn(&super::SweepPoint) -> f64,
    Option<fn(&super::Prediction) -> f64>,
);

impl SweepReport {
    /// The report as one HTML file.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub fn html(&self) -> Result<String, BenchError> {
        let figures: [Figure; 7] = [
            (
                "RT latency, 99th percentile",
                "us (logarithmic)",
                true,
                |p| p.dut.classes[0].latency_us.p99,
                None,
            ),
            (
                "RT latency, mean",
                "us (logarithmic)",
                true,
                |p| p.dut.classes[0].latency_us.mean,
                Some(|m| m.mean_us[0]),
            ),
            (
                "BE latency, mean",
                "us (logarithmic)",
                true,
                |p| p.dut.classes[1].latency_us.mean,
                Some(|m| m.mean_us[1]),
            ),
            (
                "RT loss",
                "%",
                false,
                |p| 100.0 * share(p.dut.classes[0].lost, p.dut.classes[0].sent),
                None,
            ),
            (
                "Forwarded, all classes",
                "Mpps",
                false,
                |p| p.dut.forwarded_pps / 1e6,
                Some(|m| m.forwarded_pps / 1e6),
            ),
            (
                "Utilisation of the router's core",
                "%",
                false,
                |p| 100.0 * p.dut.cpu,
                None,
            ),
            (
                "Interrupts: wake-ups of NAPI and worker threads",
                "a second",
                false,
                |p| p.dut.wakeups_per_s + p.dut.worker_wakeups_per_s,
                None,
            ),
        ];
        // Over the loads, or at one load over what others take of the core.
        let over_hogs = self
            .points
            .iter()
            .all(|p| p.offered_pps == self.points[0].offered_pps)
            && self.points.iter().any(|p| p.hog != self.points[0].hog);
        let (x, x_of): (&str, fn(&super::SweepPoint) -> f64) = if over_hogs {
            ("share of the core that a hog had, %", |p| {
                100.0 * p.dut.hog_share
            })
        } else {
            ("offered load, Mpps", |p| p.offered_pps / 1e6)
        };
        let mut hogs: Vec<Option<Hog>> = Vec::new();
        for point in &self.points {
            if !hogs.contains(&point.hog) {
                hogs.push(point.hog);
            }
        }
        if over_hogs {
            hogs.truncate(1);
        }
        let mut names: Vec<&str> = self.points.iter().map(|p| p.dut.name.as_str()).collect();
        names.dedup();
        names.sort_unstable();
        names.dedup();
        let mut ratios: Vec<f64> = self.points.iter().map(|p| p.rt_ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.dedup();
        let mut body = String::new();
        for (title, y, log_y, value, model) in figures {
            let mut drawn = Vec::new();
            let series = ratios
                .iter()
                .flat_map(|ratio| hogs.iter().map(move |hog| (*ratio, *hog)))
                .enumerate();
            for (s, (ratio, hog)) in series {
                for (n, name) in names.iter().enumerate() {
                    let of_series = || {
                        self.points.iter().filter(move |p| {
                            p.dut.name == *name
                                && p.rt_ratio == ratio
                                && (over_hogs || p.hog == hog)
                        })
                    };
                    let mut label = format!("{name}, {:.0} % RT", ratio * 100.0);
                    if let (Some(hog), false) = (hog, over_hogs) {
                        label += &format!(", hog {hog}");
                    }
                    let measured = of_series().filter(|p| p.valid);
                    drawn.push(Line {
                        label: label.clone(),
                        points: measured.map(|p| (x_of(p), value(p))).collect(),
                        colour: n,
                        dashed: s % 2 == 1,
                    });
                    let Some(model) = model else { continue };
                    let points: Vec<(f64, f64)> = of_series()
                        .filter_map(|p| Some((x_of(p), model(&p.predicted?))))
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
            body += &lines(
                &Axes {
                    title,
                    x,
                    y,
                    log_y,
                    ..Axes::default()
                },
                &drawn,
                &[],
            )?;
        }
        let lead = "<p>Every router at every load, in turn, under the same settings. Points at which the generator fell behind are left out.</p>";
        Ok(page(
            "rxlane: sweep over load and RT ratio",
            lead,
            &(body + &preformatted(&self.to_string())),
        ))
    }
}
