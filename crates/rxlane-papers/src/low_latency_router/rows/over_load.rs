//! CPU, interrupts and latency over the load at 30 % RT, V.B.2 to 4, and the bound of III.D.

use super::{FULL, LL, LOAD, STEP, from_sq};
use crate::interval::{Interval, every};
use crate::judge::{FIT, Number, PREDICT, Shape, Verdicts};
use crate::table::Rows;

const GAP: &str = "not reproducible by any NAPI: with 32,000 IRQ/s at 1.5 Mpps and one cost per interrupt, a CPU plateau from 0.2 to 0.7 Mpps needs a least gap between interrupts that the paper's driver had switched off (ITR = 0)";

pub(super) fn judge(rows: &Rows, v: &mut Verdicts) {
    let cpu = |case: &str| rows.points(case, &[], LOAD, "cpu");
    let sq = cpu("SQ");
    let [at005, at02, at07] = [0.05e6, 0.2e6, 0.7e6].map(|x| sq.at(x));
    let points = format!(
        "{:.0} %, {:.0} %, {:.0} % at 0.05, 0.2, 0.7 Mpps",
        at005.mean * 1e2,
        at02.mean * 1e2,
        at07.mean * 1e2
    );
    let steep = at02.minus(at005).times(1.0 / 0.15);
    let flat = at07.minus(at02).times(1.0 / 0.5);
    v.shape(
        "LL-05",
        Shape {
            judged: "slope of SQ's CPU",
            holds: steep.above(flat.times(2.0)),
            rule: "more than twice as steep as from 0.2 to 0.7 Mpps",
            effect: "an interrupt a packet at low load",
            model: points.clone().into(),
            note: "",
        },
    );
    v.shape(
        "LL-06",
        Shape {
            judged: "SQ's CPU at 0.2 and 0.7 Mpps",
            holds: at07.minus(at02).at_most(0.1),
            rule: "within 10 percentage points",
            effect: "a plateau",
            model: points.into(),
            note: GAP,
        },
    );
    let full = |case: &str| cpu(case).reaches(FULL).times(1e-6);
    v.number(
        "LL-07",
        &Number {
            judged: "load at which CPU reaches 99.5 %, mean of SQ, LL-RR and LL-WFQ, Mpps",
            model: Interval::mean_of(["SQ", "LL-RR", "LL-WFQ"].map(full)),
            stated: 1.7,
            tolerance: FIT,
            effect: Err("a level"),
            note: "100 % means 99.5 %, which Poisson arrivals reach",
        },
    );
    v.number(
        "LL-08",
        &Number {
            judged: "load at which RR's CPU reaches 99.5 %, Mpps",
            model: full("RR"),
            stated: 1.55,
            tolerance: PREDICT,
            effect: from_sq(full("SQ"), 1.7),
            note: "the model errs by as much as the whole effect: two devices interrupt too often below saturation (LL-12)",
        },
    );
    let rr = cpu("RR");
    let idles = sq.0.iter().filter(|(x, y)| *x > 0.7e6 && y.at_most(FULL));
    let above = every(idles, |(x, sq)| rr.at(*x).above(*sq));
    v.shape(
        "LL-09",
        Shape {
            judged: "CPU of RR and SQ",
            holds: above,
            rule: "RR higher at every load above 0.7 Mpps at which SQ idles",
            effect: "a second device costs interrupts",
            model: if above { "higher" } else { "not always higher" }.into(),
            note: "",
        },
    );
    interrupts(rows, v);
}

fn interrupts(rows: &Rows, v: &mut Verdicts) {
    let irq = |case: &str, pps: f64| rows.get(case, &[(LOAD, pps)], "irq_per_s");
    let (at15, at17) = (irq("SQ", 1.5e6), irq("SQ", 1.7e6));
    v.shape(
        "LL-15",
        Shape {
            judged: "SQ's interrupts a second at 1.7 Mpps",
            holds: at15.times(0.2).above(at17),
            rule: "below a fifth of the rate at 1.5 Mpps, which is a tenth of the highest",
            effect: "a saturated core is polled",
            model: format!("{:.0}", at17.mean).into(),
            note: "Poisson arrivals let even a core at 99 % sleep now and then",
        },
    );
    let overload = |case: &str| {
        let curve = rows.points(case, &[], LOAD, "irq_per_s");
        Interval::mean_of(curve.between(1.7e6, 2.0e6).values())
    };
    v.number(
        "LL-16",
        &Number {
            judged: "RR's interrupts a second, mean over loads from 1.7 to 2.0 Mpps",
            model: overload("RR"),
            stated: 17_000.0,
            tolerance: PREDICT,
            effect: from_sq(overload("SQ"), 0.0),
            note: "",
        },
    );
    let [a, b, c] = [0.7e6, 0.9e6, 1.4e6].map(|x| irq("SQ", x));
    v.shape(
        "LL-17",
        Shape {
            judged: "SQ's interrupts a second at 0.7, 0.9 and 1.4 Mpps",
            holds: a.times(0.9).above(b) && c.above(b.times(1.1)),
            rule: "lower at 0.9 Mpps than at 0.7 and at 1.4 Mpps",
            effect: "a dip",
            model: [a, b, c]
                .map(|x| format!("{:.0}", x.mean))
                .join(", ")
                .into(),
            note: GAP,
        },
    );
}

