//! The results of a replication, as named numbers.

use hdrhistogram::Histogram;
use rxlane_policy::Ps;

use crate::SimError;
use crate::custom::Faults;
use crate::histogram::Latencies;
use crate::lockstep::Together;
use crate::scenario::{Scenario, Scheme};
use crate::simulated_core::{CoreResult, Regret, SimulatedCore};
use crate::stop::Stop;
use crate::tally::{LoadSamples, Work};
use crate::tcp::Counts;

/// Ethernet with FCS, IPv4, and TCP with timestamps, bytes.
const TCP_OVERHEAD: u32 = 18 + 20 + 32;

/// What came of one replication of a scenario.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Names and values, in a fixed order for a scenario.
    pub metrics: Vec<(String, f64)>,
    /// Latency of each class, highest first, ns.
    pub latencies: Vec<Latencies>,
    /// Load of the cores by sample.
    pub loads: LoadSamples,
}

impl Outcome {
    /// A value by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.metrics
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| *v)
    }
}

/// The name of a class in results: `rt` and `be` of two, else its number.
pub fn class_name(class: usize, classes: usize) -> String {
    match (classes, class) {
        (2, 0) => "rt".into(),
        (2, 1) => "be".into(),
        _ => format!("c{class}"),
    }
}

/// Simulates one replication of a checked scenario on all its cores.
///
/// # Errors
/// As [`SimulatedCore::new`]; [`SimError::Custom`].
pub fn simulate(scenario: &Scenario, replication: u32) -> Result<Outcome, SimError> {
    simulate_until(scenario, replication, &Stop::never())
}

/// As [`simulate`], and ends early when `stop` asks for it.
///
/// # Errors
/// As [`simulate`]; [`SimError::Stopped`].
pub fn simulate_until(
    scenario: &Scenario,
    replication: u32,
    stop: &Stop,
) -> Result<Outcome, SimError> {
    let seed = scenario.seed.wrapping_add(u64::from(replication) << 20);
    let mut simulated = (0..scenario.cpu.cores)
        .map(|core| SimulatedCore::new(scenario, core, seed))
        .collect::<Result<Vec<_>, SimError>>()?;
    simulated.iter_mut().for_each(|core| core.heed(stop));
    let faults: Vec<_> = simulated.iter().filter_map(SimulatedCore::faults).collect();
    let (warmup, measured) = (Ps::from_s(scenario.warmup_s), Ps::from_s(scenario.seconds));
    let (cores, late) = match Together::new(scenario, simulated) {
        Ok(together) => together.run(warmup, measured, stop),
        Err(alone) => {
            let run = |core: SimulatedCore| core.run(warmup, measured);
            let cores: Vec<CoreResult> = alone.into_iter().map(run).collect();
            let late = cores.iter().map(|c| c.tally.reordered).sum();
            (cores, late)
        }
    };
    if let Some(error) = faults.iter().find_map(Faults::take) {
        return Err(error);
    }
    if stop.is_asked() {
        return Err(SimError::Stopped);
    }
    Ok(summarise(scenario, &cores, late))
}

