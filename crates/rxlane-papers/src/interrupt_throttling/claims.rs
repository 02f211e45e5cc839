//! Statements of "Optimizing Latency and CPU Load in Packet Processing Systems" that no row judges.

use std::collections::BTreeSet;

use rxlane_policy::throttle::{Elapsed, LinearLaw, Sample, ThreeState, ThreeStateRates, Throttle};
use rxlane_policy::{Nanos, Pps};
use rxlane_sim::SimError;

use super::PAPER;
use super::rows::{LAST, LATENCY, LOSS, curve};
use crate::claims::{Claims, list, shown};
use crate::interval::{Interval, every};
use crate::profile::machine;
use crate::table::{Data, Rows};
use crate::{low_latency_router, multiple_nics};

pub(super) fn judge(data: &Data, c: &mut Claims) -> Result<(), SimError> {
    let rows = data.of("fig-3-8.toml");
    let cpu = machine(&PAPER)?.cpu;
    without(rows, (cpu.packet_ns, cpu.isr_ns), c);
    default(rows, c);
    improved(rows, c);
    arithmetic(cpu.packet_ns + cpu.isr_ns, c)?;
    across(c)
}

fn without(rows: &Rows, (packet_ns, isr_ns): (f64, f64), c: &mut Claims) {
    let of = |metric: &str| curve(rows, "off", metric);
    let (latency, irq, loss) = (of(LATENCY), of("irq_per_s"), of("loss"));
    let [a, b] = [0.02e6, 0.2e6].map(|x| latency.at(x));
    c.rule(
        "R002-002",
        a.above(b),
        "latency at 0.02 Mpps above that at 0.2",
        list([a, b], 1.0) + " us",
    );
    let below = latency.between(0.0, LAST);
    let lowest = Interval::lowest(below.values()).mean;
    let at = below.0.iter().find(|p| p.1.mean == lowest);
    let at = at.map_or(f64::NAN, |p| p.0);
    c.rule(
        "R002-003",
        (at - 0.5e6).abs() <= 0.1e6,
        "latency lowest within 0.1 Mpps of 0.5, where CPU reaches 100 %",
        format!("at {} Mpps", shown(at / 1e6)),
    );
    let falling = [0.5e6, 1.0e6, 1.5e6, 2.0e6].map(|x| irq.at(x));
    c.rule(
        "R002-004",
        every(falling.windows(2), |w| w[0].above(w[1])) && loss.at(LAST).at_most(LOSS),
        "interrupts fall from 0.5 over 1.0 and 1.5 to 2.0 Mpps, and loss at 2.05 is 0.1 % at most",
        list(falling, 1.0),
    );
    let beyond = Interval::highest(irq.between(2.2e6, 2.5e6).values()).over(irq.peak().1);
    c.rule(
        "R002-024",
        beyond.at_most(0.01),
        "interrupts from 2.2 Mpps on at most 1 % of the highest",
        list([beyond], 100.0) + " %",
    );
    let law = |x: f64| (1.0 - x * packet_ns * 1e-9) / (isr_ns * 1e-9);
    c.rule(
        "C2",
        every([1.0e6, 1.5e6, 1.8e6], |x| irq.at(x).within(0.05, law(x))),
        "interrupts at 1.0, 1.5 and 1.8 Mpps within 5 % of (1 - lambda x) / c",
        list([1.0e6, 1.5e6, 1.8e6].map(|x| irq.at(x)), 1.0),
    );
    let range = latency.between(0.4e6, 1.5e6);
    let mean = Interval::mean_of(range.values());
    c.rule(
        "C8",
        mean.at_most(2.0),
        "mean latency from 0.4 to 1.5 Mpps at most 2 us without what is outside of the core",
        shown(mean.mean) + " us",
    );
}

