//! What is simulated: the keys of a scenario file and their defaults.

mod check;
mod cpu;
mod express;
mod further;
mod load;
mod qdisc;
mod reception;
mod recorded;
mod resource;
mod tcp;
mod worker;

pub use cpu::{Cpu, Disturbance, IdleState, Probe, Process, Spread};
pub use express::{Controller, Express, ExpressEgress, Hog, LoadStep};
pub use further::{Host, Stage, Transmit};
pub use load::{Loaded, load, parse, parse_with, set};
pub(crate) use load::{key_and_value, put, scenario_like};
pub use qdisc::{Discipline, Qdisc, RedKeys};
pub use reception::{Priority, Reception, Scheme};
pub use resource::Resource;
pub use tcp::Tcp;
pub use worker::Worker;

use std::collections::BTreeMap;

use rxlane_policy::throttle::Throttling;
use rxlane_policy::throttle::estimate::Estimate;
use serde::{Deserialize, Serialize};

use crate::custom::Custom;
use crate::traffic::{Mix, Pattern};

/// A scenario. Every key has a default: an empty file is a 1.75 Mpps core behind one NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Equal seeds give equal results, to the byte.
    pub seed: u64,
    /// Measured time of a replication, s.
    pub seconds: f64,
    /// Simulated before it and thrown away, s.
    pub warmup_s: f64,
    /// Independent runs; intervals come from their spread.
    pub replications: u32,
    /// The packets that arrive at all NICs together.
    pub traffic: Traffic,
    /// Connections beside them, which answer to loss and delay.
    pub tcp: Option<Tcp>,
    /// The network cards, which are all alike.
    pub nic: Nic,
    /// How and when NICs interrupt.
    pub interrupt: Interrupt,
    /// Cores and what work costs on them.
    pub cpu: Cpu,
    /// How the kernel receives.
    pub reception: Reception,
    /// Lanes and overload control of the scheme `express`.
    pub express: Express,
    /// More processing of each packet, one task after the other (multiple-nics V.A, V.B: "task units").
    pub stage: Vec<Stage>,
    /// What cores share and packets need, one after the other, behind their stages.
    pub resource: Vec<Resource>,
    /// A socket and its application at the end of the path, instead of an egress NIC
    /// (single-input-queue IV.B).
    pub host: Option<Host>,
    /// A thread that serves packets, which the softirq has only received.
    pub worker: Option<Worker>,
    /// A queue and a thread that sends from it, behind the processing of a packet.
    pub transmit: Option<Transmit>,
    /// The link that each core sends to and its queueing discipline, where the link is not always free.
    pub qdisc: Option<Qdisc>,
    /// Code in the place of traffic, a stage or throttling.
    #[serde(skip)]
    pub custom: Custom,
    /// Another file that this one changes, by its path from here.
    #[serde(skip_serializing)]
    pub extends: Option<String>,
    /// Named variants, each a table of dotted keys.
    #[serde(skip_serializing)]
    pub case: Vec<Case>,
    /// Values of dotted keys; all combinations are simulated.
    #[serde(skip_serializing)]
    pub sweep: BTreeMap<String, Values>,
}

/// A variant of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name in results.
    pub name: String,
    /// What it changes, by dotted key.
    #[serde(default)]
    pub set: toml::Table,
}

/// Values that a sweep gives a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Values {
    /// The values, one after the other.
    List(Vec<toml::Value>),
    /// Evenly spaced ones.
    Range {
        /// The first value.
        from: f64,
        /// The last, when steps end there.
        to: f64,
        /// From one to the next.
        step: f64,
    },
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 1,
            seconds: 0.2,
            warmup_s: 0.02,
            replications: 1,
            traffic: Traffic::default(),
            tcp: None,
            nic: Nic::default(),
            interrupt: Interrupt::default(),
            cpu: Cpu::default(),
            reception: Reception::default(),
            express: Express::default(),
            stage: Vec::new(),
            resource: Vec::new(),
            host: None,
            worker: None,
            transmit: None,
            qdisc: None,
            custom: Custom::default(),
            extends: None,
            case: Vec::new(),
            sweep: BTreeMap::new(),
        }
    }
}

