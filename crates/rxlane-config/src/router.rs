//! What a router is made of.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rxlane_policy::class::{Class, Lane, Overload};
use rxlane_policy::control::ControlRates;
use rxlane_policy::poll::{DEVICE_BUDGET, Order};
use rxlane_policy::strategy::{Layout, Strategy, StrategyName};
use rxlane_policy::throttle::Throttling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::EngineError;

/// Packets that a ring of the engine may hold.
pub const RINGS: RangeInclusive<u32> = 8..=32_768;
/// Packets that a Tx ring of the engine may hold.
const TX_RINGS: RangeInclusive<u32> = 64..=32_768;
/// Packets that the ring of a class holds unless it is said otherwise: an ixgbe's Rx ring.
const RING: u32 = 512;
/// Packets of a Tx ring unless it is said otherwise.
const TX_RING: u32 = 1024;
/// The lowest class's ring budget unless it is said otherwise: `PRB = 4 60` of low-latency-router Listing 1.
const LOWEST_RING_BUDGET: u32 = 4;

/// Ports and classes. Rules name ports by their position in `ports`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterConfig {
    /// Interfaces that receive, and that the express lane may send to: ports, and VLAN devices over others.
    pub ports: Vec<String>,
    /// Classes, highest priority first; the last one is the default.
    pub classes: Vec<Class>,
    /// Who serves the classes.
    #[serde(default)]
    pub datapath: Datapath,
    /// How packets leave through ports, where that is not left to what is found.
    #[serde(default)]
    pub egress: BTreeMap<String, Egress>,
    /// Where packets that come in by ports are served, where that is not left to what is found.
    #[serde(default)]
    pub ingress: BTreeMap<String, Ingress>,
    /// Up to which rates what the router itself must hear comes first.
    #[serde(default)]
    pub control: ControlRates,
}

/// How packets of express classes leave through a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Egress {
    /// Through its queueing discipline where that holds the link to a rate, or for as long as the driver refuses frames; otherwise directly.
    #[default]
    Auto,
    /// Directly, past its queueing discipline.
    Direct,
    /// By the stack, through its queueing discipline.
    Qdisc,
}

/// Where packets that come in by a port are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ingress {
    /// At tc ingress if the port is a veth that nothing lies over and that has no master, otherwise in XDP.
    #[default]
    Auto,
    /// In XDP.
    Xdp,
    /// At tc ingress: TCP is the stack's, express packets leave through queueing disciplines, and nothing guards the core.
    Tc,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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

impl EngineConfig {
    /// An engine for so many classes with everything as it is when the file says nothing: LL-WFQ on core 0.
    pub fn new(classes: usize) -> Self {
        Self {
            strategy: Strategy::LlWfq {
                budgets: default_budgets(classes, DEVICE_BUDGET),
            },
            device_budget: DEVICE_BUDGET,
            order: Order::default(),
            priority: Priority::default(),
            itr: Throttling::Off,
            cores: vec![0],
            rings: vec![RING; classes],
            tx_ring: TX_RING,
            copy: Copy::default(),
            busy_poll: true,
        }
    }

    /// The rings of a port on a core, if all of this makes sense for those classes.
    ///
    /// # Errors
    /// The first thing that does not.
    pub fn layout(&self, classes: &[Class]) -> Result<Layout, EngineError> {
        let n = classes.len();
        let layout = self.strategy.layout(n, self.device_budget, self.order)?;
        self.itr.start()?;
        if let Some(packets) = self.rings.iter().find(|r| !RINGS.contains(r)) {
            return Err(EngineError::Ring {
                key: "ring",
                packets: *packets,
                allowed: RINGS,
            });
        }
        if self.rings.len() != n {
            return Err(EngineError::Rings {
                sizes: self.rings.len(),
                classes: n,
            });
        }
        if !TX_RINGS.contains(&self.tx_ring) {
            return Err(EngineError::Ring {
                key: "tx_ring",
                packets: self.tx_ring,
                allowed: TX_RINGS,
            });
        }
        let rings = layout.devices.iter().map(|d| d.rings()).sum::<usize>();
        let express = classes.iter().filter(|c| c.lane.is_express()).count();
        if rings == 1 && express != 0 && express != n {
            return Err(EngineError::OneRing);
        }
        if self.priority == Priority::Global && (layout.devices.len() > 1 || rings == 1) {
            return Err(EngineError::Global);
        }
        if self.cores.is_empty() {
            return Err(EngineError::NoCore);
        }
        if let Some(i) = (1..self.cores.len()).find(|i| self.cores[..*i].contains(&self.cores[*i]))
        {
            return Err(EngineError::CoreTwice(self.cores[i]));
        }
        Ok(layout)
    }
}

/// A strategy by its name and the ring budgets of the classes, where they are given; the rest as by default.
///
/// # Errors
/// Budgets that the strategy has no use for.
pub fn strategy(
    name: Option<StrategyName>,
    budgets: &[Option<u32>],
    device_budget: u32,
) -> Result<Strategy, EngineError> {
    let mut given = budgets.iter().flatten();
    Ok(match name.unwrap_or(StrategyName::LlWfq) {
        StrategyName::Sq | StrategyName::Rr if given.next().is_some() => {
            return Err(EngineError::NoBudgets);
        }
        StrategyName::Sq => Strategy::Sq,
        StrategyName::Rr => Strategy::Rr,
        StrategyName::LlRr => {
            let ring_budget = given.next().copied().unwrap_or(LOWEST_RING_BUDGET);
            if given.any(|b| *b != ring_budget) {
                return Err(EngineError::UnequalBudgets);
            }
            Strategy::LlRr { ring_budget }
        }
        StrategyName::LlWfq => Strategy::LlWfq {
            budgets: default_budgets(budgets.len(), device_budget)
                .into_iter()
                .zip(budgets)
                .map(|(default, given)| given.unwrap_or(default))
                .collect(),
        },
    })
}

/// A little for the lowest class, what is left of the device budget for the highest, all the same in between.
fn default_budgets(classes: usize, device_budget: u32) -> Vec<u32> {
    let lowest = LOWEST_RING_BUDGET.min(device_budget.max(1));
    let highest = device_budget.saturating_sub(lowest).max(1);
    (0..classes)
        .map(|class| match class {
            _ if classes == 1 => device_budget,
            0 => highest,
            c if c + 1 == classes => lowest,
            _ => (highest / 2).max(1),
        })
        .collect()
}

/// Whose classes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// The rings of a device take turns, and so do devices (low-latency-router II).
    #[default]
    Device,
    /// The highest class of all devices of a core goes first.
    Global,
}

/// Whether the kernel copies packets into the UMEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Copy {
    /// Not where the driver can do without.
    #[default]
    Auto,
    /// Packets are copied on every queue.
    Always,
    /// Nowhere; a driver that cannot is an error.
    Never,
}

/// The cores that may have to serve a class's ring; `None` where the class never queues. `parks_tcp`: whether TCP of
/// `auto` classes waits for the core that polls.
pub fn ring_cores(class: &Class, all: &[u32], parks_tcp: bool) -> Option<Vec<u32>> {
    match &class.lane {
        Lane::Stack { ring, overload, .. } => match overload {
            Overload::Shed => None,
            Overload::Auto if ring.cores.is_empty() && !parks_tcp => None,
            _ if ring.cores.is_empty() => Some(all.to_vec()),
            _ => Some(ring.cores.clone()),
        },
        Lane::Express { .. } => None,
    }
}