fn default(rows: &Rows, c: &mut Claims) {
    let of = |case: &str, metric: &str| curve(rows, case, metric);
    let irq = of("default", "irq_per_s");
    // 20 MB/s are 0.3125 Mpps of 64 bytes.
    let full = irq.0.iter().find(|(x, y)| *x > 0.1e6 && y.at_most(8000.0));
    let full = full.map_or(f64::NAN, |p| p.0);
    c.rule(
        "R002-012",
        (full - 0.3125e6).abs() <= 0.05e6,
        "the first load with at most 8000 interrupts a second within a step of 0.05 Mpps of 0.3125, 20 MB/s",
        format!("{} Mpps", shown(full / 1e6)),
    );
    let mean = |case: &str| Interval::mean_of(of(case, LATENCY).between(0.4e6, 1.5e6).values());
    let times = mean("default").over(mean("off"));
    c.rule(
        "R002-014",
        times.at_least(5.0) && times.at_most(20.0),
        "mean latency from 0.4 to 1.5 Mpps 5 to 20 times that without throttling",
        shown(times.mean) + " times",
    );
    let plateau = of("default", LATENCY).between(0.4e6, 1.9e6);
    let (low, high) = (
        Interval::lowest(plateau.values()),
        Interval::highest(plateau.values()),
    );
    c.rule(
        "C5",
        low.at_least(0.95 * 62.5) && high.at_most(1.05 * 62.5),
        "latency from 0.4 to 1.9 Mpps within 5 % of 62.5 us",
        list([low, high], 1.0) + " us",
    );
}

fn improved(rows: &Rows, c: &mut Claims) {
    let of = |metric: &str| ["off", "default", "improved"].map(|case| curve(rows, case, metric));
    let [off, default, better] = of("cpu");
    c.rule(
        "R002-019",
        every(default.between(0.15e6, 2.0e6).0, |(x, d)| {
            better.at(x).above(d)
        }),
        "CPU of the improved law above the default's at every load from 0.15 to 2.0 Mpps",
        list([default.at(0.5e6), better.at(0.5e6)], 100.0) + " % at 0.5 Mpps",
    );
    let served = of("throughput_pps");
    let cycles = |cpu: Interval, n: usize| cpu.over(served[n].at(0.5e6)).times(3.3e9);
    let (many, few) = (cycles(off.at(0.5e6), 0), cycles(default.at(0.5e6), 1));
    c.rule(
        "R002-023",
        many.above(few.times(1.5)),
        "cycles a packet at 0.5 Mpps without throttling one and a half times the default's",
        list([many, few], 1.0),
    );
    let [_, default, better] = of("load_latency_cycles_us");
    c.rule(
        "R002-021",
        every(default.between(0.3e6, 1.5e6).0, |(x, d)| {
            d.above(better.at(x))
        }),
        "the improved law's product lower at every load from 0.3 to 1.5 Mpps",
        list([better.at(0.5e6).over(default.at(0.5e6))], 1.0) + " of the default's at 0.5 Mpps",
    );
    let ends = [0.05e6, LAST].map(|x| better.at(x).over(default.at(x)));
    c.rule(
        "R002-022",
        every(ends, |x| x.within(0.1, 1.0)),
        "the improved law's product within 10 % of the default's at 0.05 and at 2.05 Mpps",
        list(ends, 1.0),
    );
    let [off, default, better] = of(LATENCY);
    let closed = |x: f64| {
        let [off, default, better] = [&off, &default, &better].map(|y| y.at(x));
        default.minus(better).over(default.minus(off)).mean
    };
    c.rule(
        "C6",
        every(off.between(0.3e6, 1.1e6).0, |(x, _)| closed(x) >= 0.75) && closed(1.9e6) < 0.75,
        "the improved law closes 75 % of the gap in latency between default and off from 0.3 to 1.1 Mpps, and less at 1.9",
        [0.5e6, 1.1e6, 1.9e6].map(|x| shown(closed(x))).join(", "),
    );
}

