//! Statements of "Beyond Softnet" that no row judges.

use rxlane_sim::SimError;
use rxlane_sim::congestion::MITIGATION_PACKETS;

use super::rows::{LOAD, forwarded, mlffr};
use crate::claims::{Claims, list, shown};
use crate::interval::{Interval, every};
use crate::judge::PREDICT;
use crate::table::{Data, Rows};

/// 100 Mbit/s of 64-byte frames, pps.
const LINE: f64 = 148_810.0;
const LATENCY: &str = "latency_us.mean";

pub(super) fn judge(data: &Data, c: &mut Claims) -> Result<(), SimError> {
    let rows = data.of("fig-4-6.toml");
    collapse(rows, c);
    napi(rows, c);
    shared(data.of("greedy.toml"), data.of("nics.toml"), c);
    two_processors(data.of("smp-load.toml"), c);
    arithmetic(c);
    Ok(())
}

fn collapse(rows: &Rows, c: &mut Claims) {
    let cpu = rows.get("plain", &[(LOAD, 27e3)], "cpu");
    c.rule(
        "R004-004",
        cpu.at_least(0.95),
        "CPU of plain softnet at 27 kpps at least 95 %",
        list([cpu], 100.0) + " %",
    );
    let [plain, hfc] = ["plain", "HFC"].map(|case| forwarded(rows, case));
    let most = mlffr(rows, "HFC");
    c.rule(
        "R004-005",
        hfc.at(60e3).above(plain.at(60e3).times(1.1)) && hfc.at(140e3).at_most(0.9 * most.mean),
        "HFC forwards more than plain softnet of 60 kpps, and of 140 kpps at most 90 % of its own MLFFR",
        list([hfc.at(60e3), plain.at(60e3), hfc.at(140e3), most], 1e-3) + " kpps",
    );
    let share = mlffr(rows, "plain").times(1.0 / LINE);
    c.number(
        "R004-018",
        "MLFFR of plain softnet over 148.8 kpps",
        share,
        0.65,
        PREDICT,
    );
    highest_latency(
        rows,
        c,
        "R004-025",
        "highest mean latency over the load of plain softnet above FF's, and that above NAPI's",
    );
}

fn napi(rows: &Rows, c: &mut Claims) {
    let at = |case: &str, load: f64, metric: &str| rows.get(case, &[(LOAD, load)], metric);
    let each = |load: f64| {
        let served = at("NAPI", load, "throughput_pps");
        served.over(at("NAPI", load, "irq_per_s"))
    };
    let latency = |load: f64| at("NAPI", load, LATENCY);
    c.rule(
        "R004-016",
        each(45e3).above(each(5e3).times(1.5)) && latency(45e3).above(latency(5e3).times(1.5)),
        "NAPI's packets an interrupt and its latency at 45 kpps both above one and a half times those at 5 kpps",
        list([5e3, 45e3].map(each), 1.0) + " packets an interrupt",
    );
    let isr = |case: &str| at(case, 140e3, "cpu_isr");
    c.rule(
        "R004-033",
        isr("NAPI").at_most(0.1 * isr("plain").mean),
        "CPU that interrupts take of NAPI at 140 kpps at most a tenth of plain softnet's",
        list(["NAPI", "plain"].map(isr), 100.0) + " %",
    );
    let loads = [20e3, 30e3, 45e3, 60e3];
    let apart = |load: f64| (at("FF", load, "cpu_isr"), at("FF", load, "cpu_packet"));
    c.rule(
        "R004-034",
        every(loads, |load| apart(load).0.above(apart(load).1)),
        "with FF interrupts take more CPU than packets at 20, 30, 45 and 60 kpps",
        format!(
            "{}, {} % at 20 kpps",
            shown(apart(20e3).0.mean * 100.0),
            shown(apart(20e3).1.mean * 100.0)
        ),
    );
}

fn shared(greedy: &Rows, nics: &Rows, c: &mut Claims) {
    let of = |case: &str, nic: usize| greedy.get(case, &[], &format!("throughput_pps.nic{nic}"));
    let more = |case: &str| of(case, 0).over(Interval::highest((1..4).map(|n| of(case, n))));
    c.rule(
        "R004-009",
        more("FF").at_least(2.0) && more("FF").above(more("NAPI")),
        "with FF's shared backlog a greedy interface gets at least twice what each of three others gets, and more than with NAPI",
        list(["FF", "NAPI"].map(more), 1.0) + " times in FF and NAPI",
    );
    let at = |case: &str, count: f64| nics.get(case, &[("nic.count", count)], "throughput_pps");
    let (one, many) = (at("FF", 1.0), at("FF", 32.0));
    c.rule(
        "R004-011",
        one.above(many.times(1.2)) && many.above(at("plain", 32.0)),
        "FF forwards a fifth more of 140 kpps on 1 NIC than on 32, on which it forwards more than plain softnet",
        list([one, many, at("plain", 32.0)], 1e-3) + " kpps",
    );
}

fn two_processors(rows: &Rows, c: &mut Claims) {
    let at = |case: &str, load: f64, metric: &str| rows.get(case, &[(LOAD, load)], metric);
    let all = |load: f64, metric: &str| ["NAPI", "FF", "plain"].map(|case| at(case, load, metric));
    let [napi, ff, plain] = all(140e3, "throughput_pps");
    c.rule(
        "R004-021",
        napi.above(ff) && ff.above(plain),
        "on two processors NAPI forwards more of 140 kpps than FF, and FF more than plain softnet",
        list([napi, ff, plain], 1e-3) + " kpps",
    );
    highest_latency(
        rows,
        c,
        "R004-026",
        "on two processors the highest mean latency of plain softnet above FF's, and that above NAPI's",
    );
}

/// Over all loads, the longer the plainer the kernel.
fn highest_latency(rows: &Rows, c: &mut Claims, id: &'static str, rule: &'static str) {
    let worst = |case: &str| Interval::highest(rows.points(case, &[], LOAD, LATENCY).values());
    let [napi, ff, plain] = ["NAPI", "FF", "plain"].map(worst);
    c.rule(
        id,
        ff.above(napi) && plain.above(ff),
        rule,
        list([napi, ff, plain], 1e-3) + " ms",
    );
}

fn arithmetic(c: &mut Claims) {
    c.computed(
        "R004-007",
        "packets of a mitigated interrupt",
        f64::from(MITIGATION_PACKETS),
        16.0,
        0.0,
    );
    let (whole, interrupt) = (1e3 / 27.0, 1e3 / 60.0);
    c.computed(
        "E1",
        "1 / 27 kpps - 1 / 60 kpps, us",
        whole - interrupt,
        20.4,
        0.005,
    );
    let each = 1e6 / (0.65 * LINE);
    c.computed("E2", "1 / (0.65 x 148.8 kpps), us", each, 10.3, 0.01);
    c.computed(
        "E3",
        "2 x 350 MHz / 200 kpps, cycles",
        2.0 * 350e6 / 200e3,
        3500.0,
        1e-9,
    );
    c.computed("E6", "4 ms over a packet", 4e3 / each, 388.0, 0.01);
}
