//! The model against queueing theory, within its confidence intervals.

mod interrupts;
mod polling;

use rxlane_policy::poll::Rounds;
use rxlane_policy::strategy::StrategyName;
use rxlane_sim::run::{Estimate, replicate};
use rxlane_sim::scenario::{Discipline, Disturbance, Egress, Qdisc, Scenario, Scheme, Spread};
use rxlane_sim::traffic::{Mix, Pattern};

/// Service time, us.
const X: f64 = 1.0;

/// A core that does nothing but serve, behind a link without a speed limit.
fn bare(pps: f64) -> Scenario {
    let mut s = Scenario {
        seconds: 1.0,
        warmup_s: 0.1,
        replications: 10,
        ..Scenario::default()
    };
    s.traffic.pps = pps;
    s.nic.link_bps = 1e13;
    s.nic.descriptors = 1 << 20;
    s.cpu.packet_ns = X * 1e3;
    s.cpu.isr_ns = 0.0;
    s
}

fn of(s: &Scenario, metric: &str) -> Estimate {
    s.check().unwrap();
    let (metrics, _) = replicate(s).unwrap();
    metrics.into_iter().find(|e| e.name == metric).unwrap()
}

fn agrees(s: &Scenario, metric: &str, theory: f64) {
    let e = of(s, metric);
    let ci = e.ci95.unwrap();
    assert!(
        (e.mean - theory).abs() <= ci && ci <= 0.03 * theory,
        "{metric}: {} +- {ci}, theory {theory}",
        e.mean
    );
}

#[test]
fn m_d_1_waiting_is_that_of_pollaczek_and_khinchine() {
    for rho in [0.3, 0.7, 0.9] {
        let s = bare(rho * 1e6 / X);
        agrees(&s, "waiting_us.be.mean", rho * X / (2.0 * (1.0 - rho)));
        agrees(&s, "cpu", rho);
    }
}

/// A. Cobham, "Priority Assignment in Waiting Line Problems", Operations Research 2(1), 1954, eq. 3: whoever comes finds
/// `R = rho x / 2` of a service that is not broken off, waits for it and for who is before him.
#[test]
fn behind_a_link_with_strict_priority_classes_wait_as_cobham_says() {
    // A core that keeps nobody waiting.
    let mut s = bare(1e6);
    s.cpu.packet_ns = 0.001;
    s.traffic.rt_ratio = 0.4;
    for rho in [0.3, 0.7, 0.9] {
        // The wire carries 20 bytes more than a frame, and this frame takes 1 us.
        s.qdisc = Some(Qdisc {
            discipline: Discipline::Strict,
            link_bps: f64::from(s.traffic.frame + 20) * 8.0 / (X * 1e-6),
            limit: 1 << 20,
            ..Qdisc::default()
        });
        s.traffic.pps = rho * 1e6 / X;
        let (rest, first) = (rho * X / 2.0, 0.4 * rho);
        agrees(&s, "latency_us.rt.mean", rest / (1.0 - first) + X);
        agrees(
            &s,
            "latency_us.be.mean",
            rest / ((1.0 - first) * (1.0 - rho)) + X,
        );
    }
}

/// Low-latency-router IV.B: the stock driver gives each of two rings half of the device budget, and goes round once.
#[test]
fn in_the_stock_poll_of_two_rings_rt_waits_for_half_a_device_budget_at_most() {
    let mut s = bare(1.3e6);
    s.traffic.rt_ratio = 0.02;
    s.nic.descriptors = 512;
    s.reception.strategy = StrategyName::LlRr;
    s.reception.ring_budget = 32;
    let max = |s: &Scenario| of(s, "latency_us.rt.max").mean;
    // Its own service, and an RT packet or two before it. Where a poll goes on until its budget is spent, it may end with
    // the turn of the lower ring, with which the next begins: twice as much.
    for (rounds, from, to) in [(Rounds::One, 32.0, 36.0), (Rounds::UntilSpent, 60.0, 68.0)] {
        s.reception.rounds = rounds;
        let us = max(&s);
        assert!((from..to).contains(&us), "{rounds:?}: {us} us");
    }
    // Rings of 16, gone round once, make polls of half of the device budget: twice as many.
    s.reception.ring_budget = 16;
    let polls = [Rounds::One, Rounds::UntilSpent].map(|rounds| {
        s.reception.rounds = rounds;
        of(&s, "polls_per_s").mean
    });
    assert!(polls[0] > 1.5 * polls[1], "{polls:?}");
}

