//! Rows of "Beyond Softnet", 2 and 5.

use rxlane_sim::SimError;
use rxlane_sim::outcome::jain;

use crate::interval::{Interval, every};
use crate::judge::{Baseline, FIT, Number, PREDICT, Shape, Verdicts};
use crate::table::{Curve, Data, Rows};

pub(super) const LOAD: &str = "traffic.pps";
/// A forwarding rate is loss-free up to here: the backlog takes up a Poisson burst now and then.
const LOSS: f64 = 0.005;

/// Descriptors of `rings.toml`.
const RINGS: [f64; 3] = [32.0, 64.0, 128.0];

pub(super) fn forwarded(rows: &Rows, case: &str) -> Curve {
    rows.points(case, &[], LOAD, "throughput_pps")
}

/// Maximum loss-free forwarding rate, between points.
pub(super) fn mlffr(rows: &Rows, case: &str) -> Interval {
    rows.points(case, &[], LOAD, "loss").reaches(LOSS)
}

pub(super) fn judge(data: &Data, v: &mut Verdicts) -> Result<(), SimError> {
    let rows = data.of("fig-4-6.toml");
    collapse(rows, v);
    overload(rows, v);
    latency(rows, data.of("rings.toml"), v);
    reordering(data.of("smp.toml"), v);
    fairness(rows, data.of("greedy.toml"), v);
    Ok(())
}

fn collapse(rows: &Rows, v: &mut Verdicts) {
    let plain = forwarded(rows, "plain");
    let dead = plain
        .0
        .iter()
        .find(|(pps, forwarded)| *pps >= 30e3 && forwarded.at_most(1_000.0));
    v.number(
        "SOFT-01",
        &Number {
            judged: "the first load at which less than 1 kpps is forwarded, kpps",
            model: Interval::exact(dead.map_or(f64::NAN, |p| p.0) / 1e3),
            stated: 60.0,
            tolerance: FIT,
            effect: Err("a level"),
            note: "",
        },
    );
    let most = mlffr(rows, "plain").times(1e-3);
    v.number(
        "SOFT-02",
        &Number {
            judged: "MLFFR of plain softnet, loss up to 0.5 %, kpps",
            model: most,
            stated: 27.0,
            tolerance: FIT,
            effect: Err("a level"),
            note: "",
        },
    );
    let ff = mlffr(rows, "FF");
    let curve = forwarded(rows, "FF");
    let flat = every([60e3, 80e3, 100e3, 140e3], |x| {
        curve.at(x).above(Interval::exact(0.95 * ff.mean))
    });
    v.shape(
        "SOFT-03",
        Shape {
            judged: "MLFFR of FF, and what it forwards beyond",
            holds: ff.within(PREDICT, 80e3) && ff.farthest(80e3) < 80e3 - 27e3 && flat,
            rule: "within 15 % of 80 kpps, and at least 95 % of it forwarded up to 140 kpps",
            effect: "feedback to the driver ends the livelock",
            model: format!(
                "{:.1} kpps, then {}",
                ff.mean / 1e3,
                if flat { "constant" } else { "less" }
            )
            .into(),
            note: "the shape holds. 80 kpps are 12.5 us a packet, less than the 20.4 us that the fitted kernel takes without any interrupt: FF ran on a kernel with other memory management (footnote 2)",
        },
    );
}

fn overload(rows: &Rows, v: &mut Verdicts) {
    let at = |case: &str| forwarded(rows, case).at(140e3);
    let [napi, ff, plain] = ["NAPI", "FF", "plain"].map(at);
    v.shape(
        "SOFT-04",
        Shape {
            judged: "forwarded at 140 kpps",
            holds: napi.above(ff)
                && ff.above(plain)
                && napi.at_least(0.98 * mlffr(rows, "NAPI").mean)
                && plain.at_most(0.1 * mlffr(rows, "plain").mean),
            rule: "NAPI above FF above plain; NAPI keeps 98 % of its MLFFR, plain less than 10 %",
            effect: "packets that cannot be served are dropped by the NIC, at no cost",
            model: format!(
                "NAPI {:.1}, FF {:.1}, plain {:.1} kpps",
                napi.mean / 1e3,
                ff.mean / 1e3,
                plain.mean / 1e3
            )
            .into(),
            note: "",
        },
    );
}

