//! The latency bound of the lane that is at work: what may stand in front of an RT packet, and for how long.

use rxlane_config::{Datapath, EngineConfig, RouterConfig};
use rxlane_policy::Ps;
use rxlane_policy::bound::{
    CPUMAP_BATCH, EXPRESS_SERVICE_NS, LatencyBound, stack_packets_of, stack_packets_of_a_turn,
};
use rxlane_policy::class::{Class, Lane, Overload};
use rxlane_policy::police::Rate;
use schemars::JsonSchema;
use serde::Serialize;

use crate::status::parts::CoreStatus;

/// Service time that the bound assumes before any overload has been measured: a stack packet behind a
/// small firewall (docs/src/explanation/costs.md).
const ASSUMED_SERVICE_NS: f64 = 2_000.0;
/// The smallest frames make the most packets of a bit rate.
const SMALLEST_FRAME_BITS: f64 = 60.0 * 8.0;

/// `T_max = b x / (1 - rho_RT)` for the busiest core.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BoundStatus {
    /// The bound and its terms; `t_max_ns` is null where the RT load is not limited.
    #[serde(flatten)]
    pub bound: LatencyBound,
    /// Whether the service time was measured here or assumed.
    pub measured: bool,
    /// The longest that was measured on any core, us; 0 before the first overload, and for the engine.
    pub longest_wait_us: f64,
    /// How to read it.
    pub note: String,
}

/// What stands in front of an RT packet: packets, and what each takes.
#[derive(Default)]
struct InFront {
    packets: f64,
    service_ns: f64,
    measured: bool,
    what: String,
}

impl BoundStatus {
    /// The bound of the highest class: lower express classes are shed before it, as the stack classes are.
    /// `all_at_tc`: no port is served in XDP.
    pub(crate) fn of(
        config: &RouterConfig,
        cores: &[CoreStatus],
        engine_works: bool,
        all_at_tc: bool,
    ) -> Self {
        let front = match &config.datapath {
            Datapath::Afxdp(engine) if engine_works => Some(of_engine(engine, config)),
            _ => of_lanes(&config.classes, cores),
        };
        let rho = match all_at_tc {
            true => Err("ports are served at tc ingress, where nothing is shed"),
            false => rho_rt(&config.classes),
        };
        let (rho, note) = match (rho, &front) {
            (Ok(rho), Some(front)) => (rho, front.what.clone()),
            (Ok(_), None) => (
                1.0,
                "no bound: there is no stack class, so nothing is shed when the core is overloaded"
                    .to_owned(),
            ),
            (Err(why), _) => (1.0, format!("no bound: {why}")),
        };
        let front = front.unwrap_or_default();
        Self {
            bound: LatencyBound::new(front.packets, Ps::from_ns(front.service_ns), rho),
            measured: front.measured,
            longest_wait_us: cores.iter().map(|c| c.longest_wait_us).fold(0.0, f64::max),
            note,
        }
    }
}

/// The share of a core that the highest class may use, or why that has no limit below all of it.
fn rho_rt(classes: &[Class]) -> Result<f64, &'static str> {
    let highest = classes.first().filter(|c| c.lane.is_express());
    let highest = highest.ok_or("the highest class is not express")?;
    let police = highest.police.as_ref();
    let police = police
        .ok_or("the highest class has no `police`, so RT traffic alone could fill the core")?;
    let pps = match police.rate {
        Rate::Pps(pps) => pps as f64,
        Rate::Bps(bps) => bps as f64 / SMALLEST_FRAME_BITS,
    };
    let rho = pps * EXPRESS_SERVICE_NS / 1e9;
    if rho < 1.0 {
        Ok(rho)
    } else {
        Err("the `police` rate of the highest class exceeds what a core forwards")
    }
}

