//! One core in virtual time.
//!
//! Cores share nothing (multiple-nics V.C), so each is simulated by itself; `shared.rs` says how it is where they do.
//! There is no event queue: time moves with the core's work, and all that can interrupt it is the earliest of a handful of vectors and
//! disturbances. Arrivals at a masked vector are no events at all; the ring takes them in when it is looked
//! at.

mod application;
mod build;
mod closed_loop;
mod control;
mod device;
mod egress;
mod events;
mod express;
mod global;
mod measured;
mod packet_budget;
mod parked;
mod port;
mod probe;
mod pseudo_device;
mod replay;
mod shared;
mod softirq;
mod softnet;
mod time_budget;
mod windows;
mod worker;

use std::collections::VecDeque;

use rand_pcg::Pcg64Mcg;
use rxlane_policy::Ps;
use rxlane_policy::global::GlobalPriority;
use rxlane_policy::poll::PollList;

use crate::congestion::Backlog;
use crate::custom::{Faults, Served};
use crate::exponential::{Pareto, exponential};
use crate::ring::Packet;
use crate::scenario::{Origin, Scheme};
use crate::stop::Stop;
use crate::tally::Tally;
use crate::tcp::Senders;
use application::Application;
use device::Device;
use egress::Egress;
use express::{Deferred, Lanes};
pub use measured::{Census, CoreResult};
use port::Port;
use probe::Probe;
use pseudo_device::{PSEUDO_DEVICE, Received};
pub use replay::Arrival;
pub(crate) use shared::Shared;
use shared::SharedStep;
pub use windows::Regret;
use worker::Worker;

/// What each kind of work costs.
#[derive(Debug)]
struct Costs {
    isr: Ps,
    wake: Ps,
    softirq: Ps,
    poll: Ps,
    ring: Ps,
    enqueue: Ps,
    refill: Ps,
    tx_clean: Ps,
    /// Cost of a packet without stages, for each class.
    packet: Vec<Ps>,
    /// All stages together, by class.
    stage: Vec<Ps>,
    /// Packet and stages together, by class.
    service: Vec<Ps>,
}

/// Something else that takes the core now and then: other interrupts or softirqs.
#[derive(Debug)]
struct Other {
    next: Ps,
    mean_gap: f64,
    mean_time: f64,
    redraw: Ps,
    redrawn: Ps,
    level: f64,
    /// It waits for the end of a poll where the kernel cannot be preempted.
    thread: bool,
    /// Distance and time are always the same.
    constant: bool,
    /// Of times, in shares of their mean.
    pareto: Option<Pareto>,
}

impl Other {
    /// When it comes next after `at`. What is left of a gap when the rate is drawn anew is drawn anew, too, as
    /// exponential distances allow.
    fn after(&mut self, at: Ps, rng: &mut Pcg64Mcg) -> Ps {
        let mut from = at;
        loop {
            let gap = exponential(rng);
            let gap = Ps(((gap * self.mean_gap / self.level) as u64).max(1));
            let next = Ps(from.0.saturating_add(gap.0));
            let redrawn = self.redrawn + self.redraw;
            if self.redraw == Ps::ZERO || next < redrawn {
                return next;
            }
            from = redrawn.max(at);
            self.redrawn = redrawn;
            self.level = exponential(rng);
        }
    }
}

/// The time that is measured, and how many packets had arrived, had been dropped and were held when it began.
#[derive(Debug)]
struct Measurement {
    from: Ps,
    begun: Ps,
    until: Ps,
    /// How many packets had arrived, had been dropped and were held when the tally began.
    before: Census,
}

/// Samples of the load.
#[derive(Debug)]
struct Samples {
    every: Ps,
    next: Ps,
    busy: Ps,
}

/// How vectors and handlers of this core interrupt.
#[derive(Debug)]
struct Interrupts {
    delivery: Ps,
    latch: bool,
    origin: Origin,
    work: u32,
    mitigation: Ps,
    random_lie: bool,
}

/// How packets leave by NICs.
#[derive(Debug)]
struct Sending {
    work_limit: u32,
    delay: Option<Ps>,
    descriptors: usize,
    wire: Ps,
    /// For each device, the device of its egress NIC.
    egress: Vec<usize>,
}

/// What cores share, and where this one is in it.
#[derive(Debug)]
struct Sharing {
    /// What cores share, while this one makes a step.
    shared: Option<Box<Shared>>,
    /// Cores make small steps in turn, because they share something.
    shares: bool,
    step: Option<SharedStep>,
    /// The ring that has its turn in the poll under way, and how many packets of it; of cores that share something.
    turn: Option<(usize, u32)>,
    /// NICs go from core to core.
    nics_move: bool,
    emptied: Option<usize>,
}

