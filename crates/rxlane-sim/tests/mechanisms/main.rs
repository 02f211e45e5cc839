//! Mechanisms that the papers describe and no row of theirs judges: each does what it is there for.

mod connections;
mod devices;
mod layers;
mod qdiscs;
mod sharing;
mod worker;

use rxlane_policy::strategy::StrategyName;
use rxlane_sim::congestion::Feedback;
use rxlane_sim::outcome::{Outcome, simulate};
use rxlane_sim::scenario::{Disturbance, IdleState, Probe, Process, Scenario, Scheme, Spread};
use rxlane_sim::traffic::Pattern;

fn run(s: &Scenario) -> Outcome {
    s.check().unwrap();
    simulate(s, 0).unwrap()
}

fn get(o: &Outcome, name: &str) -> f64 {
    o.get(name).unwrap_or_else(|| panic!("no metric {name}"))
}

/// The kernel of Beyond Softnet 2, with this answer of drivers to congestion.
fn softnet(feedback: Feedback, pps: f64) -> Scenario {
    let mut s = Scenario {
        seconds: 3.0,
        warmup_s: 1.0,
        ..Scenario::default()
    };
    s.reception.scheme = Scheme::Softnet;
    s.reception.feedback = feedback;
    s.nic.descriptors = 32;
    s.nic.link_bps = 1e8;
    s.cpu.isr_ns = 17_000.0;
    s.cpu.packet_ns = 20_000.0;
    s.traffic.frame = 64;
    s.traffic.pps = pps;
    s
}

fn forwarded(s: &Scenario) -> f64 {
    get(&run(s), "throughput_pps")
}

#[test]
fn hardware_flow_control_ends_the_livelock() {
    let at_140 = |feedback| forwarded(&softnet(feedback, 140e3));
    let best = forwarded(&softnet(Feedback::Hfc, 27e3));
    let (plain, hfc) = (at_140(Feedback::None), at_140(Feedback::Hfc));
    assert!(plain < 100.0 && hfc > 0.9 * best, "{plain} {hfc} {best}");
}

#[test]
fn a_shared_backlog_lets_a_greedy_interface_starve_the_others_and_a_quota_does_not() {
    let quiet = |scheme, feedback| {
        let mut s = softnet(feedback, 120e3);
        s.reception.scheme = scheme;
        s.reception.interrupt_work = 16;
        s.nic.count = 4;
        s.traffic.nic_shares = vec![0.7, 0.1, 0.1, 0.1];
        // Of the 12 kpps that each quiet one offers.
        get(&run(&s), "throughput_pps.nic3") / 12e3
    };
    let ff = quiet(Scheme::Softnet, Feedback::Ff);
    let napi = quiet(Scheme::Napi, Feedback::None);
    assert!(ff < 0.7 && napi > 0.85, "{ff} {napi}");
}

#[test]
fn feedback_costs_more_the_more_interfaces_there_are() {
    let of = |nics| {
        let mut s = softnet(Feedback::Ff, 120e3);
        s.reception.interrupt_work = 16;
        s.nic.count = nics;
        forwarded(&s)
    };
    let (few, many) = (of(2), of(32));
    assert!(many < 0.8 * few, "2 NICs {few}, 32 NICs {many} pps");
}

#[test]
fn polls_find_more_packets_and_latency_grows_with_the_load() {
    let at = |pps| {
        let mut s = softnet(Feedback::None, pps);
        s.reception.scheme = Scheme::Napi;
        let o = run(&s);
        (get(&o, "packets_per_poll"), get(&o, "latency_us.mean"))
    };
    let all = [10e3, 25e3, 40e3, 60e3].map(at);
    assert!(
        all.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1),
        "{all:?}"
    );
}

#[test]
fn a_core_that_sleeps_deeper_at_low_load_answers_later() {
    let at = |pps| {
        let mut s = Scenario::default();
        s.traffic.pattern = Pattern::Cbr { jitter: 0.0 };
        s.cpu.idle = vec![
            IdleState {
                after_us: 5.0,
                exit_us: 1.0,
            },
            IdleState {
                after_us: 20.0,
                exit_us: 3.0,
            },
        ];
        s.traffic.pps = pps;
        get(&run(&s), "latency_us.mean")
    };
    let all = [20e3, 100e3, 350e3].map(at);
    assert!(all.windows(2).all(|w| w[0] > w[1] + 0.5), "{all:?}");
}

