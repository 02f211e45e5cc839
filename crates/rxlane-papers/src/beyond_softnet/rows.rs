//! Rows of "Beyond Softnet", 2 and 5.

use crate::judge::{FIT, PREDICT, Verdicts, plain};
use crate::table::{Data, Rows};
use rxlane_sim::SimError;
use rxlane_sim::outcome::jain;

const LOAD: &str = "traffic.pps";
/// A forwarding rate is loss-free up to here: the backlog takes up a Poisson burst now and then.
const LOSS: f64 = 0.005;
const KERNELS: &str = "at 30 kpps, with a full backlog of 300 packets at the costs of kernel 2.3.99 (27 kpps). Section 5 measured 2.4.7, whose costs the paper does not give; at its 65 % of 148.8 kpps, 10.3 us a packet, such a backlog is 3.1 ms and more";

/// Maximum loss-free forwarding rate, between points.
fn mlffr(rows: &Rows, case: &str) -> f64 {
    let loss = rows.curve(case, &[], LOAD, "loss");
    crate::table::reaches(&loss, LOSS)
}

fn throughput(rows: &Rows, case: &str, pps: f64) -> f64 {
    rows.at(case, &[(LOAD, pps)], "throughput_pps").mean
}

pub(super) fn judge(data: &Data, v: &mut Verdicts) -> Result<(), SimError> {
    let rows = data.of("fig-4-6.toml");
    collapse(rows, v);
    latency(rows, v);
    reordering(data.of("smp.toml"), v);
    fairness(rows, data.of("greedy.toml"), v);
    Ok(())
}

fn collapse(rows: &Rows, v: &mut Verdicts) {
    let plain_curve = rows.curve("plain", &[], LOAD, "throughput_pps");
    let end = plain_curve
        .iter()
        .skip_while(|(pps, _)| *pps < 30e3)
        .find(|(_, forwarded)| *forwarded < 1_000.0)
        .map_or(f64::NAN, |p| p.0);
    v.near(
        "SOFT-01",
        plain(end),
        1e-3,
        60.0,
        FIT,
        "the first load at which less than 1 kpps is forwarded",
    );
    v.near(
        "SOFT-02",
        plain(mlffr(rows, "plain")),
        1e-3,
        27.0,
        FIT,
        "loss up to 0.5 %",
    );
    let ff = mlffr(rows, "FF");
    let beyond: Vec<f64> = [60e3, 80e3, 100e3, 140e3]
        .map(|x| throughput(rows, "FF", x))
        .to_vec();
    let flat = beyond.iter().all(|t| *t >= 0.95 * ff);
    v.when(
        "SOFT-03",
        (ff - 80e3).abs() <= PREDICT * 80e3 && flat,
        "MLFFR within 15 % of 80 kpps, and at least 95 % of it forwarded up to 140 kpps",
        format!("{:.1} kpps, then {}", ff / 1e3, if flat { "constant" } else { "less" }),
        "the shape holds. 80 kpps are 12.5 us a packet, less than the 20.4 us that the fitted kernel takes without any interrupt: FF ran on a kernel with other memory management (footnote 2)",
    );
    let at = |case: &str| throughput(rows, case, 140e3);
    let napi = mlffr(rows, "NAPI");
    let holds = at("NAPI") >= at("FF")
        && at("FF") > at("plain")
        && at("NAPI") >= 0.98 * napi
        && at("plain") < 0.1 * mlffr(rows, "plain");
    v.when(
        "SOFT-04",
        holds,
        "at 140 kpps in that order; NAPI keeps 98 % of its MLFFR, plain less than 10 %",
        format!(
            "NAPI {:.1}, FF {:.1}, plain {:.1} kpps",
            at("NAPI") / 1e3,
            at("FF") / 1e3,
            at("plain") / 1e3
        ),
        "",
    );
}

fn latency(rows: &Rows, v: &mut Verdicts) {
    let worst = |case: &str| {
        rows.curve(case, &[], LOAD, "latency_us.mean")
            .iter()
            .map(|p| p.1)
            .fold(0.0, f64::max)
            / 1e3
    };
    let (napi, ff) = (worst("NAPI"), worst("FF"));
    v.when(
        "SOFT-05",
        napi < 1.0,
        "below 1 ms at every load",
        (napi * 1000.0).round() / 1000.0,
        "the DMA ring holds 32 packets",
    );
    v.when(
        "SOFT-06",
        ff > 2.0,
        "above 2 ms at the worst load",
        (ff * 1000.0).round() / 1000.0,
        "",
    );
    // Just beyond the MLFFR the backlog is full; further on nothing gets through.
    let plain_ms = rows.at("plain", &[(LOAD, 30e3)], "latency_us.mean");
    v.near("SOFT-07", plain_ms, 1e-3, 4.0, PREDICT, KERNELS);
}

fn reordering(rows: &Rows, v: &mut Verdicts) {
    let late = |case: &str| rows.at(case, &[], "reordered");
    let sent = rows.at("plain", &[], "served").mean;
    let (plain, ff, napi) = (late("plain").mean, late("FF").mean, late("NAPI"));
    v.when(
        "SOFT-09",
        napi.mean < ff && ff < plain,
        "in that order, in the mean of 10 runs",
        format!("{:.0}, {ff:.0}, {plain:.0} of {sent:.0}", napi.mean),
        "",
    );
    v.when("SOFT-08", napi.mean == 0.0, "exactly 0", napi.mean, "");
}

fn fairness(rows: &Rows, greedy: &Rows, v: &mut Verdicts) {
    let shares = |case: &str| -> Vec<f64> {
        (0..4)
            .map(|nic| {
                greedy
                    .at(case, &[], &format!("throughput_pps.nic{nic}"))
                    .mean
            })
            .collect()
    };
    let napi = shares("NAPI");
    // 120 kpps: 84 greedy, 12 each quiet. A quarter of NAPI's capacity is 12.25 kpps, so all are backlogged.
    let index = jain(&napi);
    let quiet = napi[1..].iter().fold(f64::INFINITY, |a, b| a.min(*b)) / 12e3;
    v.when("SOFT-10", index >= 0.95 && quiet >= 0.85, "fairness index at least 0.95 while one offers 7 times the others, which keep 85 % of theirs", format!("index {index:.3}, the quiet keep {:.0} %", quiet * 100.0), "");
    let (ff, lie) = (jain(&shares("FF")), jain(&shares("FF + Random Lie")));
    let at_mlffr = |case: &str| throughput(rows, case, 45e3);
    let slower = at_mlffr("FF + Random Lie") < at_mlffr("FF");
    v.when("SOFT-11", lie > ff && slower, "fairness index above that of FF alone with a greedy interface; less forwarded by a single one at its MLFFR", format!("index {lie:.3} against {ff:.3}; {:.1} against {:.1} kpps", at_mlffr("FF + Random Lie") / 1e3, at_mlffr("FF") / 1e3), "");
}
