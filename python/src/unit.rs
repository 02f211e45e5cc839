//! Units, which names end with: `latency_us.rt.p99`, `traffic.pps`, `cpu.packet_ns`.

use pyo3::prelude::*;

/// Units that a part of a name may end with, the longest first.
const SUFFIXES: [(&str, &str); 8] = [
    ("pps", "packets/s"),
    ("bps", "bit/s"),
    ("per_second", "1/s"),
    ("per_s", "1/s"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_s", "s"),
];

/// Names of metrics whose unit nothing in them says, by how they begin.
const METRICS: [(&str, &str); 37] = [
    ("load_latency_cycles_us", "cycles us"),
    ("cycles_per_packet", "cycles"),
    ("packets_per_poll", "packets"),
    ("qdisc_dropped", "packets"),
    ("tx_dropped", "packets"),
    ("early_dropped", "packets"),
    ("ring_dropped", "packets"),
    ("queued_before", "packets"),
    ("queued_after", "packets"),
    ("irq_per_s", "1/s"),
    ("polls_per_s", "1/s"),
    ("dropped_", "packets"),
    ("delivered", "packets"),
    ("reordered", "packets"),
    ("arrived", "packets"),
    ("served", "packets"),
    ("packets", "packets"),
    ("sent", "packets"),
    ("responses", "1"),
    ("throughput_pps", "packets/s"),
    ("application_use", "1"),
    ("transmit_use", "1"),
    ("most_regret", "1"),
    ("least_flow", "1"),
    ("least_use", "1"),
    ("fairness", "1"),
    ("loss", "1"),
    ("cpu", "1"),
    ("cores_in_use", "1"),
    ("load", "1"),
    ("response_us", "us"),
    ("own_wait_us", "us"),
    ("waiting_us", "us"),
    ("latency_us", "us"),
    ("index", "1"),
    ("seed", "1"),
    ("replications", "1"),
];

/// Keys whose unit nothing in them says.
const KEYS: [(&str, &str); 8] = [
    ("seconds", "s"),
    ("traffic.rt_ratio", "1"),
    ("traffic.link_load", "1"),
    ("traffic.frame", "bytes"),
    ("nic.descriptors", "packets"),
    ("nic.tx_descriptors", "packets"),
    ("reception.device_budget", "packets"),
    ("reception.ring_budget", "packets"),
];

/// Tables of a scenario, by which its keys are told from metrics.
const TABLES: [&str; 10] = [
    "traffic",
    "nic",
    "interrupt",
    "cpu",
    "reception",
    "express",
    "host",
    "worker",
    "transmit",
    "qdisc",
];

fn by_suffix(name: &str) -> Option<&'static str> {
    let ends = |(suffix, unit): &(&str, &'static str)| name.ends_with(suffix).then_some(*unit);
    SUFFIXES.iter().find_map(ends)
}

/// The unit of a scenario's key; none where its name says none.
pub(crate) fn of_key(key: &str) -> Option<&'static str> {
    let known = KEYS.iter().find(|(name, _)| *name == key);
    known.map(|(_, unit)| *unit).or_else(|| by_suffix(key))
}

/// The unit of a metric, or of its interval.
pub(crate) fn of_metric(name: &str) -> Option<&'static str> {
    let known = METRICS.iter().find(|(begin, _)| name.starts_with(begin));
    known.map(|(_, unit)| *unit)
}

/// The unit of a metric or of a scenario's key, as the columns of results carry it: `us`, `packets/s`, `1` for shares and
/// counts of nothing in particular; None where there is none.
///
/// >>> rxlane.unit_of("latency_us.rt.p99"), rxlane.unit_of("loss"), rxlane.unit_of("cpu.packet_ns")
/// ('us', '1', 'ns')
#[pyfunction]
pub(crate) fn unit_of(name: &str) -> Option<&'static str> {
    match name.split_once('.') {
        Some((table, _)) if TABLES.contains(&table) => of_key(name),
        _ => of_metric(name).or_else(|| of_key(name)),
    }
}
