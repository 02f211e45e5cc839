//! Devices of a core that are served otherwise than in turn and otherwise than the others, and that interrupt by estimates.

use rxlane_policy::Ps;
use rxlane_policy::strategy::StrategyName;
use rxlane_policy::throttle::estimate::{Estimate, FillLevelGoal, SojournGoal};
use rxlane_policy::throttle::{LinearLaw, Throttling};
use rxlane_sim::outcome::Outcome;
use rxlane_sim::scenario::{Egress, Priority, Scenario, Scheme, TxRings};
use rxlane_sim::simulated_core::{Arrival, SimulatedCore};
use rxlane_sim::traffic::Pattern;

use super::{get, run};

/// Beyond Softnet 4.2: the old interface stays for devices that cannot hold packets.
#[test]
fn an_old_interface_interrupts_for_each_packet_beside_napi_and_starves_it_under_overload() {
    let with = |old: Vec<usize>, busy: f64| {
        let mut s = Scenario::default();
        s.traffic.pattern = Pattern::Cbr { jitter: 0.1 };
        s.nic.count = 2;
        s.cpu.packet_ns = 5000.0;
        s.cpu.isr_ns = 4000.0;
        s.traffic.frame = 64;
        s.traffic.pps = 20e3 + busy;
        s.traffic.nic_shares = vec![20e3 / s.traffic.pps, busy / s.traffic.pps];
        s.reception.old_interfaces = old;
        let o = run(&s);
        let of = |name: &str| get(&o, name);
        [
            of("throughput_pps.nic0") / 20e3,
            of("irq_per_s.core0.vector1") / busy,
            of("dropped_backlog"),
        ]
    };
    let [quiet, interrupts, dropped] = with(vec![1], 60e3);
    assert!(
        quiet > 0.98 && (interrupts - 1.0).abs() < 0.01,
        "{quiet} {interrupts}"
    );
    assert_eq!(dropped, 0.0);
    let [quiet, interrupts, _] = with(Vec::new(), 400e3);
    assert!(
        quiet > 0.9 && interrupts < 0.01,
        "NAPI shares fairly: {quiet} {interrupts}"
    );
    let [quiet, _, dropped] = with(vec![1], 400e3);
    assert!(quiet < 0.01 && dropped > 1000.0, "{quiet} {dropped}");
}

/// Multiple-nics V.A, a priority strategy between devices.
#[test]
fn with_global_priority_rt_of_one_nic_does_not_wait_for_the_poll_of_another() {
    let rt = |priority, nics| {
        let mut s = Scenario::default();
        s.traffic.pps = 3e6;
        s.traffic.rt_ratio = 0.1;
        s.nic.count = nics;
        s.reception.strategy = StrategyName::LlWfq;
        s.reception.budgets = vec![60, 4];
        s.reception.priority = priority;
        let o = run(&s);
        (get(&o, "latency_us.rt.max"), get(&o, "throughput_pps"))
    };
    let (devices, all) = rt(Priority::Devices, 4);
    let (global, as_much) = rt(Priority::Global, 4);
    // Three other polls of 64 packets, or a turn of 4 and the RT packets that came meanwhile.
    assert!(devices > 100.0 && global < 25.0, "{devices} {global}");
    assert!((all / as_much - 1.0).abs() < 0.01);
}

fn by(pps: f64, estimate: Option<Estimate>, throttling: Throttling) -> Outcome {
    let mut s = Scenario::default();
    s.traffic.pps = pps;
    s.cpu.packet_ns = 476.0;
    s.interrupt.estimate = estimate;
    s.interrupt.throttling = throttling;
    run(&s)
}

