//! A thread that serves what the softirq has received, as the router's AF_XDP engine does.

use rxlane_policy::strategy::StrategyName;
use rxlane_policy::throttle::Throttling;
use rxlane_sim::scenario::{Scenario, Scheme, Worker};
use rxlane_sim::traffic::Pattern;

use super::{get, run};

/// NAPI takes 500 ns for a packet, the thread 1500.
fn engine(pps: f64) -> Scenario {
    let mut s = Scenario::default();
    s.traffic.pps = pps;
    s.traffic.rt_ratio = 0.2;
    s.cpu.isr_ns = 0.0;
    s.cpu.packet_ns = 1500.0;
    s.worker = Some(Worker {
        receive_ns: 500.0,
        ..Worker::default()
    });
    s
}

#[test]
fn a_packet_costs_the_core_its_reception_and_its_service() {
    let cpu = get(&run(&engine(0.3e6)), "cpu");
    assert!((cpu - 0.6).abs() < 0.01, "{cpu}");
}

/// A packet that comes while the thread has the core waits until it sleeps, or for 50 us. So it waits for longer than in a queue that
/// is served packet by packet, and no longer than that where the core has time to spare.
#[test]
fn a_packet_waits_for_the_turn_of_the_thread_that_it_finds() {
    let waits = |worker: bool| {
        let mut s = engine(0.4e6);
        if !worker {
            s.worker = None;
            s.cpu.packet_ns = 2000.0;
        }
        get(&run(&s), "waiting_us.be.mean")
    };
    let (queue, turns) = (waits(false), waits(true));
    // M/D/1 at 0.8: 2 us x 0.8 / 0.4; and half a microsecond of NAPI's is not waited for in a queue.
    assert!((queue - 4.0).abs() < 0.3, "{queue}");
    assert!(turns > 1.2 * queue && turns < 50.0, "{turns} {queue}");
}

/// NAPI does not know classes, so RT is lost like all others where packets come faster than NAPI can take them; until then the
/// thread's rings keep them apart.
#[test]
fn classes_are_apart_from_where_napi_has_classified_them() {
    let lost = |pps| {
        let mut s = engine(pps);
        s.reception.strategy = StrategyName::LlWfq;
        let o = run(&s);
        (
            get(&o, "loss_ring"),
            get(&o, "loss_backlog"),
            get(&o, "latency_us.rt.p99"),
        )
    };
    let (ring, backlog, rt) = lost(0.8e6);
    assert!(
        ring == 0.0 && backlog > 0.2 && rt < 200.0,
        "{ring} {backlog} {rt}"
    );
    // 50 us of the thread, then NAPI for as long as packets come: all of the core, at last.
    let (ring, ..) = lost(2.5e6);
    assert!(ring > 0.1, "{ring}");
}

/// The thread gives way, so that a packet that cannot wait is not behind all of the thread's work.
#[test]
fn who_gives_way_more_often_classifies_sooner_and_pays_for_it_with_switches() {
    let at = |give_way_us| {
        let mut s = engine(0.8e6);
        s.reception.strategy = StrategyName::LlWfq;
        s.worker = Some(Worker {
            receive_ns: 500.0,
            switch_ns: 2000.0,
            give_way_us,
            ..Worker::default()
        });
        let o = run(&s);
        (get(&o, "latency_us.rt.p99"), get(&o, "throughput_pps"))
    };
    let (often, seldom) = (at(20.0), at(200.0));
    assert!(often.0 < 0.5 * seldom.0, "{often:?} {seldom:?}");
    assert!(often.1 < seldom.1, "{often:?} {seldom:?}");
}

#[test]
fn throttling_lets_the_thread_sleep_and_packets_wait() {
    let of = |throttling| {
        let mut s = engine(0.1e6);
        s.traffic.pattern = Pattern::Cbr { jitter: 0.0 };
        s.worker = Some(Worker {
            switch_ns: 3000.0,
            ..Worker::default()
        });
        s.interrupt.throttling = throttling;
        let o = run(&s);
        (get(&o, "cpu"), get(&o, "waiting_us.be.mean"))
    };
    let free = of(Throttling::Off);
    let throttled = of(Throttling::Static {
        interval_ns: 100_000,
    });
    // A switch for each packet, or for ten.
    assert!((free.0 - 0.45).abs() < 0.01, "{free:?}");
    assert!((throttled.0 - 0.18).abs() < 0.01, "{throttled:?}");
    assert!(throttled.1 > 40.0 && throttled.1 < 60.0, "{throttled:?}");
}

#[test]
fn a_thread_beside_what_it_cannot_be_beside_is_refused_with_the_way_out() {
    let mut s = engine(1e5);
    s.reception.scheme = Scheme::Express;
    let error = s.check().unwrap_err().to_string();
    assert!(
        error.contains("worker") && error.contains("napi"),
        "{error}"
    );
    let mut s = engine(1e5);
    s.worker = Some(Worker {
        ring: 0,
        ..Worker::default()
    });
    let error = s.check().unwrap_err().to_string();
    assert!(error.contains("worker.ring"), "{error}");
}
