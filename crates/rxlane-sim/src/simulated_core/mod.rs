//! One core in virtual time.
//!
//! Cores share nothing (multiple-nics V.C), so each is simulated by itself. There is no event queue: time
//! moves with the core's work, and all that can interrupt it is the earliest of a handful of vectors and
//! disturbances. Arrivals at a masked vector are no events at all; the ring takes them in when it is looked
//! at.

mod control;
mod device;
mod events;
mod express;
mod packet_budget;
mod port;
mod softirq;
mod softnet;
mod tandem;
mod time_budget;
mod windows;

use std::collections::VecDeque;

use crate::congestion::{Backlog, FeedbackDriver};
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use rxlane_policy::class::MAX_CLASSES;
use rxlane_policy::poll::PollList;
use rxlane_policy::{Bps, Ps};

use crate::SimError;
use crate::ring::Packet;
use crate::scenario::{Egress, IdleState, Process, Scenario, Scheme, Spread};
use crate::tally::{Tally, Work};
use crate::traffic::{Source, Stream, wire_time};
use device::Device;
use express::{Aside, Lanes};
use port::{Port, Share};
use tandem::Tandem;
pub use windows::Regret;

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
    /// Distance and time are always the same.
    constant: bool,
}

impl Other {
    /// When it comes next after `at`. What is left of a gap when the rate is drawn anew is drawn anew, too, as
    /// exponential distances allow.
    fn after(&mut self, at: Ps, rng: &mut Pcg64Mcg) -> Ps {
        let mut from = at;
        loop {
            let gap: f64 = Exp1.sample(rng);
            let gap = Ps(((gap * self.mean_gap / self.level) as u64).max(1));
            let next = Ps(from.0.saturating_add(gap.0));
            let redrawn = self.redrawn + self.redraw;
            if self.redraw == Ps::ZERO || next < redrawn {
                return next;
            }
            from = redrawn.max(at);
            self.redrawn = redrawn;
            self.level = Exp1.sample(rng);
        }
    }
}

/// A core at work.
pub struct SimulatedCore {
    now: Ps,
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
    tx_work_limit: u32,
    delivery: Ps,
    latch: bool,
    origin: crate::scenario::Origin,
    tx_delay: Option<Ps>,
    tx_descriptors: usize,
    wire: Ps,
    /// For each device, the device of its egress NIC.
    egress: Vec<usize>,
    latency_offset: Ps,
    idle_states: Vec<(Ps, Ps)>,
    process: Option<(Ps, Ps)>,
    mask_others: bool,
    tandem: Option<Tandem>,
    backlog: Backlog,
    backlog_packets: VecDeque<(Packet, usize)>,
    scheme: Scheme,
    lanes: Option<Lanes>,
    aside: Aside,
    interrupt_work: u32,
    mitigation: Ps,
    lies: bool,
    last_sequence: Vec<Vec<u32>>,
    departures: Option<Vec<Departure>>,
    sample: Ps,
    next_sample: Ps,
    sampled_busy: Ps,
    rng: Pcg64Mcg,
    tally: Tally,
    /// A packet has left its ring and is not served yet.
    in_service: bool,
    /// The run ended before the last work was done.
    cut: bool,
    measure_from: Ps,
    begun: Ps,
    until: Ps,
    /// How many packets had arrived, had been dropped and were held when the tally began.
    before: Census,
}

/// A packet that has been served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Departure {
    pub(crate) at: Ps,
    pub(crate) nic: usize,
    pub(crate) flow: u16,
    pub(crate) sequence: u32,
}

/// How many packets have arrived, were dropped or are held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Packets that have arrived at the NICs.
    pub arrived: u64,
    /// Packets that found the ring full.
    pub ring_dropped: u64,
    /// Packets that wait in rings, backlog or the host's socket, or are in service.
    pub queued: u64,
    /// Packets that found the ring full, by class.
    pub ring_dropped_of: [u64; MAX_CLASSES],
}

/// What a core has counted over the measured time.
#[derive(Debug, Clone)]
pub struct CoreResult {
    /// The counts of the measured time.
    pub tally: Tally,
    /// Length of the measured time.
    pub elapsed: Ps,
    /// Packets at the begin of the measured time.
    pub before: Census,
    /// Packets at the end of the measured time.
    pub after: Census,
    /// The worst windows of the measured time; of the scheme `express` only.
    pub regret: Regret,
    /// NIC of each vector.
    pub vector_nics: Vec<usize>,
}

