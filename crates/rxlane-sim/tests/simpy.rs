//! The model against another one, packet by packet: `simpy/napi.py` is a SimPy program written from the papers' text.
//!
//! Both work in whole ps, so departures must be equal to the ps and need no tolerance. Times of arrival are drawn in ps, so
//! that no packet comes in the very ps in which the core looks at a ring; what comes first then is no model's to say.

use rxlane_policy::Ps;
use rxlane_policy::poll::Order;
use rxlane_policy::strategy::StrategyName;
use rxlane_sim::scenario::Scenario;
use rxlane_sim::simulated_core::{Arrival, SimulatedCore};
use rxlane_sim::tally::Work;
use serde::Deserialize;

/// Longer than any of the traces.
const TIME: Ps = Ps(10_000_000_000_000);

/// A line of `simpy/scenarios.json`.
#[derive(Deserialize)]
struct Spec {
    name: String,
    strategy: String,
    #[serde(default)]
    ring_budgets: Vec<u32>,
    /// The trace's times are multiplied by it.
    stretch: u64,
    packet_ns: f64,
    isr_ns: f64,
    descriptors: usize,
    device_budget: u32,
}

impl Spec {
    fn scenario(&self) -> Scenario {
        let mut s = Scenario::default();
        s.traffic.pps = 0.0;
        s.traffic.rt_ratio = 0.3;
        s.traffic.flows = 1;
        s.cpu.packet_ns = self.packet_ns;
        s.cpu.isr_ns = self.isr_ns;
        s.nic.descriptors = self.descriptors;
        s.reception.device_budget = self.device_budget;
        s.reception.budgets.clone_from(&self.ring_budgets);
        s.reception.strategy = match self.strategy.as_str() {
            "sq" => StrategyName::Sq,
            "rr" => StrategyName::Rr,
            "ll" => StrategyName::LlWfq,
            other => panic!("{other}: no such strategy"),
        };
        s.check().unwrap();
        s
    }

    fn arrivals(&self) -> Vec<Arrival> {
        let trace = columns(include_str!("simpy/trace.csv"));
        let trace = trace.iter().map(|line| Arrival {
            at: Ps(line[0].unwrap() * self.stretch),
            class: line[1].unwrap() as usize,
        });
        trace.collect()
    }
}

/// The numbers of a table without its head; nothing where there is none.
fn columns(table: &str) -> Vec<Vec<Option<u64>>> {
    let lines = table.lines().skip(1);
    lines
        .map(|line| line.split(',').map(|field| field.parse().ok()).collect())
        .collect()
}

fn specs() -> Vec<Spec> {
    serde_json::from_str(include_str!("simpy/scenarios.json")).unwrap()
}

/// What SimPy says of a scenario: departures and interrupts.
fn expected(spec: &Spec) -> (Vec<Option<Ps>>, u64) {
    let departures = include_str!("simpy/departures.csv");
    let head = departures.lines().next().unwrap();
    let column = head.split(',').position(|name| name == spec.name).unwrap();
    let left = columns(departures)
        .iter()
        .map(|line| line[column].map(Ps))
        .collect();
    let interrupts = include_str!("simpy/interrupts.csv").lines();
    let of = |line: &str| line.strip_prefix(&format!("{},", spec.name))?.parse().ok();
    (left, interrupts.filter_map(of).next().unwrap())
}

#[test]
fn every_packet_leaves_when_simpy_says_and_the_same_are_dropped() {
    for spec in specs() {
        let arrivals = spec.arrivals();
        let core = SimulatedCore::with_arrivals(&spec.scenario(), &arrivals).unwrap();
        let (left, result) = core.departures(TIME, arrivals.len());
        let (expected, interrupts) = expected(&spec);
        assert_eq!(left.len(), expected.len());
        let packets = arrivals.iter().zip(&left).zip(&expected);
        for (number, ((arrival, left), expected)) in packets.enumerate() {
            assert_eq!(
                left, expected,
                "{}: packet {number}, which came at {:?}",
                spec.name, arrival.at
            );
        }
        assert_eq!(
            result.tally.irqs.iter().sum::<u64>(),
            interrupts,
            "{}",
            spec.name
        );
    }
}

/// Without departures to keep the model takes a shorter way for packets that nothing disturbs. It must be the same way.
#[test]
fn the_short_way_for_undisturbed_packets_serves_drops_and_interrupts_as_simpy() {
    for spec in specs() {
        let arrivals = spec.arrivals();
        let core = SimulatedCore::with_arrivals(&spec.scenario(), &arrivals).unwrap();
        let result = core.run(Ps::ZERO, TIME);
        let (expected, interrupts) = expected(&spec);
        let served = expected.iter().flatten().count() as u64;
        assert_eq!(
            result.tally.irqs.iter().sum::<u64>(),
            interrupts,
            "{}",
            spec.name
        );
        assert_eq!(result.tally.served[0], served, "{}", spec.name);
        assert_eq!(
            result.after.ring_dropped,
            arrivals.len() as u64 - served,
            "{}",
            spec.name
        );
        let busy = result.tally.busy[Work::Packet as usize];
        assert_eq!(busy, Ps::from_ns(spec.packet_ns) * served, "{}", spec.name);
        for class in [0, 1] {
            let left = arrivals.iter().zip(&expected);
            let of = left.filter(|(arrival, left)| arrival.class == class && left.is_some());
            let sojourns: Vec<u64> = of.map(|(a, left)| (left.unwrap() - a.at).0).collect();
            let mean = sojourns.iter().sum::<u64>() as f64 / sojourns.len() as f64 / 1e6;
            let latency = &result.tally.classes[class].latency;
            assert_eq!(latency.count(), sojourns.len() as u64, "{}", spec.name);
            // Sums are kept in ps; only this division rounds.
            assert!(
                (latency.mean_us() - mean).abs() <= 1e-9 * mean,
                "{}: class {class}: {} us, {mean} us",
                spec.name,
                latency.mean_us()
            );
        }
    }
}

#[test]
fn scenarios_with_traffic_of_their_own_and_unknown_classes_are_refused() {
    let spec = &specs()[0];
    let refused = |s: &Scenario, class: usize| {
        let arrival = Arrival { at: Ps(1), class };
        let core = SimulatedCore::with_arrivals(s, &[arrival]);
        core.err().map(|e| e.to_string())
    };
    let mut s = spec.scenario();
    assert_eq!(refused(&s, 1), None);
    assert!(refused(&s, 2).unwrap().contains("class = 2"));
    s.traffic.pps = 1e6;
    assert!(refused(&s, 1).unwrap().contains("traffic.pps"));
}

/// What the comparison is worth: a model that goes the other way round the rings does not pass it.
#[test]
fn polls_that_begin_with_the_other_ring_are_told_apart() {
    let specs = specs();
    let spec = specs
        .iter()
        .find(|s| s.name == "ll-wfq-saturation")
        .unwrap();
    let mut other = spec.scenario();
    other.reception.order = Order::HighestFirst;
    let arrivals = spec.arrivals();
    let core = SimulatedCore::with_arrivals(&other, &arrivals).unwrap();
    let (left, _) = core.departures(TIME, arrivals.len());
    let (expected, _) = expected(spec);
    let same = left.iter().zip(&expected).filter(|(a, b)| a == b).count();
    assert!(
        same < arrivals.len() * 9 / 10,
        "{same} of {}",
        arrivals.len()
    );
}
