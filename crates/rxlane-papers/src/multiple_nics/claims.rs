//! Statements of "How Do Multiple Network Cards Influence the Software Router Performance?" that no row judges.

use rxlane_policy::throttle::Throttling;
use rxlane_sim::SimError;

use super::PAPER;
use super::rows::{LOAD, NICS};
use crate::claims::{Claims, list, shown};
use crate::interval::{Interval, every};
use crate::judge::PREDICT;
use crate::low_latency_router;
use crate::profile::machine;
use crate::table::{Curve, Data, Rows};

pub(super) fn judge(data: &Data, c: &mut Claims) -> Result<(), SimError> {
    let poisson = data.of("fig-5-6.toml");
    low_load(poisson, c);
    numbers(poisson, c);
    overload(poisson, c);
    phases(data.of("phases.toml"), c);
    arithmetic(c)
}

fn of(rows: &Rows, metric: &str) -> [Curve; 3] {
    NICS.map(|case| rows.points(case, &[], LOAD, metric))
}

fn low_load(rows: &Rows, c: &mut Claims) {
    let (cpu, irq) = (of(rows, "cpu"), of(rows, "irq_per_s"));
    let low = |y: &Curve| y.between(0.05e6, 0.25e6);
    let idle = every(&cpu, |y| every(low(y).values(), |x| x.at_most(0.5)));
    c.rule(
        "R001-015",
        idle,
        "CPU at most 50 % at every load up to 0.25 Mpps, for each number of NICs",
        list([0.1e6, 0.25e6].map(|x| cpu[0].at(x)), 100.0) + " % at 0.1 and 0.25 Mpps",
    );
    c.rule(
        "A4",
        cpu[0].at(0.15e6).at_least(0.5),
        "CPU of 2 NICs at 0.15 Mpps at least 50 %",
        list([cpu[0].at(0.15e6)], 100.0) + " %",
    );
    let each = |y: &Curve, x: f64| y.at(x).times(1.0 / x);
    let one = every(&irq, |y| {
        every(&low(y).0, |(x, _)| each(y, *x).within(PREDICT, 1.0))
    });
    c.rule(
        "R001-016",
        one,
        "interrupts a packet within 15 % of 1 at every load up to 0.25 Mpps, for each number of NICs",
        list([0.1e6, 0.25e6].map(|x| each(&irq[0], x)), 1.0) + " at 0.1 and 0.25 Mpps",
    );
    let bends: Vec<Interval> = irq
        .iter()
        .chain(&cpu)
        .map(|y| Interval::exact(low(y).bend()))
        .collect();
    c.rule(
        "R001-017",
        every(&bends, |b| b.at_most(0.1)),
        "interrupts and CPU up to 0.25 Mpps within 10 % of the straight lines through their ends, for each number of NICs",
        list(bends, 100.0) + " %",
    );
    let slope = |y: &Curve, from: f64, to: f64| y.at(to).minus(y.at(from)).times(1e6 / (to - from));
    c.rule(
        "R001-024",
        every(&cpu, |y| {
            slope(y, 0.1e6, 0.3e6).above(slope(y, 0.3e6, 0.6e6))
        }),
        "CPU rises less from 0.3 to 0.6 Mpps than from 0.1 to 0.3, for each number of NICs",
        list(
            [slope(&cpu[0], 0.1e6, 0.3e6), slope(&cpu[0], 0.3e6, 0.6e6)],
            1.0,
        ) + " a Mpps",
    );
    c.rule(
        "A3",
        irq[2].at(0.3e6).at_least(0.3e6),
        "interrupts a second of 4 NICs at 0.3 Mpps more than packets",
        list([irq[2].at(0.3e6)], 1.0),
    );
}

