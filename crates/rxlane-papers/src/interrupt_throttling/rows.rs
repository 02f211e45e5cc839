//! Rows of "Optimizing Latency and CPU Load in Packet Processing Systems", IV and V.

use rxlane_policy::Pps;
use rxlane_policy::throttle::LinearLaw;
use rxlane_sim::SimError;

use crate::interval::{Interval, every};
use crate::judge::{Baseline, FIT, Number, PREDICT, Shape, Verdicts};
use crate::table::{Curve, Data, Rows};

const LOAD: &str = "traffic.pps";
pub(super) const LOSS: f64 = 1e-3;
pub(super) const LATENCY: &str = "latency_us.mean";
/// The highest load below overload that is simulated, pps.
pub(super) const LAST: f64 = 2.05e6;

pub(super) fn curve(rows: &Rows, case: &str, metric: &str) -> Curve {
    rows.points(case, &[], LOAD, metric)
}

fn most(rows: &Rows, case: &str) -> Interval {
    curve(rows, case, "loss").stays_within(LOSS).times(1e-6)
}

pub(super) fn judge(data: &Data, v: &mut Verdicts) -> Result<(), SimError> {
    let rows = data.of("fig-3-8.toml");
    without(rows, v);
    three_state(rows, v);
    improved(rows, v);
    law(v);
    Ok(())
}

fn without(rows: &Rows, v: &mut Verdicts) {
    v.number(
        "ITR-01",
        &Number {
            judged: "highest load without loss, Mpps",
            model: most(rows, "off"),
            stated: 2.1,
            tolerance: FIT,
            effect: Err("a level"),
            note: "loss up to 0.1 %",
        },
    );
    let cpu = curve(rows, "off", "cpu");
    let top = curve(rows, "off", "irq_per_s").peak().0;
    let full = cpu.reaches(0.995);
    v.shape(
        "ITR-02",
        Shape {
            judged: "loads at which interrupts are most and CPU reaches 99.5 %",
            holds: (top - 0.5e6).abs() <= FIT * 0.5e6 && full.within(FIT, 0.5e6),
            rule: "both within 10 % of 0.5 Mpps",
            effect: "an interrupt a packet until the core is full",
            model: format!("peak {:.2}, full {:.2} Mpps", top / 1e6, full.mean / 1e6).into(),
            note: "causes raised while masked are latched, else the core would be at 62 % here",
        },
    );
    let below = cpu.between(0.02e6, 0.5e6);
    v.shape(
        "ITR-03",
        Shape {
            judged: "CPU from 0.02 to 0.5 Mpps",
            holds: below.bend() <= 0.1 && cpu.at(0.5e6).above(cpu.at(0.25e6).times(1.5)),
            rule: "within 10 % of the straight line through its ends, and rising by half from 0.25 Mpps on",
            effect: "an interrupt a packet, up to full load",
            model: format!("{:.1} %", below.bend() * 100.0).into(),
            note: "",
        },
    );
    let latency = curve(rows, "off", LATENCY);
    let loaded = latency.between(0.5e6, LAST);
    let lowest = Interval::lowest(loaded.values());
    let lowest_at = latency.0.iter().find(|p| {
        let all = Interval::lowest(latency.between(0.0, LAST).values());
        p.1.mean == all.mean
    });
    let at = lowest_at.map_or(f64::NAN, |p| p.0);
    let last = latency.at(LAST);
    v.shape(
        "ITR-04",
        Shape {
            judged: "mean latency up to 2.05 Mpps",
            holds: last.at_most(1.25 * lowest.mean) && (at - 0.5e6).abs() <= 0.1e6,
            rule: "at most a quarter above its lowest; lowest within 0.1 Mpps of 0.5",
            effect: "polling costs no latency",
            model: format!(
                "{:.2} to {:.2} us, lowest at {:.2} Mpps",
                lowest.mean,
                last.mean,
                at / 1e6
            )
            .into(),
            note: "without the latency outside of the core (generator, wire, NIC), which no row gives: beside 5 us of it the rise would be a sixth",
        },
    );
    v.number(
        "ITR-05",
        &Number {
            judged: "mean latency at 2.5 Mpps, us",
            model: rows.get("off", &[(LOAD, 2.5e6)], LATENCY),
            stated: 2300.0,
            tolerance: FIT,
            effect: Err("a level"),
            note: "2300 us at 2.1 Mpps are 4830 packets: the ring's 512 and the NIC's own buffer",
        },
    );
}

