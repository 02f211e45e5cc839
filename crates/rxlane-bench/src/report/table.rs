//! Tables for the terminal.

use comfy_table::{CellAlignment, Table, presets};

use crate::core_use::CoreShares;
use crate::hog::Hog;

use crate::results::{DisturbanceReport, DutResult, LatencyReport, SweepReport, ThroughputReport};

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(header.iter().copied());
    // Names on the left, numbers on the right.
    for i in 2..header.len() {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

pub(super) fn settings(settings: &std::collections::BTreeMap<String, String>) -> String {
    settings
        .iter()
        .map(|(k, v)| format!("  {k}: {v}\n"))
        .collect()
}

fn rows(table: &mut Table, dut: &DutResult, lead: &[String]) {
    for class in &dut.classes {
        let l = &class.latency_us;
        let loss = if class.sent > 0.0 {
            100.0 * class.lost / class.sent
        } else {
            0.0
        };
        let mut row = lead.to_vec();
        row.extend([
            dut.name.clone(),
            class.name.clone(),
            format!("{:.0}", class.sent),
            format!("{:.0}", class.lost),
            format!("{loss:.2}"),
            format!("{:.0}", class.reordered),
            format!("{:.1}", l.p50),
            format!("{:.1}", l.p90),
            format!("{:.1}", l.p99),
            format!("{:.1}", l.p999),
            format!("{:.0}", l.max),
        ]);
        table.add_row(row);
    }
}

const COLUMNS: [&str; 11] = [
    "router",
    "class",
    "sent",
    "lost",
    "%",
    "reordered",
    "p50 us",
    "p90 us",
    "p99 us",
    "p99.9 us",
    "max us",
];

/// What the router's core was found doing, %.
const CORE: [&str; 9] = [
    "receive", "programs", "express", "stack", "drops", "hog", "other", "idle", "samples",
];

fn core_of(core: &CoreShares) -> Vec<String> {
    let shares = [
        core.receive,
        core.programs,
        core.express,
        core.stack,
        core.drops,
        core.hog,
        core.other,
        core.idle,
    ];
    let percent = shares.iter().map(|share| format!("{:.1}", 100.0 * share));
    percent.chain([core.samples.to_string()]).collect()
}

const TOTALS: [&str; 6] = [
    "forwarded Mpps",
    "core in use %",
    "stalled %",
    "NAPI wake-ups/s",
    "worker wake-ups/s",
    "TCP Mbit/s",
];

fn totals_of(dut: &DutResult, connections: u32) -> [String; 6] {
    [
        format!("{:.3}", dut.forwarded_pps / 1e6),
        format!("{:.0}", dut.cpu * 100.0),
        format!("{:.2}", dut.stalled * 100.0),
        format!("{:.0}", dut.wakeups_per_s),
        format!("{:.0}", dut.worker_wakeups_per_s),
        match connections {
            0 => String::new(),
            n => format!("{:.1} on {n}", dut.tcp_bps / 1e6),
        },
    ]
}

/// What a hog had of the core, and what it should have had, so that one that was kept from it shows.
fn hog_of(dut: &DutResult, hog: Option<Hog>) -> String {
    hog.map_or_else(String::new, |hog| {
        format!(
            "hog had {:.0} of {:.0} %",
            dut.hog_share * 100.0,
            hog.share() * 100.0
        )
    })
}

/// Each of several cores.
const EACH_CORE: [&str; 6] = [
    "core",
    "forwarded Mpps",
    "rt p99 us",
    "be p99 us",
    "router had %",
    "traffic had %",
];

fn each_core_of(dut: &DutResult) -> impl Iterator<Item = Vec<String>> {
    dut.cores.iter().map(|core| {
        vec![
            dut.name.clone(),
            String::new(),
            core.core.to_string(),
            format!("{:.3}", core.forwarded_pps / 1e6),
            format!("{:.1}", core.p99_us[0]),
            format!("{:.1}", core.p99_us[1]),
            format!("{:.0}", core.router_share * 100.0),
            format!("{:.0}", core.traffic_share * 100.0),
        ]
    })
}

impl LatencyReport {
    /// Classes, totals, and what the cores were found doing if they were sampled.
    pub(super) fn tables(&self) -> Vec<Table> {
        let mut classes = table(&COLUMNS);
        let mut totals = table(&[&["router", ""], &TOTALS[..]].concat());
        let mut cores = table(&[&["router", "of the core, %"], &CORE[..]].concat());
        let mut each = table(&[&["router", ""], &EACH_CORE[..]].concat());
        for dut in &self.duts {
            rows(&mut classes, dut, &[]);
            if let Some(core) = &dut.core {
                cores.add_row([vec![dut.name.clone(), String::new()], core_of(core)].concat());
            }
            each.add_rows(each_core_of(dut));
            let mut row = vec![dut.name.clone(), hog_of(dut, self.hog)];
            row.extend(totals_of(dut, self.tcp));
            totals.add_row(row);
        }
        let tables = [classes, totals, each, cores].into_iter();
        tables.filter(|table| table.row_count() > 0).collect()
    }
}

impl std::fmt::Display for LatencyReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.valid {
            writeln!(
                f,
                "INVALID: the generator fell behind; offer less (--offered). These are no results:"
            )?;
        }
        write!(f, "offered {:.3} Mpps", self.offered_pps / 1e6)?;
        if self.kernel_capacity_pps > 0.0 {
            write!(
                f,
                " (the kernel forwards {:.3} Mpps without loss)",
                self.kernel_capacity_pps / 1e6
            )?;
        }
        writeln!(
            f,
            ", {} % RT, frames of {} bytes, {} x {} s, medians",
            self.traffic.rt_ratio * 100.0,
            self.traffic.frame,
            self.repeat,
            self.seconds
        )?;
        writeln!(f)?;
        for table in self.tables() {
            writeln!(f, "{table}\n")?;
        }
        for (pair, ratios) in &self.ratios {
            let parts: Vec<String> = ratios
                .iter()
                .map(|(what, r)| {
                    if *r < 0.5 {
                        format!("{what} 1/{:.1}", 1.0 / r)
                    } else {
                        format!("{what} {r:.2}")
                    }
                })
                .collect();
            writeln!(f, "{pair}: {}", parts.join(", "))?;
        }
        write!(
            f,
            "\nsettings, the same for all:\n{}",
            settings(&self.settings)
        )
    }
}