/// The interval at which a throttle settles when so many bytes come in each real interval.
fn settled(elapsed: Elapsed, bytes_per_us: u64, real: Nanos) -> Result<Nanos, SimError> {
    let mut state = ThreeState::new(elapsed, ThreeStateRates::default())?;
    let sample = Sample {
        packets: 1,
        bytes: bytes_per_us * real.0 / 1000,
        elapsed: real,
    };
    let mut interval = Nanos(0);
    for _ in 0..200 {
        interval = state.update(sample);
    }
    Ok(interval)
}

fn arithmetic(first_ns: f64, c: &mut Claims) -> Result<(), SimError> {
    let law = LinearLaw::default();
    let span = law.interrupts_per_second(Pps(0.0)) / law.interrupts_per_second(Pps(2.1e6));
    c.computed(
        "R002-015",
        "the policy's highest rate over its lowest",
        span,
        12.5,
        1e-9,
    );
    c.computed(
        "R002-016",
        "the policy's highest rate of packets, Mpps",
        law.rho_max_pps / 1e6,
        2.1,
        0.0,
    );
    let real = Nanos(1_000_000);
    let steps: Vec<(u64, Nanos)> = (1..=40)
        .map(|rate| settled(Elapsed::Measured, rate, real).map(|at| (rate, at)))
        .collect::<Result<_, _>>()?;
    let changes: Vec<u64> = steps
        .windows(2)
        .filter(|w| w[0].1.0.abs_diff(w[1].1.0) > w[0].1.0 / 10)
        .map(|w| w[0].0)
        .collect();
    let sum: u64 = changes.iter().sum();
    c.computed(
        "R002-017",
        "MB/s up to which the policy's states last, summed",
        if changes.len() == 2 {
            sum as f64
        } else {
            f64::NAN
        },
        10.0 + 20.0,
        0.0,
    );
    let rates: BTreeSet<u64> = steps.iter().map(|s| s.1.0 / 1000).collect();
    c.computed(
        "R002-026",
        "intervals at which the policy settles",
        rates.len() as f64,
        3.0,
        0.0,
    );
    let [assumed, measured] = [Elapsed::Assumed, Elapsed::Measured]
        .map(|elapsed| settled(elapsed, 8, real).map(|at| at.0 as f64));
    c.computed(
        "R002-025",
        "interval at 8 MB/s in polls 1 ms apart where time is assumed, over that where it is measured",
        assumed? / measured?,
        12.5,
        0.05,
    );
    c.computed(
        "C1",
        "a packet and an interrupt, ns",
        first_ns,
        2000.0,
        0.05,
    );
    c.computed("C3", "2300 us x 2.1 Mpps", 2300e-6 * 2.1e6, 4830.0, 1e-9);
    let apart = (20e6 - 10e6) / 64.0 / 1e6;
    c.computed(
        "C4",
        "Mpps of 64 bytes between 10 and 20 MB/s",
        apart,
        0.3125 - 0.156,
        0.01,
    );
    let beyond = law.r_max - 2.5e6 / law.rho_max_pps * (law.r_max - law.r_min);
    c.computed("C7", "the formula at 2.5 Mpps", beyond, -9524.0, 0.001);
    Ok(())
}

/// Against other papers.
fn across(c: &mut Claims) -> Result<(), SimError> {
    let mut cycles = Vec::new();
    for paper in [&multiple_nics::PAPER, &low_latency_router::PAPER, &PAPER] {
        let m = machine(paper)?;
        let stages: f64 = m.stage.iter().map(|s| s.packet_ns).sum();
        cycles.push((m.cpu.packet_ns + m.cpu.tx_clean_ns + stages) * m.cpu.clock_ghz);
    }
    let least = (cycles[0] / cycles[1]).min(cycles[1] / cycles[2]);
    c.computed_at_least(
        "F1",
        "least of the two ratios of cycles a packet, one paper to the next",
        least,
        1.05,
    );
    Ok(())
}