fn summarise(scenario: &Scenario, cores: &[CoreResult], reordered: u64) -> Outcome {
    let mut metrics = Vec::new();
    let mut put = |name: String, value: f64| metrics.push((name, value));
    let seconds = cores
        .iter()
        .map(|c| c.elapsed)
        .max()
        .unwrap_or(Ps(1))
        .as_s();
    let sum = |f: &dyn Fn(&CoreResult) -> u64| cores.iter().map(f).sum::<u64>() as f64;

    // A NIC that goes from core to core takes with it what it has counted.
    let arrived = sum(&|c| c.after.arrived) - sum(&|c| c.before.arrived);
    let served = sum(&|c| c.tally.served.iter().sum());
    let ring = sum(&|c| c.after.ring_dropped) - sum(&|c| c.before.ring_dropped);
    let backlog = sum(&|c| c.tally.backlog_dropped);
    let in_front_of_thread = sum(&|c| c.tally.socket_dropped);
    let (socket, egress) = match scenario.transmit {
        Some(_) => (0.0, in_front_of_thread),
        None => (in_front_of_thread, 0.0),
    };
    let tx = sum(&|c| c.tally.tx_dropped.iter().sum());
    let qdisc = sum(&|c| c.tally.qdisc_dropped.iter().sum());
    let application = sum(&|c| c.tally.application_dropped);
    let early = sum(&|c| c.tally.early_dropped.iter().sum());
    let of_arrived = |n: f64| if arrived > 0.0 { n / arrived } else { 0.0 };
    put("arrived".into(), arrived);
    put("served".into(), served);
    put(
        "delivered".into(),
        if scenario.host.is_some() || scenario.transmit.is_some() {
            sum(&|c| c.tally.delivered)
        } else if scenario.qdisc.is_some() {
            sum(&|c| c.tally.sent.iter().sum())
        } else {
            served
        },
    );
    put("dropped_ring".into(), ring);
    put("dropped_backlog".into(), backlog);
    put("dropped_tx".into(), tx);
    put("dropped_socket".into(), socket);
    put("queued_before".into(), sum(&|c| c.before.queued));
    put("queued_after".into(), sum(&|c| c.after.queued));
    put(
        "throughput_pps".into(),
        (served - tx - socket - egress - qdisc) / seconds,
    );
    put(
        "loss".into(),
        of_arrived(ring + early + backlog + tx + socket + application + egress + qdisc),
    );
    put("loss_ring".into(), of_arrived(ring));
    put("loss_backlog".into(), of_arrived(backlog));
    put("loss_tx".into(), of_arrived(tx));
    put("loss_socket".into(), of_arrived(socket));

    if scenario.host.is_some() {
        put("dropped_application".into(), application);
        put("loss_application".into(), of_arrived(application));
    }
    if scenario.transmit.is_some() {
        put("dropped_egress".into(), egress);
        put("loss_egress".into(), of_arrived(egress));
    }
    if scenario.qdisc.is_some() {
        put("dropped_qdisc".into(), qdisc);
        put("loss_qdisc".into(), of_arrived(qdisc));
        let classes = scenario.traffic.class_shares().len();
        for class in 0..classes {
            let name = class_name(class, classes);
            put(format!("sent.{name}"), sum(&|c| c.tally.sent[class]));
            let dropped = sum(&|c| c.tally.qdisc_dropped[class]);
            put(format!("qdisc_dropped.{name}"), dropped);
        }
    }

    if scenario.tcp.is_some() {
        connections(scenario, cores, seconds, &mut put);
    }

    let core_seconds: f64 = cores.iter().map(|c| c.elapsed.as_s()).sum();
    let mut cpu = 0.0;
    for (work, name) in Work::ALL {
        let busy: f64 = cores
            .iter()
            .map(|c| c.tally.busy[work as usize].as_s())
            .sum();
        cpu += busy / core_seconds;
        put(format!("cpu_{name}"), busy / core_seconds);
    }
    put("cpu".into(), cpu);
    let threads: f64 = cores.iter().map(|c| c.application.as_s()).sum();
    if scenario.host.is_some() {
        put("application_use".into(), threads / core_seconds);
        // The application may have a core of its own, so this goes up to twice the cores.
        put(
            "cores_in_use".into(),
            cpu * cores.len() as f64 + threads / seconds,
        );
    }
    if scenario.transmit.is_some() {
        put("transmit_use".into(), threads / core_seconds);
    }
    if scenario.cpu.probe.is_some() {
        let mut responses = Latencies::default();
        for of in cores.iter().filter_map(|c| c.responses.as_ref()) {
            responses.merge(of);
        }
        put("responses".into(), responses.count() as f64);
        put("response_us.mean".into(), responses.mean_us());
        put("response_us.max".into(), responses.max_us());
    }

    put(
        "irq_per_s".into(),
        sum(&|c| c.tally.irqs.iter().sum()) / seconds,
    );
    for (core, c) in cores.iter().enumerate() {
        for (vector, irqs) in c.tally.irqs.iter().enumerate() {
            put(
                format!("irq_per_s.core{core}.vector{vector}"),
                *irqs as f64 / seconds,
            );
        }
    }
    let polls = sum(&|c| c.tally.polls);
    put("polls_per_s".into(), polls / seconds);
    put(
        "packets_per_poll".into(),
        if polls > 0.0 { served / polls } else { 0.0 },
    );
    put("reordered".into(), reordered as f64);
    for (core, c) in cores.iter().enumerate().filter(|_| cores.len() > 1) {
        let packets: u64 = c.tally.served.iter().sum();
        put(format!("served.core{core}"), packets as f64);
    }

    let shares: Vec<f64> = (0..scenario.nic.count)
        .map(|nic| sum(&|c| c.tally.served[nic]))
        .collect();
    for (nic, packets) in shares.iter().enumerate().filter(|_| shares.len() > 1) {
        put(format!("throughput_pps.nic{nic}"), packets / seconds);
    }
    put("fairness".into(), jain(&shares));

    let classes = scenario.traffic.class_shares().len();
    let mut all = Latencies::default();
    let mut latencies = Vec::new();
    for class in 0..classes {
        let mut latency = Latencies::default();
        let mut waiting = Latencies::default();
        for core in cores {
            latency.merge(&core.tally.classes[class].latency);
            waiting.merge(&core.tally.classes[class].waiting);
        }
        let name = class_name(class, classes);
        put(format!("packets.{name}"), waiting.count() as f64);
        let full =
            |c: &CoreResult| c.after.ring_dropped_of[class] - c.before.ring_dropped_of[class];
        put(format!("ring_dropped.{name}"), sum(&full));
        if scenario.interrupt.tx_completion {
            let full = sum(&|c| c.tally.tx_dropped[class]);
            put(format!("tx_dropped.{name}"), full);
        }
        put(format!("waiting_us.{name}.mean"), waiting.mean_us());
        quantiles(&latency, &name, &mut put);
        all.merge(&latency);
        latencies.push(latency);
    }
    if scenario.reception.scheme == Scheme::Express {
        put("dropped_early".into(), early);
        put("loss_early".into(), of_arrived(early));
        express(scenario, cores, &mut put);
    }
    put("latency_us.mean".into(), all.mean_us());
    put("latency_us.max".into(), all.max_us());
    // interrupt-throttling V.E: cycles a packet times mean latency.
    let cycles =
        cpu * cores.len() as f64 * scenario.cpu.clock_ghz * 1e9 * seconds / served.max(1.0);
    put("cycles_per_packet".into(), cycles);
    put("load_latency_cycles_us".into(), cycles * all.mean_us());

    let mut loads = LoadSamples::default();
    cores.iter().for_each(|c| loads.merge(&c.tally.loads));
    if scenario.cpu.sample_s > 0.0 {
        let (mean, variance) = loads.mean_and_variance();
        put("load.mean".into(), mean);
        put("load.variance".into(), variance);
    }
    Outcome {
        metrics,
        latencies,
        loads,
    }
}

