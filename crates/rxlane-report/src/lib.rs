//! Plots and self-contained HTML pages.
//!
//! Purpose: results that people would rather look at than read. Guarantee: a page needs nothing but itself,
//! axes carry units, colours differ for colour-blind readers too (Okabe and Ito, "Color Universal Design", 2008). Use:
//! [`plot::lines`] draws, [`page`] wraps.
//!
//! ```
//! use rxlane_report::page;
//! use rxlane_report::plot::{Axes, Line, lines};
//!
//! let axes = Axes { title: "Latency", x: "offered load, Mpps", y: "mean latency, us", ..Axes::default() };
//! let line = Line { label: "SQ".into(), points: vec![(0.5, 8.0), (1.5, 11.7)], colour: 0, dashed: false };
//! let html = page("A router", "<p>Measured.</p>", &lines(&axes, &[line], &[])?);
//! assert!(html.contains("<svg"));
//! # Ok::<(), rxlane_report::PlotError>(())
//! ```

#![forbid(unsafe_code)]

pub mod heat;
pub mod plot;

/// A plot that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw `{title}`: {cause}")]
pub struct PlotError {
    /// Of the plot.
    pub title: String,
    /// Why.
    pub cause: String,
}

/// Text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A page of HTML `body` after a `lead`.
pub fn page(title: &str, lead: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <title>{title}</title><style>body{{font:16px/1.5 system-ui,sans-serif;max-width:860px;margin:2em auto;padding:0 1em;color:#222}}\
         h1{{font-size:1.5em}}h2{{font-size:1.2em;margin-top:2em}}svg{{max-width:100%;height:auto}}\
         pre{{background:#f6f6f6;padding:1em;overflow-x:auto;font-size:12px;line-height:1.35}}\
         table{{border-collapse:collapse;font-size:13px;line-height:1.35;display:block;overflow-x:auto}}\
         td,th{{padding:.3em .6em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}}\
         .invalid,.missed{{background:#fdd}}.invalid{{padding:.6em 1em}}.reproduced{{background:#e4f4e4}}\
         td:first-child{{white-space:nowrap}}.note{{color:#555}}</style>\
         <h1>{title}</h1>{lead}{body}</html>"
    )
}

/// Text as it stands.
pub fn preformatted(text: &str) -> String {
    format!("<h2>Figures</h2><pre>{}</pre>", escape(text))
}
