//! Rows of "How Do Multiple Network Cards Influence the Software Router Performance?", VI.

use rxlane_sim::SimError;

use super::PAPER;
use crate::interval::{Interval, every};
use crate::judge::{Baseline, FIT, Number, PREDICT, Shape, Verdicts};
use crate::table::{Data, Rows};

pub(super) const LOAD: &str = "traffic.pps";
pub(super) const NICS: [&str; 3] = ["2 NICs", "3 NICs", "4 NICs"];
const LOSS: f64 = 1e-3;
/// Steps of the sweep, pps.
const STEP: f64 = 0.05e6;

pub(super) fn judge(data: &Data, v: &mut Verdicts) -> Result<(), SimError> {
    let (cbr, poisson) = (data.of("fig-4.toml"), data.of("fig-5-6.toml"));
    costs(cbr, v)?;
    interrupts(poisson, v);
    patterns(cbr, poisson, v);
    shapes(poisson, v);
    Ok(())
}

fn costs(cbr: &Rows, v: &mut Verdicts) -> Result<(), SimError> {
    let most = cbr.points("2 NICs", &[], LOAD, "loss").stays_within(LOSS);
    v.number(
        "NIC-01",
        &Number {
            judged: "highest load without loss, 2 NICs, Mpps",
            model: most.times(1e-6),
            stated: 0.9,
            tolerance: FIT,
            effect: Err("a level"),
            note: "steps of 0.05 Mpps, loss up to 0.1 %",
        },
    );
    let scenario = PAPER.read("fig-4.toml", &[])?.point(0)?.scenario;
    let (packet, tx) = (scenario.cpu.packet_ns, scenario.cpu.tx_clean_ns);
    let rest: f64 = scenario.stage.iter().map(|s| s.packet_ns).sum();
    for (id, model, stated, note) in [
        (
            "NIC-02",
            packet + tx + rest,
            1111.0,
            "what 940 + 154 leave of 1111 is a stage of its own",
        ),
        ("NIC-03", packet, 940.0, ""),
        ("NIC-04", tx, 154.0, ""),
    ] {
        v.number(
            id,
            &Number {
                judged: "the cost in machine.toml, ns",
                model: Interval::exact(model),
                stated,
                tolerance: 0.0,
                effect: Err("a cost of the paper, taken over"),
                note,
            },
        );
    }
    Ok(())
}

fn interrupts(poisson: &Rows, v: &mut Verdicts) {
    let at = |case: &str, metric: &str| poisson.get(case, &[(LOAD, 0.3e6)], metric);
    let cpu = |case: &str| at(case, "cpu").times(100.0);
    let number = |judged, model, stated| Number {
        judged,
        model,
        stated,
        tolerance: PREDICT,
        effect: Err("a level"),
        note: "",
    };
    let (irq, busy) = (at("2 NICs", "irq_per_s"), cpu("2 NICs"));
    v.number(
        "NIC-05",
        &Number {
            tolerance: FIT,
            ..number("interrupts a second of 2 NICs", irq, 270_000.0)
        },
    );
    v.number(
        "NIC-06",
        &Number {
            tolerance: FIT,
            note: "the paper's ISR cost of 3400 ns is 3400 cycles, 1700 ns: with 3400 ns this row would be 125 %",
            ..number("CPU of 2 NICs, %", busy, 79.0)
        },
    );
    let from_two = |model: Interval, stated| {
        Ok(Baseline {
            what: "2 NICs",
            model: model.mean,
            stated,
        })
    };
    v.number(
        "NIC-07",
        &Number {
            effect: from_two(irq, 270_000.0),
            note: "more interrupts than packets: Tx completions interrupt too",
            ..number(
                "interrupts a second of 4 NICs",
                at("4 NICs", "irq_per_s"),
                310_000.0,
            )
        },
    );
    v.number(
        "NIC-08",
        &Number {
            effect: from_two(busy, 79.0),
            ..number("CPU of 4 NICs, %", cpu("4 NICs"), 86.0)
        },
    );
    let curves = NICS.map(|case| poisson.points(case, &[], LOAD, "irq_per_s"));
    let peaks = curves.each_ref().map(|c| c.peak().0);
    // A step further away than the neighbours it is lower beyond chance, so that the peak is where it seems.
    let apart = every(&curves, |c| {
        let (at, top) = c.peak();
        (at - 0.3e6).abs() <= STEP + 1.0
            && [-3.0, 3.0].iter().all(|n| top.above(c.at(at + n * STEP)))
    });
    v.shape(
        "NIC-09",
        Shape {
            judged: "load at which interrupts a second are highest",
            holds: apart,
            rule: "within a step of 0.05 Mpps of 0.3, and less three steps away, for each number of NICs",
            effect: "from there on polls find more than one packet",
            model: peaks.map(|p| format!("{:.2}", p / 1e6)).join(", ").into(),
            note: "the top is flat",
        },
    );
    let left = curves.each_ref().map(|c| c.at(0.9e6).over(c.peak().1));
    let most = Interval::highest(left);
    v.shape(
        "NIC-10",
        Shape {
            judged: "interrupts a second at 0.9 Mpps, of the highest",
            holds: every(left, |x| x.at_most(0.05)),
            rule: "at most 5 %, for each number of NICs",
            effect: "a saturated core is polled",
            model: format!("{:.1} %", most.mean * 100.0).into(),
            note: "",
        },
    );
}

