//! Interrupts and latency over the RT ratio at 1.5 Mpps, V.B.3 and 4.

use super::{LL, RATIO, from_sq};
use crate::interval::{Interval, every};
use crate::judge::{FIT, Number, PREDICT, Shape, Verdicts};
use crate::table::Rows;

const RR_SERVICE: &str = "58k IRQ/s and 20k at 0 % RT both need a larger service time for RR (0.60 us: 1.65 Mpps), but the only rows that may set one are SQ's, and LL-07, where LL saturates as SQ does";
const RR_COSTS: &str = "the paper's RR starts at 20k with all traffic in one device, where SQ with the same traffic has 32k: the two cannot share one cost set, and only SQ's row may be fitted";
const LL_COSTS: &str = "mean of both. When a device is drained depends on its total backlog, which no ring budget changes, so LL differs from SQ only by the cost of classes; LL-07, the one row that may set that, says there is none (LL saturates where SQ does), and the paper itself says 10k lower where its numbers are 12k apart";

pub(super) fn judge(rows: &Rows, v: &mut Verdicts) {
    interrupts(rows, v);
    means(rows, v);
    orders(rows, v);
}

fn interrupts(rows: &Rows, v: &mut Verdicts) {
    let irq = |case: &str, ratio: f64| rows.get(case, &[(RATIO, ratio)], "irq_per_s");
    let sq = irq("SQ", 0.3);
    v.number(
        "LL-10",
        &Number {
            judged: "SQ's interrupts a second",
            model: sq,
            stated: 32_000.0,
            tolerance: FIT,
            effect: Err("a level"),
            note: "",
        },
    );
    let ll = LL.map(|case| rows.mean(case, "irq_per_s", |_| true));
    for (id, judged, model, stated, note) in [
        (
            "LL-11",
            "RR's interrupts a second at 0 % RT",
            irq("RR", 0.0),
            20_000.0,
            RR_COSTS,
        ),
        (
            "LL-12",
            "RR's interrupts a second at 50 % RT",
            irq("RR", 0.5),
            58_000.0,
            RR_SERVICE,
        ),
        (
            "LL-14",
            "interrupts a second of LL-RR and LL-WFQ, mean over RT ratios",
            Interval::mean_of(ll),
            20_000.0,
            LL_COSTS,
        ),
    ] {
        v.number(
            id,
            &Number {
                judged,
                model,
                stated,
                tolerance: PREDICT,
                effect: from_sq(sq, 32_000.0),
                note,
            },
        );
    }
    let rr = rows.points("RR", &[], RATIO, "irq_per_s");
    let symmetric = every(rr.0.iter().zip(rr.0.iter().rev()), |((_, a), (_, b))| {
        (a.mean - b.mean).abs() <= 0.1 * a.mean.max(b.mean)
    });
    let (top, most) = rr.peak();
    let higher = [0.0, 1.0]
        .iter()
        .all(|end| most.above(rr.at(*end).times(1.2)));
    v.shape(
        "LL-13",
        Shape {
            judged: "RR's interrupts a second over the RT ratio",
            holds: symmetric && higher && (top - 0.5).abs() <= 0.15 + 1e-9,
            rule: "mirrored values within 10 %, highest within 35 to 65 % and 20 % above both ends",
            effect: "two devices interrupt most when both have as much to do",
            model: format!("highest at {:.0} %", top * 100.0).into(),
            note: "the top is flat",
        },
    );
}

fn means(rows: &Rows, v: &mut Verdicts) {
    let sq = rows.get("SQ", &[(RATIO, 0.3)], "latency_us.mean");
    v.number(
        "LL-18",
        &Number {
            judged: "SQ's mean latency, us",
            model: sq,
            stated: 11.7,
            tolerance: FIT,
            effect: Err("a level"),
            note: "",
        },
    );
    for (id, case) in [("LL-19", "LL-RR"), ("LL-20", "LL-WFQ")] {
        v.number(
            id,
            &Number {
                judged: "mean RT latency over RT ratios of 5 to 50 %, us",
                model: rows.mean(case, "latency_us.rt.mean", |r| {
                    r.key(RATIO).is_some_and(|x| x > 0.0 && x <= 0.5 + 1e-9)
                }),
                stated: 10.4,
                tolerance: PREDICT,
                effect: from_sq(sq, 11.7),
                note: "",
            },
        );
    }
}

