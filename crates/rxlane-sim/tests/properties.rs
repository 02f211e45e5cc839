//! What holds for every scenario.

use proptest::prelude::*;
use rxlane_policy::poll::Order;
use rxlane_policy::strategy::StrategyName;
use rxlane_policy::throttle::estimate::{Estimate, FillLevelGoal, SojournGoal};
use rxlane_policy::throttle::{LinearLaw, Throttling};
use rxlane_sim::congestion::Feedback;
use rxlane_sim::outcome::{Outcome, simulate};
use rxlane_sim::scenario::{
    Controller, Discipline, Disturbance, Egress, ExpressEgress, Hog, Host, IdleState, Origin,
    Priority, Probe, Process, Qdisc, RedKeys, Resource, Scenario, Scheme, Spread, Stage, Tcp,
    Transmit, TxRings, Worker,
};
use rxlane_sim::tcp::CongestionControl;
use rxlane_sim::traffic::Pattern;

prop_compose! {
    fn scenario()(
        seed in any::<u64>(),
        (pps, rt_ratio, pattern) in (1e3..3e6, 0.0..1.0, 0u8..3),
        (nics, cores) in (1usize..4, 1usize..3),
        (descriptors, buffer) in (8usize..600, 0usize..600),
        strategy in 0u8..4,
        (latch, tx, poll_end, mask_others) in any::<(bool, bool, bool, bool)>(),
        throttling in 0u8..5,
        (isr, wake, packet, ring) in (0.0..5000.0, 0.0..3000.0, 50.0..3000.0, 0.0..200.0),
        (delivery, dma) in (0.0..2000.0, 0.0..1000.0),
        extras in 0u8..16,
        softnet in prop::option::weighted(0.3, 0u8..4),
        qdisc in prop::option::weighted(0.4, (
            prop_oneof![Just(Discipline::Fifo), Just(Discipline::Strict), Just(Discipline::Drr), Just(Discipline::Red), Just(Discipline::Sfq), Just(Discipline::TokenBucket)],
            1usize..300,
            1e7..1e10,
        )),
        express in prop::option::weighted(0.3, 0usize..5),
        sharing in prop::option::weighted(0.3, (0u8..8, 1usize..3, 0.0..2000.0)),
        (layers, beside) in (0u8..16, 0.0..1.0),
        tcp in prop::option::weighted(0.4, (1u16..6, 0usize..3, 20.0..2000.0, 2u32..200, any::<bool>())),
        (busy, apart, goal, worker) in (prop::bool::weighted(0.2), 0u8..16, 1u32..100, prop::option::weighted(0.3, (0.0..2000.0, 1usize..600, 1.0..100.0))),
    ) -> Scenario {
        let mut s = Scenario { seed, seconds: 0.004, warmup_s: 0.001, ..Scenario::default() };
        s.traffic.pps = pps;
        s.traffic.rt_ratio = rt_ratio;
        s.traffic.pattern = match pattern {
            0 => Pattern::Poisson,
            1 => Pattern::Cbr { jitter: rt_ratio },
            _ => Pattern::OnOff { mean_burst: 1.0 + 30.0 * rt_ratio },
        };
        s.traffic.packets = if descriptors % 4 == 0 { descriptors as u64 } else { 0 };
        s.nic.count = nics;
        s.nic.descriptors = descriptors;
        s.nic.packet_buffer = buffer;
        s.nic.tx_descriptors = 4 + descriptors;
        s.nic.tx_rings = if tx && latch { TxRings::Class } else { TxRings::One };
        s.nic.dma_ns = dma;
        s.nic.egress = if tx { Egress::Circular } else { Egress::None };
        s.interrupt.tx_completion = tx;
        s.interrupt.latch_masked = latch;
        s.interrupt.delivery_ns = delivery;
        s.interrupt.origin = if poll_end { Origin::PollEnd } else { Origin::Irq };
        s.interrupt.throttling = match throttling {
            0 => Throttling::Off,
            1 => Throttling::Static { interval_ns: 20_000 },
            2 => Throttling::ThreeState { elapsed: Default::default(), rates: Default::default() },
            3 => Throttling::Linear(LinearLaw::default()),
            _ => Throttling::NetDim,
        };
        s.cpu.cores = cores;
        s.cpu.isr_ns = isr;
        s.cpu.wake_ns = wake;
        s.cpu.packet_ns = packet;
        s.cpu.ring_ns = ring;
        s.cpu.tx_clean_ns = if tx { 100.0 } else { 0.0 };
        s.cpu.mask_others = mask_others;
        s.cpu.preemptible = delivery < 1000.0;
        s.cpu.sample_s = 0.0005;
        s.reception.order = if latch { Order::HighestFirst } else { Order::LowestFirst };
        s.reception.strategy = [StrategyName::Sq, StrategyName::Rr, StrategyName::LlRr, StrategyName::LlWfq][usize::from(strategy)];
        if extras & 1 > 0 {
            s.cpu.disturbance.push(Disturbance { name: "timer".into(), per_second: 2000.0, ns: 5000.0, redraw_s: 0.0005, thread: poll_end, pareto: if latch { 1.1 + wake / 1000.0 } else { 0.0 } });
        }
        if extras & 2 > 0 {
            s.cpu.process = Some(Process { after_us: 500.0, slice_us: 300.0 });
        }
        if extras & 4 > 0 {
            s.cpu.idle.push(IdleState { after_us: 5.0, exit_us: 2.0 });
            s.stage.push(Stage { name: "ipsec".into(), packet_ns: 300.0, byte_ns: 1.0, classes: vec![0] });
        }
        if extras & 8 > 0 {
            s.host = Some(Host {
                socket: 32,
                application_ns: 900.0,
                application_byte_ns: 0.5,
                beside_softirq: if layers & 1 > 0 { beside } else { 1.0 },
                buffer: if layers & 2 > 0 { 20 } else { 0 },
                read_ns: if layers & 4 > 0 { 100.0 } else { 0.0 },
                ..Host::default()
            });
        } else if layers & 8 > 0 && !tx {
            s.transmit = Some(Transmit { queue: descriptors, packet_ns: isr, beside_softirq: if layers & 1 > 0 { beside } else { 0.0 } });
        }
        if let Some(h) = &mut s.host
            && softnet.is_none()
            && layers & 8 > 0
        {
            h.backlog = buffer;
            h.protocol_ns = if buffer > 0 { packet } else { 0.0 };
        }
        if apart & 1 > 0 {
            s.cpu.probe = Some(Probe { pause_us: 100.0, work_us: 0.01 * packet });
        }
        if let Some(feedback) = softnet {
            s.reception.scheme = Scheme::Softnet;
            s.reception.strategy = StrategyName::Sq;
            s.reception.feedback = [Feedback::None, Feedback::Hfc, Feedback::Ff, Feedback::FfRandomLie][usize::from(feedback)];
            s.reception.interrupt_work = 1 + u32::from(extras);
            s.reception.backlog = 40;
            if latch {
                s.cpu.spread = Spread::RoundRobin;
            }
        }
        if let Some((discipline, limit, bps)) = qdisc
            && !tx
            && s.host.is_none()
            && s.transmit.is_none()
        {
            s.qdisc = Some(Qdisc {
                discipline,
                limit,
                link_bps: bps,
                quanta: if discipline == Discipline::Drr { vec![100, 1500] } else { Vec::new() },
                red: RedKeys { weight: 0.1, ..RedKeys::default() },
                buckets: limit,
                rate_bps: bps / 2.0,
                burst: 128 * descriptors as u32,
                descriptors: match discipline {
                    Discipline::TokenBucket => 0,
                    _ => buffer,
                },
            });
        }
        if let Some((what, units, ns)) = sharing {
            s.cpu.giant_lock = what & 1 > 0;
            s.nic.tx_lock_ns = if what & 2 > 0 { ns } else { 0.0 };
            s.cpu.cores += usize::from(what & 4 > 0);
            let classes = if latch { vec![0] } else { Vec::new() };
            s.resource.push(Resource { name: "bus".into(), units, packet_ns: ns, byte_ns: 0.1, classes, each_nic: poll_end });
            if s.reception.scheme == Scheme::Napi && s.reception.strategy != StrategyName::Rr && !tx && mask_others {
                s.cpu.spread = Spread::RoundRobin;
            }
        }
        let napi = s.reception.scheme == Scheme::Napi;
        if napi && apart & 2 > 0 && s.reception.strategy == StrategyName::Sq && !tx && s.cpu.spread == Spread::Flows {
            s.reception.old_interfaces = vec![nics - 1];
            s.reception.feedback = if latch { Feedback::Hfc } else { Feedback::None };
        } else if napi && apart & 4 > 0 && sharing.is_none() && s.reception.strategy != StrategyName::Rr && s.host.is_none() {
            s.reception.priority = Priority::Global;
        }
        if napi && apart & 8 > 0 {
            s.interrupt.throttling = Throttling::Off;
            s.interrupt.estimate = Some(match goal % 3 {
                0 => Estimate::InterArrival(LinearLaw::default()),
                1 => Estimate::Sojourn(SojournGoal { target_us: f64::from(goal), ..SojournGoal::default() }),
                _ => Estimate::FillLevel(FillLevelGoal { packets: goal, ..FillLevelGoal::default() }),
            });
            s.interrupt.estimate_ns = f64::from(goal);
        }
        if napi && busy {
            s.reception.scheme = Scheme::BusyPolling;
            s.cpu.poll_ns = 20.0 + ring;
            s.interrupt.throttling = Throttling::Off;
            if s.check().is_err() {
                s.reception.scheme = Scheme::Napi;
            }
        }
        if let Some(controller) = express {
            if let Some(q) = &mut s.qdisc && q.discipline == Discipline::TokenBucket {
                q.discipline = Discipline::Red;
            }
            s.transmit = None;
            s.cpu.probe = None;
            s.interrupt.estimate = None;
            s.reception.old_interfaces.clear();
            s.reception.priority = Priority::Devices;
            s.cpu.giant_lock = false;
            s.nic.tx_lock_ns = 0.0;
            s.resource.clear();
            s.reception.scheme = Scheme::Express;
            s.reception.strategy = StrategyName::Sq;
            s.cpu.spread = Spread::Flows;
            s.cpu.process = None;
            s.host = None;
            s.interrupt.tx_completion = false;
            s.nic.tx_rings = TxRings::One;
            s.express.controller = Controller::ALL[controller];
            s.express.stack_batch = if latch { 1 } else { descriptors };
            s.express.tcp_ring = if poll_end { 4 } else { descriptors };
            if s.qdisc.is_some() && poll_end {
                s.express.egress = ExpressEgress::Auto;
                s.express.classes = 2;
            }
            s.cpu.hog.push(Hog { every_us: 100.0, takes_us: 60.0 * rt_ratio });
        }
        if let Some((ns, ring, give_way_us)) = worker {
            s.worker = Some(Worker { receive_ns: ns, switch_ns: ns, give_way_us, ring });
            if s.check().is_err() {
                s.worker = None;
            }
        }
        if let Some((connections, congestion, rtt_us, window, ecn)) = tcp {
            let congestion = [CongestionControl::Reno, CongestionControl::Cubic, CongestionControl::Bbr][congestion];
            s.tcp = Some(Tcp { connections, congestion, rtt_us, window, ecn, class: Some(0).filter(|_| latch) });
            if s.check().is_err() {
                s.tcp = None;
            }
        }
        s
    }
}

