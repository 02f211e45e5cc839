//! Rows of "Optimizing Latency and CPU Load in Packet Processing Systems", IV and V.

use rxlane_policy::Pps;
use rxlane_policy::throttle::LinearLaw;

use crate::judge::{FIT, PREDICT, Verdicts, plain};
use crate::table::{Data, Rows, peak, reaches, value_at};
use rxlane_sim::SimError;

const LOAD: &str = "traffic.pps";
const LOSS: f64 = 1e-3;

type Curve = Vec<(f64, f64)>;

fn most(rows: &Rows, case: &str) -> f64 {
    rows.curve(case, &[], LOAD, "loss")
        .into_iter()
        .take_while(|(_, loss)| *loss <= LOSS)
        .last()
        .map_or(0.0, |(pps, _)| pps)
}

/// How far a curve is from the straight line through its ends, relative to their difference.
fn bend(curve: &[(f64, f64)]) -> f64 {
    let (Some(a), Some(b)) = (curve.first(), curve.last()) else {
        return f64::NAN;
    };
    curve
        .iter()
        .map(|(x, y)| {
            let line = a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0);
            (y - line).abs() / (b.1 - a.1).abs()
        })
        .fold(0.0, f64::max)
}

fn within(curve: &Curve, from: f64, to: f64) -> Curve {
    curve
        .iter()
        .copied()
        .filter(|(x, _)| *x >= from - 1.0 && *x <= to + 1.0)
        .collect()
}

pub(super) fn judge(data: &Data, v: &mut Verdicts) -> Result<(), SimError> {
    let rows = data.of("fig-3-8.toml");
    without(rows, v);
    three_state(rows, v);
    improved(rows, v);
    Ok(())
}

fn without(rows: &Rows, v: &mut Verdicts) {
    v.near(
        "ITR-01",
        plain(most(rows, "off")),
        1e-6,
        2.1,
        FIT,
        "loss up to 0.1 %",
    );
    let irq = rows.curve("off", &[], LOAD, "irq_per_s");
    let cpu = rows.curve("off", &[], LOAD, "cpu");
    let (top, full) = (peak(&irq).0, reaches(&cpu, 0.995));
    let both = [top, full].iter().all(|x| (x - 0.5e6).abs() <= FIT * 0.5e6);
    v.when(
        "ITR-02",
        both,
        "both within 10 % of 0.5 Mpps",
        format!("peak {:.2}, full {:.2} Mpps", top / 1e6, full / 1e6),
        "causes raised while masked are latched, else the core would be at 62 % here",
    );
    let below = bend(&within(&cpu, 0.02e6, 0.5e6));
    v.when(
        "ITR-03",
        below <= 0.1,
        "within 10 % of the straight line",
        format!("{:.1} %", below * 100.0),
        "",
    );
    let latency = rows.curve("off", &[], LOAD, "latency_us.mean");
    let loaded = within(&latency, 0.5e6, 2.05e6);
    let (lowest, last) = (
        loaded.iter().map(|p| p.1).fold(f64::INFINITY, f64::min),
        loaded.last().map_or(f64::NAN, |p| p.1),
    );
    let default = value_at(&rows.curve("default", &[], LOAD, "latency_us.mean"), 0.5e6);
    let at = latency
        .iter()
        .copied()
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(f64::NAN, |p| p.0);
    v.when(
        "ITR-04",
        last - lowest < 0.05 * default && (at - 0.5e6).abs() <= 0.1e6,
        "rises by less than 5 % of the default's latency up to 2.05 Mpps; lowest within 0.1 Mpps of 0.5",
        format!("{lowest:.2} to {last:.2} us, lowest at {:.2} Mpps", at / 1e6),
        "without the latency outside of the core, which no row gives",
    );
    v.near(
        "ITR-05",
        rows.at("off", &[(LOAD, 2.5e6)], "latency_us.mean"),
        1.0,
        2300.0,
        FIT,
        "2300 us at 2.1 Mpps are 4830 packets: the ring's 512 and the NIC's own buffer",
    );
}