/// The ring budgets of the other classes, and whole polls of other ports.
fn of_engine(engine: &EngineConfig, config: &RouterConfig) -> InFront {
    let packets = engine.strategy.in_front_of_the_highest(
        config.classes.len() as u32,
        engine.device_budget,
        config.ports.len() as u32,
        engine.rings.first().copied().unwrap_or(0),
    );
    InFront {
        packets: f64::from(packets),
        service_ns: EXPRESS_SERVICE_NS,
        measured: false,
        what: format!(
            "ring budgets of {} for other classes, and polls of other ports on the core; waiting and service in the worker, without the copy into its ring",
            engine.strategy.name()
        ),
    }
}

/// While the stack classes are shed: a turn of the Rx ring. Queued to other cores they leave batches in front.
fn of_lanes(classes: &[Class], cores: &[CoreStatus]) -> Option<InFront> {
    let service = cores.iter().map(|c| c.service_time_ns).max().unwrap_or(0);
    let service_ns = if service > 0 {
        service as f64
    } else {
        ASSUMED_SERVICE_NS
    };
    let overloaded = cores.iter().filter(|c| c.overloaded);
    let at_work = overloaded.map(|c| c.turn_us * 1e3).fold(0.0, f64::max);
    let of_class = |class: &Class| match &class.lane {
        Lane::Express { .. } => None,
        Lane::Stack {
            overload: Overload::Queue,
            ..
        } => Some(CPUMAP_BATCH),
        Lane::Stack { .. } if at_work > 0.0 => Some(stack_packets_of(at_work, service_ns)),
        Lane::Stack { aim, .. } => Some(stack_packets_of_a_turn(aim.poll_target(), service_ns)),
    };
    let packets = classes.iter().filter_map(of_class).reduce(f64::max)?;
    Some(InFront {
        packets,
        service_ns,
        measured: service > 0,
        what: "a turn of the Rx ring, after overload has been noticed (a ms of full polls); waiting and service in the core, without wire and DMA".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: &str = "ports = [\"a\", \"b\"]\n";
    const VOICE: &str = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"established\"\npolice = { pps = 100000, burst = 500 }\nmatch = [{ dscp = [\"EF\"] }]\n";
    const CALLS: &str =
        "[[class]]\nname = \"calls\"\nlane = \"express\"\ntrust = \"established\"\n";
    const REST: &str = "[[class]]\nname = \"rest\"\nlane = \"stack\"\n";

    fn bound(parts: &[&str], engine_works: bool) -> BoundStatus {
        let config = rxlane_config::parse(&(PORTS.to_owned() + &parts.concat()));
        BoundStatus::of(&config.expect("a configuration"), &[], engine_works, false)
    }

    #[test]
    fn the_bound_of_the_lanes_is_a_turn_of_the_rx_ring() {
        let b = bound(&[VOICE, REST], false).bound;
        // 8 targets of 34 us, in packets of 2 us, beside 100,000 RT packets of 0.6 us.
        assert_eq!((b.ring_budget, b.service_time_ns), (136.0, 2000.0));
        assert!((b.t_max_ns - 272_000.0 / 0.94).abs() < 1.0, "{b:?}");
    }

    #[test]
    fn the_bound_of_the_engine_is_of_its_ring_budgets() {
        let engine = "datapath = \"afxdp\"\n[afxdp]\nstrategy = \"ll-wfq\"\n";
        let budgets =
            |class: &str, n: u32| class.replace("lane =", &format!("budget = {n}\nlane ="));
        let b = bound(&[engine, &budgets(VOICE, 60), &budgets(CALLS, 4)], true);
        assert!(
            b.bound.ring_budget == 68.0,
            "a poll of the other port, too: {b:?}"
        );
        assert!(b.bound.t_max_ns.is_finite(), "{b:?}");
    }

    #[test]
    fn where_nothing_is_shed_or_limited_there_is_no_bound() {
        let unlimited = VOICE.replace("police = { pps = 100000, burst = 500 }\n", "");
        for (parts, why) in [
            (&[VOICE, CALLS][..], "no stack class"),
            (&[unlimited.as_str(), REST], "no `police`"),
            (&[REST], "not express"),
        ] {
            let b = bound(parts, false);
            assert!(
                b.note.contains(why) && b.bound.t_max_ns.is_infinite(),
                "{b:?}"
            );
        }
    }
}