/// What the number of NICs changes.
fn numbers(rows: &Rows, c: &mut Claims) {
    let (cpu, irq) = (of(rows, "cpu"), of(rows, "irq_per_s"));
    let apart = [0.1e6, 0.2e6, 0.3e6].map(|x| cpu[2].at(x).minus(cpu[0].at(x)));
    c.rule(
        "R001-018",
        apart[1].above(apart[0]) && apart[2].above(apart[1]),
        "CPU of 4 NICs less that of 2 grows from 0.1 over 0.2 to 0.3 Mpps",
        list(apart, 100.0) + " %",
    );
    let full = cpu.each_ref().map(|y| y.reaches(0.99));
    let falls = |[two, three, four]: [Interval; 3]| two.above(three) && three.above(four);
    c.rule(
        "R001-026",
        falls(full),
        "load at which CPU reaches 99 % lower with every NIC more",
        list(full, 1e-6) + " Mpps",
    );
    let saturated = cpu.each_ref().map(|y| y.reaches(0.995));
    c.rule(
        "A8",
        every(saturated, |x| x.at_most(0.85e6)),
        "CPU reaches 99.5 % at 0.85 Mpps at most, for each number of NICs",
        list(saturated, 1e-6) + " Mpps",
    );
    let served = of(rows, "throughput_pps");
    let shared = |x: f64| [0, 1, 2].map(|n: usize| served[n].at(x).over(irq[n].at(x)));
    let loads = cpu[0].between(0.1e6, 0.5e6).0;
    c.rule(
        "R001-027",
        every(&loads, |(x, _)| falls(shared(*x))),
        "packets an interrupt fewer with every NIC more at every load from 0.1 to 0.5 Mpps, beyond which intervals overlap",
        list(shared(0.3e6), 1.0) + " at 0.3 Mpps",
    );
}

fn overload(rows: &Rows, c: &mut Claims) {
    let at = |metric: &str| of(rows, metric).map(|y| y.at(1.0e6));
    let (lost, served, us) = (at("loss"), at("throughput_pps"), at("latency_us.mean"));
    c.rule(
        "R001-029",
        every(lost, |x| x.at_least(0.05)),
        "loss at 1.0 Mpps at least 5 %, for each number of NICs",
        list(lost, 100.0) + " %",
    );
    c.rule(
        "R001-033",
        every(served, |x| x.within(0.05, served[0].mean)),
        "what 2, 3 and 4 NICs forward of 1.0 Mpps within 5 % of each other",
        list(served, 1e-6) + " Mpps",
    );
    let rings = [2.0, 3.0, 4.0].map(|n| n * 512.0 * 1.111);
    c.rule(
        "A7",
        every(us.iter().zip(rings), |(x, full)| x.within(PREDICT, full)),
        "mean latency at 1.0 Mpps within 15 % of n x 512 x 1.111 us",
        list(us, 1e-3) + " ms",
    );
}

fn phases(rows: &Rows, c: &mut Claims) {
    let half = |case: &str| rows.get(case, &[], "cpu").half();
    let (exact, jittered) = (half("exact"), half("jittered"));
    c.rule(
        "A6",
        exact >= 1.8 * jittered,
        "interval of CPU of 2 NICs at 0.2 Mpps over start phases 1.8 times as wide as with a jitter of a fifth of the gap, which an F test of 10 and 10 runs tells apart",
        format!("+- {} and {} %", shown(exact * 100.0), shown(jittered * 100.0)),
    );
}

fn arithmetic(c: &mut Claims) -> Result<(), SimError> {
    let machine_here = machine(&PAPER)?;
    let cpu = &machine_here.cpu;
    let cycles = 1111.0 * cpu.clock_ghz;
    c.computed(
        "R001-003",
        "cycles of 1111 ns at this clock",
        cycles,
        3667.0,
        PREDICT,
    );
    c.computed(
        "A1",
        "GHz at which 1111 ns are 3667 cycles",
        3667.0 / 1111.0,
        3.3,
        0.01,
    );
    let polling = (cpu.packet_ns + cpu.tx_clean_ns) / 1111.0;
    c.computed("R001-005", "share of 940 + 154 ns", polling, 0.985, 0.001);
    c.computed(
        "A5",
        "share of 940 + 154 ns",
        (940.0 + 154.0) / 1111.0,
        0.985,
        0.001,
    );
    c.computed(
        "R001-008",
        "the fitted cost, ns",
        cpu.isr_ns,
        3400.0,
        PREDICT,
    );
    let left = (0.79 - 0.3 * 1.111) / 0.27;
    c.computed(
        "A2",
        "(0.79 - 0.3 x 1.111) / 0.27 us, in cycles",
        left * 1e3 * cpu.clock_ghz,
        3400.0,
        0.01,
    );
    let budget = f64::from(machine_here.reception.device_budget);
    c.computed("R001-009", "device budget", budget, 64.0, 0.0);
    c.computed(
        "R001-010",
        "Tx work limit",
        f64::from(cpu.tx_work_limit),
        256.0,
        0.0,
    );
    let mut common = 0.0;
    for other in [machine_here, machine(&low_latency_router::PAPER)?] {
        common += f64::from(u8::from(other.interrupt.throttling == Throttling::Off));
        common += f64::from(u8::from(other.nic.descriptors == 512));
    }
    c.computed(
        "F3",
        "settings of the two machines that agree",
        common,
        4.0,
        0.0,
    );
    Ok(())
}
