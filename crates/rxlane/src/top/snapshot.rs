//! What of a router's status is shown. It comes as JSON from the daemon's socket as well as from the maps, so that both look the same.

use std::collections::BTreeMap;

use rxlane_bpf::layout::{ClassCounters, PortCounters};
use rxlane_dataplane::queues::QueueStatus;
use rxlane_dataplane::status::{CoreStatus, LatencyStatus};
use serde::Deserialize;

use crate::one_line;

/// A router at one moment.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Snapshot {
    pub(super) daemon: Option<u32>,
    pub(super) config_file: String,
    pub(super) kernel: String,
    pub(super) warnings: Vec<String>,
    pub(super) reload_refused: Option<String>,
    pub(super) classes: Vec<Class>,
    pub(super) cores: Vec<CoreStatus>,
    pub(super) ports: Vec<Port>,
    pub(super) queues: Vec<QueueStatus>,
    pub(super) rt_bound: Bound,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) lane: String,
    pub(super) at_work: String,
    pub(super) why: String,
    #[serde(flatten)]
    pub(super) counters: ClassCounters,
    pub(super) latency: Option<LatencyStatus>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) mode: Option<String>,
    #[serde(flatten)]
    pub(super) egress: PortCounters,
    pub(super) to_kernel: BTreeMap<String, u64>,
    pub(super) classes: BTreeMap<String, ClassCounters>,
}

/// Where there is none, `t_max_ns` is null.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Bound {
    pub(super) t_max_ns: Option<f64>,
    pub(super) longest_wait_us: f64,
    pub(super) note: String,
}

impl Snapshot {
    /// # Errors
    /// When it is no status, or that of a version with other fields.
    pub(super) fn of_json(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|e| {
            format!(
                "cannot read the status, perhaps of a daemon of another version: {}",
                one_line(e)
            )
        })
    }

    pub(super) fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name == name)
    }

    pub(super) fn port(&self, name: &str) -> Option<&Port> {
        self.ports.iter().find(|port| port.name == name)
    }
}
