//! Plots as SVG text.

use plotters::prelude::*;

use crate::BenchError;

/// A line of a plot.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) colour: usize,
    pub(super) dashed: bool,
}

/// What the axes say.
pub(super) struct Axes<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    pub(super) log_x: bool,
    pub(super) log_y: bool,
}

const SIZE: (u32, u32) = (820, 440);
/// Colours that differ for colour-blind readers too (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Draws lines into an SVG.
pub(super) fn lines(axes: &Axes<'_>, lines: &[Line]) -> Result<String, BenchError> {
    let mut svg = String::new();
    draw(axes, lines, &mut svg)
        .map_err(|e| BenchError::Parameter(format!("cannot draw `{}`: {e}", axes.title)))?;
    Ok(svg)
}

fn range(values: impl Iterator<Item = f64>, log: bool) -> std::ops::Range<f64> {
    let (low, high) = values
        .filter(|v| v.is_finite() && (!log || *v > 0.0))
        .fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    match (log, low.is_finite()) {
        (_, false) => 1.0..10.0,
        (true, true) => 10f64.powf(low.log10().floor())..10f64.powf((high * 1.01).log10().ceil()),
        (false, true) => 0.0..(high * 1.05).max(1e-9),
    }
}

fn draw(
    axes: &Axes<'_>,
    lines: &[Line],
    svg: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || lines.iter().flat_map(|l| l.points.iter());
    let (x, y) = (
        range(all().map(|p| p.0), axes.log_x),
        range(all().map(|p| p.1), axes.log_y),
    );
    let mut builder = ChartBuilder::on(&root);
    builder
        .caption(axes.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(70);
    macro_rules! chart {
        ($chart:expr) => {{
            let mut chart = $chart;
            chart
                .configure_mesh()
                .x_desc(axes.x)
                .y_desc(axes.y)
                .light_line_style(RGBColor(238, 238, 238))
                .draw()?;
            for line in lines {
                let colour = COLOURS[line.colour % COLOURS.len()];
                let style = colour.stroke_width(2);
                let points: Vec<(f64, f64)> = line
                    .points
                    .iter()
                    .copied()
                    .filter(|p| (!axes.log_x || p.0 > 0.0) && (!axes.log_y || p.1 > 0.0))
                    .collect();
                let series = if line.dashed {
                    chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?
                } else {
                    chart.draw_series(LineSeries::new(points, style))?
                };
                series
                    .label(line.label.clone())
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::LowerRight)
                .background_style(WHITE.mix(0.85))
                .border_style(RGBColor(200, 200, 200))
                .draw()?;
        }};
    }
    match (axes.log_x, axes.log_y) {
        (true, true) => chart!(builder.build_cartesian_2d(x.log_scale(), y.log_scale())?),
        (true, false) => chart!(builder.build_cartesian_2d(x.log_scale(), y)?),
        (false, true) => chart!(builder.build_cartesian_2d(x, y.log_scale())?),
        (false, false) => chart!(builder.build_cartesian_2d(x, y)?),
    }
    root.present()?;
    Ok(())
}
