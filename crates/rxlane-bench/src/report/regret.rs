//! The matrix of regret as lines, worst cases and heat maps.

use comfy_table::Table;
use maud::html;
use rxlane_report::heat::{self, Cell};
use rxlane_report::page::{Page, TestBed};
use serde::Serialize;

use super::html::{bed, data};
use super::table::{settings, table};
use crate::BenchError;
use crate::frame::Frame;
use crate::regret::{FORWARDED, P99_BELOW, Point, RT_P99_ABOVE, Regret, RegretReport};

/// The worst of one quantity, and where.
#[derive(Debug, Clone, Serialize)]
pub struct Worst {
    /// Device.
    pub dut: String,
    /// Quantity.
    pub what: &'static str,
    /// Its worst value.
    pub value: f64,
    /// What is wanted.
    pub wanted: String,
    /// Points at which it is not as wanted, and points at which it was measured.
    pub missed: [usize; 2],
    /// The point with the worst value.
    pub at: String,
}

/// A quantity, where it counts, and whether more is worse.
struct Quantity {
    what: &'static str,
    counts: fn(&Point) -> bool,
    value: fn(&Regret) -> Option<f64>,
    wanted: f64,
    more_is_worse: bool,
}

/// RT alone fits into half of the core.
fn is_rt_light(p: &Point) -> bool {
    p.rt_ratio > 0.0 && p.rt_ratio * p.load <= 0.5
}

const QUANTITIES: [Quantity; 5] = [
    Quantity {
        what: "forwarded",
        counts: |_| true,
        value: |r| Some(r.forwarded),
        wanted: FORWARDED,
        more_is_worse: false,
    },
    Quantity {
        what: "RT p99 below overload",
        counts: |p| p.load < 1.0,
        value: |r| r.rt_p99,
        wanted: P99_BELOW,
        more_is_worse: true,
    },
    Quantity {
        what: "RT p99 under overload",
        counts: |p| p.load > 1.0 && !p.capacity_limited,
        value: |r| r.rt_p99,
        wanted: RT_P99_ABOVE,
        more_is_worse: true,
    },
    Quantity {
        what: "BE p99 below overload",
        counts: |p| p.load < 1.0,
        value: |r| r.be_p99,
        wanted: P99_BELOW,
        more_is_worse: true,
    },
    Quantity {
        what: "RT loss where RT fits into half of the core",
        counts: is_rt_light,
        value: |r| Some(r.rt_loss),
        wanted: 0.0,
        more_is_worse: true,
    },
];

impl RegretReport {
    /// The worst of each quantity, for each device but the first.
    pub fn worst(&self) -> Vec<Worst> {
        let mut all = Vec::new();
        for (i, dut) in self.duts.iter().enumerate().skip(1) {
            for q in &QUANTITIES {
                let counting = self.points.iter().filter(|p| p.valid && (q.counts)(p));
                let values: Vec<(f64, &Point)> = counting
                    .filter_map(|p| Some(((q.value)(&Regret::of(&p.duts[i], &p.duts[0]))?, p)))
                    .collect();
                let is_missed = |v: f64| {
                    if q.more_is_worse {
                        v > q.wanted
                    } else {
                        v < q.wanted
                    }
                };
                let order = |a: &&(f64, &Point), b: &&(f64, &Point)| a.0.total_cmp(&b.0);
                let worst = if q.more_is_worse {
                    values.iter().max_by(order)
                } else {
                    values.iter().min_by(order)
                };
                let Some((value, at)) = worst else { continue };
                all.push(Worst {
                    dut: dut.clone(),
                    what: q.what,
                    value: *value,
                    wanted: if q.more_is_worse {
                        format!("at most {:.3}", q.wanted)
                    } else {
                        format!("at least {:.3}", q.wanted)
                    },
                    missed: [
                        values.iter().filter(|(v, _)| is_missed(*v)).count(),
                        values.len(),
                    ],
                    at: place(at),
                });
            }
        }
        all
    }