/// Beyond Softnet 5.3: 17,203 packets, neither one more nor one less, and on two cores no other ones than on one.
#[test]
fn traffic_ends_after_the_packets_that_were_asked_for() {
    for (cores, spread) in [
        (1, Spread::Flows),
        (2, Spread::Flows),
        (2, Spread::RoundRobin),
    ] {
        for scheme in [Scheme::Softnet, Scheme::Napi] {
            let mut s = Scenario {
                seconds: 0.3,
                warmup_s: 0.0,
                ..Scenario::default()
            };
            s.traffic.pps = 200e3;
            s.traffic.packets = 17_203;
            s.cpu.cores = cores;
            s.cpu.spread = spread;
            s.reception.scheme = scheme;
            let o = run(&s);
            let counts = ["arrived", "served"].map(|name| get(&o, name));
            assert_eq!(counts, [17_203.0; 2], "{scheme:?} {cores} {spread:?}");
        }
    }
}

/// Single-input-queue III.B, step c: what waits until the softirq is over does not empty its caches.
#[test]
fn holding_others_off_saves_what_their_interruptions_cost_and_nothing_else() {
    let load = |refill_ns, mask_others| {
        let mut s = Scenario {
            seconds: 2.0,
            ..Scenario::default()
        };
        s.traffic.pps = 1e6;
        s.cpu.disturbance.push(Disturbance {
            name: "timer".into(),
            per_second: 10_000.0,
            ns: 2000.0,
            thread: false,
            redraw_s: 0.0,
            pareto: 0.0,
        });
        s.cpu.refill_ns = refill_ns;
        s.cpu.mask_others = mask_others;
        let o = run(&s);
        (get(&o, "cpu"), get(&o, "cpu_other"))
    };
    let [open, masked] = [false, true].map(|mask| load(5000.0, mask));
    assert!(
        (open.1 - masked.1).abs() < 0.001,
        "as much other work: {open:?} {masked:?}"
    );
    // 10,000 a second, of which more than half find the softirq at work, 5 us each; the core sleeps less often then.
    assert!(open.0 > masked.0 + 0.01, "{open:?} {masked:?}");
    let (open, masked) = (load(0.0, false), load(0.0, true));
    assert!((open.0 - masked.0).abs() < 0.02, "{open:?} {masked:?}");
}

/// Single-input-queue IV.B: without interruptions the softirq takes less time, and its load varies less. The two cases of the
/// example differ in the masking only.
#[test]
fn masking_others_lowers_the_mean_and_the_variance_of_the_load() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/masking.toml");
    let loaded = rxlane_sim::scenario::load(&path, &[]).unwrap();
    let sweep = rxlane_sim::sweep::Sweep::new(&loaded).unwrap();
    let [mut open, masked] = [0, 1].map(|i| sweep.point(i).unwrap().scenario);
    let load = |s: &Scenario| ["load.mean", "load.variance"].map(|name| get(&run(s), name));
    let (of_open, of_masked) = (load(&open), load(&masked));
    assert!(
        of_masked[0] < 0.97 * of_open[0],
        "{of_open:?} {of_masked:?}"
    );
    assert!(of_masked[1] < 0.8 * of_open[1], "{of_open:?} {of_masked:?}");
    open.cpu.mask_others = true;
    assert_eq!(open, masked);
}

/// Single-input-queue IV.A, a kernel without preemption: threads have as much of the core as with it, and never come between the
/// begin and the end of a packet's service. Interrupts do in both.
#[test]
fn without_preemption_threads_wait_for_the_end_of_a_poll_and_interrupts_do_not() {
    let of = |preemptible, thread, pps| {
        let mut s = Scenario {
            seconds: 1.0,
            ..Scenario::default()
        };
        s.traffic.pps = pps;
        s.cpu.preemptible = preemptible;
        s.cpu.isr_ns = 0.0;
        s.cpu.disturbance.push(Disturbance {
            name: "work".into(),
            per_second: 10_000.0,
            ns: 20_000.0,
            thread,
            redraw_s: 0.0,
            pareto: 0.0,
        });
        let o = run(&s);
        let of = |name: &str| get(&o, name);
        let service = of("latency_us.be.mean") - of("waiting_us.be.mean");
        (service, of("cpu_other"))
    };
    // At 1 Mpps the softirq sleeps now and then, at 3 Mpps never.
    for pps in [1e6, 3e6] {
        // Of 10,000 a second, those that find a packet in service prolong that by 20 us, and by those that come meanwhile.
        let most = of(true, true, pps);
        let longer = 0.571 * (1.0 + 0.2 / 0.8);
        assert!((most.0 / longer - 1.0).abs() < 0.05, "{pps}: {most:?}");
        let least = of(false, true, pps);
        assert!((least.0 - 0.571).abs() < 1e-3, "{pps}: {least:?}");
        assert!((least.1 - 0.2).abs() < 0.01, "{pps}: {least:?}");
        let interrupts = of(false, false, pps);
        assert_eq!(interrupts, most, "{pps}");
    }
}