fn orders(rows: &Rows, v: &mut Verdicts) {
    let at = |case: &str, ratio: f64, metric: &str| rows.get(case, &[(RATIO, ratio)], metric);
    let rt = |case: &str, r: f64| at(case, r, "latency_us.rt.mean");
    let be = |case: &str, r: f64| at(case, r, "latency_us.be.mean");
    let sq = |r: f64| at("SQ", r, "latency_us.mean");
    let ratios = rows.values(RATIO);
    let inner = || ratios.iter().copied().filter(|r| *r > 0.0 && *r < 1.0);
    let shown = |case: &str, r: f64| {
        format!(
            "RT {:.1}, BE {:.1} us at {:.0} %, SQ {:.1}",
            rt(case, r).mean,
            be(case, r).mean,
            r * 100.0,
            sq(r).mean
        )
    };
    v.shape(
        "LL-21",
        Shape {
            judged: "mean latencies of RR against SQ's",
            holds: every(inner(), |r| {
                rt("RR", r).above(sq(r)) && be("RR", r).above(sq(r))
            }),
            rule: "RT and BE above SQ at every RT ratio from 5 to 95 %",
            effect: "devices are no priority: both classes pay for the second one",
            model: shown("RR", 0.3).into(),
            note: "",
        },
    );
    v.shape(
        "LL-22",
        Shape {
            judged: "mean latencies of RR",
            holds: every(inner().filter(|r| *r < 0.5 - 1e-9), |r| {
                rt("RR", r).above(be("RR", r))
            }),
            rule: "RT above BE at every RT ratio below 50 %",
            effect: "the smaller class waits for the larger one's polls",
            model: shown("RR", 0.3).into(),
            note: "",
        },
    );
    // RR starts with RT above and LL-RR with RT below; each changes sign once.
    let crossing = |case: &str, sign: f64| {
        let difference = inner().map(|r| (r, be(case, r).minus(rt(case, r)).times(sign)));
        crate::table::Curve(difference.collect()).reaches(0.0).mean
    };
    let (c_rr, c_ll) = (crossing("RR", 1.0), crossing("LL-RR", -1.0));
    let apart = |case: &str| rt(case, 0.2).minus(be(case, 0.2));
    v.shape(
        "LL-23",
        Shape {
            judged: "RT ratio at which BE's and RT's latency are equal",
            holds: [c_rr, c_ll].iter().all(|c| (c - 0.5).abs() <= 0.15 * 0.5)
                && apart("RR").above(Interval::exact(0.0))
                && Interval::exact(0.0).above(apart("LL-RR")),
            rule: "both within 15 % of 0.5; at 20 % RT is above BE in RR and below in LL-RR",
            effect: "equal turns favour the class with fewer packets in LL-RR, the other in RR",
            model: format!("RR {c_rr:.2}, LL-RR {c_ll:.2}").into(),
            note: "",
        },
    );
    let middle = |r: &f64| *r >= 0.5 - 1e-9 && *r <= 0.8 + 1e-9;
    v.shape(
        "LL-24",
        Shape {
            judged: "mean RT latency of LL-WFQ against SQ's",
            holds: every(inner().filter(middle), |r| sq(r).above(rt("LL-WFQ", r))),
            rule: "below at every RT ratio from 50 to 80 %",
            effect: "weights protect RT where it is most of the traffic",
            model: shown("LL-WFQ", 0.8).into(),
            note: "",
        },
    );
    let ends = |case: &str| {
        [0.0, 1.0]
            .iter()
            .all(|r| at(case, *r, "latency_us.mean").above(sq(*r)))
    };
    let ll = at("LL-RR", 0.0, "latency_us.mean");
    v.shape(
        "LL-25",
        Shape {
            judged: "mean latency at 0 and 100 % RT",
            holds: LL.iter().all(|c| ends(c)),
            rule: "LL-RR and LL-WFQ above SQ at both, beyond their intervals",
            effect: "classes cost time where they are of no use",
            model: format!(
                "LL-RR {:.2} +- {:.2} us, SQ {:.2} +- {:.2} us at 0 %",
                ll.mean,
                ll.half(),
                sq(0.0).mean,
                sq(0.0).half()
            )
            .into(),
            note: "as LL-04: rows that may be fitted say that a class costs nothing",
        },
    );
}
