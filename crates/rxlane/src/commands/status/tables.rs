//! Tables that not every router has.

use std::fmt::Write;

use comfy_table::{Table, presets};
use rxlane_dataplane::EngineStatus;
use rxlane_dataplane::queues::QueueStatus;
use rxlane_dataplane::status::Status;

pub(super) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

/// Queues in which something waits, has waited or was lost.
pub(super) fn write_queues(out: &mut String, queues: &[QueueStatus]) -> std::fmt::Result {
    let mut used = table(["queue", "port", "core", "class", "holds", "waited", "lost"]);
    let count = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
    let is_used =
        |q: &&QueueStatus| q.lost > 0 || q.holds.unwrap_or(0) > 0 || q.waited.unwrap_or(0) > 0;
    for queue in queues.iter().filter(is_used) {
        used.add_row([
            queue.queue.name().to_owned(),
            queue.port.clone().unwrap_or_default(),
            count(queue.core.map(|core| core as u64)),
            queue.class.clone().unwrap_or_default(),
            count(queue.holds),
            count(queue.waited),
            queue.lost.to_string(),
        ]);
    }
    match used.row_count() {
        0 => writeln!(
            out,
            "\nno queue that is counted has lost a packet or made one wait"
        ),
        _ => writeln!(out, "\n{used}"),
    }
}

/// How long packets were inside of the router, for classes that had some.
pub(super) fn write_latencies(out: &mut String, s: &Status) -> std::fmt::Result {
    let mut latencies = table([
        "latency inside",
        "measured",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "longest us",
    ]);
    let measured = s
        .classes
        .iter()
        .filter_map(|c| Some((c, c.latency.as_ref()?)));
    for (c, l) in measured.filter(|(_, l)| l.measured > 0) {
        let us = |us: f64| format!("{us:.1}");
        latencies.add_row([
            c.name.clone(),
            l.measured.to_string(),
            us(l.p50_us),
            us(l.p99_us),
            us(l.p999_us),
            us(l.longest_us),
        ]);
    }
    if latencies.row_count() > 0 {
        writeln!(out, "\n{latencies}")?;
    }
    Ok(())
}

pub(super) fn write_engine(out: &mut String, engine: &EngineStatus) -> std::fmt::Result {
    let mut workers = table([
        "worker",
        "core",
        "mode",
        "sleeps",
        "interrupts",
        "polls",
        "forwarded",
        "to kernel",
        "Tx full",
        "interval us",
    ]);
    for (i, w) in engine.workers.iter().enumerate() {
        let c = &w.counters;
        workers.add_row([
            i.to_string(),
            w.core.to_string(),
            if c.zero_copy { "zero-copy" } else { "copy" }.to_owned(),
            c.sleeps.to_string(),
            c.interrupts.to_string(),
            c.polls.to_string(),
            c.forwarded.to_string(),
            c.to_kernel.values().sum::<u64>().to_string(),
            c.tx_full.to_string(),
            format!("{:.1}", c.interval_ns as f64 / 1000.0),
        ]);
    }
    writeln!(out, "\n{workers}")?;
    for (i, w) in engine.workers.iter().enumerate() {
        writeln!(out, "worker {i}: {}", w.beside_napi)?;
    }
    let mut rings = table([
        "port",
        "queue",
        "ring",
        "received",
        "occupancy",
        "early drops",
        "failed",
    ]);
    for r in &engine.rings {
        rings.add_row([
            r.port.clone(),
            r.queue.to_string(),
            r.ring.to_string(),
            r.received.to_string(),
            r.occupancy.to_string(),
            r.early_drops.to_string(),
            r.failed.to_string(),
        ]);
    }
    if rings.row_count() > 0 {
        writeln!(out, "\n{rings}")?;
    }
    Ok(())
}