impl std::fmt::Display for ThroughputReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.valid {
            writeln!(
                f,
                "INVALID: at some rate the generator, not the router, was the limit"
            )?;
        }
        writeln!(
            f,
            "highest rate with at most {} % loss, frames of {} bytes, {} % RT, {} trials a rate, width {} %",
            self.loss_tolerance * 100.0,
            self.traffic.frame,
            self.traffic.rt_ratio * 100.0,
            self.trials,
            self.width * 100.0
        )?;
        let mut rates = table(&["router", "", "Mpps", "lowest", "highest", "Gbit/s"]);
        for dut in &self.duts {
            rates.add_row([
                dut.name.clone(),
                String::new(),
                format!("{:.3}", dut.pps / 1e6),
                format!("{:.3}", dut.min_pps / 1e6),
                format!("{:.3}", dut.max_pps / 1e6),
                format!("{:.3}", dut.bps / 1e9),
            ]);
        }
        writeln!(f, "\n{rates}\n")?;
        for (pair, ratio) in &self.ratios {
            writeln!(f, "{pair}: {ratio:.3}")?;
        }
        write!(
            f,
            "\nsettings, the same for all:\n{}",
            settings(&self.settings)
        )
    }
}

impl std::fmt::Display for DisturbanceReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.valid {
            writeln!(f, "INVALID: the generator fell behind; offer less (--pps)")?;
        }
        writeln!(
            f,
            "packets lost at {:.0} kpps in {} s, each of {} trials; {} reloads in a trial, of anything else one",
            self.offered_pps / 1e3,
            self.seconds,
            self.repeat,
            self.reloads
        )?;
        let mut losses = table(&[
            "device",
            "happening",
            "sent",
            "stolen ms",
            "reordered",
            "RT lost",
            "BE lost",
        ]);
        let each = |lost: &[f64]| {
            let texts: Vec<String> = lost.iter().map(|l| format!("{l:.0}")).collect();
            texts.join(" ")
        };
        for d in &self.disturbances {
            losses.add_row([
                d.dut.clone(),
                d.name.clone(),
                format!("{:.0}", d.sent),
                d.stolen_ms.to_string(),
                format!("{:.0}", d.reordered),
                each(&d.rt_lost),
                each(&d.be_lost),
            ]);
        }
        write!(
            f,
            "\n{losses}\n\nsettings, the same for all:\n{}",
            settings(&self.settings)
        )
    }
}