fn patterns(cbr: &Rows, poisson: &Rows, v: &mut Verdicts) {
    let mut compared = Vec::new();
    for case in NICS {
        for metric in ["irq_per_s", "cpu"] {
            let of = |rows: &Rows| rows.points(case, &[], LOAD, metric).between(0.1e6, 0.5e6);
            let (cbr, poisson) = (of(cbr), of(poisson));
            for (load, poisson) in poisson.0 {
                // Both full: nothing to tell.
                if metric == "irq_per_s" || poisson.mean <= 0.99 {
                    compared.push(cbr.at(load).mean > poisson.mean);
                }
            }
        }
    }
    let lower = compared.iter().filter(|lower| **lower).count();
    let share = lower as f64 / compared.len() as f64;
    v.shape("NIC-11", Shape {
        judged: "interrupts and CPU from 0.1 to 0.5 Mpps, for each number of NICs",
        holds: share >= 0.8,
        rule: "lower with Poisson arrivals than with CBR at 80 % of the points at least",
        effect: "bursts share interrupts",
        model: format!("{:.0} % of the points", share * 100.0).into(),
        note: "exact spacing locks ports in phase: the difference depends on start phases, which are averaged here",
    });
}

fn shapes(poisson: &Rows, v: &mut Verdicts) {
    let of = |metric: &str| NICS.map(|c| poisson.points(c, &[], LOAD, metric));
    let loads: Vec<f64> = of("cpu")[0]
        .between(0.1e6, 0.8e6)
        .0
        .iter()
        .map(|p| p.0)
        .collect();
    let grows = |metric: &str, full: f64| {
        let curves = of(metric);
        every(&loads, |load| {
            let [two, three, four] = curves.each_ref().map(|c| c.at(*load));
            three.above(two) && four.above(three) || two.at_least(full)
        })
    };
    v.shape(
        "NIC-12",
        Shape {
            judged: "mean latency of 2, 3 and 4 NICs",
            holds: grows("latency_us.mean", f64::INFINITY),
            rule: "grows at every load from 0.1 to 0.8 Mpps",
            effect: "more devices, more interrupts and turns",
            model: latencies(poisson, 0.6e6).into(),
            note: "",
        },
    );
    let convex = every(&of("latency_us.mean"), |y| {
        let [a, b, c] = [0.2e6, 0.5e6, 0.8e6].map(|x| y.at(x));
        c.minus(b).above(b.minus(a)) && y.at(1.0e6).above(c.times(20.0))
    });
    v.shape("NIC-13", Shape {
        judged: "mean latency over the load",
        holds: convex,
        rule: "the rise from 0.5 to 0.8 Mpps above that from 0.2 to 0.5; at 1.0 more than 20 times that at 0.8",
        effect: "a queue near its capacity, and beyond it",
        model: latencies(poisson, 0.8e6).into(),
        note: "bounded by the rings: n x 512 x 1.111 us",
    });
    v.shape(
        "NIC-14",
        Shape {
            judged: "CPU of 2, 3 and 4 NICs",
            holds: grows("cpu", 0.99),
            rule: "grows at every load from 0.1 to 0.8 Mpps, unless all are full",
            effect: "more devices, more interrupts",
            model: NICS
                .map(|c| {
                    let cpu = poisson.get(c, &[(LOAD, 0.3e6)], "cpu").mean;
                    format!("{:.0} %", cpu * 100.0)
                })
                .join(", ")
                .into(),
            note: "",
        },
    );
}

fn latencies(rows: &Rows, load: f64) -> String {
    let us = NICS.map(|c| {
        let us = rows.get(c, &[(LOAD, load)], "latency_us.mean").mean;
        format!("{us:.1}")
    });
    format!("{} us at {} Mpps", us.join(", "), load / 1e6)
}