fn three_state(rows: &Rows, v: &mut Verdicts) {
    let latency = rows.curve("default", &[], LOAD, "latency_us.mean");
    let bulk: Vec<f64> = within(&latency, 0.4e6, 1.5e6).iter().map(|p| p.1).collect();
    let mean = bulk.iter().sum::<f64>() / bulk.len() as f64;
    v.near("ITR-06", plain(mean), 1.0, 60.0, PREDICT, "mean from 0.4 to 1.5 Mpps. A timer that runs from the interrupt gives (1 - rho) T / 2, so no plateau; one from the end of the poll gives 63.7 us at every load, but no drop before overload (ITR-07). The hardware's runs from the interrupt");
    let highest = peak(&within(&latency, 0.3e6, 2.0e6)).1;
    let near = within(&latency, 2.05e6, 2.1e6);
    let last = near.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    v.when(
        "ITR-07",
        last < 0.8 * highest,
        "at most 80 % of the plateau between 2.05 and 2.1 Mpps",
        format!("{highest:.1} to {last:.1} us"),
        "",
    );
    let cpu = within(&rows.curve("default", &[], LOAD, "cpu"), 0.4e6, 2.0e6);
    v.when(
        "ITR-08",
        bend(&cpu) <= 0.1,
        "within 10 % of the straight line from 0.4 to 2.0 Mpps",
        format!("{:.1} %", bend(&cpu) * 100.0),
        "20 MB/s are 0.3125 Mpps of 64 bytes",
    );
    let (off, default) = (most(rows, "off"), most(rows, "default"));
    v.when(
        "ITR-09",
        (off - default).abs() <= 0.05 * off,
        "within 5 %",
        format!("{:.2}, {:.2} Mpps", off / 1e6, default / 1e6),
        "",
    );
}

fn improved(rows: &Rows, v: &mut Verdicts) {
    let curve = |case: &str, metric: &str| rows.curve(case, &[], LOAD, metric);
    let equal = ["latency_us.mean", "cpu"].iter().all(|metric| {
        [0.02e6, 0.05e6, 0.08e6].iter().all(|load| {
            let (a, b) = (
                value_at(&curve("improved", metric), *load),
                value_at(&curve("default", metric), *load),
            );
            (a - b).abs() <= 0.1 * b
        })
    });
    v.when(
        "ITR-10",
        equal,
        "within 10 % at 0.02, 0.05 and 0.08 Mpps",
        if equal { "equal" } else { "different" },
        "",
    );
    let medium = [0.3e6, 0.5e6, 0.7e6, 0.9e6, 1.1e6];
    let at = |case: &str, metric: &str, load: f64| value_at(&curve(case, metric), load);
    let closed = |load: f64| {
        let [off, default, improved] =
            ["off", "default", "improved"].map(|c| at(c, "latency_us.mean", load));
        (default - improved) / (default - off)
    };
    let between = medium.iter().all(|load| {
        let [off, default, improved] = ["off", "default", "improved"].map(|c| at(c, "cpu", *load));
        default < improved && improved < off
    });
    let least = medium.iter().map(|x| closed(*x)).fold(1.0, f64::min);
    v.when(
        "ITR-11",
        least >= 0.75 && between,
        "closes 75 % of the gap between default and off from 0.3 to 1.1 Mpps; CPU between theirs",
        format!("{:.0} % at least", least * 100.0),
        "",
    );
    let product = "load_latency_cycles_us";
    let lower = medium
        .iter()
        .all(|x| at("improved", product, *x) < at("default", product, *x));
    let ends = [0.05e6, 2.5e6]
        .iter()
        .all(|x| (at("improved", product, *x) / at("default", product, *x) - 1.0).abs() <= 0.1);
    v.when(
        "ITR-12",
        lower && ends,
        "lower from 0.3 to 1.1 Mpps; within 10 % at 0.05 and 2.5 Mpps",
        format!(
            "{:.2} of the default's at 0.5 Mpps",
            at("improved", product, 0.5e6) / at("default", product, 0.5e6)
        ),
        "",
    );
    let law = LinearLaw::default();
    let rates = [0.0, 1.05e6, 2.1e6, 2.5e6].map(|x| law.interrupts_per_second(Pps(x)));
    v.when(
        "ITR-13",
        rates == [100_000.0, 54_000.0, 8_000.0, 8_000.0],
        "100000, 54000, 8000 at 0, 1.05, 2.1 Mpps; held at 8000 beyond",
        format!("{rates:?}"),
        "the formula itself would be negative beyond 2.28 Mpps",
    );
}
