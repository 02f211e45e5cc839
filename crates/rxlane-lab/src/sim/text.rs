//! Results of `sim run` for people.

use comfy_table::{CellAlignment, Table, presets};
use rxlane_sim::output::text_of;
use rxlane_sim::run::{Estimate, Row};

fn number(v: f64) -> String {
    let size = v.abs();
    if size >= 1000.0 || v == v.trunc() {
        format!("{v:.0}")
    } else if size >= 10.0 {
        format!("{v:.1}")
    } else {
        format!("{v:.3}")
    }
}

fn with_interval(e: &Estimate) -> String {
    match e.ci95 {
        Some(ci) if ci > 0.0 => format!("{} +- {}", number(e.mean), number(ci)),
        _ => number(e.mean),
    }
}

/// One point: every metric. A sweep: a line a point.
pub(super) fn of(rows: &[Row]) -> String {
    match rows {
        [row] => one(row),
        rows => sweep(rows),
    }
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn one(row: &Row) -> String {
    let mut table = table();
    table.set_header([
        "metric",
        "mean, with the 95 % confidence interval of replications",
    ]);
    for e in &row.metrics {
        table.add_row([e.name.clone(), with_interval(e)]);
    }
    format!("{table}\n")
}

fn sweep(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return "no points\n".into();
    };
    let latencies: Vec<&str> = first
        .metrics
        .iter()
        .map(|e| e.name.as_str())
        .filter(|n| n.starts_with("latency_us.") && (n.ends_with(".mean") || n.ends_with(".p99")))
        .collect();
    let metrics: Vec<&str> = ["throughput_pps", "loss", "cpu", "irq_per_s"]
        .into_iter()
        .chain(latencies)
        .collect();
    let mut table = table();
    let keys = first.keys.keys().map(String::as_str);
    table.set_header(
        ["case"]
            .into_iter()
            .chain(keys)
            .chain(metrics.iter().copied()),
    );
    for row in rows {
        let cells = metrics
            .iter()
            .map(|m| row.estimate(m).map(with_interval).unwrap_or_default());
        let keys = row.keys.values().map(text_of);
        table.add_row([row.case.clone()].into_iter().chain(keys).chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n")
}