fn stream(scenario: &Scenario, nic: usize) -> Stream {
    let t = &scenario.traffic;
    let share = t
        .nic_shares
        .get(nic)
        .copied()
        .unwrap_or(1.0 / scenario.nic.count as f64);
    Stream {
        pps: t.pps * share,
        pattern: t.pattern.clone(),
        shares: t.class_shares(),
        mix: t.mix,
        flows: t.flows,
        heaviest_flow: t.heaviest_flow,
        steps: t
            .steps
            .iter()
            .map(|s| (Ps::from_s(s.from_s), s.factor))
            .collect(),
        frame: t.frame,
        link: Bps(scenario.nic.link_bps),
    }
}

impl SimulatedCore {
    /// Core number `core` of a checked scenario.
    ///
    /// # Errors
    /// [`SimError::Policy`] for budgets or throttling that cannot work.
    pub fn new(scenario: &Scenario, core: usize, seed: u64) -> Result<Self, SimError> {
        let classes = scenario.traffic.class_shares().len();
        let cpu = &scenario.cpu;
        let reception = &scenario.reception;
        let mut devices = Vec::new();
        let mut ports = Vec::new();
        let mut first_of_nic = vec![None; scenario.nic.count];
        for (nic, first) in first_of_nic.iter_mut().enumerate() {
            let cores: Vec<usize> = match cpu.affinity.get(nic) {
                Some(cores) => cores.clone(),
                None => (0..cpu.cores).collect(),
            };
            let Some(share) = cores.iter().position(|c| *c == core) else {
                continue;
            };
            let layout =
                reception
                    .strategy()
                    .layout(classes, reception.device_budget, reception.order)?;
            *first = Some(devices.len());
            let stream = stream(scenario, nic);
            // All cores of a NIC draw the same packets, and each keeps its share.
            let source = (stream.pps > 0.0)
                .then(|| Source::new(&stream, seed.wrapping_mul(1_000_003) + nic as u64));
            ports.push(Port::new(
                source,
                layout.places,
                devices.len(),
                Share {
                    core: share as u16,
                    cores: cores.len() as u16,
                    turn: (cpu.spread == Spread::RoundRobin).then_some(reception.interrupt_work),
                },
                Ps::from_ns(scenario.nic.dma_ns),
            ));
            let port = ports.len() - 1;
            for qvector in layout.devices {
                devices.push(Device::new(
                    (nic, port),
                    qvector.in_rounds(reception.rounds),
                    scenario.nic.descriptors + scenario.nic.packet_buffer,
                    scenario.interrupt.throttling.start()?,
                    FeedbackDriver::new(reception.feedback),
                ));
            }
        }
        // A device sends through the first device of the next NIC that has a vector on this core. Where no
        // other NIC has one, that is the first device of its own NIC.
        let egress = devices
            .iter()
            .enumerate()
            .map(|(i, d)| {
                (1..=scenario.nic.count)
                    .find_map(|hop| first_of_nic[(d.nic + hop) % scenario.nic.count])
                    .unwrap_or(i)
            })
            .collect();
        let class_costs =
            |f: &dyn Fn(usize) -> f64| (0..classes).map(|c| Ps::from_ns(f(c))).collect();
        let frame = f64::from(scenario.traffic.frame);
        let packet: Vec<Ps> = class_costs(&|_| cpu.packet_ns + cpu.byte_ns * frame);
        let stage: Vec<Ps> = class_costs(&|class| {
            let of =
                |s: &&crate::scenario::Stage| s.classes.is_empty() || s.classes.contains(&class);
            let stages = scenario.stage.iter().filter(of);
            stages.map(|s| s.packet_ns + s.byte_ns * frame).sum()
        });
        let mut this = Self {
            now: Ps::ZERO,
            ports,
            poll_list: PollList::default(),
            in_softirq: false,
            softirq_since: Ps::ZERO,
            next_event: Ps::ZERO,
            others: Vec::new(),
            costs: Costs {
                isr: Ps::from_ns(cpu.isr_ns),
                wake: Ps::from_ns(cpu.wake_ns),
                softirq: Ps::from_ns(cpu.softirq_ns),
                poll: Ps::from_ns(cpu.poll_ns),
                ring: Ps::from_ns(cpu.ring_ns),
                enqueue: Ps::from_ns(cpu.enqueue_ns),
                refill: Ps::from_ns(cpu.refill_ns),
                tx_clean: Ps::from_ns(cpu.tx_clean_ns),
                service: packet.iter().zip(&stage).map(|(p, s)| *p + *s).collect(),
                packet,
                stage,
            },
            frame: u64::from(scenario.traffic.frame),
            tx_work_limit: cpu.tx_work_limit,
            delivery: Ps::from_ns(scenario.interrupt.delivery_ns),
            latch: scenario.interrupt.latch_masked,
            origin: scenario.interrupt.origin,
            tx_delay: (scenario.interrupt.tx_completion && scenario.nic.egress == Egress::Circular)
                .then(|| Ps::from_ns(scenario.interrupt.tx_delay_ns)),
            tx_descriptors: scenario.nic.tx_descriptors,
            wire: wire_time(scenario.traffic.frame, Bps(scenario.nic.link_bps)),
            egress,
            latency_offset: latency_offset(scenario),
            idle_states: cpu.idle.iter().map(idle_state).collect(),
            process: cpu.process.map(process),
            mask_others: cpu.mask_others,
            tandem: scenario.host.map(|h| {
                let service = h.application_ns + h.application_byte_ns * frame;
                Tandem::new(h.socket, Ps::from_ns(service))
            }),
            backlog: Backlog::new(reception.backlog),
            backlog_packets: VecDeque::new(),
            scheme: reception.scheme,
            lanes: match reception.scheme {
                Scheme::Express => Some(Lanes::new(scenario)?),
                Scheme::Napi | Scheme::Softnet => None,
            },
            aside: Aside::new(scenario),
            interrupt_work: reception.interrupt_work,
            mitigation: Ps::from_us(reception.mitigation_us),
            lies: reception.feedback.lies(),
            last_sequence: vec![
                vec![0; classes * usize::from(scenario.traffic.flows.max(1))];
                scenario.nic.count
            ],
            departures: None,
            sample: Ps::from_s(cpu.sample_s),
            next_sample: Ps::NEVER,
            sampled_busy: Ps::ZERO,
            rng: Pcg64Mcg::seed_from_u64(seed ^ (core as u64 + 1) << 48),
            tally: Tally::new(
                classes,
                scenario.nic.count,
                devices.len(),
                classes * usize::from(scenario.traffic.flows.max(1)),
            ),
            in_service: false,
            cut: false,
            measure_from: Ps::NEVER,
            begun: Ps::ZERO,
            until: Ps::NEVER,
            before: Census::default(),
            devices,
        };
        for d in &cpu.disturbance {
            this.disturb(d);
        }
        for hog in &cpu.hog {
            this.hog(*hog);
        }
        for device in 0..this.devices.len() {
            this.schedule(device);
        }
        this.find_next_event();
        Ok(this)
    }

