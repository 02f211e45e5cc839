//! What the egress link sends next, and what it drops.

use rxlane_sim::scenario::{Discipline, Qdisc, Scenario, Scheme};
use rxlane_sim::traffic::Pattern;

use super::{get, run};

/// A fifth of 1.75 Mpps is RT; a core of 571 ns a packet, and a link that carries 0.84 Mpps of 128 bytes for each Gbit/s.
fn behind_a_qdisc(discipline: Discipline, pps: f64, link_bps: f64) -> Scenario {
    let mut s = Scenario::default();
    s.traffic.pps = pps;
    s.traffic.rt_ratio = 0.2;
    s.qdisc = Some(Qdisc {
        discipline,
        link_bps,
        ..Qdisc::default()
    });
    s
}

/// Low-latency-router III: quality of service at the egress comes too late where the core is the bottleneck.
#[test]
fn priority_at_the_egress_helps_behind_a_full_link_and_not_behind_a_full_core() {
    let rt = |discipline, pps, link| {
        let o = run(&behind_a_qdisc(discipline, pps, link));
        let lost = 1.0 - get(&o, "sent.rt") / (0.2 * get(&o, "arrived"));
        (get(&o, "latency_us.rt.p99"), lost)
    };
    let full_link = |discipline| rt(discipline, 1.2e6, 1e9);
    let (fifo, strict) = (full_link(Discipline::Fifo), full_link(Discipline::Strict));
    // 1000 frames of 1.18 us before it.
    assert!(fifo.0 > 1000.0 && fifo.1 > 0.2, "{fifo:?}");
    assert!(strict.0 < 20.0 && strict.1 < 0.005, "{strict:?}");
    let full_core = |discipline| rt(discipline, 2.4e6, 1e10);
    let (fifo, strict) = (full_core(Discipline::Fifo), full_core(Discipline::Strict));
    assert!(
        (strict.0 / fifo.0 - 1.0).abs() < 0.03,
        "{fifo:?} {strict:?}"
    );
    assert!(
        strict.1 > 0.2 && (strict.1 - fifo.1).abs() < 0.01,
        "{fifo:?} {strict:?}"
    );
}

#[test]
fn deficit_round_robin_shares_a_full_link_by_quanta() {
    let mut s = behind_a_qdisc(Discipline::Drr, 1.7e6, 5e8);
    s.traffic.rt_ratio = 0.5;
    for (quanta, share) in [
        (vec![], 0.5),
        (vec![1500, 500], 0.75),
        (vec![100, 300], 0.25),
    ] {
        if let Some(q) = &mut s.qdisc {
            q.quanta = quanta;
        }
        let o = run(&s);
        let (rt, be) = (get(&o, "sent.rt"), get(&o, "sent.be"));
        assert!((rt / (rt + be) - share).abs() < 0.01, "{rt} of {}", rt + be);
    }
}

/// What the express lane redirects passes by the qdisc: the NIC sends from both queues in turn.
#[test]
fn redirected_packets_wait_for_one_frame_of_the_stack_and_may_take_half_of_the_link() {
    let express = |rt_ratio: f64| {
        let mut s = behind_a_qdisc(Discipline::Fifo, 1.2e6, 1e9);
        s.reception.scheme = Scheme::Express;
        s.traffic.rt_ratio = rt_ratio;
        s.express.redirect_ns = 200.0;
        run(&s)
    };
    let o = express(0.2);
    assert_eq!(get(&o, "qdisc_dropped.rt"), 0.0);
    assert!(get(&o, "qdisc_dropped.be") > 0.0);
    // Twice the frame of RT that its poll sent before it, and one of the stack.
    assert!(
        get(&o, "latency_us.rt.p99") < 100.0,
        "{}",
        get(&o, "latency_us.rt.p99")
    );
    let o = express(0.6);
    let (rt, be) = (get(&o, "sent.rt"), get(&o, "sent.be"));
    assert!((rt / (rt + be) - 0.5).abs() < 0.02, "{rt} of {}", rt + be);
}

/// How many packets wait for the link in the mean, of as many as it sends in the mean latency, and the share that is dropped.
fn queue_and_loss(s: &Scenario) -> (f64, f64) {
    let o = run(s);
    let frame_us = 148.0 * 8.0 / 1e3;
    (get(&o, "latency_us.mean") / frame_us, get(&o, "loss_qdisc"))
}

/// Beyond Softnet 1.3: a link of 0.84 Mpps to which 2 % more is sent.
#[test]
fn red_keeps_the_mean_queue_between_its_thresholds() {
    let of = |discipline, pps| {
        let mut s = behind_a_qdisc(discipline, pps, 1e9);
        s.seconds = 1.0;
        s.warmup_s = 0.1;
        queue_and_loss(&s)
    };
    let (fifo, lost) = of(Discipline::Fifo, 0.862e6);
    assert!(
        fifo > 500.0 && (0.01..0.03).contains(&lost),
        "{fifo} {lost}"
    );
    let (red, lost) = of(Discipline::Red, 0.862e6);
    assert!((30.0..90.0).contains(&red), "{red}");
    assert!((0.01..0.03).contains(&lost), "{lost}");
    // Where the queue is short, nothing is dropped.
    let (red, lost) = of(Discipline::Red, 0.6e6);
    assert!(red < 5.0 && lost == 0.0, "{red} {lost}");
}

/// One flow of each class, of which one sends four times as much: by `fifo` it gets four times as much of a full link.
#[test]
fn stochastic_fair_queueing_gives_flows_equal_shares() {
    let share = |discipline| {
        let mut s = behind_a_qdisc(discipline, 1.7e6, 2e8);
        s.traffic.rt_ratio = 0.8;
        s.traffic.flows = 1;
        let o = run(&s);
        let (rt, be) = (get(&o, "sent.rt"), get(&o, "sent.be"));
        rt / (rt + be)
    };
    let (fifo, fair) = (share(Discipline::Fifo), share(Discipline::Sfq));
    assert!((fifo - 0.8).abs() < 0.02, "{fifo}");
    assert!((fair - 0.5).abs() < 0.01, "{fair}");
}

/// Packets of 128 bytes come by 32 at once, and the bucket holds 16 of them.
#[test]
fn a_token_bucket_lets_a_burst_pass_and_then_its_rate() {
    let of = |burst, pps| {
        let mut s = behind_a_qdisc(Discipline::TokenBucket, pps, 1e10);
        s.seconds = 1.0;
        s.traffic.pattern = Pattern::OnOff { mean_burst: 32.0 };
        s.cpu.packet_ns = 200.0;
        if let Some(q) = &mut s.qdisc {
            q.rate_bps = 1e8;
            q.burst = burst;
        }
        let o = run(&s);
        let sent = (get(&o, "sent.rt") + get(&o, "sent.be")) * 128.0 * 8.0;
        (sent / 1e8, get(&o, "latency_us.mean"))
    };
    // The rate, whatever the burst.
    for burst in [128, 2048, 128_000] {
        let (rate, _) = of(burst, 0.2e6);
        assert!((rate - 1.0).abs() < 0.005, "{burst}: {rate}");
    }
    // Far below the rate all is sent: one by one at 98 a millisecond, or nearly all of it at once.
    let (all, by_one) = of(128, 2e3);
    let (as_much, at_once) = of(128_000, 2e3);
    assert!((all - as_much).abs() < 1e-3, "{all} {as_much}");
    assert!(by_one > 200.0 && at_once < 10.0, "{by_one} {at_once}");
}
