//! The keys of cores, of what work costs on them, and of what else takes them.

use serde::{Deserialize, Serialize};

use super::Hog;

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
    /// One packet at a time enters the system, however many cores there are: Linux before softnet (Beyond Softnet 1.7).
    pub giant_lock: bool,
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
    /// What a packet takes in addition where the NIC has sorted packets into a ring a class (a strategy other than SQ): more of the
    /// driver's code and data, ns.
    pub class_ns: f64,
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
    /// Threads take the core from the softirq at any time. False, as in a kernel without preemption: those among `disturbance`, and
    /// each `hog`, wait for the end of a poll, as `process` always does.
    pub preemptible: bool,
    /// A process that wants all the time there is.
    pub process: Option<Process>,
    /// A process that shows how responsive the core is.
    pub probe: Option<Probe>,
    /// Period over which core load is sampled, s; 0 for none.
    pub sample_s: f64,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            cores: 1,
            affinity: Vec::new(),
            spread: Spread::Flows,
            giant_lock: false,
            clock_ghz: 3.2,
            isr_ns: 1700.0,
            wake_ns: 0.0,
            softirq_ns: 0.0,
            poll_ns: 0.0,
            ring_ns: 0.0,
            packet_ns: 571.0,
            class_ns: 0.0,
            byte_ns: 0.0,
            enqueue_ns: 0.0,
            tx_clean_ns: 0.0,
            tx_work_limit: 256,
            idle: Vec::new(),
            disturbance: Vec::new(),
            hog: Vec::new(),
            refill_ns: 0.0,
            mask_others: false,
            preemptible: true,
            process: None,
            probe: None,
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
    /// Each takes so long in the mean, ns.
    pub ns: f64,
    /// Exponent of a Pareto distribution of these times, above 1; the smaller, the longer the bursts of the tail. 0: they are
    /// exponential.
    #[serde(default)]
    pub pareto: f64,
    /// It is a thread and no interrupt: what `cpu.preemptible` is about.
    #[serde(default)]
    pub thread: bool,
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

/// A process that pauses and works in turn, as somebody who lists directories (Beyond Softnet 5.1). It has the core while there is
/// nothing to receive, and in the turns of `cpu.process`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// From the end of its work until it wants to run again, us.
    pub pause_us: f64,
    /// Its work, us.
    pub work_us: f64,
}

/// Which of a NIC's cores a packet goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// That of its flow.
    Flows,
    /// The next one: interrupts go round the cores (Beyond Softnet 1.7). Before NAPI each packet goes to the backlog of the
    /// core that it interrupted, and flows are reordered (3). NAPI polls a NIC on the core that it interrupted, until its ring
    /// is empty, and its next interrupt goes to another one (4.1). With `host.backlog` packets of one NIC wait for the protocol
    /// at several cores then, and flows are reordered as before NAPI.
    RoundRobin,
}
