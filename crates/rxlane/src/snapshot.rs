//! What of a router's status is shown and judged. It comes as JSON from the daemon's socket as well as from the maps, so that both look the same.

use std::collections::BTreeMap;

use rxlane_bpf::layout::{ClassCounters, PortCounters};
use rxlane_dataplane::queues::QueueStatus;
use rxlane_dataplane::status::{CoreStatus, LatencyStatus};
use serde::Deserialize;

use crate::one_line;

/// A router at one moment.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) daemon: Option<u32>,
    pub(crate) config_file: String,
    pub(crate) kernel: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) reload_refused: Option<String>,
    pub(crate) classes: Vec<Class>,
    pub(crate) cores: Vec<CoreStatus>,
    pub(crate) ports: Vec<Port>,
    pub(crate) queues: Vec<QueueStatus>,
    pub(crate) rt_bound: Bound,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) lane: String,
    pub(crate) at_work: String,
    pub(crate) why: String,
    #[serde(flatten)]
    pub(crate) counters: ClassCounters,
    pub(crate) latency: Option<LatencyStatus>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) ifindex: Option<u32>,
    pub(crate) mode: Option<String>,
    #[serde(flatten)]
    pub(crate) egress: PortCounters,
    pub(crate) to_kernel: BTreeMap<String, u64>,
    pub(crate) classes: BTreeMap<String, ClassCounters>,
}

/// Where there is none, `t_max_ns` is null.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Bound {
    pub(crate) t_max_ns: Option<f64>,
    pub(crate) longest_wait_us: f64,
    pub(crate) note: String,
}

impl Snapshot {
    /// # Errors
    /// When it is no status, or that of a version with other fields.
    pub(crate) fn of_json(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|e| {
            format!(
                "cannot read the status, perhaps of a daemon of another version: {}",
                one_line(e)
            )
        })
    }

    pub(crate) fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name == name)
    }

    pub(crate) fn port(&self, name: &str) -> Option<&Port> {
        self.ports.iter().find(|port| port.name == name)
    }
}

/// A router of two classes and two ports that has seen so many packets.
#[cfg(test)]
pub(crate) fn example(packets: u64) -> Snapshot {
    let counters = |express: u64, passed: u64, early_drops: u64| {
        let packets = express + passed + early_drops;
        format!(
            r#""packets": {packets}, "bytes": {}, "express": {express}, "fast": 0, "passed": {passed}, "queued": 0,
               "early_drops": {early_drops}, "policed": 0, "untrusted": 0, "looked_up": 0"#,
            100 * packets
        )
    };
    let voice = counters(packets, 0, 0);
    let rest = counters(0, packets, packets / 2);
    let measured = packets / 256;
    let latency = format!(
        r#""latency": {{"measured": {measured}, "sum_ns": {}, "p50_us": 2.048, "p99_us": 2.048, "p999_us": 2.048,
           "longest_us": 2.048, "buckets": [{{"below_ns": 2048, "packets": {measured}}}]}}"#,
        2000 * measured
    );
    Snapshot::of_json(&format!(
        r#"{{"schema_version": 1, "daemon": 7, "config_file": "/etc/rxlane/rxlane.toml", "kernel": "6.12.1", "warnings": [],
            "reload_refused": null,
            "classes": [
              {{"name": "voice", "lane": "express", "at_work": "forward", "why": "nothing speaks against it", {voice}, {latency}}},
              {{"name": "rest", "lane": "stack", "at_work": "shed", "why": "its core is overloaded", {rest}}}],
            "cores": [{{"core": 0, "overloaded": true, "overloads": 2, "overloaded_s": 1.5, "service_time_ns": 900,
              "overloaded_for_s": 0.5, "idle_share": 0.01, "turn_us": 272.0, "longest_wait_us": 88.0, "longest_wait_lately_us": 0.0, "fits": false}}],
            "ports": [
              {{"name": "lan0", "ifindex": 2, "mode": "native", "tx_packets": 0, "tx_drops": 0, "refusals": 0, "link_full": 0, "by_qdisc": 0, "to_kernel": {{"ttl": {}}},
                "classes": {{"voice": {{{voice}}}, "rest": {{{rest}}}}}}},
              {{"name": "wan0", "ifindex": 3, "mode": null, "tx_packets": {packets}, "tx_drops": 0, "refusals": 0, "link_full": 0, "by_qdisc": 0, "to_kernel": {{}}, "classes": {{}}}}],
            "queues": [{{"queue": "rx-ring", "port": "lan0", "lost": 3}},
              {{"queue": "qdisc", "port": "lan0", "holds": 0, "waited": {}, "lost": {}}}],
            "rt_bound": {{"t_max_ns": 120000.0, "longest_wait_us": 88.0, "note": ""}}}}"#,
        packets / 10,
        packets / 20,
        packets / 100,
    ))
    .expect("a status")
}
