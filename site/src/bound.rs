//! How long RT may wait, by Eq. 1 of low-latency-router, for what the page shows.

use rxlane_policy::bound::{LatencyBound, stack_packets_of_a_turn};
use rxlane_policy::poll::Order;
use rxlane_policy::strategy::StrategyName;
use rxlane_policy::throttle::Throttling;
use rxlane_policy::{Nanos, Ps};
use rxlane_sim::scenario::{Controller, Scenario, Scheme};
use rxlane_sim::traffic::{Mix, Pattern};
use serde::Serialize;

/// The bound with its terms, and what it leaves out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    /// Lower-class packets in front of an RT packet.
    pub in_front: f64,
    /// What each of them takes, ns.
    pub service_ns: f64,
    /// Share of the core that RT takes, 0 to 1.
    pub rho_rt: f64,
    /// The longest wait of an RT packet, ns; none where there is no bound.
    pub t_max_ns: Option<f64>,
    /// What whole packets add, ns: the equation counts parts of them. One is in service, and one more is ahead.
    pub whole_ns: f64,
    /// What an RT packet itself takes, ns: its latency is that and its wait.
    pub own_ns: f64,
    /// Why there is no bound; empty where there is one.
    pub none_because: &'static str,
    /// What of the scenario Eq. 1 knows nothing of, and by which RT may wait longer.
    pub beside: Vec<String>,
}

/// The bound of the highest class of a scenario.
pub fn bound(scenario: &Scenario) -> Bound {
    let shares = scenario.traffic.class_shares();
    let rt_pps = scenario.traffic.pps * shares.first().copied().unwrap_or(0.0);
    let (cpu, express) = (&scenario.cpu, &scenario.express);
    let bytes = cpu.byte_ns * f64::from(scenario.traffic.frame);
    let sorted = match scenario.reception.strategy {
        StrategyName::Sq => 0.0,
        _ => cpu.class_ns,
    };
    let service_ns = |class: usize| {
        let of =
            |s: &&rxlane_sim::scenario::Stage| s.classes.is_empty() || s.classes.contains(&class);
        let stages = scenario.stage.iter().filter(of);
        let frame = f64::from(scenario.traffic.frame);
        let stages: f64 = stages.map(|s| s.packet_ns + s.byte_ns * frame).sum();
        cpu.packet_ns + bytes + sorted + stages
    };
    let lowest = service_ns(shares.len() - 1);
    let lanes = scenario.reception.scheme == Scheme::Express;
    let (in_front, own_ns) = match lanes {
        true => {
            let target = Nanos((express.target_us * 1e3) as u64);
            (stack_packets_of_a_turn(target, lowest), express.redirect_ns)
        }
        false => {
            let in_front = scenario.reception.strategy().in_front_of_the_highest(
                shares.len() as u32,
                scenario.reception.device_budget,
                scenario.nic.count as u32,
                scenario.nic.descriptors as u32,
            );
            (f64::from(in_front), service_ns(0))
        }
    };
    let rho_rt = rt_pps * own_ns / 1e9;
    let bound = LatencyBound::new(in_front, Ps::from_ns(lowest), rho_rt);
    let none_because = none_because(scenario, rt_pps, rho_rt);
    Bound {
        in_front,
        service_ns: bound.service_time_ns,
        rho_rt,
        t_max_ns: none_because.is_empty().then_some(bound.t_max_ns),
        whole_ns: 2.0 * bound.service_time_ns,
        own_ns,
        none_because,
        beside: beside(scenario, lanes),
    }
}

fn none_because(scenario: &Scenario, rt_pps: f64, rho_rt: f64) -> &'static str {
    match scenario.reception.scheme {
        _ if rt_pps <= 0.0 => "there is no RT traffic",
        Scheme::Softnet => "before NAPI there are no budgets",
        Scheme::Express if scenario.express.controller != Controller::Guard => {
            "nothing limits what the stack takes of a poll"
        }
        _ if scenario.worker.is_some() => "a thread and NAPI take turns on the core",
        _ if rho_rt >= 1.0 => "RT alone fills the core",
        _ => "",
    }
}