fn latency(rows: &Rows, rings: &Rows, v: &mut Verdicts) {
    let worst = |case: &str| {
        let curve = rows.points(case, &[], LOAD, "latency_us.mean");
        Interval::highest(curve.values()).times(1e-3)
    };
    // The ring is in no paper, so it must not decide.
    let of_ring = |case: &str, descriptors: f64| {
        let key = [("nic.descriptors", descriptors)];
        let curve = rings.points(case, &key, LOAD, "latency_us.mean");
        Interval::highest(curve.values()).times(1e-3)
    };
    let of_rings = |case: &str| RINGS.map(|n| of_ring(case, n));
    let shown = |all: [Interval; 3]| all.map(|x| format!("{:.2}", x.mean)).join(", ");
    let (napi, ff) = (of_rings("NAPI"), of_rings("FF"));
    v.shape(
        "SOFT-05",
        Shape {
            judged: "NAPI's mean latency under overload, with rings of 32, 64 and 128, ms",
            holds: every(napi, |x| x.at_most(1.0)),
            rule: "below 1 ms with each",
            effect: "a DMA ring is all that a packet waits in",
            model: shown(napi).into(),
            note: "a ring of 32 would do, but the paper does not give it",
        },
    );
    v.shape(
        "SOFT-06",
        Shape {
            judged: "FF's mean latency at its worst load, with rings of 32, 64 and 128, ms",
            holds: every(ff, |x| x.at_least(2.0)),
            rule: "above 2 ms with each",
            effect: "a packet waits in the backlog, too",
            model: shown(ff).into(),
            note: "",
        },
    );
    let ff = worst("FF");
    v.number("SOFT-07", &Number {
        judged: "plain softnet's mean latency at 30 kpps, ms",
        model: rows.get("plain", &[(LOAD, 30e3)], "latency_us.mean").times(1e-3),
        stated: 4.0,
        tolerance: PREDICT,
        effect: Ok(Baseline { what: "FF", model: ff.mean, stated: 2.0 }),
        note: "with a full backlog of 300 packets at the costs of kernel 2.3.99 (27 kpps). Section 5 measured 2.4.7; at its 65 % of 148.8 kpps, 10.3 us a packet, plain softnet has 2.9 ms in the mean, but FF is then never overloaded",
    });
}

fn reordering(rows: &Rows, v: &mut Verdicts) {
    let [plain, ff, napi] = ["plain", "FF", "NAPI"].map(|case| rows.get(case, &[], "reordered"));
    let sent = rows.get("plain", &[], "served").mean;
    v.shape(
        "SOFT-09",
        Shape {
            judged: "packets that were overtaken, mean of 10 runs",
            holds: ff.above(napi) && plain.above(ff),
            rule: "fewest in NAPI, then FF, then plain, beyond their intervals",
            effect: "batches of an interrupt stay together",
            model: format!(
                "{:.0}, {:.0}, {:.0} of {sent:.0}",
                napi.mean, ff.mean, plain.mean
            )
            .into(),
            note: "NAPI's 0 is true by construction (SOFT-08)",
        },
    );
    v.shape(
        "SOFT-08",
        Shape {
            judged: "packets that were overtaken in NAPI",
            holds: napi.mean == 0.0,
            rule: "exactly 0",
            effect: "a device is polled by one core at a time",
            model: napi.mean.into(),
            note: "the model's NAPI has a device on one core only",
        },
    );
}

fn fairness(rows: &Rows, greedy: &Rows, v: &mut Verdicts) {
    let shares = |case: &str| -> Vec<Interval> {
        (0..4)
            .map(|nic| greedy.get(case, &[], &format!("throughput_pps.nic{nic}")))
            .collect()
    };
    // The worst that the intervals allow: most of the greedy, least of the quiet; and the best.
    let index = |shares: &[Interval]| {
        let of = |greedy: &dyn Fn(&Interval) -> f64, quiet: &dyn Fn(&Interval) -> f64| {
            let all = shares.iter().enumerate();
            jain(
                &all.map(|(i, s)| if i == 0 { greedy(s) } else { quiet(s) })
                    .collect::<Vec<_>>(),
            )
        };
        Interval {
            low: of(&|s| s.high, &|s| s.low),
            mean: of(&|s| s.mean, &|s| s.mean),
            high: of(&|s| s.low, &|s| s.high),
        }
    };
    let napi = shares("NAPI");
    let fair = index(&napi);
    // 120 kpps: 84 greedy, 12 each quiet. A quarter of NAPI's capacity is 12.25 kpps, so all are backlogged.
    let quiet = Interval::lowest(napi.iter().skip(1).copied()).times(1.0 / 12e3);
    v.shape(
        "SOFT-10",
        Shape {
            judged: "shares of four interfaces of which one offers 7 times as much as each other",
            holds: fair.at_least(0.95) && quiet.at_least(0.85),
            rule: "fairness index at least 0.95; the others keep 85 % of theirs",
            effect: "a quota a device and turn",
            model: format!(
                "index {:.3}, the quiet keep {:.0} %",
                fair.mean,
                quiet.mean * 100.0
            )
            .into(),
            note: "",
        },
    );
    let [ff, lie] = ["FF", "FF + Random Lie"].map(|case| index(&shares(case)));
    let at_mlffr = |case: &str| forwarded(rows, case).at(45e3);
    let (one, slower) = (at_mlffr("FF"), at_mlffr("FF + Random Lie"));
    v.shape(
        "SOFT-11",
        Shape {
            judged: "fairness index with a greedy interface, and what a single interface forwards at 45 kpps",
            holds: lie.above(ff) && one.above(slower),
            rule: "with Random Lie a higher index than FF alone, and less forwarded, beyond their intervals",
            effect: "lies throttle the greedy first, and cost throughput",
            model: format!(
                "index {:.3} against {:.3}; {:.1} against {:.1} kpps",
                lie.mean,
                ff.mean,
                slower.mean / 1e3,
                one.mean / 1e3
            )
            .into(),
            note: "",
        },
    );
}