/// Low-latency-router V.A.2: cores that share nothing forward as many times as much.
#[test]
fn two_cores_forward_twice_what_one_does() {
    let forwarded = |cores: usize| {
        let mut s = bare(3e6);
        s.nic.descriptors = 512;
        s.traffic.flows = 64;
        s.cpu.cores = cores;
        of(&s, "throughput_pps").mean
    };
    let (one, two) = (forwarded(1), forwarded(2));
    assert!((two / one - 2.0).abs() < 0.01, "{one} {two}");
}

/// Multiple-nics III.C: a poll cleans so many sent frames at most, and what is left waits for the next.
#[test]
fn a_poll_that_cleans_one_sent_frame_at_a_time_fills_the_tx_ring() {
    let lost = |limit: u32| {
        let mut s = bare(0.5e6);
        s.nic.count = 2;
        s.nic.link_bps = 10e9;
        s.nic.tx_descriptors = 64;
        s.nic.egress = Egress::Circular;
        s.interrupt.tx_completion = true;
        s.interrupt.tx_delay_ns = 1000.0;
        s.cpu.tx_clean_ns = 100.0;
        s.cpu.isr_ns = 1000.0;
        s.cpu.tx_work_limit = limit;
        s.traffic.pps = 1.2e6;
        of(&s, "loss_tx").mean
    };
    let (one, many) = (lost(1), lost(256));
    assert!(many < 0.02 && one > 0.5, "{one} {many}");
}

/// The rate is drawn anew while nothing happens, too: a low one must not last until its next event.
#[test]
fn a_disturbance_takes_its_share_of_the_core_however_often_its_rate_is_drawn() {
    for redraw_s in [0.0, 0.002, 0.02] {
        let mut s = bare(1e5);
        s.cpu.disturbance.push(Disturbance {
            name: "other work".into(),
            per_second: 200.0,
            ns: 500_000.0,
            redraw_s,
            thread: false,
            pareto: 0.0,
        });
        s.seconds = 10.0;
        let e = of(&s, "cpu_other");
        let ci = e.ci95.unwrap();
        assert!(
            (e.mean - 0.1).abs() <= ci && ci <= 0.01,
            "redrawn every {redraw_s} s: {} +- {ci} of the core, not 0.1",
            e.mean
        );
    }
}

#[test]
fn d_d_1_never_waits_below_capacity_and_fills_its_ring_above() {
    let mut s = bare(0.99e6);
    s.traffic.pattern = Pattern::Cbr { jitter: 0.0 };
    assert_eq!(of(&s, "waiting_us.be.mean").mean, 0.0);
    s.traffic.pps = 2e6;
    s.nic.descriptors = 512;
    let latency = of(&s, "latency_us.be.mean").mean;
    assert!((latency - 513.0 * X).abs() <= 1.0, "{latency}");
    assert!((of(&s, "loss").mean - 0.5).abs() < 1e-3);
}

#[test]
fn interrupt_cost_is_a_setup_time_of_m_g_1() {
    // Every busy period begins with a handler of c: the classical result for M/G/1 with setup times.
    for (rho, c) in [(0.3, 2.0), (0.7, 2.0), (0.8, 5.0)] {
        let lambda = rho / X;
        let mut s = bare(lambda * 1e6);
        s.cpu.isr_ns = c * 1e3;
        let setup = (2.0 * c + lambda * c * c) / (2.0 * (1.0 + lambda * c));
        agrees(
            &s,
            "waiting_us.be.mean",
            rho * X / (2.0 * (1.0 - rho)) + setup,
        );
        // A cycle: idle for 1 / lambda, then busy for (c + x) / (1 - rho), with one interrupt.
        agrees(
            &s,
            "irq_per_s",
            1e6 / (1.0 / lambda + (c + X) / (1.0 - rho)),
        );
    }
}

