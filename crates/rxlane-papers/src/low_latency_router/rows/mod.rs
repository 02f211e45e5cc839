//! Rows of "Building a Low Latency Linux Software Router", V.B and III.D.

mod over_load;
mod over_ratio;
mod throughput;

use rxlane_policy::plan::{Polled, Wanted};
use rxlane_policy::poll::DEVICE_BUDGET;
use rxlane_sim::SimError;
use rxlane_sim::scenario::Scenario;

use super::PAPER;
use crate::interval::Interval;
use crate::judge::{Baseline, Number, PREDICT, Shape, Verdicts};
use crate::table::{Data, Rows};

pub(super) use throughput::max_throughput;

pub(super) const RATIO: &str = "traffic.rt_ratio";
pub(super) const LOAD: &str = "traffic.pps";
pub(super) const LL: [&str; 2] = ["LL-RR", "LL-WFQ"];
/// The paper raises the load "until packet loss is encountered" without a tolerance.
pub(super) const LOSS: f64 = 1e-3;
pub(super) const FULL: f64 = 0.995;
/// Steps of the paper's sweep, pps.
pub(super) const STEP: f64 = 0.05e6;

/// A change from SQ, in the paper's unit.
fn from_sq(model: Interval, stated: f64) -> Result<Baseline, &'static str> {
    Ok(Baseline {
        what: "SQ",
        model: model.mean,
        stated,
    })
}

fn mpps(v: Interval) -> String {
    format!("{:.3}", v.mean / 1e6)
}

pub(super) fn judge(data: &Data, v: &mut Verdicts) -> Result<(), SimError> {
    throughput::judge(data.of("fig-5a.toml"), v);
    let over_load = data.of("fig-5b-6b-7b.toml");
    over_load::judge(over_load, v);
    over_load::latency(over_load, v);
    over_ratio::judge(data.of("fig-6a-7a.toml"), v);
    let scenario = PAPER.read("fig-5a.toml", &[])?.point(0)?.scenario;
    let cpu = &scenario.cpu;
    over_load::bound(over_load, cpu.packet_ns + cpu.class_ns, v);
    stock_poll(data.of("vmdq.toml"), &scenario, v);
    arithmetic(v)
}

/// The longest that an RT packet waits beside BE packets without end, its own service left out.
fn stock_poll(rows: &Rows, scenario: &Scenario, v: &mut Verdicts) {
    let own_us =
        scenario.nic.fixed_latency_us + (scenario.cpu.packet_ns + scenario.cpu.class_ns) / 1e3;
    let longest = |case: &str| {
        let us = rows.get(case, &[], "latency_us.rt.max");
        us.minus(Interval::exact(own_us))
    };
    v.number(
        "LL-32",
        &Number {
            judged: "longest wait of an RT packet at 2.0 Mpps, of which RT is half a per cent, us",
            model: longest("VMDq"),
            stated: 19.0,
            tolerance: PREDICT,
            effect: Ok(Baseline {
                what: "SQ",
                model: longest("SQ").mean,
                // A full ring of 512 at 0.6 us.
                stated: 307.0,
            }),
            note: "the paper computes 32 x with x rounded from 0.571 to 0.6 us; here it is simulated",
        },
    );
}

fn arithmetic(v: &mut Verdicts) -> Result<(), SimError> {
    let budget = |rho: f64| -> Result<u32, SimError> {
        let x = 571.0;
        let wanted = Wanted {
            service_time_ns: x,
            rt_service_time_ns: x,
            rt_pps: rho / x * 1e9,
            total_pps: 1e9 / x,
            target_ns: 6.0 * x,
        };
        let one_port = Polled {
            ports: 1,
            device_budget: DEVICE_BUDGET,
        };
        Ok(wanted.engine(one_port)?.be_ring_budget)
    };
    for (id, budget, stated) in [("LL-29", budget(0.3)?, 4), ("LL-30", budget(0.5)?, 3)] {
        v.shape(
            id,
            Shape {
                judged: "the planner's budget",
                holds: budget == stated,
                rule: &format!("exactly {stated}"),
                effect: "a formula",
                model: budget.into(),
                note: "as printed by rxlane-lab plan",
            },
        );
    }
    Ok(())
}
