//! Mechanisms that the papers describe and no row of theirs judges: each does what it is there for.

use rxlane_sim::congestion::Feedback;
use rxlane_sim::outcome::{Outcome, simulate};
use rxlane_sim::scenario::{Disturbance, IdleState, Process, Scenario, Scheme};
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
            redraw_s: 0.0,
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
