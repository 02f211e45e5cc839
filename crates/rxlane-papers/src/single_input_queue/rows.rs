//! Rows of "Single Input Queue", IV.B.

use rxlane_policy::samples::{Samples, Tail};
use rxlane_sim::SimError;

use crate::interval::{Interval, every};
use crate::judge::{Baseline, FIT, Number, PREDICT, Shape, Verdicts};
use crate::table::{Curve, Data, Rows};

pub(super) const FRAME: &str = "traffic.frame";
/// The paper's sizes include the preamble.
const PREAMBLE: f64 = 8.0;
/// Loss that a plot in per cent shows.
pub(super) const VISIBLE: f64 = 0.01;

const SETS: &str = "the paper's two pairs exclude each other: of exponential loads, 0.12 and 0.75 below 10 % mean 78 % and 7 %, not 28.65 and 17.39 %";

/// Core loads of a case over all frame sizes.
pub(super) fn loads(rows: &Rows, case: &str) -> Samples {
    Samples::new(
        rows.matching(case, &[])
            .flat_map(|r| r.loads.iter().copied()),
    )
}

/// Share of the samples with a load below 10 %.
fn lightly_loaded(rows: &Rows, case: &str) -> Interval {
    let loads = loads(rows, case);
    if loads.is_empty() {
        return Interval::NONE;
    }
    Interval::share(loads.below(0.1), loads.len())
}

/// Largest frame, as the paper counts, that visibly loses in the kernel.
pub(super) fn loses_up_to(rows: &Rows, case: &str) -> Interval {
    let loss = rows.points(case, &[], FRAME, "loss_ring");
    // Read from the largest frame down, where loss begins.
    let down = |pick: &dyn Fn(&Interval) -> f64| {
        let points = loss.0.iter().rev().map(|(x, y)| (-x, pick(y)));
        PREAMBLE - crate::table::reaches(&points.collect::<Vec<_>>(), VISIBLE)
    };
    Interval {
        low: down(&|y| y.low),
        mean: down(&|y| y.mean),
        high: down(&|y| y.high),
    }
}

pub(super) fn judge(data: &Data, v: &mut Verdicts) -> Result<(), SimError> {
    let rows = data.of("fig-4-10.toml");
    core_load(rows, v);
    distribution(rows, v);
    loss(rows, v);
    Ok(())
}

fn core_load(rows: &Rows, v: &mut Verdicts) {
    let over = |case: &str| {
        rows.mean(case, "cpu", |r| {
            r.key(FRAME).is_some_and(|f| (492.0..=1192.0).contains(&f))
        })
    };
    v.number(
        "SIQ-01",
        &Number {
            judged: "load of core 0 once NET_RX has moved away, to its load before, 500 to 1200 bytes",
            model: over("core 0 freed").over(over("default")),
            stated: 0.1,
            tolerance: PREDICT,
            effect: Ok(Baseline { what: "no change", model: 1.0, stated: 1.0 }),
            note: "what is left is the other work of core 0, which no row that may be fitted gives apart",
        },
    );
    let (default, proposed) = (
        lightly_loaded(rows, "default"),
        lightly_loaded(rows, "proposed"),
    );
    v.number(
        "SIQ-02",
        &Number {
            judged: "share of samples of the default's core with a load below 10 %, over all frame sizes",
            model: default,
            stated: 0.12,
            tolerance: FIT,
            effect: Err("a level"),
            note: "",
        },
    );
    v.number(
        "SIQ-03",
        &Number {
            judged: "share of samples of the proposed system's core with a load below 10 %, over all frame sizes",
            model: proposed,
            stated: 0.75,
            tolerance: PREDICT,
            effect: Ok(Baseline { what: "the default", model: default.mean, stated: 0.12 }),
            note: SETS,
        },
    );
    let mean = |case: &str| rows.mean(case, "cpu", |_| true).times(100.0);
    let (before, after) = (mean("default"), mean("masked"));
    v.shape("SIQ-04", Shape {
        judged: "mean load of the core over all frame sizes, others' interrupts allowed and held off, nothing else changed",
        holds: before.within(PREDICT, 28.65)
            && after.within(PREDICT, 17.39)
            && after.farthest(17.39) < (28.65 - 17.39),
        rule: "within 15 % of 28.65 and of 17.39 %",
        effect: "interrupts of others, held off while NET_RX runs, make its packets cheaper",
        model: format!("{:.1} -> {:.1} %", before.mean, after.mean).into(),
        note: "the paper does not say over which frame sizes it averages, nor gives any absolute time; an interruption that waits is not saved, and makes no packet cheaper in the model, which has no caches",
    });
}