    /// The report as one HTML file, made on `machine`.
    ///
    /// # Errors
    /// When its data cannot be written.
    pub fn html(&self, machine: &TestBed) -> Result<String, BenchError> {
        let mut maps = Vec::new();
        let mut loads: Vec<f64> = self.points.iter().map(|p| p.load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let columns: Vec<String> = loads.iter().map(|l| format!("{l}x")).collect();
        for (i, dut) in self.duts.iter().enumerate().skip(1) {
            for (title, value, good, bad) in MAPS {
                let mut rows: Vec<(String, Vec<Option<Cell>>)> = Vec::new();
                for p in &self.points {
                    let name = row_name(p);
                    if rows.last().is_none_or(|(last, _)| *last != name) {
                        rows.push((name, vec![None; loads.len()]));
                    }
                    let shown = p.valid.then(|| Regret::of(&p.duts[i], &p.duts[0]));
                    let column = loads.iter().position(|l| *l == p.load);
                    if let (Some((_, cells)), Some(c)) = (rows.last_mut(), column) {
                        cells[c] = shown.and_then(|r| value(&r)).map(|v| Cell {
                            text: format!("{v:.2}"),
                            heat: heat(v, good, bad),
                        });
                    }
                }
                let title = format!("{title}: {dut} to {}", self.duts[0]);
                maps.push(heat::map(&title, "load", &columns, &rows));
            }
        }
        let missing = self.points_wanted.saturating_sub(self.points.len());
        let page = Page {
            title: "Is anything worse than with Linux alone?".into(),
            lead: html! {
                (rxlane_report::table::of(&self.worst_table()))
                @if missing > 0 { p.invalid { (missing) " of " (self.points_wanted) " points are not measured yet." } }
                p {
                    "Each cell is one measurement of both routers in turn, one core each. Columns are multiples of what the first one forwards \
                     without loss. Blue is better than Linux alone, white is equal, orange is worse. Empty: more than the generator can send, or \
                     no packets of that class."
                }
            },
            body: html! {
                @for map in &maps { (map) }
                @if let Some(calls) = &self.calls {
                    h2 { "Calls beside TCP" }
                    (rxlane_report::table::of(&calls.table()))
                }
                h2 { "Figures" }
                (rxlane_report::table::of(&lines(self)))
            },
            test_bed: bed(
                machine,
                [("trials".to_owned(), format!("{} s", self.seconds))],
                &self.settings,
            ),
            data: data("regret", self)?,
        };
        Ok(page.render())
    }

    fn worst_table(&self) -> Table {
        let mut worst = table(&["router", "quantity", "worst", "wanted", "missed", "at"]);
        for w in self.worst() {
            worst.add_row([
                w.dut,
                w.what.to_owned(),
                format!("{:.4}", w.value),
                w.wanted,
                format!("{} of {}", w.missed[0], w.missed[1]),
                w.at,
            ]);
        }
        worst
    }
}

/// A heat map: title, value, and which values are as good and as bad as the colours go.
type Map = (&'static str, fn(&Regret) -> Option<f64>, f64, f64);

const MAPS: [Map; 3] = [
    ("Packets forwarded", |r| Some(r.forwarded), 2.0, 0.5),
    ("RT latency, 99th percentile", |r| r.rt_p99, 0.125, 2.0),
    ("BE latency, 99th percentile", |r| r.be_p99, 0.125, 2.0),
];

/// From -1, `good`, over 0 for a ratio of 1, to 1, `bad`, on a logarithmic scale.
fn heat(ratio: f64, good: f64, bad: f64) -> f64 {
    let (v, good, bad) = (ratio.max(1e-9).ln(), good.ln(), bad.ln());
    if v * bad >= 0.0 {
        (v / bad).min(1.0)
    } else {
        -(v / good).min(1.0)
    }
}

fn row_name(p: &Point) -> String {
    let unit = match p.frame {
        Frame::Fixed(_) => " B",
        Frame::Imix => "",
    };
    let rt = p.rt_ratio * 100.0;
    format!("{}, {}{unit}, {rt:.0} % RT", p.firewall, p.frame)
}

fn place(p: &Point) -> String {
    format!("{}, {}x", row_name(p), p.load)
}

fn lines(report: &RegretReport) -> Table {
    let mut header = vec![
        "firewall",
        "frame",
        "RT %",
        "load",
        "Mpps",
        "rounds",
        "router",
        "forwarded",
        "RT p99",
        "RT lost %",
        "BE p99",
        "stalled %",
        "",
    ];
    let last = header.len() - 1;
    header[last] = "regret";
    let mut lines = table(&header);
    for p in &report.points {
        let lead = [
            p.firewall.to_string(),
            p.frame.to_string(),
            format!("{:.0}", p.rt_ratio * 100.0),
            format!("{}x", p.load),
            format!("{:.3}", p.offered_pps / 1e6),
            p.rounds.to_string(),
        ];
        if !p.valid {
            let mut row = lead.to_vec();
            row.push("more than the generator can send".into());
            lines.add_row(row);
            continue;
        }
        let ratio = |r: Option<f64>| r.map_or(String::new(), |r| format!("{r:.2}"));
        for (i, dut) in report.duts.iter().enumerate().skip(1) {
            let r = Regret::of(&p.duts[i], &p.duts[0]);
            let mut row = lead.to_vec();
            row.extend([
                dut.clone(),
                format!("{:.3}", r.forwarded),
                ratio(r.rt_p99),
                format!("{:.2}", r.rt_loss * 100.0),
                ratio(r.be_p99),
                format!("{:.2}", p.duts[i].stalled * 100.0),
                if r.is_none(p.load) { "" } else { "yes" }.into(),
            ]);
            lines.add_row(row);
        }
    }
    lines
}

impl std::fmt::Display for RegretReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first = self.duts.first().map_or("", String::as_str);
        writeln!(
            f,
            "ratios to {first}, trials of {} s; a point that looked worse than wanted was measured twice more, medians; RT lost: without what was sent while the machine stalled\n\n{}\n",
            self.seconds,
            lines(self)
        )?;
        write!(f, "{}\n\n", self.worst_table())?;
        if let Some(calls) = &self.calls {
            write!(f, "calls beside TCP\n\n{}\n\n", calls.figures())?;
        }
        if !self.complete {
            writeln!(
                f,
                "{} of {} points are measured: the same command with the same --record goes on\n",
                self.points.len(),
                self.points_wanted
            )?;
        }
        write!(
            f,
            "settings, the same for all:\n{}",
            settings(&self.settings)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::heat;

    #[test]
    fn colours_go_from_better_over_equal_to_worse() {
        assert_eq!(heat(1.0, 2.0, 0.5), 0.0);
        assert_eq!(heat(0.25, 2.0, 0.5), 1.0);
        assert_eq!(heat(4.0, 2.0, 0.5), -1.0);
        assert_eq!(heat(0.125, 0.125, 2.0), -1.0);
        assert!(heat(1.2, 0.125, 2.0) > 0.2);
        assert!(heat(0.9, 0.125, 2.0) < 0.0);
    }
}
