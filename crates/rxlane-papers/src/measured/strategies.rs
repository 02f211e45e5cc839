//! Strategies over load and share of RT: low-latency-router V.B.

use super::Rule;
use super::points::{Point, Points, highest, lowest, stays_above};
use crate::judge::PREDICT;
use crate::table::Data;

/// What the others are compared with.
pub(super) const BASELINE: &str = "SQ";

/// 1.5 Mpps, where the paper compares latencies, of the 1.75 Mpps that its router forwards.
const BELOW: f64 = 1.5 / 1.75;
/// 2.0 Mpps.
const ABOVE: f64 = 2.0 / 1.75;

const CASES: [&str; 4] = ["SQ", "RR", "LL-RR", "LL-WFQ"];

pub(super) fn modelled(data: &Data) -> Points {
    let mut points = Vec::new();
    for case in CASES {
        for (file, fixed, swept) in [
            ("fig-5b-6b-7b.toml", 0.3, "traffic.pps"),
            ("fig-6a-7a.toml", 1.5e6, "traffic.rt_ratio"),
        ] {
            let rows = data.of(file);
            for x in rows.values(swept) {
                let get = |metric: &str| rows.at(case, &[(swept, x)], metric).mean;
                let (rt_ratio, pps) = match swept {
                    "traffic.pps" => (fixed, x),
                    _ => (x, fixed),
                };
                points.push(Point {
                    case: case.into(),
                    rt_ratio,
                    pps,
                    loss: get("loss"),
                    rt_us: get("latency_us.rt.mean"),
                    be_us: get("latency_us.be.mean"),
                    mean_us: get("latency_us.mean"),
                    cpu: get("cpu"),
                });
            }
        }
    }
    Points::new(points, BASELINE)
}

/// A change to `stated` of SQ's: within the tolerance of predictions, and nearer to it than no change is.
fn changed_to(stated: f64, x: f64) -> bool {
    (x - stated).abs() <= PREDICT * stated && (x - stated).abs() < (x - 1.0).abs()
}

fn rt_to_sq(points: &Points, case: &str) -> f64 {
    points.at(case, BELOW, |p| p.rt_us) / points.at(BASELINE, BELOW, |p| p.mean_us)
}

/// RT under overload, to RT below it; the higher of both LL.
fn rt_flat(points: &Points) -> f64 {
    let of = |case: &str| {
        let [above, below] = [ABOVE, BELOW].map(|load| points.at(case, load, |p| p.rt_us));
        above / below
    };
    highest(["LL-RR", "LL-WFQ"].map(of))
}

/// Shares of RT at which both classes are there in numbers.
fn inner(ratio: f64) -> bool {
    ratio > 0.0 && ratio < 1.0
}