/// Interrupt-throttling VI: other information than the packet rate.
#[test]
fn the_time_between_packets_throttles_as_their_rate_does() {
    let law = LinearLaw::default();
    for pps in [0.3e6, 1e6, 1.6e6] {
        let rate = by(pps, None, Throttling::Linear(law));
        let gaps = by(pps, Some(Estimate::InterArrival(law)), Throttling::Off);
        let [rate, gaps] = [rate, gaps].map(|o| get(&o, "irq_per_s"));
        assert!((gaps / rate - 1.0).abs() < 0.1, "{pps}: {gaps} {rate}");
    }
}

#[test]
fn packets_wait_for_as_long_as_the_sojourn_estimate_wants_at_all_loads() {
    let goal = SojournGoal {
        target_us: 20.0,
        ..SojournGoal::default()
    };
    for pps in [0.5e6, 1e6, 1.5e6] {
        let o = by(pps, Some(Estimate::Sojourn(goal)), Throttling::Off);
        let us = get(&o, "waiting_us.be.mean");
        assert!((us - 20.0).abs() < 3.0, "{pps}: {us}");
    }
}

#[test]
fn interrupts_find_as_many_packets_as_the_fill_level_estimate_wants() {
    let goal = FillLevelGoal {
        packets: 40,
        ..FillLevelGoal::default()
    };
    for pps in [0.5e6, 1e6] {
        let o = by(pps, Some(Estimate::FillLevel(goal)), Throttling::Off);
        let packets = get(&o, "throughput_pps") / get(&o, "irq_per_s");
        assert!((packets - 40.0).abs() < 6.0, "{pps}: {packets}");
    }
}

/// Interrupt-throttling VI finds the time between packets and the time they wait too expensive.
#[test]
fn looking_at_each_packet_costs_throughput() {
    let most = |estimate_ns| {
        let mut s = Scenario::default();
        s.traffic.pps = 3e6;
        s.interrupt.estimate = Some(Estimate::InterArrival(LinearLaw::default()));
        s.interrupt.estimate_ns = estimate_ns;
        get(&run(&s), "throughput_pps") / 1e6
    };
    assert!((most(0.0) - 1.0 / 0.571).abs() < 0.01);
    assert!((most(60.0) - 1.0 / 0.631).abs() < 0.01);
}

/// Low-latency-router III.B: an arbitrary number of classes, here 32, with a ring for each and budgets of 1.
#[test]
fn as_many_classes_as_are_wanted_have_a_ring_each_and_share_the_core_equally() {
    let mut s = Scenario::default();
    s.traffic.pps = 3.5e6;
    s.traffic.shares = vec![1.0 / 32.0; 32];
    s.reception.strategy = StrategyName::LlRr;
    s.reception.ring_budget = 1;
    s.nic.descriptors = 64;
    let o = run(&s);
    for class in 0..32 {
        let packets = get(&o, &format!("packets.c{class}"));
        // 1.75 Mpps for 0.2 s.
        assert!(
            (packets / (0.2 / 571e-9 / 32.0) - 1.0).abs() < 0.02,
            "{class}: {packets}"
        );
    }
    // The guard and its BPF maps have room for eight.
    s.reception.scheme = rxlane_sim::scenario::Scheme::Express;
    s.reception.strategy = StrategyName::Sq;
    assert!(
        s.check()
            .unwrap_err()
            .to_string()
            .contains("at most 8 classes")
    );
}

