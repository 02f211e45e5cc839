//! Interrupts over the load and over the RT ratio, V.B.3.

use super::super::rows::{LL, LOAD, RATIO};
use crate::claims::{Claims, list, shown};
use crate::interval::{Interval, every};
use crate::judge::PREDICT;
use crate::table::{Curve, Rows};

const IRQ: &str = "irq_per_s";

fn over(rows: &Rows, case: &str) -> Curve {
    rows.points(case, &[], LOAD, IRQ)
}

pub(super) fn judge(over_load: &Rows, over_ratio: &Rows, c: &mut Claims) {
    low_and_high(over_load, c);
    devices(over_load, over_ratio, c);
    rings(over_load, over_ratio, c);
}

fn low_and_high(rows: &Rows, c: &mut Claims) {
    let sq = over(rows, "SQ");
    let each = |x: f64| sq.at(x).times(1.0 / x);
    c.rule(
        "R000-002",
        each(0.05e6).at_least(0.8) && each(1.5e6).at_most(0.1),
        "SQ interrupts for 4 of 5 packets at least at 0.05 Mpps, the lowest load, and for 1 of 10 at most at 1.5",
        list([0.05e6, 1.5e6].map(each), 1.0),
    );
    let plateau = sq.between(1.1e6, 1.6e6);
    c.rule(
        "R000-042",
        every(plateau.values(), |x| x.within(PREDICT, 32_000.0)),
        "SQ's interrupts within 15 % of 32,000 at every load from 1.1 to 1.6 Mpps",
        list(plateau.values(), 1.0),
    );
    // The core idles for 1 / lambda after each busy period, and each idle time ends with an interrupt.
    let cpu = rows.points("SQ", &[], LOAD, "cpu").between(0.05e6, 1.5e6);
    let off = |(x, cpu): &(f64, Interval)| (1.0 - cpu.mean - each(*x).mean).abs();
    let most = Interval::highest(cpu.0.iter().map(|p| Interval::exact(off(p))));
    c.rule(
        "B5",
        most.at_most(0.01),
        "SQ's idle share and its interrupts over the load differ by 0.01 at most at every load up to 1.5 Mpps",
        shown(most.mean),
    );
    let (top, _) = sq.peak();
    let rises = |part: Curve, up: bool| {
        let pairs: Vec<_> = part.0.windows(2).map(|w| (w[0].1, w[1].1)).collect();
        every(pairs, |(a, b)| if up { b.above(a) } else { a.above(b) })
    };
    c.rule(
        "B7",
        rises(sq.between(0.05e6, top), true) && rises(sq.between(top, 1.6e6), false),
        "SQ's interrupts rise up to one load and fall from there to 1.6 Mpps, beyond their intervals",
        format!("highest at {} Mpps", shown(top / 1e6)),
    );
}

fn devices(over_load: &Rows, over_ratio: &Rows, c: &mut Claims) {
    let rr = over_ratio.points("RR", &[], RATIO, IRQ);
    let sq = over_ratio.points("SQ", &[], RATIO, IRQ);
    let down = [0.5, 0.7, 1.0].map(|r| rr.at(r));
    c.rule(
        "R000-034",
        down[0].above(down[1]) && down[1].above(down[2]),
        "RR's interrupts fall from 50 over 70 to 100 % RT",
        list(down, 1.0),
    );
    c.number(
        "R000-036",
        "RR's interrupts at 50 % RT over SQ's",
        rr.at(0.5).over(sq.at(0.5)),
        58.0 / 32.0,
        PREDICT,
    );
    // The first vector is the RT device's; what it does not raise the BE device does.
    let of_rt = |ratio: f64| over_ratio.get("RR", &[(RATIO, ratio)], "irq_per_s.core0.vector0");
    let (rt, be) = (of_rt(0.3), rr.at(0.7).minus(of_rt(0.7)));
    c.rule(
        "R000-037",
        rt.within(0.1, be.mean),
        "interrupts of RR's RT device at 30 % RT within 10 % of those of its BE device at 70 %",
        list([rt, be], 1.0),
    );
    c.rule(
        "B4",
        rr.at(0.0).within(0.05, sq.at(0.0).mean) && rr.at(0.5).above(sq.at(0.5).times(1.2)),
        "RR's interrupts at 0 % RT within 5 % of SQ's, and at 50 % a fifth above",
        list([rr.at(0.0), sq.at(0.0)], 1.0),
    );
    let (rr, sq) = (over(over_load, "RR"), over(over_load, "SQ"));
    let range = sq.between(0.2e6, 2.0e6);
    c.rule(
        "R000-044",
        every(&range.0, |(x, sq)| rr.at(*x).above(*sq)),
        "RR's interrupts above SQ's at every load from 0.2 Mpps",
        list([0.2e6, 1.5e6].map(|x| rr.at(x).over(sq.at(x))), 1.0) + " times at 0.2 and 1.5 Mpps",
    );
}

fn rings(over_load: &Rows, over_ratio: &Rows, c: &mut Claims) {
    let mean = |case: &str| over_ratio.mean(case, IRQ, |_| true);
    let (sq, ll) = (mean("SQ"), Interval::mean_of(LL.map(mean)));
    c.number(
        "R000-039",
        "SQ's interrupts less LL's at 1.5 Mpps",
        sq.minus(ll),
        10_000.0,
        PREDICT,
    );
    let [rr, wfq] = LL.map(|case| over(over_load, case));
    c.rule(
        "R000-048",
        rr.at(1.0e6).above(wfq.at(1.0e6)),
        "LL-RR's interrupts at 1.0 Mpps above LL-WFQ's",
        list([rr.at(1.0e6), wfq.at(1.0e6)], 1.0),
    );
    let alike = |x: f64| rr.at(x).within(0.1, wfq.at(x).mean);
    let below = |to: f64| rr.between(0.05e6, to).0.into_iter().map(|p| p.0);
    let stated = over(over_load, "SQ");
    c.rule(
        "R000-049",
        every(below(1.5e6), alike) && rr.at(1.5e6).at_most(0.5 * stated.peak().1.mean),
        "LL-RR's interrupts within 10 % of LL-WFQ's at every load up to 1.5 Mpps, where they are less than half of the highest",
        list([rr.at(1.5e6), wfq.at(1.5e6)], 1.0),
    );
    let equal = |x: f64| (rr.at(x).mean / wfq.at(x).mean - 1.0).abs() <= 0.01;
    c.rule(
        "B10",
        every(below(1.4e6), equal),
        "LL-RR's interrupts within 1 % of LL-WFQ's at every load up to 1.4 Mpps",
        list([rr.at(0.9e6), wfq.at(0.9e6)], 1.0) + " at 0.9 Mpps",
    );
    let range = stated.between(1.1e6, 1.6e6);
    c.rule(
        "R000-050",
        every(&range.0, |(x, sq)| {
            every([&rr, &wfq], |ll| sq.above(ll.at(*x)))
        }),
        "SQ's interrupts above those of LL-RR and of LL-WFQ at every load from 1.1 to 1.6 Mpps",
        list([stated.at(1.4e6), rr.at(1.4e6), wfq.at(1.4e6)], 1.0) + " at 1.4 Mpps",
    );
}