#[test]
fn ring_budgets_move_waiting_between_classes_and_change_no_total() {
    // Kleinrock's conservation law: sum of rho_i W_i, here with equal service times.
    let total = |strategy| {
        let mut s = bare(0.9e6);
        s.traffic.rt_ratio = 0.3;
        s.reception.strategy = strategy;
        let [be, rt] = ["be", "rt"].map(|c| of(&s, &format!("waiting_us.{c}.mean")).mean);
        (0.7 * be + 0.3 * rt, rt)
    };
    let (sq, _) = total(StrategyName::Sq);
    for strategy in [StrategyName::LlRr, StrategyName::LlWfq] {
        let (ll, rt) = total(strategy);
        assert!(
            (ll / sq - 1.0).abs() < 0.01,
            "{strategy:?}: {ll} against {sq}"
        );
        assert!(rt < 0.5 * sq, "{strategy:?}: {rt} against {sq}");
    }
}

#[test]
fn smooth_rt_arrivals_wait_no_longer_than_the_bound_under_overload() {
    // low-latency-router Eq. 1: T_max = b x / (1 - rho_RT), for smooth arrivals and the RT ring never left
    // before it is empty.
    for (budget, rho_rt) in [(4u32, 0.3), (3, 0.5), (8, 0.2), (1, 0.6)] {
        let mut s = bare(2e6 / X);
        s.traffic.pattern = Pattern::Cbr { jitter: 0.0 };
        s.traffic.mix = Mix::Even;
        s.traffic.rt_ratio = rho_rt / 2.0;
        s.nic.descriptors = 512;
        s.reception.strategy = StrategyName::LlWfq;
        s.reception.budgets = vec![64 - budget, budget];
        s.replications = 1;
        s.warmup_s = 0.01;
        let bound = f64::from(budget) * X / (1.0 - rho_rt);
        let mean = of(&s, "waiting_us.rt.mean").mean;
        let longest = of(&s, "latency_us.rt.max").mean - X;
        assert!(mean <= bound, "b = {budget}: mean {mean}, bound {bound}");
        // The equation counts parts of packets; whole ones add at most the one in service and one ahead.
        assert!(
            longest <= bound + 2.0 * X,
            "b = {budget}: longest {longest}, bound {bound}"
        );
    }
}

#[test]
fn a_throttled_vector_interrupts_at_its_interval() {
    let mut s = bare(0.2e6);
    s.traffic.pattern = Pattern::Cbr { jitter: 0.0 };
    s.interrupt.throttling = rxlane_policy::throttle::Throttling::Static {
        interval_ns: 50_000,
    };
    agrees_within(&of(&s, "irq_per_s"), 20_000.0, 0.01);
}

fn agrees_within(e: &Estimate, theory: f64, share: f64) {
    assert!(
        (e.mean / theory - 1.0).abs() <= share,
        "{} against {theory}",
        e.mean
    );
}

#[test]
fn flows_keep_their_order_on_their_cores_and_lose_it_when_interrupts_go_round() {
    let mut s = bare(60e3);
    s.reception.scheme = Scheme::Softnet;
    s.cpu.packet_ns = 20_000.0;
    s.cpu.isr_ns = 5_000.0;
    s.cpu.cores = 2;
    s.traffic.flows = 1;
    s.replications = 2;
    assert_eq!(of(&s, "reordered").mean, 0.0);
    s.cpu.spread = Spread::RoundRobin;
    let apart = of(&s, "reordered").mean;
    assert!(apart > 100.0, "{apart}");
    s.cpu.cores = 1;
    assert_eq!(of(&s, "reordered").mean, 0.0);
}
