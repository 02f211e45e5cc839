//! The keys of the egress link: how the stack queues what it sends.

use serde::{Deserialize, Serialize};

/// What a queueing discipline sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// What has waited longest: `pfifo`.
    #[default]
    Fifo,
    /// What is of the highest class: `prio`.
    Strict,
    /// Each class in turn, as many bytes as its quantum (M. Shreedhar, G. Varghese, "Efficient Fair Queueing using Deficit Round
    /// Robin", SIGCOMM 1995): `drr`.
    Drr,
}

/// The queueing discipline of the link that a core sends to, behind the core (low-latency-router III). Redirected packets
/// of the scheme `express` pass by it: NICs send them from a queue of their own, in turn with that of the stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Qdisc {
    /// What it sends next.
    pub discipline: Discipline,
    /// Rate of the link, bits a second.
    pub link_bps: f64,
    /// Packets that wait at most: of all classes for `fifo`, else of each. Those redirected wait in a ring as long.
    pub limit: usize,
    /// `drr`: bytes that each class may send in its turn, highest first; empty: a frame each.
    pub quanta: Vec<u32>,
}

impl Default for Qdisc {
    fn default() -> Self {
        Self {
            discipline: Discipline::Fifo,
            link_bps: 1e9,
            limit: 1000,
            quanta: Vec::new(),
        }
    }
}
