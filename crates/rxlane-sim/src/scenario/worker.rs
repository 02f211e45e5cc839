//! The keys of a thread that serves what the softirq has only received: the router's AF_XDP engine.

use serde::{Deserialize, Serialize};

/// A thread on the receiving core. NAPI takes packets from the NIC's one ring, classifies them and puts each into the ring of its
/// class; the thread polls those rings by `reception.strategy` and does the work of `cpu.packet_ns`, `cpu.poll_ns` and
/// `cpu.ring_ns`. Both have the same priority, so each keeps the core until it has nothing left, or gives way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Worker {
    /// What NAPI takes for a packet, ns.
    pub receive_ns: f64,
    /// Giving the core to the thread, asleep or not, ns.
    pub switch_ns: f64,
    /// After so long it gives way to NAPI, if packets wait in a NIC, us.
    pub give_way_us: f64,
    /// Packets that the ring of a class holds.
    pub ring: usize,
}

impl Default for Worker {
    /// The engine's ring and its 50 us; no cost is known without a measurement.
    fn default() -> Self {
        Self {
            receive_ns: 0.0,
            switch_ns: 0.0,
            give_way_us: 50.0,
            ring: 512,
        }
    }
}