/// Low-latency-router IV.B: a poll frees the buffers of sent frames before it serves its Rx rings, so packets wait for that. Ten
/// packets at 10 us are sent at once, and those at 60 us find the interrupt throttled until 110 us, when ten completions have come.
#[test]
fn packets_wait_until_their_poll_has_freed_what_was_sent() {
    let second_ten = |tx_clean_ns| {
        let mut s = Scenario::default();
        s.traffic.pps = 0.0;
        // A NIC that has no neighbour on its core sends what it has received.
        s.nic.egress = Egress::Circular;
        s.cpu.isr_ns = 0.0;
        s.cpu.packet_ns = 200.0;
        s.cpu.tx_clean_ns = tx_clean_ns;
        s.interrupt.tx_completion = true;
        s.interrupt.throttling = Throttling::Static {
            interval_ns: 100_000,
        };
        let at = |us| Arrival {
            at: Ps::from_us(us),
            class: 1,
        };
        let arrivals: Vec<Arrival> = [at(10.0); 10].into_iter().chain([at(60.0); 10]).collect();
        let core = SimulatedCore::with_arrivals(&s, &arrivals).unwrap();
        let (left, _) = core.departures(Ps::from_s(0.001), arrivals.len());
        assert_eq!(left[9], Some(Ps::from_us(12.0)));
        left[10..].to_vec()
    };
    let after = |cleaned: u64| {
        let packet =
            |n| Some(Ps::from_us(110.0) + Ps::from_ns(300.0) * cleaned + Ps::from_ns(200.0) * n);
        (1..=10).map(packet).collect::<Vec<_>>()
    };
    assert_eq!(second_ten(0.0), after(0));
    assert_eq!(second_ten(300.0), after(10));
}

/// Low-latency-router IV.A, a vector of two and two rings: BE that comes faster than the egress link carries fills the Tx ring, and
/// what RT needs of it.
#[test]
fn a_full_tx_ring_of_be_drops_no_rt_where_each_class_has_its_own() {
    let dropped = |tx_rings| {
        let mut s = Scenario::default();
        // Throttled polls send more at once than a Tx ring holds.
        s.traffic.pps = 1.2e6;
        s.traffic.rt_ratio = 0.1;
        s.traffic.pattern = Pattern::OnOff { mean_burst: 200.0 };
        s.nic.count = 2;
        s.nic.link_bps = 1e9;
        s.nic.tx_descriptors = 64;
        s.nic.tx_rings = tx_rings;
        s.nic.egress = Egress::Circular;
        s.cpu.packet_ns = 200.0;
        s.interrupt.tx_completion = true;
        s.interrupt.throttling = Throttling::Static {
            interval_ns: 100_000,
        };
        let o = run(&s);
        let all = get(&o, "dropped_tx");
        let [rt, be] = ["rt", "be"].map(|class| get(&o, &format!("tx_dropped.{class}")));
        assert_eq!(rt + be, all);
        (rt, be)
    };
    let (shared, own) = (dropped(TxRings::One), dropped(TxRings::Class));
    assert!(shared.0 > 100.0 && shared.1 > 1000.0, "{shared:?}");
    assert!(own.0 == 0.0 && own.1 > 1000.0, "{own:?}");
}

/// Low-latency-router II: what busy polling buys and costs.
#[test]
fn busy_polling_takes_the_whole_core_and_saves_the_handler_and_the_wake_up() {
    let of = |scheme, pps| {
        let mut s = Scenario::default();
        s.traffic.pps = pps;
        s.nic.count = 2;
        s.cpu.wake_ns = 2000.0;
        s.cpu.poll_ns = 50.0;
        s.reception.scheme = scheme;
        let o = run(&s);
        ["throughput_pps", "latency_us.mean", "cpu", "irq_per_s"].map(|name| get(&o, name))
    };
    let [napi, busy] = [Scheme::Napi, Scheme::BusyPolling].map(|scheme| of(scheme, 1e4));
    // The handler takes 1.7 us and waking up 2 us. A packet that comes while the core looks at the other device waits for 75 ns in
    // the mean, instead of the 50 ns of the poll after an interrupt.
    let saved = napi[1] - busy[1];
    assert!((saved - 3.675).abs() < 0.05, "{saved}");
    assert!(busy[2] > 0.999 && busy[3] == 0.0, "{busy:?}");
    assert!(napi[2] < 0.1, "{napi:?}");
    let [napi, busy] = [Scheme::Napi, Scheme::BusyPolling].map(|scheme| of(scheme, 3e6));
    assert!((busy[0] / napi[0] - 1.0).abs() < 0.002, "{busy:?} {napi:?}");
}
