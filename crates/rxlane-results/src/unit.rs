//! Units, which names end with: `latency_us.rt.p99`, `traffic.pps`, `cpu.packet_ns`.

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
const METRICS: [(&str, &str); 54] = [
    ("throughput_bps", "bit/s"),
    ("offered_pps", "packets/s"),
    ("tcp_bps", "bit/s"),
    ("packet_ns", "ns"),
    ("wakeups_per_s", "1/s"),
    ("worker_wakeups_per_s", "1/s"),
    ("hog_share", "1"),
    ("stalled", "1"),
    ("received", "packets"),
    ("lost", "packets"),
    ("core.samples", "1"),
    ("core.", "1"),
    ("stable", "1"),
    ("load_latency_cycles_us", "cycles us"),
    ("cycles_per_packet", "cycles"),
    ("packets_per_poll", "packets"),
    ("qdisc_dropped", "packets"),
    ("tcp.goodput_bps", "bit/s"),
    ("tcp.fairness", "1"),
    ("tcp.timeouts", "1"),
    ("tcp.", "packets"),
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
const TABLES: [&str; 12] = [
    "bench",
    "traffic",
    "tcp",
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

/// Keys of a scenario that are in no table.
const RUN: [&str; 3] = ["seconds", "warmup_s", "seed"];

fn by_suffix(name: &str) -> Option<&'static str> {
    let ends = |(suffix, unit): &(&str, &'static str)| name.ends_with(suffix).then_some(*unit);
    SUFFIXES.iter().find_map(ends)
}

/// The unit of a scenario's key; none where its name says none.
pub fn of_key(key: &str) -> Option<&'static str> {
    let known = KEYS.iter().find(|(name, _)| *name == key);
    known.map(|(_, unit)| *unit).or_else(|| by_suffix(key))
}

/// The unit of a metric, or of its interval.
pub fn of_metric(name: &str) -> Option<&'static str> {
    let known = METRICS.iter().find(|(begin, _)| name.starts_with(begin));
    known.map(|(_, unit)| *unit)
}

/// The unit of a metric or of a scenario's key; none where there is none.
pub fn of(name: &str) -> Option<&'static str> {
    match is_key(name) {
        true => of_key(name),
        false => of_metric(name).or_else(|| of_key(name)),
    }
}

/// Whether a name is that of a scenario's key, and not of a metric.
pub fn is_key(name: &str) -> bool {
    let table = name.split_once('.').map(|(table, _)| table);
    table.is_some_and(|t| TABLES.contains(&t)) || RUN.contains(&name)
}
