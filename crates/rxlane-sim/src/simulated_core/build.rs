//! A core as a scenario describes it, before anything happens.

use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_policy::poll::PollList;
use rxlane_policy::strategy::{Strategy, StrategyName};
use rxlane_policy::throttle::Throttling;
use rxlane_policy::{Bps, Ps};

use super::application::Application;
use super::device::Device;
use super::egress::Egress;
use super::express::{Deferred, Lanes};
use super::measured::Census;
use super::port::{Port, Share};
use super::probe::Probe;
use super::pseudo_device::Received;
use super::worker::Worker;
use super::{
    Costs, Interrupts, Measurement, Other, Samples, Scheduling, Sending, Shared, Sharing,
    SimulatedCore, closed_loop,
};
use crate::SimError;
use crate::congestion::{Backlog, FeedbackDriver};
use crate::custom::{Controlled, Faults, Incoming, Served, Start, made};
use crate::exponential::{Pareto, exponential};
use crate::scenario::{
    Egress as Way, IdleState, Priority, Process, Scenario, Scheme, Spread, TxRings,
};
use crate::stop::Stop;
use crate::tally::Tally;
use crate::tcp::Senders;
use crate::traffic::{Source, Stream};

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
    /// [`SimError::Policy`] for budgets or throttling that cannot work, [`SimError::Custom`] for code that cannot begin.
    pub fn new(scenario: &Scenario, core: usize, seed: u64) -> Result<Self, SimError> {
        let classes = scenario.traffic.class_shares().len();
        let cpu = &scenario.cpu;
        let reception = &scenario.reception;
        let shares = Shared::new(scenario).is_some();
        let nics_move =
            shares && reception.scheme == Scheme::Napi && cpu.spread == Spread::RoundRobin;
        let custom = &scenario.custom;
        let faults = Faults::default();
        let start = |seed| Start { seed, classes };
        let served = match &custom.service {
            Some(make) => {
                let from = made(make, "stage", start(seed ^ (core as u64) << 40))?;
                Some(Served::new(from, classes, faults.clone()))
            }
            None => None,
        };
        let tx_rings = match scenario.nic.tx_rings {
            TxRings::One => 1,
            TxRings::Class => classes,
        };
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
            // In front of a worker a NIC has one ring, and does not throttle.
            let (strategy, throttling) = match scenario.worker {
                Some(_) => (Strategy::Sq, Throttling::Off),
                None => (reception.strategy(), scenario.interrupt.throttling),
            };
            let layout = strategy.layout(classes, reception.device_budget, reception.order)?;
            *first = Some(devices.len());
            let stream = stream(scenario, nic);
            // All cores of a NIC draw the same packets, and each keeps its share.
            let here = !nics_move || nic % cores.len() == share;
            let seed_of_nic = seed.wrapping_mul(1_000_003) + nic as u64;
            let mut source = (stream.pps > 0.0 && here).then(|| Source::new(&stream, seed_of_nic));
            if let (Some(make), true) = (&custom.arrivals, here) {
                let from = made(make, "arrivals", start(seed_of_nic))?;
                let incoming = Incoming::new(from, classes, faults.clone());
                source = Some(Source::new(&stream, seed_of_nic).with_incoming(incoming));
            }
            ports.push(Port::new(
                (source, scenario.traffic.packets),
                layout.places,
                devices.len(),
                Share {
                    core: if nics_move { 0 } else { share as u16 },
                    cores: if nics_move { 1 } else { cores.len() as u16 },
                    turn: (cpu.spread == Spread::RoundRobin).then_some(reception.interrupt_work),
                },
                Ps::from_ns(scenario.nic.dma_ns),
            ));
            let port = ports.len() - 1;
            for qvector in layout.devices {
                devices.push(Device::new(
                    (nic, port),
                    qvector.in_rounds(reception.rounds),
                    (
                        scenario.nic.descriptors + scenario.nic.packet_buffer,
                        tx_rings,
                    ),
                    throttling.start()?,
                    FeedbackDriver::new(reception.feedback),
                ));
                let last = devices.len() - 1;
                devices[last].estimator = match &scenario.interrupt.estimate {
                    Some(estimate) => Some(estimate.start()?),
                    None => None,
                };
                if let Some(make) = &custom.controller {
                    let by = made(
                        make,
                        "throttling",
                        start(seed ^ (core as u64) << 40 ^ (last as u64) << 32),
                    )?;
                    devices[last].controlled = Some(Controlled::new(by, faults.clone()));
                }
                devices[last].has_old_interface =
                    reception.scheme == Scheme::Softnet || reception.old_interfaces.contains(&nic);
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
        let estimate = match scenario.interrupt.estimate {
            Some(_) => scenario.interrupt.estimate_ns,
            None => 0.0,
        };
        let sorted = match reception.strategy {
            StrategyName::Sq => 0.0,
            StrategyName::Rr | StrategyName::LlRr | StrategyName::LlWfq => cpu.class_ns,
        };
        let packet: Vec<Ps> =
            class_costs(&|_| cpu.packet_ns + sorted + cpu.byte_ns * frame + estimate);
        let stage: Vec<Ps> = class_costs(&|class| {
            let of =
                |s: &&crate::scenario::Stage| s.classes.is_empty() || s.classes.contains(&class);
            let stages = scenario.stage.iter().filter(of);
            stages.map(|s| s.packet_ns + s.byte_ns * frame).sum()
        });
        let mut this = Self {
            now: Ps::ZERO,
            measurement: Measurement {
                from: Ps::NEVER,
                begun: Ps::ZERO,
                until: Ps::NEVER,
                before: Census::default(),
            },
            samples: Samples {
                every: Ps::from_s(cpu.sample_s),
                next: Ps::NEVER,
                busy: Ps::ZERO,
            },
            interrupts: Interrupts {
                delivery: Ps::from_ns(scenario.interrupt.delivery_ns),
                latch: scenario.interrupt.latch_masked,
                origin: scenario.interrupt.origin,
                work: reception.interrupt_work,
                mitigation: Ps::from_us(reception.mitigation_us),
                random_lie: reception.feedback.lies(),
            },
            sending: Sending {
                work_limit: cpu.tx_work_limit,
                delay: (scenario.interrupt.tx_completion && scenario.nic.egress == Way::Circular)
                    .then(|| Ps::from_ns(scenario.interrupt.tx_delay_ns)),
                descriptors: scenario.nic.tx_descriptors,
                wire: Bps(scenario.nic.link_bps).wire_time(scenario.traffic.frame),
                egress,
            },
            sharing: Sharing {
                shared: None,
                shares,
                step: None,
                turn: None,
                nics_move,
                emptied: None,
            },
            scheduling: Scheduling {
                mask_others: cpu.mask_others,
                threads_wait: !cpu.preemptible,
                process: cpu.process.map(process),
                idle_states: cpu.idle.iter().map(idle_state).collect(),
            },
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
            latency_offset: latency_offset(scenario),
            application: Application::of(scenario),
            received: Received::new(scenario),
            worker: Worker::new(scenario, ports.len())?,
            probe: cpu.probe.as_ref().map(Probe::new),
            order: match reception.priority {
                Priority::Global => Some(reception.global(classes, devices.len())?),
                Priority::Devices => None,
            },
            device_budget: reception.device_budget,
            link: Egress::new(scenario, seed ^ core as u64),
            senders: scenario.tcp.as_ref().map(|tcp| Senders::new(scenario, tcp)),
            backlog: Backlog::new(reception.backlog),
            backlog_packets: VecDeque::new(),
            scheme: reception.scheme,
            lanes: match reception.scheme {
                Scheme::Express => Some(Lanes::new(scenario)?),
                Scheme::Napi | Scheme::Softnet | Scheme::BusyPolling => None,
            },
            deferred: Deferred::new(scenario),
            has_egress_stage: shares
                || served.is_some()
                || (scenario.interrupt.tx_completion && scenario.nic.egress == Way::Circular)
                || scenario.host.is_some()
                || scenario.transmit.is_some()
                || scenario.interrupt.estimate.is_some()
                || scenario.qdisc.is_some()
                || scenario.tcp.is_some(),
            last_sequence: vec![vec![0; scenario.flows()]; scenario.nic.count],
            departures: None,
            rng: Pcg64Mcg::seed_from_u64(seed ^ (core as u64 + 1) << 48),
            tally: Tally::new(classes, scenario.nic.count, devices.len(), scenario.flows()),
            in_service: false,
            truncated: false,
            stop: Stop::never(),
            served,
            faults: (!custom.is_empty()).then_some(faults),
            devices,
            ports,
        };
        if this.senders.is_some() {
            // Also where nothing else comes.
            this.ports[closed_loop::PORT].known_until = Ps::ZERO;
        }
        for d in &cpu.disturbance {
            this.disturb(d);
        }
        for hog in &cpu.hog {
            this.hog(*hog);
        }
        for device in 0..this.devices.len() {
            match this.scheme {
                Scheme::BusyPolling => this.poll_for_ever(device),
                Scheme::Napi | Scheme::Softnet | Scheme::Express => this.schedule(device),
            }
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
                exponential(&mut self.rng)
            } else {
                1.0
            },
            thread: d.thread,
            constant: false,
            pareto: (d.pareto > 1.0).then(|| Pareto::new(d.pareto)),
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
            thread: true,
            constant: true,
            pareto: None,
        });
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