impl SweepReport {
    /// Points, their totals, and what a model says of them if it was asked.
    pub(super) fn tables(&self) -> Vec<Table> {
        const LEAD: [&str; 3] = ["Mpps", "RT %", "hog"];
        let mut points = table(&[&LEAD[..], &COLUMNS[..]].concat());
        let mut totals = table(&[&LEAD[..], &["router", ""], &TOTALS[..]].concat());
        for point in &self.points {
            let invalid = if point.valid { "" } else { " INVALID" };
            let lead = [
                format!("{:.3}{invalid}", point.asked_pps / 1e6),
                format!("{:.0}", point.rt_ratio * 100.0),
                point
                    .hog
                    .map_or_else(|| "none".into(), |hog| hog.to_string()),
            ];
            rows(&mut points, &point.dut, &lead);
            let mut row = lead.to_vec();
            row.extend([point.dut.name.clone(), hog_of(&point.dut, point.hog)]);
            row.extend(totals_of(&point.dut, self.tcp));
            totals.add_row(row);
        }
        let tables = [points, totals, predictions(self)].into_iter();
        tables.filter(|table| table.row_count() > 0).collect()
    }
}

impl std::fmt::Display for SweepReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for table in self.tables() {
            writeln!(f, "{table}\n")?;
        }
        write!(
            f,
            "settings, the same for all:\n{}",
            settings(&self.settings)
        )
    }
}

/// Each point beside what the model says, with the error of the model.
fn predictions(report: &SweepReport) -> Table {
    let mut all = table(&[
        "router",
        "",
        "Mpps",
        "RT %",
        "forwarded",
        "model",
        "error %",
        "RT mean us",
        "model",
        "error %",
        "BE mean us",
        "model",
        "error %",
    ]);
    for point in &report.points {
        let Some(model) = point.predicted else {
            continue;
        };
        let state = match (point.valid, model.stable) {
            (false, _) => "INVALID",
            (true, true) => "",
            (true, false) => "overload",
        };
        let mut row = vec![
            point.dut.name.clone(),
            state.to_owned(),
            format!("{:.3}", point.asked_pps / 1e6),
            format!("{:.0}", point.rt_ratio * 100.0),
        ];
        let means = point.dut.classes.iter().map(|c| c.latency_us.mean);
        let forwarded = (point.dut.forwarded_pps / 1e6, model.forwarded_pps / 1e6, 3);
        let latencies = means.zip(model.mean_us).map(|(a, b)| (a, b, 1));
        for (measured, modelled, digits) in std::iter::once(forwarded).chain(latencies) {
            row.push(format!("{measured:.digits$}"));
            row.push(format!("{modelled:.digits$}"));
            row.push(format!("{:+.1}", 100.0 * (modelled / measured - 1.0)));
        }
        all.add_row(row);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hog_that_was_kept_from_its_share_shows() {
        let dut = DutResult {
            cores: Vec::new(),
            name: "kernel".into(),
            offered_pps: 1e5,
            forwarded_pps: 1e5,
            cpu: 0.9,
            hog_share: 0.31,
            stalled: 0.0,
            tcp_bps: 0.0,
            core: None,
            packet_ns: None,
            wakeups_per_s: 0.0,
            worker_wakeups_per_s: 0.0,
            classes: Vec::new(),
        };
        let hog = "60/100us".parse().ok();
        assert_eq!(hog_of(&dut, hog), "hog had 31 of 60 %");
        assert_eq!(hog_of(&dut, None), "");
    }
}