/// What the lanes are judged by: losses by class, time that others took left out of RT's wait, regret, shares of flows.
fn express(scenario: &Scenario, cores: &[CoreResult], put: &mut impl FnMut(String, f64)) {
    let classes = scenario.traffic.class_shares().len();
    let flows = usize::from(scenario.traffic.flows.max(1));
    let mut regret = Regret::default();
    let mut own = Latencies::default();
    for core in cores {
        regret = regret.worse(core.regret);
        own.merge(&core.tally.classes[0].own_wait);
    }
    put("least_use".into(), regret.least_use);
    put("most_regret".into(), regret.most_regret);
    let p999 = own.histogram().value_at_quantile(0.999) as f64 / 1e3;
    put(
        "own_wait_us.p999".into(),
        if own.count() > 0 { p999 } else { 0.0 },
    );
    put("own_wait_us.max".into(), own.max_us());
    for class in 0..classes {
        let name = class_name(class, classes);
        let sum = |f: &dyn Fn(&CoreResult) -> u64| cores.iter().map(f).sum::<u64>() as f64;
        let ring = sum(&|c| c.after.ring_dropped_of[class] - c.before.ring_dropped_of[class]);
        let early = sum(&|c| c.tally.early_dropped[class]);
        let first = (classes - 1 - class) * flows;
        let served: Vec<f64> = (first..first + flows)
            .map(|flow| sum(&|c| c.tally.flow_served[flow]))
            .collect();
        let all: f64 = served.iter().sum();
        let least = served.iter().copied().fold(f64::INFINITY, f64::min);
        put(format!("early_dropped.{name}"), early);
        put(format!("served.{name}"), all);
        put(
            format!("loss.{name}"),
            (ring + early) / (ring + early + all).max(1.0),
        );
        put(
            format!("least_flow.{name}"),
            if all > 0.0 {
                least * flows as f64 / all
            } else {
                1.0
            },
        );
    }
}

/// What connections had of it.
fn connections(
    scenario: &Scenario,
    cores: &[CoreResult],
    seconds: f64,
    put: &mut impl FnMut(String, f64),
) {
    let of = |f: &dyn Fn(&Counts) -> u64| -> Vec<f64> {
        let each = cores.iter().flat_map(|c| &c.connections);
        each.map(|c| f(c) as f64).collect()
    };
    let delivered = of(&|c| c.delivered);
    let packets: f64 = delivered.iter().sum();
    let payload = scenario.traffic.frame.saturating_sub(TCP_OVERHEAD);
    let goodput = packets * 8.0 * f64::from(payload) / seconds;
    put("tcp.delivered".into(), packets);
    put("tcp.goodput_bps".into(), goodput);
    put("tcp.fairness".into(), jain(&delivered));
    for (name, counts) in [
        ("sent_again", of(&|c| c.sent_again)),
        ("marked", of(&|c| c.marked)),
        ("timeouts", of(&|c| c.timeouts)),
    ] {
        put(format!("tcp.{name}"), counts.iter().sum());
    }
}

fn quantiles(latency: &Latencies, class: &str, put: &mut impl FnMut(String, f64)) {
    let h: Histogram<u64> = latency.histogram();
    put(format!("latency_us.{class}.mean"), latency.mean_us());
    for (q, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p999")] {
        let ns = if latency.count() > 0 {
            h.value_at_quantile(q)
        } else {
            0
        };
        put(format!("latency_us.{class}.{name}"), ns as f64 / 1e3);
    }
    put(format!("latency_us.{class}.max"), latency.max_us());
}

/// Jain's fairness index of shares: 1 when all are equal, 1/n when one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|s| s * s).sum();
    if squares > 0.0 {
        sum * sum / (shares.len() as f64 * squares)
    } else {
        1.0
    }
}
