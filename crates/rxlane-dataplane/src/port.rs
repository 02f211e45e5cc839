//! A port, as a router remembers it.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_bpf::layout::EGRESS_BY_VLAN;
use rxlane_topology::hook::AT_TC;
use serde::{Deserialize, Serialize};

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortState {
    /// Position in the maps.
    pub slot: u8,
    /// Index of the device; `None` while it is gone.
    pub ifindex: Option<u32>,
    /// `native`, `generic`, or `tc` at tc ingress.
    pub mode: Option<String>,
    /// VLAN devices over it that are named, whose packets alone are served; none where the port is named itself.
    #[serde(default)]
    pub vlans: BTreeSet<String>,
    /// Whether its driver gave XDP queues that it had to spare, and never gets back.
    #[serde(default)]
    pub lent_queues: bool,
    /// Whether what XDP decides there a program at tc ingress does (the fast lane).
    #[serde(default)]
    pub hands_over: bool,
    /// Whether nothing is attached there for now, because it would cost more than it saves (rests.rs).
    #[serde(default)]
    pub rests: bool,
}

impl PortState {
    /// Whether the port is not named itself, but by VLAN devices.
    pub fn is_by_vlan(&self) -> bool {
        !self.vlans.is_empty()
    }

    /// Whether it is there, and its packets are served in XDP.
    pub(crate) fn is_in_xdp(&self) -> bool {
        self.ifindex.is_some() && !self.is_at_tc()
    }

    /// Whether it is served at tc ingress.
    pub(crate) fn is_at_tc(&self) -> bool {
        self.mode.as_deref() == Some(AT_TC)
    }

    /// What express packets are sent to there, in the table of egress devices.
    pub(crate) fn egress_key(&self, ifindex: u32) -> u32 {
        ifindex | (u32::from(self.is_by_vlan()) * EGRESS_BY_VLAN)
    }
}

/// Whether packets of any port that is there are served in XDP, and leave past queueing disciplines.
pub(crate) fn any_in_xdp(ports: &BTreeMap<String, PortState>) -> bool {
    ports.values().any(PortState::is_in_xdp)
}