    fn disturb(&mut self, d: &crate::scenario::Disturbance) {
        if d.per_second <= 0.0 {
            return;
        }
        let mut other = Other {
            next: Ps::ZERO,
            mean_gap: 1e12 / d.per_second,
            mean_time: d.ns * 1e3,
            redraw: Ps::from_s(d.redraw_s),
            redrawn: Ps::ZERO,
            level: if d.redraw_s > 0.0 {
                Exp1.sample(&mut self.rng)
            } else {
                1.0
            },
            constant: false,
        };
        other.next = other.after(Ps::ZERO, &mut self.rng);
        self.others.push(other);
    }

    fn hog(&mut self, hog: crate::scenario::Hog) {
        let every = Ps::from_us(hog.every_us);
        self.others.push(Other {
            next: Ps((self.rng.random::<f64>() * every.0 as f64) as u64),
            mean_gap: every.0 as f64,
            mean_time: Ps::from_us(hog.takes_us).0 as f64,
            redraw: Ps::ZERO,
            redrawn: Ps::ZERO,
            level: 1.0,
            constant: true,
        });
    }

    /// Simulates `warmup` and then `measured`; counts the latter.
    pub fn run(mut self, warmup: Ps, measured: Ps) -> CoreResult {
        self.begin(warmup, measured);
        self.advance(Ps::NEVER);
        self.finish()
    }

