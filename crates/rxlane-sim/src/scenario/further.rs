//! The keys of what a packet needs beside its reception: further stages, a socket and its application, a
//! thread that sends.

use serde::{Deserialize, Serialize};

/// A task for each packet, or for those of some classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// What it is.
    pub name: String,
    /// For each packet, ns.
    #[serde(default)]
    pub packet_ns: f64,
    /// For each byte, ns.
    #[serde(default)]
    pub byte_ns: f64,
    /// Classes, 0 the highest; empty: all.
    #[serde(default)]
    pub classes: Vec<usize>,
}

/// The layered buffers behind the softirq.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Packets that the socket buffer holds.
    pub socket: usize,
    /// Time that the application takes for a packet, on a core of its own, ns.
    pub application_ns: f64,
    /// And for each byte, ns.
    #[serde(default)]
    pub application_byte_ns: f64,
    /// How fast the application is while the softirq works: 1 on a core of its own, 0 on the same core, and between on its
    /// hyper-threaded sibling.
    #[serde(default = "full_speed")]
    pub beside_softirq: f64,
    /// Packets that the application's own buffer holds, into which it reads before it works; 0: it works on each packet as
    /// soon as it has read it.
    #[serde(default)]
    pub buffer: usize,
    /// Reading a packet from the socket, ns.
    #[serde(default)]
    pub read_ns: f64,
    /// Packets (`sk_buff`s) that wait between reception and protocol at most (`netdev_max_backlog`); 0: none does.
    #[serde(default)]
    pub backlog: usize,
    /// From there to the socket, ns; with stages.
    #[serde(default)]
    pub protocol_ns: f64,
}

fn full_speed() -> f64 {
    1.0
}

impl Default for Host {
    fn default() -> Self {
        Self {
            socket: 256,
            application_ns: 0.0,
            application_byte_ns: 0.0,
            beside_softirq: full_speed(),
            buffer: 0,
            read_ns: 0.0,
            backlog: 0,
            protocol_ns: 0.0,
        }
    }
}

/// An egress queue, from which a thread sends (Beyond Softnet 1.5, Fig. 1). Without it, whoever has processed a packet sends it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Transmit {
    /// Packets that it holds.
    pub queue: usize,
    /// Sending one, ns.
    pub packet_ns: f64,
    /// How fast the thread is while the softirq works: 0 on the same core, 1 on a core of its own.
    pub beside_softirq: f64,
}

impl Default for Transmit {
    /// The queue of a 100 Mbit/s interface of Linux 2.2 and 2.4.
    fn default() -> Self {
        Self {
            queue: 100,
            packet_ns: 0.0,
            beside_softirq: 0.0,
        }
    }
}
