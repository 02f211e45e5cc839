//! Self-contained HTML pages.

mod latency;
mod sweep;

use maud::{Markup, html};
use rxlane_report::page::{Download, TestBed};
use serde::Serialize;

use crate::BenchError;

/// Why a run that is not valid says nothing.
pub(super) const BEHIND: &str = "the generator fell behind.";

/// The report as data in its own page.
pub(super) fn data(name: &str, report: &impl Serialize) -> Result<Option<Download>, BenchError> {
    let json = serde_json::to_string(report).map_err(|e| BenchError::Parameter(e.to_string()))?;
    Ok(Some(Download {
        name: format!("rxlane-{name}.json"),
        json,
    }))
}

/// The test bed, with the settings of the lab and what they were measured with.
pub(super) fn bed(
    machine: &TestBed,
    more: impl IntoIterator<Item = (String, String)>,
    settings: &std::collections::BTreeMap<String, String>,
) -> TestBed {
    let settings = settings.iter().map(|(k, v)| (k.clone(), v.clone()));
    machine
        .iter()
        .cloned()
        .chain(more)
        .chain(settings)
        .collect()
}

/// A change of a latency as a reader would say it.
pub(super) fn change(ratio: f64) -> String {
    match ratio {
        r if r < 0.97 => format!("{:.1} x lower", 1.0 / r),
        r if r > 1.03 => format!("{r:.1} x higher"),
        _ => "the same".into(),
    }
}

pub(super) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A share, in as many digits as tell it from nothing.
pub(super) fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "none".into(),
        p if p < 0.1 => format!("{p:.3} %"),
        p => format!("{p:.1} %"),
    }
}

/// What to know of the ratios of a page.
pub(super) fn alternating(seconds: f64, repeat: u32) -> Markup {
    html! {
        p { "All routers in turn, " (repeat) " x " (seconds) " s each; medians. A curve that ends below 100 % lost the rest: the shaded part never arrived." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_shares_are_said_as_a_reader_would() {
        assert_eq!(
            [0.12, 1.0, 2.5].map(change),
            ["8.3 x lower", "the same", "2.5 x higher"]
        );
        assert_eq!(
            [0.0, 0.00004, 0.287].map(percent),
            ["none", "0.004 %", "28.7 %"]
        );
    }
}