/// Single-input-queue Fig. 6: a tail longer than that of exponential bursts. The mean is the same.
#[test]
fn bursts_of_other_work_may_have_a_long_tail() {
    let of = |pareto| {
        let mut s = Scenario {
            seconds: 5.0,
            ..Scenario::default()
        };
        s.traffic.pps = 1e5;
        s.cpu.disturbance.push(Disturbance {
            name: "bursts".into(),
            per_second: 1000.0,
            ns: 50_000.0,
            thread: false,
            redraw_s: 0.0,
            pareto,
        });
        let o = run(&s);
        (get(&o, "cpu_other"), get(&o, "latency_us.be.max"))
    };
    let (exponential, pareto) = (of(0.0), of(2.5));
    assert!((exponential.0 - 0.05).abs() < 0.003, "{exponential:?}");
    assert!((pareto.0 - 0.05).abs() < 0.003, "{pareto:?}");
    assert!(pareto.1 > 1.5 * exponential.1, "{exponential:?} {pareto:?}");
}

/// Low-latency-router III.B: what the driver does for rings of classes is paid by each of their packets.
#[test]
fn a_packet_of_a_classified_ring_may_cost_more_and_one_of_the_only_ring_does_not() {
    let carried = |strategy| {
        let mut s = Scenario::default();
        s.traffic.pps = 3e6;
        s.traffic.rt_ratio = 0.3;
        s.cpu.class_ns = 57.1;
        s.reception.strategy = strategy;
        get(&run(&s), "throughput_pps") * 571e-9
    };
    assert!((carried(StrategyName::Sq) - 1.0).abs() < 0.002);
    assert!((carried(StrategyName::LlWfq) - 1.0 / 1.1).abs() < 0.002);
}

/// Multiple-nics IV.A: what the load of a core with a fixed clock says about a packet.
#[test]
fn cycles_of_a_packet_are_those_of_its_service_where_nothing_else_is_done() {
    let mut s = Scenario::default();
    s.traffic.pps = 3e6;
    let cycles = get(&run(&s), "cycles_per_packet");
    assert!((cycles - 571.0 * 3.2).abs() < 2.0, "{cycles}");
}

/// Beyond Softnet 5.1: a directory is listed while packets come in. Nothing is left for it by a kernel in livelock, nor by a
/// softirq that is never done; a limit to the softirq is what it needs (multiple-nics III.A).
#[test]
fn a_machine_answers_under_overload_only_where_the_softirq_has_a_limit() {
    let response = |scheme, pps, process| {
        let mut s = softnet(Feedback::None, pps);
        s.reception.scheme = scheme;
        s.cpu.process = process;
        s.cpu.probe = Some(Probe {
            pause_us: 10_000.0,
            work_us: 1000.0,
        });
        get(&run(&s), "response_us.mean")
    };
    let limit = Some(Process {
        after_us: 2000.0,
        slice_us: 500.0,
    });
    let idle = response(Scheme::Napi, 1e3, None);
    // 1 ms of work on a core of which packets take 4 %.
    assert!((1000.0..1100.0).contains(&idle), "{idle}");
    for (scheme, limit, most) in [
        (Scheme::Softnet, None, f64::INFINITY),
        (Scheme::Napi, None, f64::INFINITY),
        // Its 1 ms is two turns of 0.5 ms, each after 2 ms of softirq.
        (Scheme::Napi, limit, 6000.0),
    ] {
        let us = response(scheme, 140e3, limit);
        let least = if limit.is_some() { 3000.0 } else { 2.9e6 };
        assert!((least..most).contains(&us), "{scheme:?}: {us}");
    }
}

#[test]
fn a_process_keeps_its_share_of_an_overloaded_core() {
    let share = |process| {
        let mut s = Scenario::default();
        s.traffic.pps = 3e6;
        s.cpu.process = process;
        get(&run(&s), "cpu_process")
    };
    let limit = Process {
        after_us: 2000.0,
        slice_us: 500.0,
    };
    assert_eq!(share(None), 0.0);
    let of = share(Some(limit));
    // 500 of 2500 us.
    assert!((of - 0.2).abs() < 0.02, "{of}");
}