/// What runs beside softirqs, and when it may.
#[derive(Debug)]
struct Scheduling {
    mask_others: bool,
    /// Threads wait for the end of a poll.
    threads_wait: bool,
    process: Option<(Ps, Ps)>,
    idle_states: Vec<(Ps, Ps)>,
}

/// A core at work.
pub struct SimulatedCore {
    now: Ps,
    measurement: Measurement,
    samples: Samples,
    interrupts: Interrupts,
    sending: Sending,
    sharing: Sharing,
    scheduling: Scheduling,
    devices: Vec<Device>,
    ports: Vec<Port>,
    poll_list: PollList,
    in_softirq: bool,
    softirq_since: Ps,
    /// Earliest interrupt or disturbance.
    next_event: Ps,
    others: Vec<Other>,
    costs: Costs,
    frame: u64,
    latency_offset: Ps,
    application: Option<Application>,
    received: Option<Received>,
    worker: Option<Worker>,
    probe: Option<Probe>,
    /// Of all rings, with global priority.
    order: Option<GlobalPriority>,
    device_budget: u32,
    link: Option<Egress>,
    senders: Option<Senders>,
    backlog: Backlog,
    backlog_packets: VecDeque<(Packet, usize)>,
    scheme: Scheme,
    lanes: Option<Lanes>,
    deferred: Deferred,
    /// A packet goes on somewhere, once served.
    has_egress_stage: bool,
    last_sequence: Vec<Vec<u32>>,
    departures: Option<Vec<Departure>>,
    rng: Pcg64Mcg,
    tally: Tally,
    /// A packet has left its ring and is not served yet.
    in_service: bool,
    /// The run ended before the last work was done.
    truncated: bool,
    stop: Stop,
    /// A stage by code.
    served: Option<Served>,
    /// What its code reports.
    faults: Option<Faults>,
}

/// A packet that has been served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Departure {
    pub(crate) at: Ps,
    pub(crate) nic: usize,
    pub(crate) flow: u16,
    pub(crate) sequence: u32,
}

impl SimulatedCore {
    /// Simulates `warmup` and then `measured`; counts the latter.
    pub fn run(mut self, warmup: Ps, measured: Ps) -> CoreResult {
        self.begin(warmup, measured);
        self.advance(Ps::NEVER);
        self.finish()
    }

    /// From now on it ends early when it is asked to.
    pub(crate) fn heed(&mut self, stop: &Stop) {
        self.stop = stop.clone();
    }

    /// Where it reports what its code could not do; none where it has no code.
    pub(crate) fn faults(&self) -> Option<Faults> {
        self.faults.clone()
    }

    /// The first part of [`SimulatedCore::run`].
    pub(crate) fn begin(&mut self, warmup: Ps, measured: Ps) {
        self.measurement.from = warmup;
        self.measurement.until = warmup + measured;
    }

    /// The second part of [`SimulatedCore::run`]: simulates up to `to` or a little further, at most to the
    /// end.
    pub(crate) fn advance(&mut self, to: Ps) {
        while self.now < to.min(self.measurement.until) {
            self.step();
        }
    }

    /// A poll, a packet of the backlog, or an idle time.
    #[inline]
    fn step(&mut self) {
        self.checkpoint();
        match self.scheme {
            Scheme::Napi if self.worker.is_some() => self.step_beside_worker(),
            Scheme::Napi | Scheme::BusyPolling => match self.poll_list.first() {
                Some(PSEUDO_DEVICE) => self.poll_pseudo_device(),
                Some(device) if self.sharing.shares => self.poll_in_steps(device as usize),
                Some(_) if self.order.is_some() => self.poll_all(),
                Some(device) => self.poll(device as usize),
                None => self.idle(),
            },
            Scheme::Express => match self.poll_list.first() {
                Some(device) => self.poll_express(device as usize),
                None if !self.deferred.parked.is_empty() => self.serve_parked(),
                None => self.idle(),
            },
            Scheme::Softnet if self.backlog_packets.is_empty() => self.idle(),
            Scheme::Softnet => self.softnet_softirq(),
        }
    }

    /// From now on departures are kept for [`SimulatedCore::take_departures`].
    pub(crate) fn keep_departures(&mut self) {
        self.departures = Some(Vec::new());
    }

    /// The departures since the last call.
    pub(crate) fn take_departures(&mut self) -> Vec<Departure> {
        self.departures.replace(Vec::new()).unwrap_or_default()
    }
}