    /// The first part of [`SimulatedCore::run`].
    pub(crate) fn begin(&mut self, warmup: Ps, measured: Ps) {
        self.measure_from = warmup;
        self.until = warmup + measured;
    }

    /// The second part of [`SimulatedCore::run`]: simulates up to `to` or a little further, at most to the
    /// end.
    pub(crate) fn advance(&mut self, to: Ps) {
        while self.now < to.min(self.until) {
            self.checkpoint();
            match self.scheme {
                Scheme::Napi => match self.poll_list.first() {
                    Some(device) => self.poll(device as usize),
                    None => self.idle(),
                },
                Scheme::Express => match self.poll_list.first() {
                    Some(device) => self.poll_express(device as usize),
                    None => self.idle(),
                },
                Scheme::Softnet if self.backlog_packets.is_empty() => self.idle(),
                Scheme::Softnet => self.softnet_softirq(),
            }
        }
    }

    /// Ends the measurement and gives what was counted.
    pub(crate) fn finish(mut self) -> CoreResult {
        self.checkpoint();
        let after = self.census();
        CoreResult {
            elapsed: self.now - self.begun,
            before: self.before,
            after,
            regret: self.aside.windows.worst,
            vector_nics: self.devices.iter().map(|d| d.nic).collect(),
            tally: self.tally,
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

    /// Begins to measure, and samples the load, when it is time to.
    #[inline]
    fn checkpoint(&mut self) {
        if self.now >= self.measure_from {
            self.begin_to_measure();
        }
        if self.now >= self.next_sample {
            self.sample_load();
        }
    }

    #[cold]
    fn begin_to_measure(&mut self) {
        let (classes, nics) = (self.tally.classes.len(), self.tally.served.len());
        // The census also counts what the application has finished. That is not measured yet, so it precedes
        // the new tally.
        self.before = self.census();
        let flows = self.tally.flow_served.len();
        self.tally = Tally::new(classes, nics, self.devices.len(), flows);
        self.begun = self.now;
        self.aside.windows.restart(self.now);
        self.measure_from = Ps::NEVER;
        if self.sample > Ps::ZERO {
            self.next_sample = self.begun + self.sample;
        }
    }

    fn census(&mut self) -> Census {
        let mut census = Census::default();
        for device in 0..self.devices.len() {
            self.know(self.devices[device].port, self.now);
            let now = self.now;
            let device = &mut self.devices[device];
            device.admit(now);
            for ring in &device.rings {
                census.arrived += ring.arrived();
                census.ring_dropped += ring.dropped();
                census.queued += ring.len() as u64;
                for (all, of) in census.ring_dropped_of.iter_mut().zip(ring.dropped_of()) {
                    *all += of;
                }
            }
        }
        census.queued += (self.aside.batch.len() + self.aside.collected.len()) as u64;
        census.queued += self.backlog_packets.len() as u64 + u64::from(self.in_service);
        if let Some(tandem) = &mut self.tandem {
            let now = self.now;
            self.tally.delivered += tandem.depart_until(now);
            census.queued += tandem.len();
        }
        census
    }

    #[cold]
    fn sample_load(&mut self) {
        let process = self.tally.busy[Work::Process as usize];
        let busy = self.tally.busy.iter().copied().sum::<Ps>() - process;
        let mut load = (busy - self.sampled_busy).as_s() / self.sample.as_s();
        self.sampled_busy = busy;
        while self.next_sample <= self.now {
            self.tally.loads.add(load);
            // The core slept through all further samples.
            load = 0.0;
            self.next_sample += self.sample;
        }
    }
}

/// The part of a packet's latency that comes before it is in memory, or lies outside this model.
fn latency_offset(scenario: &Scenario) -> Ps {
    Ps::from_ns(scenario.nic.dma_ns + scenario.nic.fixed_latency_us * 1e3)
}

fn idle_state(s: &IdleState) -> (Ps, Ps) {
    (Ps::from_us(s.after_us), Ps::from_us(s.exit_us))
}

fn process(p: Process) -> (Ps, Ps) {
    (Ps::from_us(p.after_us), Ps::from_us(p.slice_us))
}
