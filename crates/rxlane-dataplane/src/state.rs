//! What a router remembers, for whoever asks and for a daemon that takes it over.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rxlane_bpf::features::Features;
use rxlane_bpf::verifier::Accepted;
use rxlane_config::RouterConfig;
use rxlane_topology::Topology;
use rxlane_topology::session::SessionStatus;
use rxlane_topology::tunnel::TunnelStatus;
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::port::PortState;
use crate::undo::Unconfirmed;

/// What is known about a running or orphaned router besides its maps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    /// Version of rxlane that attached it; another version takes over from scratch.
    pub version: String,
    /// Process that runs or ran it.
    pub pid: u32,
    /// File the configuration came from.
    pub config_file: PathBuf,
    /// What the daemon was told to do. Ports have the names of their devices.
    pub config: RouterConfig,
    /// The names of ports as they were written, in the same order.
    #[serde(default)]
    pub written: Vec<String>,
    /// And how.
    #[serde(default)]
    pub options: Options,
    /// Where it shows metrics, as the file says it.
    #[serde(default)]
    pub metrics: Option<String>,
    /// Slot and XDP mode of each port that programs are attached to, present or not.
    pub ports: BTreeMap<String, PortState>,
    /// The kernel's features.
    pub features: Features,
    /// The programs that are loaded, and what it took the kernel to accept each.
    #[serde(default)]
    pub programs: Vec<Accepted>,
    /// Express classes that stay with the kernel for now, with what speaks against each.
    #[serde(default)]
    pub objections: Vec<(String, Vec<String>)>,
    /// Classes of established flows, with what keeps those that meet it with the kernel.
    #[serde(default)]
    pub kept: Vec<(String, Vec<String>)>,
    /// What was made of devices, as they were found last.
    #[serde(default)]
    pub topology: Topology,
    /// Devices of PPPoE sessions, as they were found last.
    #[serde(default)]
    pub sessions: Vec<SessionStatus>,
    /// Tunnels, as they were found last.
    #[serde(default)]
    pub tunnels: Vec<TunnelStatus>,
    /// Rx queues that each port had when programs were attached.
    #[serde(default)]
    pub queues: BTreeMap<String, u32>,
    /// Things the operator should know.
    pub warnings: Vec<String>,
    /// What is gone back to unless somebody confirms.
    #[serde(default)]
    pub unconfirmed: Option<Unconfirmed>,
}
