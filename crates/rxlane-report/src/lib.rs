//! Plots and self-contained HTML pages.
//!
//! Purpose: results that people would rather look at than read. Guarantee: a page needs nothing but itself, can be read on a
//! phone and in the dark, carries its data and what it was made on; axes say units; colours differ for colour-blind
//! readers too (Okabe and Ito, "Color Universal Design", 2008); no text becomes markup by itself. Use: a
//! [`Plot`](plot::Plot) draws, a [`Page`](page::Page) wraps.
//!
//! ```
//! use maud::html;
//! use rxlane_report::page::Page;
//! use rxlane_report::plot::{Axis, Line, Plot};
//! use rxlane_report::unit::Unit;
//!
//! let lines = [Line { label: "SQ".into(), points: vec![(0.5, 8.0), (1.5, 11.7)], ..Line::default() }];
//! let plot = Plot {
//!     title: "Latency",
//!     x: Axis { says: "offered load, Mpps", ..Axis::default() },
//!     y: Axis { says: "mean latency", unit: Unit::Us, ..Axis::default() },
//!     lines: &lines,
//!     ..Plot::default()
//! };
//! let page = Page {
//!     title: "A router".into(),
//!     lead: html! { p { "Measured." } },
//!     body: plot.figure()?,
//!     test_bed: vec![("kernel".into(), "6.12".into())],
//!     data: None,
//! };
//! assert!(page.render().contains("<svg"));
//! # Ok::<(), rxlane_report::PlotError>(())
//! ```

#![forbid(unsafe_code)]

pub mod heat;
pub mod page;
pub mod plot;
pub mod table;
pub mod unit;

/// A plot that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw `{title}`: {cause}")]
pub struct PlotError {
    /// Of the plot.
    pub title: String,
    /// Why.
    pub cause: String,
}
