//! What a run has counted.

use crate::histogram::Latencies;
use crate::ring::Packet;
use rxlane_policy::Ps;

/// Kinds of work of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Interrupt handlers of the modelled NICs, and waking up for them.
    Isr,
    /// Softirq entry, polls and changes of ring.
    Poll,
    /// Receiving and processing packets.
    Packet,
    /// Stages of the scenario.
    Stage,
    /// Cleaning Tx descriptors.
    Tx,
    /// Interrupts and softirqs of other devices.
    Other,
    /// The competing process.
    Process,
    /// Waiting for what other cores hold: a lock, or a unit of a resource.
    Wait,
}

impl Work {
    /// All kinds, with the names of their results.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Isr, "isr"),
        (Self::Poll, "poll"),
        (Self::Packet, "packet"),
        (Self::Stage, "stage"),
        (Self::Tx, "tx"),
        (Self::Other, "other"),
        (Self::Process, "process"),
        (Self::Wait, "wait"),
    ];
}

/// What was counted of a traffic class.
#[derive(Debug, Clone, Default)]
pub struct ClassTally {
    /// From arrival until its service began.
    pub waiting: Latencies,
    /// From arrival until it left.
    pub latency: Latencies,
    /// As `latency`, without the time that others took meanwhile; only of the highest class of the scheme `express`.
    pub own_wait: Latencies,
}

/// How often each core load was sampled, in hundredths of a per cent, so that memory does not grow with time.
#[derive(Debug, Clone)]
pub struct LoadSamples {
    counts: Vec<u64>,
}

impl Default for LoadSamples {
    fn default() -> Self {
        Self {
            counts: vec![0; 10_001],
        }
    }
}

impl LoadSamples {
    /// Adds a load, 0 to 1, that was seen so many `times`.
    pub fn add(&mut self, load: f64, times: u64) {
        let bin = (load.clamp(0.0, 1.0) * 10_000.0).round() as usize;
        self.counts[bin] += times;
    }

    /// Adds the loads of another run.
    pub fn merge(&mut self, other: &Self) {
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
    }

    /// Mean and variance of the loads; 0 without any.
    pub fn mean_and_variance(&self) -> (f64, f64) {
        let n = self.counts.iter().sum::<u64>().max(1) as f64;
        let mean = self.counts().map(|(load, k)| load * k as f64).sum::<f64>() / n;
        let squares: f64 = self
            .counts()
            .map(|(load, k)| (load - mean).powi(2) * k as f64)
            .sum();
        (mean, squares / n)
    }

    /// Loads with how often they were seen, rising.
    pub fn counts(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(bin, n)| (bin as f64 / 10_000.0, *n))
    }
}

/// Counts of one core over the measured time.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Time by kind of work.
    pub busy: [Ps; Work::ALL.len()],
    /// Waiting times and latencies by class, highest first.
    pub classes: Vec<ClassTally>,
    /// Packets served, by NIC.
    pub served: Vec<u64>,
    /// Packets served, by flow; of the scheme `express` only.
    pub flow_served: Vec<u64>,
    /// Dropped by overload control, by class.
    pub early_dropped: Vec<u64>,
    /// Interrupts by vector.
    pub irqs: Vec<u64>,
    /// Polls of a device.
    pub polls: u64,
    /// Packets served after a later packet of their flow.
    pub reordered: u64,
    /// Dropped at a full backlog.
    pub backlog_dropped: u64,
    /// Dropped at a full Tx ring, after their service, by class.
    pub tx_dropped: Vec<u64>,
    /// Dropped at a full socket buffer, or at a full egress queue.
    pub socket_dropped: u64,
    /// Read by the application, whose own buffer was full.
    pub application_dropped: u64,
    /// The application, or the thread that sends, is done with them.
    pub delivered: u64,
    /// Dropped at a full queue of the egress link, by class.
    pub qdisc_dropped: Vec<u64>,
    /// Sent by the egress link, by class.
    pub sent: Vec<u64>,
    /// Load of the core by sample, the competing process left out.
    pub loads: LoadSamples,
}

impl Tally {
    /// Counters of a core that has done nothing yet.
    pub fn new(classes: usize, nics: usize, vectors: usize, flows: usize) -> Self {
        Self {
            busy: [Ps::ZERO; Work::ALL.len()],
            classes: vec![ClassTally::default(); classes],
            served: vec![0; nics],
            flow_served: vec![0; flows],
            early_dropped: vec![0; classes],
            irqs: vec![0; vectors],
            polls: 0,
            reordered: 0,
            backlog_dropped: 0,
            tx_dropped: vec![0; classes],
            socket_dropped: 0,
            application_dropped: 0,
            delivered: 0,
            qdisc_dropped: vec![0; classes],
            sent: vec![0; classes],
            loads: LoadSamples::default(),
        }
    }

    /// Counts a packet that comes after a later one of its flow.
    #[inline]
    pub(crate) fn count_order(&mut self, packet: Packet, last_sequence: &mut [u32]) {
        let last = &mut last_sequence[usize::from(packet.flow)];
        if packet.sequence < *last {
            self.reordered += 1;
        } else {
            *last = packet.sequence;
        }
    }
}
