//! What is simulated: the keys of a scenario file and their defaults.

mod check;
mod express;
mod load;

pub use express::{Controller, Express, Hog, LoadStep};
pub use load::{Loaded, load, parse, parse_with, set};
pub(crate) use load::{key_and_value, put, scenario_of};

use std::collections::BTreeMap;

use crate::congestion::Feedback;
use rxlane_policy::poll::{DEVICE_BUDGET, Order, Rounds};
use rxlane_policy::strategy::{Strategy, StrategyName};
use rxlane_policy::throttle::Throttling;
use serde::{Deserialize, Serialize};

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
    /// A socket and its application at the end of the path, instead of an egress NIC
    /// (single-input-queue IV.B).
    pub host: Option<Host>,
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
            nic: Nic::default(),
            interrupt: Interrupt::default(),
            cpu: Cpu::default(),
            reception: Reception::default(),
            express: Express::default(),
            stage: Vec::new(),
            host: None,
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
        }
    }
}

/// Cores, all alike and independent (multiple-nics V.C), and the cost of their work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cpu {
    /// How many receive.
    pub cores: usize,
    /// Cores of each NIC; its flows hash over them. Empty: all cores for all NICs.
    pub affinity: Vec<Vec<usize>>,
    /// Which of them a packet goes to.
    pub spread: Spread,
    /// Clock, GHz: only for results in cycles.
    pub clock_ghz: f64,
    /// Every interrupt: the handler and what it disturbs, ns.
    pub isr_ns: f64,
    /// An interrupt that finds the core idle costs this in addition, ns.
    pub wake_ns: f64,
    /// Entering the softirq, ns.
    pub softirq_ns: f64,
    /// Each poll of a device, ns.
    pub poll_ns: f64,
    /// Each turn of a ring, ns.
    pub ring_ns: f64,
    /// Receiving and processing a packet: the service time, ns.
    pub packet_ns: f64,
    /// Each byte of it, ns.
    pub byte_ns: f64,
    /// Before NAPI: moving a packet to the backlog within the handler, ns.
    pub enqueue_ns: f64,
    /// Cleaning a Tx descriptor, ns.
    pub tx_clean_ns: f64,
    /// Tx descriptors cleaned in a poll at most (multiple-nics III.C).
    pub tx_work_limit: u32,
    /// Sleep states, shallow first.
    pub idle: Vec<IdleState>,
    /// Other interrupts and softirqs of the core.
    pub disturbance: Vec<Disturbance>,
    /// What takes the core at constant distances.
    pub hog: Vec<Hog>,
    /// What the softirq needs after another interrupt to have its data in the caches again, ns (single-input-queue III.B, step c).
    pub refill_ns: f64,
    /// Other interrupts wait while the softirq runs (single-input-queue III.B, step c).
    pub mask_others: bool,
    /// A process that wants all the time there is.
    pub process: Option<Process>,
    /// Period over which core load is sampled, s; 0 for none.
    pub sample_s: f64,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            cores: 1,
            affinity: Vec::new(),
            spread: Spread::Flows,
            clock_ghz: 3.2,
            isr_ns: 1700.0,
            wake_ns: 0.0,
            softirq_ns: 0.0,
            poll_ns: 0.0,
            ring_ns: 0.0,
            packet_ns: 571.0,
            byte_ns: 0.0,
            enqueue_ns: 0.0,
            tx_clean_ns: 0.0,
            tx_work_limit: 256,
            idle: Vec::new(),
            disturbance: Vec::new(),
            hog: Vec::new(),
            refill_ns: 0.0,
            mask_others: false,
            process: None,
            sample_s: 0.0,
        }
    }
}

/// A sleep state (interrupt-throttling IV.A: latency falls slightly with load).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// Entered after so long, us.
    pub after_us: f64,
    /// Leaving it delays the interrupt, us.
    pub exit_us: f64,
}

/// Interrupts or softirqs of something else, at exponential distances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disturbance {
    /// What it is.
    pub name: String,
    /// Times a second in the mean.
    pub per_second: f64,
    /// Each takes so long, ns; exponential with this mean.
    pub ns: f64,
    /// Its rate is drawn anew, exponentially, so often; 0: it is constant. s.
    #[serde(default)]
    pub redraw_s: f64,
}

/// A process on the receiving core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// It runs when the softirq has worked for so long without a pause (Linux: 2 ms), us.
    pub after_us: f64,
    /// And for so long, us.
    pub slice_us: f64,
}

/// Which of a NIC's cores a packet goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// That of its flow.
    Flows,
    /// The next one: interrupts go round the cores (Beyond Softnet 1.7), and flows are reordered (3).
    RoundRobin,
}

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
    /// Softnet: how drivers answer congestion.
    pub feedback: Feedback,
    /// Softnet: packets of the backlog.
    pub backlog: u32,
    /// Softnet: packets in one interrupt (`max_interrupt_work`).
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
            feedback: Feedback::None,
            backlog: crate::congestion::BACKLOG,
            interrupt_work: 1,
            mitigation_us: 100.0,
        }
    }
}

impl Reception {
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
}
