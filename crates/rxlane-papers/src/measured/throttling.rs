//! Laws that throttle interrupts, over the load: interrupt-throttling IV and V.

use super::Rule;
use super::points::{Point, Points, highest, lowest};
use crate::table::Data;

/// What the others are compared with.
pub(super) const BASELINE: &str = "off";

/// Loads at which throttling does something and the core is not full, as shares of the capacity: 0.15 to 2.0 of 2.1 Mpps.
const THROTTLED: [f64; 2] = [0.15 / 2.1, 2.0 / 2.1];
/// Medium loads: 0.3 to 1.5 of 2.1 Mpps.
const MEDIUM: [f64; 2] = [0.3 / 2.1, 1.5 / 2.1];

pub(super) fn modelled(data: &Data) -> Points {
    let rows = data.of("fig-3-8.toml");
    let mut points = Vec::new();
    for case in ["off", "default", "improved"] {
        for pps in rows.values("traffic.pps") {
            let get = |metric: &str| rows.at(case, &[("traffic.pps", pps)], metric).mean;
            let mean_us = get("latency_us.mean");
            points.push(Point {
                case: case.into(),
                rt_ratio: 0.0,
                pps,
                loss: get("loss"),
                rt_us: mean_us,
                be_us: mean_us,
                mean_us,
                cpu: get("cpu"),
            });
        }
    }
    Points::new(points, BASELINE)
}

/// A quantity of the three, at each load of a range at which the default was seen.
fn over_loads(
    points: &Points,
    [from, to]: [f64; 2],
    of: impl Fn([f64; 3]) -> f64,
    quantity: impl Fn(&Point) -> f64 + Copy,
) -> Vec<f64> {
    let loads = points.loads("default").into_iter();
    let inside = loads.filter(|x| (from..=to).contains(x));
    let all = inside.map(|x| of(["off", "default", "improved"].map(|c| points.at(c, x, quantity))));
    all.filter(|x| !x.is_nan()).collect()
}

/// V.E: what a packet takes of the core, times its mean latency; in cycles of no particular clock.
fn load_latency(p: &Point) -> f64 {
    p.cpu / (p.pps * (1.0 - p.loss)) * p.mean_us
}

pub(super) const RULES: [Rule; 4] = [
    Rule {
        id: "ITR-06",
        quantity: "mean latency of the default law, of that without; mean over medium loads",
        stated: "10 (60 us, \"an order of magnitude\")",
        rule: "at least 3",
        holds: |x| x >= 3.0,
        of: |points| {
            let all = over_loads(
                points,
                MEDIUM,
                |[off, default, _]| default / off,
                |p| p.mean_us,
            );
            all.iter().sum::<f64>() / all.len() as f64
        },
        note: "intervals add to what waking and polling take without a law, which is 5 us in the paper",
    },
    Rule {
        id: "ITR-09",
        quantity: "load carried with the default law, of that without",
        stated: "1",
        rule: "within 5 % of 1",
        holds: |x| (x - 1.0).abs() <= 0.05,
        of: |points| points.carried("default"),
        note: "",
    },
    Rule {
        id: "ITR-11",
        quantity: "share of the gap between the latencies of default and off that the improved law closes; lowest over loads",
        stated: "nearly 1",
        rule: "at least 0.75",
        holds: |x| x >= 0.75,
        of: |points| {
            let closed =
                |[off, default, improved]: [f64; 3]| (default - improved) / (default - off);
            lowest(over_loads(points, THROTTLED, closed, |p| p.mean_us))
        },
        note: "where a poll takes longer than the interval, both laws wake as often as there are polls",
    },
    Rule {
        id: "ITR-12",
        quantity: "load-latency product of the improved law, of the default's; highest over medium loads",
        stated: "below 1",
        rule: "below 1",
        holds: |x| x < 1.0,
        of: |points| {
            let to_default = |[_, default, improved]: [f64; 3]| improved / default;
            highest(over_loads(points, MEDIUM, to_default, load_latency))
        },
        note: "as ITR-11",
    },
];
