//! Statements of "Building a Low Latency Linux Software Router" that no row judges.

mod interrupts;
mod latency;

use rxlane_policy::plan::{Polled, Wanted};
use rxlane_policy::poll::DEVICE_BUDGET;
use rxlane_sim::SimError;
use rxlane_sim::scenario::Scenario;

use super::PAPER;
use super::rows::{FULL, LL, LOAD, LOSS, RATIO, STEP, max_throughput};
use crate::claims::{Claims, list, shown};
use crate::interrupt_throttling;
use crate::interval::{Interval, every};
use crate::multiple_nics;
use crate::profile::machine;
use crate::table::{Data, Rows};

const ALL: [&str; 4] = ["SQ", "RR", "LL-RR", "LL-WFQ"];

pub(super) fn judge(data: &Data, c: &mut Claims) -> Result<(), SimError> {
    let over_load = data.of("fig-5b-6b-7b.toml");
    let over_ratio = data.of("fig-6a-7a.toml");
    let scenario = PAPER.read("fig-5a.toml", &[])?.point(0)?.scenario;
    throughput(data.of("fig-5a.toml"), over_load, c);
    only_interrupts(data.of("livelock.toml"), c);
    utilisation(over_load, c);
    interrupts::judge(over_load, over_ratio, c);
    latency::judge(over_load, over_ratio, c);
    latency::longest(data.of("vmdq.toml"), &scenario, c);
    arithmetic(&scenario, c)?;
    across(c)
}

fn throughput(rows: &Rows, over_load: &Rows, c: &mut Claims) {
    let ratios = rows.values(RATIO);
    let all = |case: &'static str| ratios.iter().map(move |r| max_throughput(rows, case, *r));
    let [sq, rr, llrr, wfq] = ALL.map(|case| Interval::mean_of(all(case)));
    c.rule(
        "R000-001",
        sq.above(rr),
        "highest load of SQ without loss above that of RR, beyond their intervals",
        list([sq, rr], 1e-6),
    );
    let (low, high) = (Interval::lowest(all("SQ")), Interval::highest(all("SQ")));
    c.rule(
        "R000-015",
        high.minus(low).at_most(STEP + 1.0),
        "highest load of SQ without loss within a step of 0.05 Mpps over all RT ratios",
        list([low, high], 1e-6),
    );
    let end = || ratios.iter().copied().filter(|r| *r >= 0.9 - 1e-9);
    let at = |case: &str| Interval::mean_of(end().map(|r| max_throughput(rows, case, r)));
    c.rule(
        "R000-017",
        every(end(), |r| {
            max_throughput(rows, "LL-WFQ", r).mean >= max_throughput(rows, "SQ", r).mean
        }),
        "highest load of LL-WFQ without loss at least SQ's at every RT ratio from 90 %",
        list([at("LL-WFQ"), at("SQ")], 1e-6),
    );
    let ll = Interval::mean_of([llrr, wfq]);
    c.rule(
        "R000-074",
        ll.within(0.05, sq.mean),
        "highest load of LL without loss within 5 % of SQ's",
        list([ll, sq], 1e-6),
    );
    let lost = ALL.map(|case| over_load.get(case, &[(LOAD, 1.5e6)], "loss"));
    c.rule(
        "R000-021",
        every(lost, |x| x.at_most(LOSS)),
        "loss at 1.5 Mpps and 30 % RT at most 0.1 % with each strategy",
        list(lost, 100.0) + " %",
    );
    // Where SQ ends, by each of four signs.
    let of = |metric: &str| over_load.points("SQ", &[], LOAD, metric);
    let (irq, latency) = (of("irq_per_s"), of("latency_us.mean"));
    let few = irq.at(1.5e6).mean * 0.2;
    let last = irq.between(1.5e6, 2.0e6);
    let polled = last.0.iter().find(|p| p.1.mean <= few);
    let ends = [
        sq.mean,
        of("cpu").reaches(FULL).mean,
        polled.map_or(f64::NAN, |p| p.0),
        latency.reaches(1.5 * latency.at(1.5e6).mean).mean,
    ]
    .map(Interval::exact);
    let apart = Interval::highest(ends).minus(Interval::lowest(ends));
    c.rule(
        "B2",
        apart.at_most(2.0 * STEP),
        "highest load without loss, load at 99.5 % of CPU, first load with a fifth of the interrupts at 1.5 Mpps and load with 1.5 times its latency lie within 0.1 Mpps",
        list(ends, 1e-6),
    );
}

fn only_interrupts(rows: &Rows, c: &mut Claims) {
    let forwarded = rows.points("interrupts only", &[], LOAD, "throughput_pps");
    let [low, high] = [0.4e6, 1.5e6].map(|x| forwarded.at(x));
    c.rule(
        "R000-004",
        low.within(0.05, 0.4e6) && high.at_most(0.01 * 1.5e6),
        "with an interrupt a packet all of 0.4 Mpps is forwarded, and at most 1 % of 1.5 Mpps",
        list([low, high], 1e-6) + " Mpps",
    );
}

