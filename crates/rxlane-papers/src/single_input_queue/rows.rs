//! Rows of "Single Input Queue", IV.B.

use crate::judge::{FIT, PREDICT, Verdicts, plain};
use crate::table::{Data, Rows};
use rxlane_sim::SimError;
use rxlane_sim::stats::Samples;

const FRAME: &str = "traffic.frame";
/// The paper's sizes include the preamble.
const PREAMBLE: f64 = 8.0;
/// Loss that a plot in per cent shows.
const VISIBLE: f64 = 0.01;

const SETS: &str = "the paper's two pairs exclude each other: of exponential loads, 0.12 and 0.75 below 10 % mean 78 % and 7 %, not 28.65 and 17.39 %";

/// Core loads of a case over all frame sizes.
pub(super) fn loads(rows: &Rows, case: &str) -> Samples {
    Samples::new(
        rows.matching(case, &[])
            .flat_map(|r| r.loads.iter().copied()),
    )
}

/// Largest frame, as the paper counts, that visibly loses in the kernel; 0 if none does.
fn loses_up_to(rows: &Rows, case: &str) -> f64 {
    let loss = rows.curve(case, &[], FRAME, "loss_ring");
    // Between the last that loses and the next that does not.
    loss.windows(2)
        .rev()
        .find(|w| w[0].1 >= VISIBLE && w[1].1 < VISIBLE)
        .map_or(0.0, |w| {
            let share = (w[0].1 - VISIBLE) / (w[0].1 - w[1].1);
            w[0].0 + share * (w[1].0 - w[0].0) + PREAMBLE
        })
}

pub(super) fn judge(data: &Data, v: &mut Verdicts) -> Result<(), SimError> {
    let rows = data.of("fig-4-10.toml");
    core_load(rows, v);
    loss(rows, v);
    Ok(())
}

fn core_load(rows: &Rows, v: &mut Verdicts) {
    let (default, freed) = (loads(rows, "default"), loads(rows, "core 0 freed"));
    let over = |case: &str| {
        rows.mean(case, "cpu", |r| {
            r.key(FRAME).is_some_and(|f| (492.0..=1192.0).contains(&f))
        })
    };
    v.near("SIQ-01", plain(over("core 0 freed") / over("default")), 1.0, 0.1, PREDICT, "load of core 0 once NET_RX has moved to an idle core, to its load before, 500 to 1200 bytes. What is left is the other work of core 0, which no row that may be fitted gives apart");
    v.near(
        "SIQ-02",
        plain(default.below(0.1)),
        1.0,
        0.12,
        FIT,
        "samples over all frame sizes",
    );
    v.near("SIQ-03", plain(freed.below(0.1)), 1.0, 0.75, PREDICT, SETS);
    let proposed = rows.mean("proposed", "cpu", |_| true) * 100.0;
    let before = rows.mean("default", "cpu", |_| true) * 100.0;
    let near = |a: f64, b: f64| (a - b).abs() <= PREDICT * b;
    v.when("SIQ-04", near(before, 28.65) && near(proposed, 17.39), "both within 15 %", format!("{before:.1} -> {proposed:.1} %"), "the paper does not say over which frame sizes it averages, nor gives any absolute time; what masking saves here is the other work of the core, not a cheaper packet");
    let (d, p) = (default.tail(), loads(rows, "proposed").tail());
    let describe = |t: rxlane_sim::stats::Tail| {
        format!(
            "alpha {:.1}, R2 {:.3} log-log, {:.3} semi-log",
            t.alpha, t.r2_power, t.r2_exponential
        )
    };
    v.when("SIQ-08", d.long && p.long, "upper fifth slower than the fitted exponential, and straighter in log-log than in semi-log scale, for both", format!("default: {}; proposed: {}", describe(d), describe(p)), "a load that ends at 100 % cannot have a long tail in the strict sense; the paper sees one where the exponential fits badly");
}

fn loss(rows: &Rows, v: &mut Verdicts) {
    v.near(
        "SIQ-05",
        plain(loses_up_to(rows, "default")),
        1.0,
        500.0,
        FIT,
        "the largest frame with a kernel loss of 1 %, sizes with preamble",
    );
    let worst = rows
        .matching("proposed", &[])
        .filter(|r| r.key(FRAME).is_some_and(|f| f >= 192.0))
        .filter_map(|r| r.get("loss_ring"))
        .fold(0.0, f64::max);
    v.when(
        "SIQ-06",
        worst == 0.0,
        "0 at every size from 200 to 1200 bytes",
        worst * 100.0,
        "",
    );
    let app = rows.curve("proposed", &[], FRAME, "loss_socket");
    let top = crate::table::peak(&app);
    let begins = app
        .iter()
        .rev()
        .find(|(_, loss)| *loss >= VISIBLE)
        .map_or(0.0, |p| p.0 + PREAMBLE);
    let smallest = app.first().map_or(f64::NAN, |p| p.1);
    v.when(
        "SIQ-07",
        begins <= 380.0 + PREAMBLE && top.0 < begins && smallest < top.1,
        "begins at 380 bytes or below, grows to smaller frames, and is lower again at the smallest",
        format!("from {begins:.0} bytes, {:.0} % at {:.0}, {:.0} % at 72", top.1 * 100.0, top.0 + PREAMBLE, smallest * 100.0),
        "the application's rate is an input: what the wire carries at 380 bytes. Its loss turns where the kernel begins to lose; with the costs that SIQ-02 and SIQ-05 allow, the kernel of the proposed system keeps up with 72 bytes, and a NIC that drops costs no CPU, so nothing relieves the application",
    );
}