fn distribution(rows: &Rows, v: &mut Verdicts) {
    let tails = ["default", "proposed"].map(|case| loads(rows, case).tail());
    let describe = |t: &Tail| {
        format!(
            "alpha {:.1}, R2 {:.3} log-log, {:.3} semi-log",
            t.alpha, t.r2_power, t.r2_exponential
        )
    };
    v.shape("SIQ-08", Shape {
        judged: "the upper fifth of the samples of core load, default and proposed",
        holds: every(&tails, |t| t.long),
        rule: "slower than the fitted exponential, and straighter in log-log than in semi-log scale, for both",
        effect: "a long tail",
        model: tails.each_ref().map(describe).join("; ").into(),
        note: "a load that ends at 100 % cannot have a long tail in the strict sense; the paper sees one where the exponential fits badly",
    });
}

fn loss(rows: &Rows, v: &mut Verdicts) {
    v.number(
        "SIQ-05",
        &Number {
            judged: "the largest frame with a kernel loss of 1 %, bytes with preamble",
            model: loses_up_to(rows, "default"),
            stated: 500.0,
            tolerance: FIT,
            effect: Err("a level"),
            note: "",
        },
    );
    let lost = |case: &str| -> Curve {
        rows.points(case, &[], FRAME, "loss_ring")
            .between(192.0, 1192.0)
    };
    let proposed = lost("proposed");
    let worst = Interval::highest(proposed.values());
    v.shape(
        "SIQ-06",
        Shape {
            judged: "kernel loss of the proposed system from 200 to 1200 bytes, %",
            holds: every(proposed.values(), |x| x.at_most(0.0))
                && every(lost("default").between(192.0, 312.0).values(), |x| {
                    x.at_least(VISIBLE)
                }),
            rule: "0 at every size, while the default loses 1 % and more up to 320 bytes",
            effect: "rings by the packet rate, on the core that has least to do",
            model: (worst.mean * 100.0).into(),
            note: "",
        },
    );
    let app = rows.points("proposed", &[], FRAME, "loss_socket");
    let (top_at, top) = app.peak();
    let begins = app.0.iter().rev().find(|(_, loss)| loss.at_least(VISIBLE));
    let begins = begins.map_or(f64::NAN, |p| p.0);
    let smallest = app.0.first().map_or(Interval::NONE, |p| p.1);
    v.shape(
        "SIQ-07",
        Shape {
            judged: "application loss of the proposed system over the frame size",
            holds: top_at < begins && top.above(smallest),
            rule: "grows to smaller frames, and is lower again at the smallest",
            effect: "what the kernel loses spares the application",
            model: format!(
                "from {:.0} bytes, {:.0} % at {:.0}, {:.0} % at 72",
                begins + PREAMBLE,
                top.mean * 100.0,
                top_at + PREAMBLE,
                smallest.mean * 100.0
            )
            .into(),
            note: "where it begins is not judged: the application's rate is an input, what the wire carries at 380 bytes. Its loss turns where the kernel begins to lose; with the costs that SIQ-02 and SIQ-05 allow, the kernel of the proposed system keeps up with 72 bytes, and a NIC that drops costs no CPU, so nothing relieves the application",
        },
    );
}
