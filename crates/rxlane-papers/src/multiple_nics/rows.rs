//! Rows of "How Do Multiple Network Cards Influence the Software Router Performance?", VI.

use super::PAPER;
use crate::judge::{FIT, PREDICT, Verdicts, plain};
use crate::table::{Data, Rows, peak, value_at};
use rxlane_sim::SimError;

const LOAD: &str = "traffic.pps";
const NICS: [&str; 3] = ["2 NICs", "3 NICs", "4 NICs"];
const LOSS: f64 = 1e-3;

pub(super) fn judge(data: &Data, v: &mut Verdicts) -> Result<(), SimError> {
    let (cbr, poisson) = (data.of("fig-4.toml"), data.of("fig-5-6.toml"));
    costs(cbr, v)?;
    interrupts(poisson, v);
    shapes(cbr, poisson, v);
    Ok(())
}

fn costs(cbr: &Rows, v: &mut Verdicts) -> Result<(), SimError> {
    let most = cbr
        .curve("2 NICs", &[], LOAD, "loss")
        .into_iter()
        .take_while(|(_, loss)| *loss <= LOSS)
        .last()
        .map_or(0.0, |(pps, _)| pps);
    v.near(
        "NIC-01",
        plain(most),
        1e-6,
        0.9,
        FIT,
        "2 NICs, steps of 0.05 Mpps, loss up to 0.1 %",
    );
    let scenario = PAPER.read("fig-4.toml", &[])?.point(0)?.scenario;
    let (packet, tx) = (scenario.cpu.packet_ns, scenario.cpu.tx_clean_ns);
    let rest: f64 = scenario.stage.iter().map(|s| s.packet_ns).sum();
    v.near(
        "NIC-02",
        plain(packet + tx + rest),
        1.0,
        1111.0,
        FIT,
        "calibrated",
    );
    v.near(
        "NIC-03",
        plain(packet),
        1.0,
        940.0,
        FIT,
        "calibrated; what 940 + 154 leave of 1111 is a stage of its own",
    );
    v.near("NIC-04", plain(tx), 1.0, 154.0, FIT, "calibrated");
    Ok(())
}

fn interrupts(poisson: &Rows, v: &mut Verdicts) {
    let at = |case: &str, metric: &str| poisson.at(case, &[(LOAD, 0.3e6)], metric);
    v.near("NIC-05", at("2 NICs", "irq_per_s"), 1.0, 270_000.0, FIT, "");
    v.near("NIC-06", at("2 NICs", "cpu"), 100.0, 79.0, FIT, "the paper's ISR cost of 3400 ns is 3400 cycles, 1700 ns: with 3400 ns this row would be 125 %");
    v.near(
        "NIC-07",
        at("4 NICs", "irq_per_s"),
        1.0,
        310_000.0,
        PREDICT,
        "more interrupts than packets: Tx completions interrupt too",
    );
    v.near("NIC-08", at("4 NICs", "cpu"), 100.0, 86.0, PREDICT, "");
    let peaks = NICS.map(|c| peak(&poisson.curve(c, &[], LOAD, "irq_per_s")).0);
    let mean = peaks.iter().sum::<f64>() / 3.0;
    let apart = peaks.iter().all(|p| (p - 0.3e6).abs() <= 0.0501e6);
    v.when(
        "NIC-09",
        apart,
        "each within a step of 0.05 Mpps",
        format!("{:.2} Mpps in the mean", mean / 1e6),
        "the top is flat",
    );
    let most = NICS
        .iter()
        .map(|c| {
            poisson.at(c, &[(LOAD, 0.9e6)], "irq_per_s").mean
                / peak(&poisson.curve(c, &[], LOAD, "irq_per_s")).1
        })
        .fold(0.0, f64::max);
    v.when(
        "NIC-10",
        most <= 0.05,
        "at most 5 % of the highest",
        format!("{:.1} % of the highest", most * 100.0),
        "",
    );
}

fn shapes(cbr: &Rows, poisson: &Rows, v: &mut Verdicts) {
    let loads: Vec<f64> = poisson
        .values(LOAD)
        .into_iter()
        .filter(|x| *x <= 0.8e6 + 1.0)
        .collect();
    let mut lower = 0;
    let mut compared = 0;
    for case in NICS {
        for metric in ["irq_per_s", "cpu"] {
            for load in loads.iter().filter(|x| **x >= 0.1e6 && **x <= 0.5e6) {
                let of = |rows: &Rows| value_at(&rows.curve(case, &[], LOAD, metric), *load);
                compared += 1;
                // Both full: nothing to tell.
                lower +=
                    usize::from(of(poisson) < of(cbr) || of(poisson) > 0.99 && metric == "cpu");
            }
        }
    }
    let share = f64::from(lower as u32) / f64::from(compared);
    v.when("NIC-11", share >= 0.8, "at 80 % of the points from 0.1 to 0.5 Mpps at least", format!("{:.0} % of the points", share * 100.0), "exact spacing locks ports in phase: the difference depends on start phases, which are averaged here");
    let grows = |metric: &str, most: f64| {
        loads.iter().filter(|x| **x >= 0.1e6).all(|load| {
            let y = NICS.map(|c| value_at(&poisson.curve(c, &[], LOAD, metric), *load));
            y[0] < y[1] && y[1] < y[2] || y[0] >= most
        })
    };
    v.when(
        "NIC-12",
        grows("latency_us.mean", f64::INFINITY),
        "at every load from 0.1 to 0.8 Mpps",
        latencies(poisson, 0.6e6),
        "",
    );
    let convex = NICS.iter().all(|c| {
        let y = poisson.curve(c, &[], LOAD, "latency_us.mean");
        let [a, b, c] = [0.2e6, 0.5e6, 0.8e6].map(|x| value_at(&y, x));
        let (loaded, over) = (value_at(&y, 0.8e6), value_at(&y, 1.0e6));
        c - b > b - a && over > 20.0 * loaded
    });
    v.when("NIC-13", convex, "the rise from 0.5 to 0.8 Mpps above that from 0.2 to 0.5; at 1.0 more than 20 times that at 0.8", latencies(poisson, 0.8e6), "bounded by the rings: n x 512 x 1.111 us");
    v.when(
        "NIC-14",
        grows("cpu", 0.99),
        "at every load from 0.1 to 0.8 Mpps, unless all are full",
        NICS.map(|c| {
            format!(
                "{:.0} %",
                poisson.at(c, &[(LOAD, 0.3e6)], "cpu").mean * 100.0
            )
        })
        .join(", "),
        "",
    );
}

fn latencies(rows: &Rows, load: f64) -> String {
    let us = NICS.map(|c| format!("{:.1}", rows.at(c, &[(LOAD, load)], "latency_us.mean").mean));
    format!("{} us at {} Mpps", us.join(", "), load / 1e6)
}