pub(super) fn latency(rows: &Rows, v: &mut Verdicts) {
    let sq = rows.points("SQ", &[], LOAD, "latency_us.mean");
    let jump = |times: f64| sq.reaches(times * sq.at(1.5e6).mean);
    let jumps = [1.25, 1.5, 3.0].map(jump);
    v.shape(
        "LL-26",
        Shape {
            judged: "load at which SQ's latency is 1.25, 1.5 and 3 times that at 1.5 Mpps",
            holds: every(jumps, |x| x.farthest(1.65e6) <= STEP),
            rule: "each within a step of 0.05 Mpps of 1.65",
            effect: "the jump lies at saturation, whatever is called a jump",
            model: jumps
                .map(|x| format!("{:.3}", x.mean / 1e6))
                .join(", ")
                .into(),
            note: "",
        },
    );
    let overload = |case: &str| {
        let curve = rows.points(case, &[], LOAD, "latency_us.rt.mean");
        curve.between(1.75e6, 2.0e6)
    };
    let rt: Vec<Interval> = LL.iter().flat_map(|c| overload(c).0).map(|p| p.1).collect();
    let (lowest, highest) = (
        Interval::lowest(rt.iter().copied()),
        Interval::highest(rt.iter().copied()),
    );
    let mean = Interval::mean_of(rt);
    v.shape(
        "LL-27",
        Shape {
            judged: "RT latency of LL-RR and LL-WFQ from 1.75 to 2.0 Mpps, us",
            holds: mean.within(PREDICT, 11.4) && highest.at_most(1.25 * lowest.mean),
            rule: "mean within 15 % of 11.4, highest at most 1.25 times the lowest",
            effect: "RT does not see the overload",
            model: ((mean.mean * 100.0).round() / 100.0).into(),
            note: "flat, as stated. The paper contradicts itself on the number: the conclusion has 11.4 us, 3 % below SQ, V.B.4 has 10.4 us, 11 % below. The model stays at its value below overload, as the bound says it must",
        },
    );
    let at = |case: &str, metric: &str| rows.get(case, &[(LOAD, 2.0e6)], metric);
    let sq_end = at("SQ", "latency_us.be.mean");
    let (be, rt) = (
        at("LL-WFQ", "latency_us.be.mean"),
        at("LL-WFQ", "latency_us.rt.mean"),
    );
    v.shape(
        "LL-28",
        Shape {
            judged: "latencies at 2.0 Mpps",
            holds: be.above(sq_end.times(0.5)) && be.times(0.1).above(rt),
            rule: "BE of LL-WFQ at least half of SQ's, its RT below a tenth of its BE",
            effect: "overload is BE's alone",
            model: format!(
                "RT {:.1}, BE {:.0}, SQ {:.0} us",
                rt.mean, be.mean, sq_end.mean
            )
            .into(),
            note: "",
        },
    );
}

/// Mean waits against Eq. 1, for packets of `x_ns`, a turn of a ring included.
pub(super) fn bound(rows: &Rows, x_ns: f64, v: &mut Verdicts) {
    let x_us = x_ns / 1e3;
    // Share of the bound at every load at which there is one.
    let shares: Vec<(f64, Interval)> = LL
        .iter()
        .flat_map(|case| rows.points(case, &[], LOAD, "waiting_us.rt.mean").0)
        .filter_map(|(pps, wait)| {
            let rho_rt = 0.3 * pps / 1e6 * x_us;
            (rho_rt < 1.0).then(|| (pps, wait.times((1.0 - rho_rt) / (4.0 * x_us))))
        })
        .collect();
    let worst = Interval::highest(shares.iter().map(|s| s.1));
    let at = shares.iter().find(|s| s.1.mean == worst.mean);
    v.shape(
        "LL-31",
        Shape {
            judged: "mean RT waiting of LL-RR and LL-WFQ at every load, against b x / (1 - rho_RT)",
            holds: worst.at_most(1.0),
            rule: "at most the bound, at every load",
            effect: "RT waits for the ring budgets of the others only",
            model: format!(
                "at most {:.0} % of the bound, at {:.2} Mpps",
                worst.mean * 100.0,
                at.map_or(f64::NAN, |s| s.0) / 1e6
            )
            .into(),
            note: "the bound knows of no wake-up: at low load a packet waits for an interrupt and the core to wake, which takes longer than four packets. It holds wherever the core does not idle. Smooth arrivals are a test of the simulator",
        },
    );
}
