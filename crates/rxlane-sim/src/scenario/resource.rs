//! The keys of what cores share: resources that a packet needs beside its core.

use serde::{Deserialize, Serialize};

/// A pool of resources that all cores share, and that each packet needs a unit of (multiple-nics V.A: a task unit requests
/// resources of a pool, and the resource manager replies to requests in their order). The core waits for it, as at a
/// spinlock: memory or PCI bus, a cryptographic engine, a lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// What it is.
    pub name: String,
    /// How many packets can have one at a time.
    #[serde(default = "one")]
    pub units: usize,
    /// How long a packet has it, ns; the core works on it meanwhile.
    #[serde(default)]
    pub packet_ns: f64,
    /// And for each byte, ns.
    #[serde(default)]
    pub byte_ns: f64,
    /// Classes that need it, 0 the highest; empty: all.
    #[serde(default)]
    pub classes: Vec<usize>,
    /// Each egress NIC has a pool of its own.
    #[serde(default)]
    pub each_nic: bool,
}

fn one() -> usize {
    1
}
