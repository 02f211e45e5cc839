//! Highest throughput over the RT ratio, V.B.1.

use super::{LL, LOAD, LOSS, RATIO, from_sq, mpps};
use crate::interval::Interval;
use crate::judge::{FIT, Number, PREDICT, Shape, Verdicts};
use crate::table::Rows;

/// Highest load without loss; NaN when even the lowest loses.
pub(in super::super) fn max_throughput(rows: &Rows, case: &str, ratio: f64) -> Interval {
    rows.points(case, &[(RATIO, ratio)], LOAD, "loss")
        .stays_within(LOSS)
}

pub(super) fn judge(rows: &Rows, v: &mut Verdicts) {
    let ratios = rows.values(RATIO);
    let mean = |case: &str, most: f64| {
        let up_to = ratios.iter().filter(|r| **r <= most + 1e-9);
        Interval::mean_of(up_to.map(|r| max_throughput(rows, case, *r)))
    };
    let [sq, rr] = ["SQ", "RR"].map(|case| mean(case, 1.0));
    v.number(
        "LL-01",
        &Number {
            judged: "highest load of SQ without loss, mean over RT ratios, Mpps",
            model: sq.times(1e-6),
            stated: 1.75,
            tolerance: FIT,
            effect: Err("a level"),
            note: "in the paper's steps of 0.05 Mpps, loss up to 0.1 %",
        },
    );
    v.number(
        "LL-02",
        &Number {
            judged: "highest load of RR without loss, mean over RT ratios, Mpps",
            model: rr.times(1e-6),
            stated: 1.625,
            tolerance: PREDICT,
            effect: from_sq(sq.times(1e-6), 1.75),
            note: "the middle of the paper's range",
        },
    );
    let all = LL
        .iter()
        .flat_map(|case| ratios.iter().map(|r| max_throughput(rows, case, *r)));
    let lowest = Interval::lowest(all);
    v.shape(
        "LL-03",
        Shape {
            judged: "lowest over RT ratios of the highest load of LL-RR and LL-WFQ without loss",
            holds: lowest.at_least(1.65e6 - 1.0),
            rule: "at least 1.65 Mpps",
            effect: "a ring a class costs LL two steps of the load at most, budgets of 4 included",
            model: mpps(lowest).into(),
            note: "",
        },
    );
    let [sq, rr, llrr, wfq] = ["SQ", "RR", "LL-RR", "LL-WFQ"].map(|case| mean(case, 0.85));
    v.shape(
        "LL-04",
        Shape {
            judged: "highest load without loss, mean over RT ratios to 85 %",
            holds: [llrr, wfq].iter().all(|ll| sq.above(*ll) && ll.above(rr)),
            rule: "SQ above both LL, and both above RR, beyond their intervals",
            effect: "classes cost throughput, devices more than rings",
            model: format!(
                "SQ {}, RR {}, LL-RR {}, LL-WFQ {}",
                mpps(sq),
                mpps(rr),
                mpps(llrr),
                mpps(wfq)
            )
            .into(),
            note: "what a ring's turn costs is fitted to LL-07, where LL saturates as SQ does, so that the model's LL and SQ are alike",
        },
    );
}
