//! Plots as figures: SVG, once for a screen with the names beside the lines, and once for a phone with the names below.

mod draw;
mod labels;

use maud::{Markup, PreEscaped, html};
use plotters::style::RGBColor;

use crate::PlotError;
use crate::unit::Unit;

/// A line of a plot.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Its name, which stands at its end.
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

/// A shaded part of the plot, such as what never arrived. It is cut off at the ends of the axes.
#[derive(Debug, Clone)]
pub struct Band {
    /// From and to, on the x axis.
    pub x: (f64, f64),
    /// From and to, on the y axis.
    pub y: (f64, f64),
    /// Which of the colours.
    pub colour: usize,
    /// What it is.
    pub label: String,
}

/// An axis.
#[derive(Debug, Clone, Copy, Default)]
pub struct Axis<'a> {
    /// Quantity, and unit where the numbers do not say it.
    pub says: &'a str,
    /// How its numbers are said.
    pub unit: Unit,
    /// Whether it is logarithmic.
    pub log: bool,
    /// Its ends; without them it holds everything that is drawn, from 0 on or from a power of ten to another.
    pub range: Option<(f64, f64)>,
}

/// A plot.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plot<'a> {
    /// Above the plot.
    pub title: &'a str,
    /// Along it.
    pub x: Axis<'a>,
    /// Up it.
    pub y: Axis<'a>,
    /// What is measured or computed.
    pub lines: &'a [Line],
    /// What others state.
    pub marks: &'a [Mark],
    /// What is shaded.
    pub bands: &'a [Band],
}

/// Colours that differ for colour-blind readers too (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

fn colour(of: usize) -> RGBColor {
    COLOURS[of % COLOURS.len()]
}

/// What it is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// A screen: names stand beside their lines.
    Wide,
    /// A phone: names stand elsewhere.
    Narrow,
}

impl Plot<'_> {
    /// The plot as one SVG.
    ///
    /// # Errors
    /// [`PlotError`], for values that no axis can hold.
    pub fn svg(&self, width: Width) -> Result<String, PlotError> {
        let mut svg = String::new();
        draw::draw(self, width, &mut svg).map_err(|e| PlotError {
            title: self.title.to_owned(),
            cause: e.to_string(),
        })?;
        Ok(svg)
    }

    /// The plot under its title, for screens and for phones.
    ///
    /// # Errors
    /// As [`Plot::svg`].
    pub fn figure(&self) -> Result<Markup, PlotError> {
        let (wide, narrow) = (self.svg(Width::Wide)?, self.svg(Width::Narrow)?);
        Ok(html! {
            figure {
                figcaption { (self.title) }
                div.wide { (PreEscaped(wide)) }
                div.narrow {
                    (PreEscaped(narrow))
                    ul.legend { @for line in self.lines { li { span style=(sample(line)) {} (line.label) } } }
                }
            }
        })
    }
}

fn sample(line: &Line) -> String {
    let RGBColor(r, g, b) = colour(line.colour);
    let style = if line.dashed { "dashed" } else { "solid" };
    format!("border-top-color:rgb({r},{g},{b});border-top-style:{style}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, points: Vec<(f64, f64)>) -> Line {
        Line {
            label: label.into(),
            points,
            ..Line::default()
        }
    }

    #[test]
    fn a_screen_has_names_beside_the_lines_and_a_phone_below_the_plot() {
        let lines = [line("SQ <1>", vec![(1.0, 10.0), (2.0, 2_000.0)])];
        let us = Axis {
            says: "latency",
            unit: Unit::Us,
            log: true,
            range: None,
        };
        let plot = Plot {
            title: "Latency",
            y: us,
            lines: &lines,
            ..Plot::default()
        };
        let wide = plot.svg(Width::Wide).unwrap();
        assert!(wide.contains("SQ &lt;1&gt;"), "{wide}");
        for tick in ["10 us", "100 us", "1 ms", "10 ms"] {
            assert!(wide.contains(tick), "{tick}: {wide}");
        }
        assert!(!plot.svg(Width::Narrow).unwrap().contains("SQ"));
        let figure = plot.figure().unwrap().into_string();
        assert_eq!(figure.matches("<svg").count(), 2);
        assert!(figure.contains("<li><span"), "{figure}");
    }

    #[test]
    fn nothing_to_draw_and_values_without_a_logarithm_are_no_error() {
        let log = Axis {
            log: true,
            ..Axis::default()
        };
        let lines = [line(
            "l",
            vec![(0.0, -1.0), (f64::NAN, 2.0), (1.0, f64::INFINITY)],
        )];
        let bands = [Band {
            x: (0.0, f64::INFINITY),
            y: (0.0, 1.0),
            colour: 9,
            label: "lost".into(),
        }];
        for lines in [&lines[..], &[]] {
            for (x, y) in [(log, log), (Axis::default(), log), (log, Axis::default())] {
                let plot = Plot {
                    x,
                    y,
                    lines,
                    bands: &bands,
                    ..Plot::default()
                };
                assert!(plot.svg(Width::Wide).unwrap().contains("<svg"));
            }
        }
    }
}