fn three_state(rows: &Rows, v: &mut Verdicts) {
    let latency = curve(rows, "default", LATENCY);
    let plateau = latency.between(0.4e6, 1.5e6);
    let mean = Interval::mean_of(plateau.values());
    let off = Interval::mean_of(curve(rows, "off", LATENCY).between(0.4e6, 1.5e6).values());
    v.number(
        "ITR-06",
        &Number {
            judged: "mean latency of the default from 0.4 to 1.5 Mpps, us",
            model: mean,
            stated: 60.0,
            tolerance: PREDICT,
            effect: Ok(Baseline {
                what: "no throttling",
                model: off.mean,
                // "by an order of magnitude worse" (IV.B).
                stated: 6.0,
            }),
            note: "",
        },
    );
    let lowest = Interval::lowest(plateau.values());
    let last = latency.at(LAST);
    v.shape(
        "ITR-07",
        Shape {
            judged: "mean latency of the default at 2.05 Mpps and from 0.4 to 1.5 Mpps, us",
            holds: lowest.times(0.8).above(last),
            rule: "below 80 % of the lowest of the plateau",
            effect: "polls last as long as the timer before overload",
            model: format!("{:.1} after {:.1}", last.mean, lowest.mean).into(),
            note: "at 2.1 Mpps itself, the capacity, latency depends on the length of the run",
        },
    );
    let cpu = curve(rows, "default", "cpu").between(0.4e6, 2.0e6);
    let saved = curve(rows, "off", "cpu")
        .at(0.5e6)
        .above(cpu.at(0.5e6).times(1.5));
    v.shape(
        "ITR-08",
        Shape {
            judged: "CPU of the default from 0.4 to 2.0 Mpps",
            holds: cpu.bend() <= 0.1 && saved,
            rule: "within 10 % of the straight line through its ends; without throttling half as much again at 0.5 Mpps",
            effect: "packets cost, interrupts hardly",
            model: format!("{:.1} %", cpu.bend() * 100.0).into(),
            note: "20 MB/s are 0.3125 Mpps of 64 bytes",
        },
    );
    let [off, default] = ["off", "default"].map(|c| most(rows, c));
    v.shape(
        "ITR-09",
        Shape {
            judged: "highest load without loss, with and without throttling",
            holds: default.within(0.05, off.mean),
            rule: "within 5 %",
            effect: "a saturated core is polled, throttled or not",
            model: format!("{:.2}, {:.2} Mpps", off.mean, default.mean).into(),
            note: "",
        },
    );
}

fn improved(rows: &Rows, v: &mut Verdicts) {
    let equal = every(["latency_us.mean", "cpu"], |metric| {
        let [a, b] = ["improved", "default"].map(|c| curve(rows, c, metric));
        every([0.02e6, 0.05e6, 0.08e6], |x| {
            a.at(x).within(0.1, b.at(x).mean)
        })
    });
    v.shape(
        "ITR-10",
        Shape {
            judged: "latency and CPU of the improved law and the default",
            holds: equal,
            rule: "within 10 % at 0.02, 0.05 and 0.08 Mpps",
            effect: "an interrupt a packet in both",
            model: if equal { "equal" } else { "different" }.into(),
            note: "",
        },
    );
    let of = |metric: &str| ["off", "default", "improved"].map(|c| curve(rows, c, metric));
    let [off, default, better] = of(LATENCY);
    // Where throttling does something: above 0.1 Mpps, and below overload.
    let range = default.between(0.15e6, LAST);
    let closed = |x: f64| {
        let [off, default, better] = [&off, &default, &better].map(|c| c.at(x));
        default.minus(better).over(default.minus(off))
    };
    let least = Interval::lowest(range.0.iter().map(|p| closed(p.0)));
    let where_least = range.0.iter().find(|p| closed(p.0).mean == least.mean);
    let [cpu_off, cpu_default, cpu_better] = of("cpu");
    let between = every(&range.0, |(x, _)| {
        cpu_better.at(*x).above(cpu_default.at(*x)) && cpu_off.at(*x).above(cpu_better.at(*x))
    });
    v.shape(
        "ITR-11",
        Shape {
            judged: "gap between the latencies of default and off that the improved law closes, from 0.15 to 2.05 Mpps",
            holds: least.mean >= 0.75 && between,
            rule: "75 % at every load; CPU between theirs",
            effect: "interrupts by packets buy most of the latency back",
            model: format!(
                "{:.0} % at {:.2} Mpps",
                least.mean * 100.0,
                where_least.map_or(f64::NAN, |p| p.0) / 1e6
            )
            .into(),
            note: "",
        },
    );
    let [_, default, better] = of("load_latency_cycles_us");
    let lower = every(default.between(0.3e6, 1.5e6).0, |(x, d)| {
        d.above(better.at(x))
    });
    let end = better.at(LAST).over(default.at(LAST));
    let low = better.at(0.05e6).over(default.at(0.05e6));
    v.shape(
        "ITR-12",
        Shape {
            judged: "load-latency product of the improved law, of the default's",
            holds: lower && [end, low].iter().all(|x| x.within(0.1, 1.0)),
            rule: "lower at every load from 0.3 to 1.5 Mpps; within 10 % at 0.05 and at 2.05 Mpps",
            effect: "a better trade at medium loads, none to be made at both ends",
            model: format!(
                "{:.2} at 0.5 Mpps; {:.2} and {:.2} at the ends",
                better.at(0.5e6).over(default.at(0.5e6)).mean,
                low.mean,
                end.mean
            )
            .into(),
            note: "",
        },
    );
}

fn law(v: &mut Verdicts) {
    let law = LinearLaw::default();
    let rates = [0.0, 1.05e6, 2.1e6, 2.5e6].map(|x| law.interrupts_per_second(Pps(x)));
    v.shape(
        "ITR-13",
        Shape {
            judged: "the policy's law",
            holds: rates == [100_000.0, 54_000.0, 8_000.0, 8_000.0],
            rule: "100000, 54000, 8000 at 0, 1.05, 2.1 Mpps; held at 8000 beyond",
            effect: "a formula",
            model: format!("{rates:?}").into(),
            note: "the formula itself would be negative beyond 2.28 Mpps",
        },
    );
}