fn utilisation(rows: &Rows, c: &mut Claims) {
    let cpu = |case: &str| rows.points(case, &[], LOAD, "cpu");
    let sq = cpu("SQ");
    let alike = every(LL, |case| {
        every(&sq.0, |(x, y)| {
            cpu(case).at(*x).minus(*y).mean.abs() <= 0.02
        })
    });
    c.rule(
        "R000-023",
        alike,
        "CPU of LL-RR and LL-WFQ within 2 percentage points of SQ's at every load",
        if alike { "alike" } else { "different" },
    );
    let bend = sq.between(0.7e6, 1.65e6).bend();
    c.rule(
        "R000-026",
        bend <= 0.1,
        "SQ's CPU from 0.7 to 1.65 Mpps within 10 % of the straight line through its ends",
        format!("{} %", shown(bend * 100.0)),
    );
    let at = ALL.map(|case| cpu(case).at(1.5e6));
    let lost = ALL.map(|case| rows.get(case, &[(LOAD, 1.5e6)], "loss"));
    c.rule(
        "R000-030",
        every(at, |x| x.at_least(0.95)) && every(lost, |x| x.at_most(LOSS)),
        "CPU at 1.5 Mpps at least 95 % and loss at most 0.1 % with each strategy",
        list(at, 100.0) + " %",
    );
}

/// What needs no simulation.
fn arithmetic(scenario: &Scenario, c: &mut Claims) -> Result<(), SimError> {
    let budget = f64::from(DEVICE_BUDGET);
    c.computed("R000-005", "the policy's device budget", budget, 64.0, 0.0);
    c.computed("R000-010", "1 / 1.75 Mpps, us", 1.0 / 1.75, 0.6, 0.05);
    c.computed(
        "R000-011",
        "half of the device budget",
        budget / 2.0,
        32.0,
        0.0,
    );
    let wanted = Wanted {
        service_time_ns: 600.0,
        rt_service_time_ns: 600.0,
        rt_pps: 0.3 / 600.0 * 1e9,
        total_pps: 1e9 / 600.0,
        target_ns: 6.0 * 600.0,
    };
    let plan = wanted.engine(Polled {
        ports: 1,
        device_budget: DEVICE_BUDGET,
    })?;
    c.computed(
        "R000-012",
        "the planner's RT packets a turn",
        plan.rt_per_turn.unwrap_or(f64::NAN),
        1.7,
        0.05,
    );
    let line = |frame: u32| {
        let mut s = scenario.clone();
        s.traffic.frame = frame;
        s.line_rate().0
    };
    c.computed("R000-013", "line rate, Mpps", line(128) / 1e6, 8.45, 0.01);
    c.computed(
        "R000-022",
        "cores of 1.5 Mpps for the line rate of 64 bytes",
        (line(64) / 1.5e6).ceil(),
        10.0,
        0.0,
    );
    c.computed("R000-046", "half of RR's 1.6 Mpps", 1.6 * 0.5, 0.8, 1e-9);
    c.computed("R000-047", "30 % of 2.0 Mpps", 2.0 * 0.3, 0.6, 1e-9);
    c.computed(
        "B1",
        "32 packets at 1.75 Mpps, us",
        32.0 / 1.75,
        18.3,
        0.005,
    );
    c.computed("B3", "1 - 20,000 / 32,000", 1.0 - 20.0 / 32.0, 0.375, 1e-9);
    c.computed(
        "B6",
        "(1 - 1.5 Mpps x 0.606 us) / 58,000, us",
        (1.0 - 1.5 * 0.606) / 0.058,
        1.57,
        0.01,
    );
    let outside = scenario.nic.fixed_latency_us;
    c.computed("B8", "the fitted latency outside, us", outside, 7.2, 0.05);
    let hours = 40.0 * 21.0 * 60.0 / 3600.0;
    c.computed(
        "B12",
        "40 loads, 21 ratios, 60 s, in hours",
        hours,
        14.0,
        0.0,
    );
    let close = 1.0 - (-1.5e6 / line(128)).exp();
    c.computed("B13", "share of shorter gaps", close, 1.0 / 6.0, 0.05);
    Ok(())
}

/// Against other papers.
fn across(c: &mut Claims) -> Result<(), SimError> {
    let cycles = |paper| machine(paper).map(|m| m.cpu.isr_ns * m.cpu.clock_ghz);
    let ratio = cycles(&interrupt_throttling::PAPER)? / cycles(&multiple_nics::PAPER)?;
    c.computed_at_least(
        "F2",
        "cycles of interrupt-throttling over those of multiple-nics",
        ratio,
        1.2,
    );
    Ok(())
}
