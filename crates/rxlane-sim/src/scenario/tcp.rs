//! The keys of connections: traffic that answers to loss and delay.

use serde::{Deserialize, Serialize};

use super::Scenario;
use crate::tcp::CongestionControl;

/// Connections that always have something to send, beside what `traffic` says. They come in by the first NIC, with frames of
/// `traffic.frame`; the time on a link is that of whole frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// How many.
    pub connections: u16,
    /// How they decide what may be under way.
    pub congestion: CongestionControl,
    /// Their class, the highest being 0; else the lowest that there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<usize>,
    /// Round trip where nothing waits: from the router to the receiver, and back to the sender.
    pub rtt_us: f64,
    /// Packets that a receiver takes before it has to acknowledge.
    pub window: u32,
    /// Queues that drop early (`red`) mark their packets instead.
    pub ecn: bool,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            connections: 4,
            congestion: CongestionControl::Cubic,
            class: None,
            rtt_us: 200.0,
            window: 2000,
            ecn: false,
        }
    }
}

impl Tcp {
    /// Their class.
    pub fn class_in(&self, scenario: &Scenario) -> usize {
        let classes = scenario.traffic.class_shares().len();
        self.class.unwrap_or(classes - 1)
    }
}

impl Scenario {
    /// Flows with this number and above are connections.
    pub fn first_tcp_flow(&self) -> u16 {
        self.traffic.class_shares().len() as u16 * self.traffic.flows.max(1)
    }

    /// Flows of a NIC, connections too.
    pub fn flows(&self) -> usize {
        let connections = self.tcp.as_ref().map_or(0, |tcp| tcp.connections);
        usize::from(self.first_tcp_flow()) + usize::from(connections)
    }
}
