//! The keys of how the kernel receives.

use rxlane_policy::PolicyError;
use rxlane_policy::global::GlobalPriority;
use rxlane_policy::poll::{DEVICE_BUDGET, Order, Rounds};
use rxlane_policy::strategy::{Strategy, StrategyName};
use serde::{Deserialize, Serialize};

use crate::congestion::Feedback;

/// How the kernel receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Interrupts and polling, since Linux 2.4.20.
    Napi,
    /// An interrupt a packet and a backlog shared by all NICs of a core (Beyond Softnet 1.5, 2).
    Softnet,
    /// NAPI with an XDP program: express classes leave in the poll, the others pass to the stack or are dropped.
    Express,
    /// No interrupts: the core polls its devices in turn for ever, as a poll-mode driver or a socket with busy polling does.
    BusyPolling,
}

/// Who comes first, among the devices of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Devices take turns, and each decides about its rings: NAPI.
    Devices,
    /// The highest class that waits at any of them ([`rxlane_policy::global`]).
    Global,
}

/// How packets get from the rings of the NICs to the core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reception {
    /// NAPI or what was before it.
    pub scheme: Scheme,
    /// NAPI: rings and devices of the classes.
    pub strategy: StrategyName,
    /// LL-RR: budget of each ring.
    pub ring_budget: u32,
    /// LL-WFQ: budgets of the rings, highest class first.
    pub budgets: Vec<u32>,
    /// Packets of a device in one poll.
    pub device_budget: u32,
    /// Which ring has the first turn.
    pub order: Order,
    /// Whether a poll goes round the rings until its budget is spent, or once.
    pub rounds: Rounds,
    /// NAPI: who comes first, among the devices of a core.
    pub priority: Priority,
    /// NAPI: NICs with the old interface, which interrupt for each packet and put it into the backlog (Beyond Softnet 4.2).
    pub old_interfaces: Vec<usize>,
    /// Softnet, and old interfaces: how drivers answer congestion.
    pub feedback: Feedback,
    /// Softnet, and old interfaces: packets of the backlog.
    pub backlog: u32,
    /// Softnet, and old interfaces: packets in one interrupt (`max_interrupt_work`).
    pub interrupt_work: u32,
    /// Softnet: a mitigated interrupt waits at most so long, us.
    pub mitigation_us: f64,
}

impl Default for Reception {
    fn default() -> Self {
        Self {
            scheme: Scheme::Napi,
            strategy: StrategyName::Sq,
            ring_budget: 4,
            budgets: vec![60, 4],
            device_budget: DEVICE_BUDGET,
            order: Order::LowestFirst,
            rounds: Rounds::UntilSpent,
            priority: Priority::Devices,
            old_interfaces: Vec::new(),
            feedback: Feedback::None,
            backlog: crate::congestion::BACKLOG,
            interrupt_work: 1,
            mitigation_us: 100.0,
        }
    }
}

impl Reception {
    /// The order of all rings of `devices` devices with global priority.
    ///
    /// # Errors
    /// As [`GlobalPriority::new`].
    pub fn global(&self, classes: usize, devices: usize) -> Result<GlobalPriority, PolicyError> {
        match self.strategy {
            StrategyName::Sq | StrategyName::Rr => {
                GlobalPriority::new(&[self.device_budget], devices)
            }
            StrategyName::LlRr => GlobalPriority::new(&vec![self.ring_budget; classes], devices),
            StrategyName::LlWfq => GlobalPriority::new(&self.budgets, devices),
        }
    }

    /// The strategy with its budgets.
    pub fn strategy(&self) -> Strategy {
        match self.strategy {
            StrategyName::Sq => Strategy::Sq,
            StrategyName::Rr => Strategy::Rr,
            StrategyName::LlRr => Strategy::LlRr {
                ring_budget: self.ring_budget,
            },
            StrategyName::LlWfq => Strategy::LlWfq {
                budgets: self.budgets.clone(),
            },
        }
    }
}
