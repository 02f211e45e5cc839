//! Plots as SVG text.

use plotters::prelude::*;

use crate::PlotError;

/// A line of a plot.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Its points, in their order.
    pub points: Vec<(f64, f64)>,
    /// Which of the colours.
    pub colour: usize,
    /// Dashed or solid.
    pub dashed: bool,
}

/// A point that somebody else states.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Coordinates of the point, in the units of the axes.
    pub at: (f64, f64),
    /// Whose or what.
    pub label: String,
}

/// Where the legend has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Legend {
    /// At the bottom right.
    #[default]
    LowerRight,
    /// At the top left.
    UpperLeft,
    /// At the top right.
    UpperRight,
}

/// What the axes say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Axes<'a> {
    /// Above the plot.
    pub title: &'a str,
    /// Quantity and unit.
    pub x: &'a str,
    /// Quantity and unit.
    pub y: &'a str,
    /// Whether the x axis is logarithmic.
    pub log_x: bool,
    /// Whether the y axis is logarithmic.
    pub log_y: bool,
    /// Where the legend stands.
    pub legend: Legend,
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

/// Draws lines and marks into an SVG.
///
/// # Errors
/// [`PlotError`], for values that no axis can hold.
pub fn lines(axes: &Axes<'_>, lines: &[Line], marks: &[Mark]) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw(axes, lines, marks, &mut svg).map_err(|e| PlotError {
        title: axes.title.to_owned(),
        cause: e.to_string(),
    })?;
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
    marks: &[Mark],
    svg: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || {
        let marked = marks.iter().map(|m| &m.at);
        lines.iter().flat_map(|l| l.points.iter()).chain(marked)
    };
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
            for (i, line) in lines.iter().enumerate() {
                let colour = COLOURS[line.colour % COLOURS.len()];
                // Equal curves: the earlier one shows at both sides of the later.
                let width = 2 + (lines.len() - 1 - i).min(3) as u32;
                let style = colour.stroke_width(if line.dashed { 2 } else { width });
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
            for mark in marks {
                let ring = || Circle::new(mark.at, 5, BLACK.stroke_width(2));
                let label = EmptyElement::at(mark.at)
                    + Text::new(mark.label.clone(), (8, -14), ("sans-serif", 13));
                chart.draw_series([ring()])?;
                chart.draw_series([label])?;
            }
            chart
                .configure_series_labels()
                .position(match axes.legend {
                    Legend::LowerRight => SeriesLabelPosition::LowerRight,
                    Legend::UpperLeft => SeriesLabelPosition::UpperLeft,
                    Legend::UpperRight => SeriesLabelPosition::UpperRight,
                })
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