/// What arrives, at all NICs together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traffic {
    /// Packets a second.
    pub pps: f64,
    /// Share of what the links carry, instead of `pps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_load: Option<f64>,
    /// How they follow each other at each NIC.
    pub pattern: Pattern,
    /// Share of the higher of two classes.
    pub rt_ratio: f64,
    /// Shares of any number of classes instead, highest class first; they sum to 1.
    pub shares: Vec<f64>,
    /// Whether the class of each packet is drawn.
    pub mix: Mix,
    /// Flows of each class at each NIC.
    pub flows: u16,
    /// Share of a class's packets that belong to its first flow; 0: all flows are alike.
    pub heaviest_flow: f64,
    /// Changes of the rate.
    pub steps: Vec<LoadStep>,
    /// Frame with FCS, bytes.
    pub frame: u32,
    /// Each NIC's traffic ends after so many packets; 0: never.
    pub packets: u64,
    /// Shares of the NICs; empty: equal.
    pub nic_shares: Vec<f64>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            pps: 1e6,
            link_load: None,
            pattern: Pattern::Poisson,
            rt_ratio: 0.0,
            shares: Vec::new(),
            mix: Mix::Random,
            flows: 4,
            heaviest_flow: 0.0,
            steps: Vec::new(),
            frame: 128,
            packets: 0,
            nic_shares: Vec::new(),
        }
    }
}

impl Traffic {
    /// Shares of the classes, highest first.
    pub fn class_shares(&self) -> Vec<f64> {
        if self.shares.is_empty() {
            vec![self.rt_ratio, 1.0 - self.rt_ratio]
        } else {
            self.shares.clone()
        }
    }
}

/// Where packets go after the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Egress {
    /// To a link that is not modelled; its Tx work is part of the service time.
    None,
    /// From each NIC to the next, from the last to the first (multiple-nics IV.B).
    Circular,
}

/// Who shares a Tx ring of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TxRings {
    /// All classes.
    One,
    /// Each class has its own: a vector of `n` and `n` rings (low-latency-router IV.A). The wire sends what they hold in the order
    /// in which it came.
    Class,
}

/// Network cards, all alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nic {
    /// Number of NICs.
    pub count: usize,
    /// Rx descriptors of a ring.
    pub descriptors: usize,
    /// Tx descriptors of a ring. A packet that finds them all taken is dropped. Only with Tx completions.
    pub tx_descriptors: usize,
    /// How long a core holds the lock of an egress NIC's Tx ring for a packet, where all cores share one, ns. 0: each core has a
    /// Tx ring of its own and needs no lock (multiple-nics III.C).
    pub tx_lock_ns: f64,
    /// Whether a class has to share its Tx ring. Only with Tx completions.
    pub tx_rings: TxRings,
    /// Frames that the NIC's own buffer holds once the descriptors are taken (interrupt-throttling IV.A:
    /// the latency under overload is more than the ring holds).
    pub packet_buffer: usize,
    /// From the last bit on the wire to the packet in memory, ns.
    pub dma_ns: f64,
    /// Rate of the links, bits a second.
    pub link_bps: f64,
    /// Where packets leave.
    pub egress: Egress,
    /// Latency outside of the core and this model (generator, PHY, PCIe, both directions), us.
    pub fixed_latency_us: f64,
}

impl Default for Nic {
    fn default() -> Self {
        Self {
            count: 1,
            descriptors: 512,
            tx_descriptors: 512,
            tx_rings: TxRings::One,
            tx_lock_ns: 0.0,
            packet_buffer: 0,
            dma_ns: 0.0,
            link_bps: 10e9,
            egress: Egress::None,
            fixed_latency_us: 0.0,
        }
    }
}

/// From when the throttling timer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// From the last interrupt: 82599 hardware.
    Irq,
    /// From the end of the poll that set it (interrupt-throttling II.B).
    PollEnd,
}

/// Interrupts, one vector for each NIC and core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Interrupt {
    /// From its cause to the core, ns.
    pub delivery_ns: f64,
    /// A cause raised while the vector is masked interrupts as soon as it is unmasked; otherwise it is
    /// forgotten.
    pub latch_masked: bool,
    /// Sent frames interrupt too, on the egress NIC's vector (multiple-nics III.C).
    pub tx_completion: bool,
    /// From the last bit of a frame on the egress wire to its Tx completion, ns.
    pub tx_delay_ns: f64,
    /// Least time between interrupts of a vector.
    pub throttling: Throttling,
    /// From when it counts.
    pub origin: Origin,
    /// Instead of `throttling`: by what packets show themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// What looking at each packet for it costs the core, ns.
    pub estimate_ns: f64,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self {
            delivery_ns: 0.0,
            latch_masked: false,
            tx_completion: false,
            tx_delay_ns: 3000.0,
            throttling: Throttling::Off,
            origin: Origin::Irq,
            estimate: None,
            estimate_ns: 0.0,
        }
    }
}
