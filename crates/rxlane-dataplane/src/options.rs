//! What a router is told besides what packets meet.

use rxlane_config::{Datapath, Flows, RouterConfig};
use serde::{Deserialize, Serialize};

/// How a router is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Hooks that trusted packets pass by are accepted ([`crate::surroundings`]).
    pub accept_bypass: bool,
    /// How long packets are inside of the router is sampled ([`crate::status::LatencyStatus`]).
    pub latency: bool,
    /// Every packet goes to the Linux stack, unchanged; what would become of it otherwise is counted.
    pub observe: bool,
    /// Packets of express classes are counted by flow ([`crate::flows`]).
    pub flows: Option<Flows>,
    /// The stage after which the fast path ends, which forwards nothing then ([`STAGES`]); 0: none.
    #[serde(skip)]
    pub ends_after: usize,
}

/// Stages of the fast path, from 1 (`enum stage` of bpf/known/fast.h); the last is the writing of the packet.
pub const STAGES: [&str; 8] = [
    "port and core",
    "gates and clock",
    "headers",
    "entry of the flow",
    "checks",
    "redirect",
    "counters",
    "what the next hop gets",
];

impl Default for Options {
    fn default() -> Self {
        Self {
            accept_bypass: false,
            latency: true,
            observe: false,
            flows: None,
            ends_after: 0,
        }
    }
}

impl Options {
    /// How flows are counted, if they are: observed packets are Linux's, which counts them itself.
    pub(crate) fn counted_flows(self) -> Option<Flows> {
        self.flows.filter(|_| !self.observe)
    }

    /// Whether latencies are measured: the engine's packets leave by its workers, and when an observed packet would have left nobody knows.
    pub(crate) fn measures_latency(self, config: &RouterConfig) -> bool {
        self.latency && !self.observe && config.datapath == Datapath::Express
    }
}

/// Everything as it is when nothing is said, but for whether hooks are accepted.
impl From<bool> for Options {
    fn from(accept_bypass: bool) -> Self {
        Self {
            accept_bypass,
            ..Self::default()
        }
    }
}
