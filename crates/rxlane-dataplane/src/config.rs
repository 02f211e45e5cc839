//! What a router is made of, as the command has read and checked it.

use rxlane_policy::class::{Class, Lane, Overload};
use rxlane_policy::poll::{Order, Strategy};
use rxlane_policy::throttle::Throttling;
use serde::{Deserialize, Serialize};

/// Ports and classes. Rules name ports by their position in `ports`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterConfig {
    /// Interfaces that receive, and that the express lane may send to.
    pub ports: Vec<String>,
    /// Classes, highest priority first; the last one is the default.
    pub classes: Vec<Class>,
    /// Who serves the classes.
    #[serde(default)]
    pub datapath: Datapath,
}

/// Who serves the classes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Datapath {
    /// The XDP program, inside the driver's poll.
    #[default]
    Express,
    /// Workers in user space, with exact ring budgets.
    Afxdp(EngineConfig),
}

/// The AF_XDP engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineConfig {
    /// How the rings are served.
    pub strategy: Strategy,
    /// Packets of a device in one poll.
    pub device_budget: u32,
    /// Which ring has the first turn.
    pub order: Order,
    /// Whose classes are compared.
    pub priority: Priority,
    /// What governs wake-ups.
    pub itr: Throttling,
    /// Cores of the workers; each has a queue of every port, or several.
    pub cores: Vec<u32>,
    /// Packets that the ring of a class holds, highest priority first as `classes`; powers of two.
    pub rings: Vec<u32>,
    /// Packets that a Tx ring holds, a power of two.
    pub tx_ring: u32,
    /// Whether packets are copied.
    pub copy: Copy,
    /// Whether workers drive NAPI themselves where a socket can: zero-copy queues.
    #[serde(default)]
    pub busy_poll: bool,
}

/// Whose classes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// The rings of a device take turns, and so do devices (low-latency-router II).
    #[default]
    Device,
    /// The highest class of all devices of a core goes first.
    Global,
}

/// Whether the kernel copies packets into the UMEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copy {
    /// Not where the driver can do without.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere; a driver that cannot is an error.
    Never,
}

/// The cores that may have to serve a class's ring; `None` where the class never queues.
pub fn ring_cores(class: &Class, all: &[u32]) -> Option<Vec<u32>> {
    match &class.lane {
        Lane::Stack { ring, overload, .. } => match overload {
            Overload::Shed => None,
            Overload::Auto if ring.cores.is_empty() => None,
            Overload::Queue if ring.cores.is_empty() => Some(all.to_vec()),
            _ => Some(ring.cores.clone()),
        },
        Lane::Express { .. } => None,
    }
}
