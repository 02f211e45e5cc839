//! The third column: what a router of today does, measured, beside what a paper states and what its model says.
//!
//! The papers' routers were others, with other costs. What can be compared across machines has no unit: ratios to a strategy or a
//! law on the same machine, at loads that are shares of what that one carries. Each quantity is computed by the same function from
//! the model's points and from those of `rxlane-lab bench sweep --json`.

mod points;
mod strategies;
mod sweep;
mod throttling;

use std::collections::BTreeMap;

use maud::{Markup, html};
use rxlane_report::table;
use serde::Serialize;

use points::Points;
pub use sweep::Measurement;

use crate::PapersError;
use crate::judge::rounded;
use crate::paper::Paper;
use crate::table::Data;
use crate::{interrupt_throttling, low_latency_router};

/// A result of a paper, of its model and of a router, in one quantity without a unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Identifier of the row, such as `LL-19`.
    pub id: &'static str,
    /// Name of the paper that states it.
    pub paper: &'static str,
    /// What is compared.
    pub quantity: &'static str,
    /// What the paper states of it.
    pub stated: &'static str,
    /// The model's; `None` where its points do not say.
    pub modelled: Option<f64>,
    /// The router's; `None` where the measurement does not say.
    pub measured: Option<f64>,
    /// When a number agrees with what is stated.
    pub rule: &'static str,
    /// Whether the model's does.
    pub model_agrees: bool,
    /// Whether the router's does.
    pub agrees: bool,
    /// What lets a router of today disagree.
    pub note: &'static str,
}

impl Compared {
    /// What became of it, in a word or two.
    pub fn finding(&self) -> &'static str {
        match (self.measured, self.agrees, self.model_agrees) {
            (None, ..) => "not measured",
            (_, true, true) => "as stated",
            (_, true, false) => "as stated, unlike the model",
            (_, false, true) => "unlike the model",
            (_, false, false) => "as little as the model",
        }
    }

    /// A number of it for people.
    pub fn shown(number: Option<f64>) -> String {
        number.map_or("-".into(), |n| rounded(n).to_string())
    }
}

/// A quantity, and when it is as stated.
struct Rule {
    id: &'static str,
    quantity: &'static str,
    stated: &'static str,
    rule: &'static str,
    holds: fn(f64) -> bool,
    /// NaN where the points do not say.
    of: fn(&Points) -> f64,
    note: &'static str,
}

/// The rules that measured points can decide, with the baseline that their loads are shares of.
struct Chapter {
    paper: Paper,
    baseline: &'static str,
    rules: &'static [Rule],
    model: fn(&Data) -> Points,
}

const CHAPTERS: [Chapter; 2] = [
    Chapter {
        paper: low_latency_router::PAPER,
        baseline: strategies::BASELINE,
        rules: &strategies::RULES,
        model: strategies::modelled,
    },
    Chapter {
        paper: interrupt_throttling::PAPER,
        baseline: throttling::BASELINE,
        rules: &throttling::RULES,
        model: throttling::modelled,
    },
];

/// Everything that a router measured can be compared in, of the papers whose simulations are there.
///
/// # Errors
/// [`PapersError::Sim`] for a name that no simulation has.
pub fn compare(
    data: &BTreeMap<&'static str, Data>,
    measurements: &[Measurement],
) -> Result<Vec<Compared>, PapersError> {
    let mut all = Vec::new();
    for chapter in &CHAPTERS {
        let Some(of_paper) = data.get(chapter.paper.name) else {
            continue;
        };
        let model = (chapter.model)(of_paper);
        of_paper.check_names()?;
        let router = sweep::points(measurements, chapter.baseline);
        all.extend(chapter.rules.iter().map(|rule| {
            let [modelled, measured] =
                [&model, &router].map(|points| Some((rule.of)(points)).filter(|x| x.is_finite()));
            let holds = |number: Option<f64>| number.is_some_and(rule.holds);
            Compared {
                id: rule.id,
                paper: chapter.paper.name,
                quantity: rule.quantity,
                stated: rule.stated,
                modelled,
                measured,
                rule: rule.rule,
                model_agrees: holds(modelled),
                agrees: holds(measured),
                note: rule.note,
            }
        }));
    }
    Ok(all)
}

/// The comparison as a table of the report; nothing without one.
pub(crate) fn chapter(all: &[Compared], paper: &str) -> Markup {
    let of: Vec<&Compared> = all.iter().filter(|c| c.paper == paper).collect();
    if of.is_empty() {
        return html! {};
    }
    let head = [
        "row",
        "quantity",
        "stated",
        "modelled",
        "measured",
        "finding",
        "as stated when",
        "note",
    ];
    let rows = of.iter().map(|c| {
        let note = if c.agrees { "" } else { c.note };
        vec![
            c.id.into(),
            c.quantity.into(),
            c.stated.into(),
            Compared::shown(c.modelled),
            Compared::shown(c.measured),
            c.finding().into(),
            c.rule.into(),
            note.into(),
        ]
    });
    html! {
        h3 { "Stated, modelled, measured" }
        p { "A router of today under the same strategies and laws, in quantities without a unit." }
        (table::columns(&head.map(String::from), rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_without_a_measurement_agrees_with_nothing() {
        for chapter in &CHAPTERS {
            let nothing = sweep::points(&[], chapter.baseline);
            for rule in chapter.rules {
                let number = (rule.of)(&nothing);
                assert!(number.is_nan(), "{}: {number}", rule.id);
                assert!(!(rule.holds)(f64::NAN), "{}", rule.id);
            }
        }
    }

    #[test]
    fn a_router_without_classes_disagrees_with_every_rule_about_them() {
        // Each strategy as SQ: what the rules must tell from one that does what it says.
        let text: Vec<String> = ["sq", "rr", "ll-rr", "ll-wfq"]
            .iter()
            .flat_map(|name| {
                [(0.3, 0.5), (0.3, 0.8), (0.3, 0.9), (0.3, 1.1), (0.3, 1.3), (0.2, 0.8), (0.6, 0.8)]
                    .map(|(ratio, load)| {
                        let (pps, forwarded) = (load * 1e6, f64::min(load, 1.0) * 1e6);
                        let us = if load > 1.0 { 1000.0 } else { 10.0 / (1.05 - load) };
                        format!(
                            r#"{{"name":"afxdp-stack-{name}","rt_ratio":{ratio},"offered_pps":{pps},"forwarded_pps":{forwarded},"valid":true,"cpu":{load},
                            "classes":[{{"latency_us":{{"mean":{us}}},"received":3.0}},{{"latency_us":{{"mean":{us}}},"received":7.0}}]}}"#
                        )
                    })
            })
            .collect();
        let text = format!(r#"{{"points":[{}]}}"#, text.join(","));
        let measurement = Measurement::parse("all alike", text.as_bytes()).unwrap();
        let points = sweep::points(&[measurement], strategies::BASELINE);
        for rule in &strategies::RULES {
            let number = (rule.of)(&points);
            // What LL may cost at most, and where the jump lies, is true of SQ, too.
            if matches!(rule.id, "LL-03" | "LL-26") {
                assert!(number.is_finite(), "{}", rule.id);
                continue;
            }
            assert!(!(rule.holds)(number), "{}: {number}", rule.id);
        }
    }
}
