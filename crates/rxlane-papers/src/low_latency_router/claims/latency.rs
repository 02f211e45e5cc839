//! Latency over the load and over the RT ratio, V.B.4.

use rxlane_sim::scenario::Scenario;

use super::super::rows::{LL, LOAD, RATIO};
use crate::claims::{Claims, list, shown};
use crate::interval::{Interval, every};
use crate::judge::PREDICT;
use crate::table::{Curve, Rows};

const RT: &str = "latency_us.rt.mean";
const BE: &str = "latency_us.be.mean";
const MEAN: &str = "latency_us.mean";

pub(super) fn judge(over_load: &Rows, over_ratio: &Rows, c: &mut Claims) {
    ratios(over_ratio, c);
    loads(over_load, c);
    classes(over_load, c);
}

fn ratios(rows: &Rows, c: &mut Claims) {
    let at = |case: &str, ratio: f64, metric: &str| rows.get(case, &[(RATIO, ratio)], metric);
    let sq = |ratio: f64| at("SQ", ratio, MEAN);
    let gain = sq(0.3).minus(at("LL-RR", 0.3, RT));
    c.number(
        "R000-057",
        "how far LL-RR's RT latency is below SQ's at 30 % RT, of that",
        Interval::exact(gain.mean / sq(0.3).mean),
        0.11,
        PREDICT,
    );
    c.rule(
        "B9",
        gain.at_least(1.3),
        "SQ's latency less LL-RR's RT latency at 30 % RT at least 1.3 us",
        shown(gain.mean) + " us",
    );
    let below = || {
        let all = rows.values(RATIO).into_iter();
        all.filter(|r| *r > 0.05 + 1e-9 && *r < 0.5 - 1e-9)
    };
    c.rule(
        "R000-058",
        every(below(), |r| at("LL-RR", r, BE).above(sq(r).times(1.05))),
        "LL-RR's BE latency 5 % above SQ's at every RT ratio from 10 to 45 %",
        list([0.2, 0.4].map(|r| at("LL-RR", r, BE)), 1.0) + " us at 20 and 40 %",
    );
    let few = || below().filter(|r| *r < 0.3 + 1e-9);
    let [rr, wfq] = LL;
    c.rule(
        "R000-066",
        every(few(), |r| {
            at(rr, r, RT).within(PREDICT, at(wfq, r, RT).mean) && sq(r).above(at(rr, r, RT))
        }),
        "LL-RR's RT latency below SQ's and within 15 % of LL-WFQ's, whose RT budget is 60, at every RT ratio from 10 to 30 %",
        list([at(rr, 0.3, RT), at(wfq, 0.3, RT)], 1.0) + " us at 30 %",
    );
}

fn loads(rows: &Rows, c: &mut Claims) {
    let sq = rows.points("SQ", &[], LOAD, MEAN);
    let [from, to] = [0.75e6, 1.0e6].map(|x| sq.at(x));
    c.rule(
        "R000-062",
        to.above(from.times(1.1)),
        "SQ's latency at 1.0 Mpps more than 10 % above that at 0.75",
        list([from, to], 1.0) + " us",
    );
    let rt = |case: &str| rows.points(case, &[], LOAD, RT);
    let curves = LL.map(rt);
    let ends = |x: f64| list(curves.iter().map(|y| y.at(x)), 1.0);
    let moves = |from: f64, to: f64, up: bool| {
        every(&curves, |y| {
            let (a, b) = (y.at(from), y.at(to));
            if up { b.above(a) } else { a.above(b) }
        })
    };
    c.rule(
        "R000-067",
        moves(0.05e6, 0.75e6, true),
        "RT latency of LL-RR and LL-WFQ higher at 0.75 than at 0.05 Mpps",
        format!("{} -> {} us", ends(0.05e6), ends(0.75e6)),
    );
    c.rule(
        "R000-068",
        moves(0.75e6, 1.65e6, false),
        "RT latency of LL-RR and LL-WFQ lower at 1.65 than at 0.75 Mpps",
        format!("{} -> {} us", ends(0.75e6), ends(1.65e6)),
    );
    let overload = |y: &Curve| Interval::highest(y.between(1.75e6, 2.0e6).values());
    let highest = curves.each_ref().map(overload);
    c.rule(
        "R000-069",
        every(highest, |x| sq.at(1.5e6).above(x)),
        "highest RT latency of LL-RR and LL-WFQ from 1.75 to 2.0 Mpps below SQ's at 1.5",
        list(highest, 1.0) + " us",
    );
    let [rr, wfq] = &curves;
    c.rule(
        "R000-065",
        every(&rr.0, |(x, y)| y.within(PREDICT, wfq.at(*x).mean))
            && every(&curves, |y| overload(y).at_most(2.0 * y.at(1.5e6).mean)),
        "RT latency of LL-RR within 15 % of LL-WFQ's at every load, and under overload at most twice that at 1.5 Mpps",
        list([0.05e6, 1.5e6, 2.0e6].map(|x| rr.at(x).over(wfq.at(x))), 1.0) + " times at 0.05, 1.5, 2.0 Mpps",
    );
}

fn classes(rows: &Rows, c: &mut Claims) {
    let of = |case: &str, metric: &str| rows.points(case, &[], LOAD, metric);
    let above = |case: &str, high: &str, low: &str| {
        let low = of(case, low);
        every(&of(case, high).0, |(x, high)| high.above(low.at(*x)))
    };
    let at = |case: &str, x: f64| list([of(case, RT).at(x), of(case, BE).at(x)], 1.0);
    c.rule(
        "R000-064",
        above("RR", RT, BE),
        "RR's RT latency above its BE latency at every load",
        format!("RT, BE: {} us at 2.0 Mpps", at("RR", 2.0e6)),
    );
    let overload = of("RR", RT).between(1.75e6, 2.0e6);
    c.rule(
        "B11",
        every(&overload.0, |(x, rt)| {
            of("RR", BE).at(*x).above(rt.times(2.0))
        }),
        "RR's RT latency below half of its BE latency at every load from 1.75 Mpps",
        format!("RT, BE: {} us at 2.0 Mpps", at("RR", 2.0e6)),
    );
    c.rule(
        "R000-070",
        every(LL, |case| above(case, BE, RT)),
        "BE latency of LL-RR and LL-WFQ above their RT latency at every load",
        format!(
            "LL-RR's RT, BE: {} us at 0.2 Mpps, {} at 1.5",
            at("LL-RR", 0.2e6),
            at("LL-RR", 1.5e6)
        ),
    );
}

/// The longest that an RT packet waits beside BE packets without end, in packets.
pub(super) fn longest(rows: &Rows, scenario: &Scenario, c: &mut Claims) {
    let x_us = scenario.cpu.packet_ns / 1e3;
    let own_us = scenario.nic.fixed_latency_us + x_us;
    let longest = rows.get("LL-RR", &[], "latency_us.rt.max");
    let packets = longest.minus(Interval::exact(own_us)).times(1.0 / x_us);
    c.rule(
        "R000-055",
        packets.at_most(5.0),
        "longest wait of an RT packet at 2.0 Mpps, of which RT is half a per cent, in packets: 4 and one RT packet at most",
        shown(packets.mean),
    );
}
