//! Figures of distributions of core load, as Fig. 5 to 7 of single-input-queue.

use maud::{Markup, html};
use rxlane_report::PlotError;
use rxlane_report::plot::{Axis, Line, Mark, Plot};

use rxlane_policy::samples::Samples;

/// ECDF, CCDF with exponential fits, and the CCDF in log-log scale, of named samples of loads from 0 to 1.
/// `prefixes` go before the three titles, `stated` are points of the ECDF that somebody else states, in percent.
///
/// # Errors
/// [`PlotError`], for values that no axis can hold.
pub fn figures(
    cases: &[(String, Samples)],
    prefixes: [&str; 3],
    stated: &[Mark],
) -> Result<Markup, PlotError> {
    let curves = |of: &dyn Fn(&Samples) -> Vec<(f64, f64)>| -> Vec<Line> {
        cases
            .iter()
            .enumerate()
            .map(|(colour, (label, samples))| Line {
                label: label.clone(),
                points: of(samples)
                    .into_iter()
                    .map(|(x, p)| (x * 100.0, p))
                    .collect(),
                colour,
                dashed: false,
            })
            .collect()
    };
    let mut fitted = curves(&Samples::ccdf);
    for (colour, (_, samples)) in cases.iter().enumerate() {
        let mean = samples.mean();
        if mean <= 0.0 {
            continue;
        }
        fitted.push(Line {
            label: format!("exponential of mean {:.0} %", mean * 100.0),
            points: (0..=100)
                .map(|x| (f64::from(x), (-f64::from(x) / 100.0 / mean).exp()))
                .collect(),
            colour,
            dashed: true,
        });
    }
    // Zero has no logarithm.
    let mut positive = curves(&Samples::ccdf);
    for line in &mut positive {
        line.points.retain(|(x, p)| *x > 0.0 && *p > 0.0);
    }
    let draw = |title: String, says, log: bool, drawn: &[Line], marks: &[Mark]| {
        let axis = |says| Axis {
            says,
            log,
            ..Axis::default()
        };
        let plot = Plot {
            title: &title,
            x: axis("core load, %"),
            y: axis(says),
            lines: drawn,
            marks,
            ..Plot::default()
        };
        plot.figure()
    };
    let [ecdf, ccdf, log] = prefixes;
    let below = format!("{ecdf}distribution of core load");
    let above = format!("{ccdf}complementary distribution, with exponential fits");
    let drawn = [
        draw(
            below,
            "P(load <= x)",
            false,
            &curves(&Samples::ecdf),
            stated,
        )?,
        draw(above, "P(load > x)", false, &fitted, &[])?,
        draw(
            format!("{log}the same in log-log scale"),
            "P(load > x)",
            true,
            &positive,
            &[],
        )?,
    ];
    Ok(html! { @for figure in &drawn { (figure) } })
}
