//! Statements of "Single Input Queue" that no row judges.

use rxlane_sim::SimError;

use super::PAPER;
use super::rows::{FRAME, VISIBLE, loads, loses_up_to};
use crate::claims::{Claims, list, shown};
use crate::interval::{Interval, every};
use crate::profile::machine;
use crate::table::{Data, Rows};

pub(super) fn judge(data: &Data, c: &mut Claims) -> Result<(), SimError> {
    let rows = data.of("fig-4-10.toml");
    load(rows, c);
    loss(rows, c);
    arithmetic(c)
}

/// Mean and variance of the samples of core load of a case.
fn moments(rows: &Rows, case: &str) -> (f64, f64) {
    let all = || {
        rows.matching(case, &[])
            .flat_map(|r| r.loads.iter().copied())
    };
    let n: f64 = all().map(|(_, n)| n as f64).sum();
    let mean = all().map(|(x, n)| x * n as f64).sum::<f64>() / n;
    let variance = all()
        .map(|(x, k)| (x - mean).powi(2) * k as f64)
        .sum::<f64>()
        / n;
    (mean, variance)
}

fn load(rows: &Rows, c: &mut Claims) {
    let cpu = |case: &str| rows.points(case, &[], FRAME, "cpu");
    let (default, proposed) = (cpu("default"), cpu("proposed"));
    let small = default.between(64.0, 192.0);
    c.rule(
        "R003-003",
        every(&small.0, |(x, d)| d.above(proposed.at(*x))),
        "load of the proposed system's core below the default's at every frame of 64 to 192 bytes",
        list([default.at(64.0), proposed.at(64.0)], 100.0) + " % at 64 bytes",
    );
    let near = ["default", "masked", "proposed"].map(|case| {
        let samples = loads(rows, case);
        if samples.is_empty() {
            Interval::NONE
        } else {
            Interval::share(1.0 - samples.below(0.95), samples.len())
        }
    });
    c.rule(
        "R003-006",
        every(near, |x| x.low > 0.0),
        "a share of samples above 95 % that is above 0 in default, masked and proposed",
        list(near, 1.0),
    );
    let [default, masked, proposed] = ["default", "masked", "proposed"].map(|c| moments(rows, c));
    c.rule(
        "R003-017",
        proposed.0 < 0.95 * default.0 && proposed.1 < 0.95 * default.1,
        "mean and variance of the samples both at most 95 % of the default's in the proposed system",
        format!(
            "mean {} -> {}, variance {} -> {}",
            shown(default.0),
            shown(proposed.0),
            shown(default.1),
            shown(proposed.1)
        ),
    );
    c.rule(
        "R003-018",
        masked.1 <= 0.5 * default.1,
        "variance of the samples with others' interrupts held off at most half of that without",
        format!("{} -> {}", shown(default.1), shown(masked.1)),
    );
}

fn loss(rows: &Rows, c: &mut Claims) {
    let lost = |case: &str| rows.points(case, &[], FRAME, "loss");
    let (default, proposed) = (lost("default"), lost("proposed"));
    let losing: Vec<_> = default.0.iter().filter(|p| p.1.at_least(VISIBLE)).collect();
    c.rule(
        "R003-011",
        every(&losing, |(x, d)| d.above(proposed.at(*x))),
        "loss of the proposed system below the default's at every frame at which that loses 1 %",
        list([default.at(132.0), proposed.at(132.0)], 100.0) + " % at 132 bytes",
    );
    let app = rows.points("proposed", &[], FRAME, "loss_socket");
    let down = [372.0, 312.0, 192.0, 132.0].map(|x| app.at(x));
    c.rule(
        "R003-013",
        every(down.windows(2), |w| w[1].above(w[0])),
        "loss at the application grows from 372 over 312 and 192 to 132 bytes",
        list(down, 100.0) + " %",
    );
    c.rule(
        "R003-014",
        app.at(64.0).at_most(0.05),
        "loss at the application at 64 bytes at most 5 %",
        list([app.at(64.0)], 100.0) + " %",
    );
    let kernel = loses_up_to(rows, "default");
    c.rule(
        "D3",
        kernel.at_least(380.0),
        "largest frame with a kernel loss of 1 % by default above 380 bytes",
        shown(kernel.mean) + " bytes",
    );
}

fn arithmetic(c: &mut Claims) -> Result<(), SimError> {
    let mut smallest = machine(&PAPER)?;
    smallest.traffic.frame = 64;
    let line = smallest.line_rate().0 / 1e6;
    c.computed(
        "D1",
        "line rate of 64 bytes, with 8 of preamble and a gap of 12, Mpps",
        line,
        1.488,
        0.001,
    );
    // Of an exponential distribution with P(X < 10) = p.
    let mean = |p: f64| -10.0 / (1.0 - p).ln();
    c.computed(
        "D4",
        "the two means, summed, %",
        mean(0.12) + mean(0.75),
        78.2 + 7.2,
        0.005,
    );
    c.computed(
        "D7",
        "2^8 - 1",
        f64::from(2u8).powi(8) - 1.0,
        f64::from(0xFFu8),
        0.0,
    );
    Ok(())
}
