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
    /// As `fifo`, but drops begin before the queue is full (Random Early Detection): `red`.
    Red,
    /// As `drr`, with a frame for each of so many queues, into which flows are hashed (P. McKenney, "Stochastic Fairness Queueing",
    /// INFOCOM 1990). Whoever has most waiting loses first: `sfq`.
    Sfq,
    /// As `fifo`, at a rate below that of the link and in bursts at that of the link: `tbf`.
    TokenBucket,
}

/// When Random Early Detection drops, by the queue in the mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedKeys {
    /// Below so many packets it drops none.
    pub min: f64,
    /// From so many on it drops all.
    pub max: f64,
    /// Chance of a packet to be dropped just below `max`; at `min` there is none.
    pub probability: f64,
    /// What a packet that finds the queue so and so long counts in the mean.
    pub weight: f64,
}

impl Default for RedKeys {
    fn default() -> Self {
        Self {
            min: 30.0,
            max: 90.0,
            probability: 0.1,
            weight: 0.002,
        }
    }
}

/// The queueing discipline of the link that a core sends to, behind the core (low-latency-router III). Redirected packets
/// of the scheme `express` pass by it: NICs send them from a queue of their own, in turn with that of the stack, or from the Tx ring behind
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Qdisc {
    /// What it sends next.
    pub discipline: Discipline,
    /// Rate of the link, bits a second.
    pub link_bps: f64,
    /// Packets that wait at most: of each class for `strict` and `drr`, else of all. Those redirected wait in a ring as long.
    pub limit: usize,
    /// Descriptors of the Tx ring behind it, which redirected packets share with it. 0: the link takes packets from it one by one, and
    /// those redirected from a ring of their own.
    pub descriptors: usize,
    /// `drr`: bytes that each class may send in its turn, highest first; empty: a frame each.
    pub quanta: Vec<u32>,
    /// `red`: when it drops.
    pub red: RedKeys,
    /// `sfq`: how many queues there are.
    pub buckets: usize,
    /// `token-bucket`: bits a second in the long run.
    pub rate_bps: f64,
    /// `token-bucket`: bytes that may be sent at once.
    pub burst: u32,
}

impl Default for Qdisc {
    fn default() -> Self {
        Self {
            discipline: Discipline::Fifo,
            link_bps: 1e9,
            limit: 1000,
            descriptors: 0,
            quanta: Vec::new(),
            red: RedKeys::default(),
            buckets: 127,
            rate_bps: 1e8,
            burst: 15_000,
        }
    }
}
