//! What a router is made of, as the command has read and checked it.

use rxlane_policy::class::{Class, Lane, Overload};
use serde::{Deserialize, Serialize};

/// Ports and classes. Rules name ports by their position in `ports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterConfig {
    /// Interfaces that receive, and that the express lane may send to.
    pub ports: Vec<String>,
    /// Classes, highest priority first; the last one is the default.
    pub classes: Vec<Class>,
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