pub(super) const RULES: [Rule; 11] = [
    Rule {
        id: "LL-02",
        quantity: "load that RR carries, of what SQ does",
        stated: "0.91 to 0.94",
        rule: "within 15 % of 0.93, and nearer to it than to 1",
        holds: |x| changed_to(0.93, x),
        of: |points| points.carried("RR"),
        note: "one thread and one wake-up serve both rings of the engine; the paper's RR has an interrupt a device",
    },
    Rule {
        id: "LL-03",
        quantity: "load that LL-RR and LL-WFQ carry, of what SQ does; the lower",
        stated: "at least 0.94",
        rule: "at least 0.94",
        holds: |x| x >= 0.94,
        of: |points| lowest(["LL-RR", "LL-WFQ"].map(|case| points.carried(case))),
        note: "",
    },
    Rule {
        id: "LL-04",
        quantity: "the lower of SQ to LL's highest, and LL's lowest to RR, in loads carried",
        stated: "above 1",
        rule: "above 1",
        holds: |x| x > 1.0,
        of: |points| {
            let ll = ["LL-RR", "LL-WFQ"].map(|case| points.carried(case));
            let to_rr = lowest(ll) / points.carried("RR");
            lowest([1.0 / highest(ll), to_rr])
        },
        note: "asks for any difference: where a machine's speed changes by more than the strategies cost, chance decides",
    },
    Rule {
        id: "LL-19",
        quantity: "mean RT latency of LL-RR at 0.86 of the capacity, of SQ's",
        stated: "0.89",
        rule: "within 15 % of 0.89, and nearer to it than to 1",
        holds: |x| changed_to(10.4 / 11.7, x),
        of: |points| rt_to_sq(points, "LL-RR"),
        note: "the more of the latency is spent outside of the queue, the nearer to 1: 7.1 of 11.7 us in the paper",
    },
    Rule {
        id: "LL-20",
        quantity: "mean RT latency of LL-WFQ at 0.86 of the capacity, of SQ's",
        stated: "0.89",
        rule: "within 15 % of 0.89, and nearer to it than to 1",
        holds: |x| changed_to(10.4 / 11.7, x),
        of: |points| rt_to_sq(points, "LL-WFQ"),
        note: "as LL-19",
    },
    Rule {
        id: "LL-21",
        quantity: "mean latency of RR's better class, of SQ's; lowest over shares of RT",
        stated: "above 1",
        rule: "above 1",
        holds: |x| x > 1.0,
        of: |points| {
            let both = points.over_ratio(["RR", "SQ"], BELOW);
            let both = both.iter().filter(|(r, _)| inner(*r));
            lowest(both.map(|(_, [rr, sq])| rr.rt_us.min(rr.be_us) / sq.mean_us))
        },
        note: "the lowest over shares of RT: one slow phase of the machine under SQ decides it",
    },
    Rule {
        id: "LL-22",
        quantity: "mean RT latency of RR, of its BE; lowest over shares of RT below a half",
        stated: "above 1",
        rule: "above 1",
        holds: |x| x > 1.0,
        of: |points| {
            let rr = points.over_ratio(["RR"], BELOW);
            let rr = rr.iter().filter(|(r, _)| inner(*r) && *r < 0.5 - 1e-9);
            lowest(rr.map(|(_, [rr])| rr.rt_us / rr.be_us))
        },
        note: "as LL-02: no class has an interrupt of its own to wait for",
    },
    Rule {
        id: "LL-23",
        quantity: "share of RT from which on LL-RR's RT waits longer than its BE",
        stated: "0.5",
        rule: "within 15 % of 0.5",
        holds: |x| (x - 0.5).abs() <= PREDICT * 0.5,
        of: |points| {
            let ll = points.over_ratio(["LL-RR"], BELOW);
            let ll = ll.iter().filter(|(r, _)| inner(*r));
            let more: Vec<(f64, f64)> = ll.map(|(r, [ll])| (*r, ll.rt_us / ll.be_us)).collect();
            stays_above(&more, 1.0)
        },
        note: "",
    },
    Rule {
        id: "LL-24",
        quantity: "mean RT latency of LL-WFQ, of SQ's; highest over shares of RT from 50 to 80 %",
        stated: "below 1",
        rule: "below 1",
        holds: |x| x < 1.0,
        of: |points| {
            let both = points.over_ratio(["LL-WFQ", "SQ"], BELOW);
            let middle = |r: f64| (0.5 - 1e-9..=0.8 + 1e-9).contains(&r);
            let both = both.iter().filter(|(r, _)| middle(*r));
            highest(both.map(|(_, [ll, sq])| ll.rt_us / sq.mean_us))
        },
        note: "",
    },
    Rule {
        id: "LL-26",
        quantity: "share of the capacity at which SQ's mean latency is 1.5 times that at 0.86",
        stated: "0.94",
        rule: "within 0.06, two steps of the paper's load, of 0.94",
        holds: |x| (x - 1.65 / 1.75).abs() <= 0.06,
        of: |points| {
            let below = points.at(BASELINE, BELOW, |p| p.mean_us);
            points.latency_reaches(BASELINE, 1.5 * below)
        },
        note: "",
    },
    Rule {
        id: "LL-27",
        quantity: "mean RT latency of LL at 1.14 of the capacity, of that at 0.86; the higher",
        stated: "1 to 1.1",
        rule: "at most 1.25, with RT below a tenth of BE there (LL-28)",
        holds: |x| x <= 1.25,
        of: |points| {
            let apart = ["LL-RR", "LL-WFQ"].map(|case| {
                points.at(case, ABOVE, |p| p.rt_us) / points.at(case, ABOVE, |p| p.be_us)
            });
            // A router that keeps both classes short does not show it.
            match highest(apart) {
                x if x <= 0.1 => rt_flat(points),
                x if x.is_nan() => f64::NAN,
                _ => f64::INFINITY,
            }
        },
        note: "",
    },
];