/// One entry each, in the words of scenario files.
fn beside(scenario: &Scenario, lanes: bool) -> Vec<String> {
    let (cpu, interrupt) = (&scenario.cpu, &scenario.interrupt);
    let mut beside = Vec::new();
    let smooth = matches!(scenario.traffic.pattern, Pattern::Cbr { jitter } if jitter == 0.0)
        && scenario.traffic.mix == Mix::Even;
    if !smooth {
        beside.push("RT packets that come together and wait for one another".to_owned());
    }
    let rings = matches!(
        scenario.reception.strategy,
        StrategyName::LlRr | StrategyName::LlWfq
    );
    if rings && scenario.reception.order == Order::LowestFirst {
        beside.push("the end of a poll, after which BE has the first turn again".to_owned());
    }
    match interrupt.throttling {
        Throttling::Off => {}
        Throttling::Static { interval_ns } => {
            beside.push(format!("throttling, up to {} us", interval_ns as f64 / 1e3))
        }
        _ => beside.push("throttling".to_owned()),
    }
    if interrupt.estimate.is_some() {
        beside.push("throttling".to_owned());
    }
    let ns = cpu.isr_ns + cpu.wake_ns + cpu.softirq_ns + interrupt.delivery_ns + cpu.poll_ns;
    if ns > 0.0 {
        beside.push(format!("an interrupt and a poll, {} us", ns / 1e3));
    }
    if lanes && scenario.express.flush_ns > 0.0 {
        beside.push(format!(
            "the end of the poll, when express packets leave, {} us",
            scenario.express.flush_ns / 1e3
        ));
    }
    if !cpu.disturbance.is_empty() || !cpu.hog.is_empty() || cpu.process.is_some() {
        beside.push("what else takes the core".to_owned());
    }
    beside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Study;

    fn of(settings: &str) -> Bound {
        Study::new(settings).unwrap().bound()
    }

    #[test]
    fn ring_budgets_give_the_bound_of_the_paper() {
        let bound = of("traffic.pps=1e6\ntraffic.rt_ratio=0.3\nreception.strategy=ll-wfq");
        let rho = 0.3e6 * 571e-9;
        assert!((bound.t_max_ns.unwrap() - 4.0 * 571.0 / (1.0 - rho)).abs() < 1e-6);
        assert_eq!((bound.in_front, bound.own_ns), (4.0, 571.0));
    }

    #[test]
    fn in_one_ring_all_of_it_may_be_in_front() {
        assert_eq!(
            of("traffic.rt_ratio=0.1\nnic.descriptors=256").in_front,
            256.0
        );
    }

    #[test]
    fn lanes_let_a_turn_of_stack_packets_stand_in_front() {
        let lanes =
            "reception.scheme=express\ntraffic.rt_ratio=0.2\ntraffic.pps=660e3\ncpu.packet_ns=3030";
        let bound = of(lanes);
        let turn = stack_packets_of_a_turn(Nanos(34_000), 3030.0);
        assert_eq!((bound.in_front, bound.own_ns), (turn, 300.0));
        let free = of(&format!("{lanes}\nexpress.controller=none"));
        assert_eq!(free.t_max_ns, None);
        assert!(!free.none_because.is_empty());
    }

    #[test]
    fn there_is_no_bound_without_rt_or_with_nothing_else() {
        assert_eq!(
            of("traffic.rt_ratio=0.0").none_because,
            "there is no RT traffic"
        );
        let full = of("traffic.pps=3e6\ntraffic.rt_ratio=1.0");
        assert_eq!(full.none_because, "RT alone fills the core");
    }

    /// Smooth traffic at a core that serves nothing else and takes no time for interrupts is what Eq. 1 is about.
    #[test]
    fn smooth_rt_waits_no_longer_than_the_bound() {
        for (be, rt) in [(4, 60), (8, 56)] {
            let mut study = Study::new(&format!(
                "seconds=0.05\ntraffic.pps=2.4e6\ntraffic.rt_ratio=0.2\ntraffic.mix=even\n\
                 traffic.pattern.pattern=cbr\ntraffic.pattern.jitter=0.0\ncpu.isr_ns=0\n\
                 reception.strategy=ll-wfq\nreception.budgets=[{rt},{be}]\nreception.order=highest-first"
            ))
            .unwrap();
            study.step().unwrap();
            let bound = study.bound();
            assert!(bound.beside.is_empty(), "{bound:?}");
            let waits = study.answer().classes[0].longest_us * 1e3 - bound.own_ns;
            let most = bound.t_max_ns.unwrap();
            assert!(
                waits <= most + bound.whole_ns,
                "{be}: {waits} ns, {most} ns"
            );
            assert!(waits > most / 2.0, "{be}: {waits} ns, {most} ns");
        }
    }
}