fn get(o: &Outcome, name: &str) -> f64 {
    o.get(name).unwrap_or_else(|| panic!("no metric {name}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    // Budgets and masked vectors are asserted inside of the simulated core, in test builds.
    #[test]
    fn packets_are_conserved_ordered_and_times_add_up(s in scenario()) {
        s.check().unwrap();
        let o = simulate(&s, 0).unwrap();
        let came = get(&o, "queued_before") + get(&o, "arrived");
        let gone = get(&o, "delivered")
            + get(&o, "dropped_ring")
            + o.get("dropped_early").unwrap_or(0.0)
            + get(&o, "dropped_backlog")
            + o.get("dropped_qdisc").unwrap_or(0.0)
            + o.get("dropped_application").unwrap_or(0.0)
            + o.get("dropped_egress").unwrap_or(0.0)
            + get(&o, "dropped_socket");
        let left = if s.host.is_some() { gone } else { gone - get(&o, "dropped_socket") };
        prop_assert_eq!(came, left + get(&o, "queued_after"));
        let waits_at_each_core = s.host.is_some_and(|h| h.backlog > 0);
        if s.cpu.spread == Spread::Flows || s.cpu.cores == 1 || s.reception.scheme == Scheme::Napi && !waits_at_each_core {
            prop_assert_eq!(get(&o, "reordered"), 0.0, "FIFO inside of a flow");
        }
        prop_assert!(get(&o, "cpu") <= 1.0 + 0.2, "a core works once at a time: {}", get(&o, "cpu"));
        prop_assert!(o.metrics.iter().all(|(_, v)| v.is_finite() && *v >= 0.0));
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others(s in scenario()) {
        let text = |r| format!("{:?}", simulate(&s, r).unwrap().metrics);
        prop_assert_eq!(text(0), text(0));
        if s.traffic.pattern == Pattern::Poisson && s.traffic.pps > 1e5 && s.traffic.packets == 0 {
            prop_assert_ne!(text(0), text(1));
        }
    }
}
