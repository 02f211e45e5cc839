//! Drawing a plot.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::labels::apart;
use super::{Axis, Plot, Width, colour};
use crate::unit::decades;

/// Height of a line of text, pixels.
const TEXT: i32 = 17;
/// Width of a character of a name, pixels.
const CHARACTER: f64 = 7.6;
/// Names longer than this are cut off by the page rather than leave no room for the plot, pixels.
const MOST_NAMES: u32 = 280;
const GRID: RGBColor = RGBColor(238, 238, 238);

/// A name, and where it belongs.
struct Name<'a> {
    y: i32,
    colour: usize,
    text: &'a str,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn ends(axis: &Axis<'_>, values: impl Iterator<Item = f64>) -> Range<f64> {
    if let Some((from, to)) = axis.range {
        return from..to;
    }
    let (low, high) = values
        .filter(|v| v.is_finite() && (!axis.log || *v > 0.0))
        .fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    match (axis.log, low.is_finite()) {
        (_, false) => 1.0..10.0,
        (true, true) => {
            let (from, to) = decades(low, high * 1.01);
            from..to
        }
        (false, true) => 0.0..(high * 1.05).max(1e-9),
    }
}

pub(super) fn draw(plot: &Plot<'_>, width: Width, svg: &mut String) -> Result<(), Box<dyn Error>> {
    let wide = width == Width::Wide;
    let size = if wide { (960, 440) } else { (400, 320) };
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || {
        let marked = plot.marks.iter().map(|m| &m.at);
        plot.lines
            .iter()
            .flat_map(|l| l.points.iter())
            .chain(marked)
    };
    let x = ends(&plot.x, all().map(|p| p.0));
    let y = ends(&plot.y, all().map(|p| p.1));
    let longest = plot.lines.iter().map(|l| l.label.chars().count()).max();
    let names = match wide {
        true => ((longest.unwrap_or(0) as f64 * CHARACTER) as u32 + 16).min(MOST_NAMES),
        false => 30,
    };
    let font = if wide { 17 } else { 15 };
    let mut builder = ChartBuilder::on(&root);
    builder
        .margin(10)
        .margin_right(names)
        .x_label_area_size(if wide { 46 } else { 40 })
        .y_label_area_size(if wide { 78 } else { 62 });
    let (fits_x, fits_y) = (x.clone(), y.clone());
    // Whether an axis can hold it.
    let fits = |p: &(f64, f64)| {
        let one = |v: f64, axis: &Axis<'_>| v.is_finite() && (!axis.log || v > 0.0);
        one(p.0, &plot.x) && one(p.1, &plot.y)
    };
    macro_rules! chart {
        ($chart:expr) => {{
            let mut chart = $chart;
            chart
                .configure_mesh()
                .x_desc(plot.x.says)
                .y_desc(plot.y.says)
                .x_max_light_lines(if plot.x.log { 10 } else { 0 })
                .y_max_light_lines(if plot.y.log { 10 } else { 0 })
                .x_labels(if wide { 10 } else { 5 })
                .y_labels(if wide { 9 } else { 6 })
                .x_label_formatter(&|v| plot.x.unit.text(*v))
                .y_label_formatter(&|v| plot.y.unit.text(*v))
                .label_style(("sans-serif", font))
                .axis_desc_style(("sans-serif", font))
                .light_line_style(GRID)
                .bold_line_style(GRID)
                .draw()?;
            for band in plot.bands {
                let x = clamped(band.x, &fits_x);
                let y = clamped(band.y, &fits_y);
                let shade = colour(band.colour).mix(0.14).filled();
                chart.draw_series([Rectangle::new([(x.0, y.0), (x.1, y.1)], shade)])?;
                let pixel = |at| chart.plotting_area().map_coordinate(&at);
                let (corner, opposite) = (pixel((x.0, y.1)), pixel((x.1, y.0)));
                let room = (opposite.0 - corner.0, opposite.1 - corner.1);
                let needs = (band.label.chars().count() as f64 * CHARACTER) as i32 + 12;
                if room.1 >= TEXT && room.0 >= needs {
                    let centre = ((corner.0 + opposite.0) / 2, (corner.1 + opposite.1) / 2);
                    text(
                        &root,
                        &band.label,
                        centre,
                        HPos::Center,
                        font,
                        &colour(band.colour),
                    )?;
                }
            }
            for (i, line) in plot.lines.iter().enumerate() {
                // Equal curves: the earlier one shows at both sides of the later.
                let thick = 2 + (plot.lines.len() - 1 - i).min(3) as u32;
                let style = colour(line.colour).stroke_width(if line.dashed { 2 } else { thick });
                let points = line.points.iter().copied().filter(|p| fits(p));
                let points: Vec<(f64, f64)> = points.collect();
                if line.dashed {
                    chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?;
                } else {
                    chart.draw_series(LineSeries::new(points, style))?;
                }
            }
            for mark in plot.marks.iter().filter(|m| fits(&m.at)) {
                chart.draw_series([Circle::new(mark.at, 5, BLACK.stroke_width(2))])?;
                let (x, y) = chart.plotting_area().map_coordinate(&mark.at);
                // To the side on which there is room.
                let left = x > size.0 as i32 * 2 / 3;
                let (to, side) = if left {
                    (-8, HPos::Right)
                } else {
                    (8, HPos::Left)
                };
                text(&root, &mark.label, (x + to, y - 10), side, font - 1, &BLACK)?;
            }
            let place = |line: &super::Line| {
                let last = line.points.iter().rev().find(|p| fits(p))?;
                Some(chart.plotting_area().map_coordinate(last).1)
            };
            let at: Vec<Name<'_>> = plot
                .lines
                .iter()
                .filter_map(|line| {
                    Some(Name {
                        y: place(line)?,
                        colour: line.colour,
                        text: &line.label,
                    })
                })
                .collect();
            if wide {
                let x = size.0 as i32 - names as i32 + 8;
                name_lines(&root, &at, x, size.1 as i32 - 46, font)?;
            }
        }};
    }
    match (plot.x.log, plot.y.log) {
        (true, true) => chart!(builder.build_cartesian_2d(x.log_scale(), y.log_scale())?),
        (true, false) => chart!(builder.build_cartesian_2d(x.log_scale(), y)?),
        (false, true) => chart!(builder.build_cartesian_2d(x, y.log_scale())?),
        (false, false) => chart!(builder.build_cartesian_2d(x, y)?),
    }
    root.present()?;
    Ok(())
}

fn clamped(part: (f64, f64), all: &Range<f64>) -> (f64, f64) {
    (
        part.0.clamp(all.start, all.end),
        part.1.clamp(all.start, all.end),
    )
}

/// Text, vertically centred.
fn text(
    root: &Area<'_>,
    says: &str,
    at: (i32, i32),
    side: HPos,
    size: i32,
    colour: &RGBColor,
) -> Result<(), Box<dyn Error>> {
    let style = ("sans-serif", size).into_font().color(colour);
    let style = style.pos(Pos::new(side, VPos::Center));
    root.draw(&Text::new(says, at, style))?;
    Ok(())
}

fn name_lines(
    root: &Area<'_>,
    names: &[Name<'_>],
    x: i32,
    bottom: i32,
    size: i32,
) -> Result<(), Box<dyn Error>> {
    let wanted: Vec<i32> = names.iter().map(|n| n.y).collect();
    for (name, y) in names.iter().zip(apart(&wanted, TEXT, TEXT, bottom)) {
        text(
            root,
            name.text,
            (x, y),
            HPos::Left,
            size,
            &colour(name.colour),
        )?;
    }
    Ok(())
}
