//! Verdicts, each by a rule that stands beside it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::reference::{Reference, Use};
use rxlane_sim::run::Estimate;

/// A row's end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Identifier of the row, such as `LL-07`.
    pub id: String,
    /// Name of the paper that states it.
    pub paper: String,
    /// Fit or predict.
    #[serde(rename = "use")]
    pub usage: Use,
    /// As the paper says it.
    pub paper_value: String,
    /// The model's: a number, or what it does.
    pub model: Value,
    /// Half of the 95 % confidence interval.
    pub ci95: Option<f64>,
    /// `reproduced` or `missed`.
    pub verdict: &'static str,
    /// When it is reproduced.
    pub rule: String,
    /// Why it misses, or what to know.
    pub note: String,
    /// What the row is about.
    pub quantity: String,
    /// Under which conditions the paper states it.
    pub scenario: String,
    /// Unit of both numbers.
    pub unit: String,
}

impl Verdict {
    pub(crate) fn unjudged(r: &Reference) -> Self {
        Judged {
            model: Value::Null,
            ci95: None,
            holds: false,
            rule: "none".into(),
            note: "no rule judges this row".into(),
        }
        .of(r)
    }
}

/// What the model says of a row.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    model: Value,
    ci95: Option<f64>,
    holds: bool,
    rule: String,
    note: String,
}

impl Judged {
    pub(crate) fn of(&self, r: &Reference) -> Verdict {
        Verdict {
            id: r.id.clone(),
            paper: r.paper.clone(),
            usage: r.usage,
            paper_value: r.value.clone(),
            model: self.model.clone(),
            ci95: self.ci95,
            verdict: if self.holds { "reproduced" } else { "missed" },
            rule: self.rule.clone(),
            note: self.note.clone(),
            quantity: r.quantity.clone(),
            scenario: r.scenario.clone(),
            unit: r.unit.clone(),
        }
    }
}

/// The verdicts on a paper's rows.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    judged: BTreeMap<&'static str, Judged>,
}

/// Four digits are more than the papers give.
fn rounded(v: f64) -> f64 {
    if v == 0.0 || !v.is_finite() {
        return v;
    }
    let scale = 10f64.powi(3 - v.abs().log10().floor() as i32);
    (v * scale).round() / scale
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Fit rows must be met more closely than predictions.
pub(crate) const FIT: f64 = 0.10;
/// How far a predicted number may be from the stated one, as a share of it.
pub(crate) const PREDICT: f64 = 0.15;

impl Verdicts {
    pub(crate) fn into_map(self) -> BTreeMap<&'static str, Judged> {
        self.judged
    }

    /// The model's number must be within `tolerance` of the paper's. `unit` turns the model's into the
    /// paper's unit.
    pub(crate) fn near(
        &mut self,
        id: &'static str,
        model: Estimate,
        unit: f64,
        paper: f64,
        tolerance: f64,
        note: &str,
    ) {
        let value = model.mean * unit;
        self.judged.insert(
            id,
            Judged {
                model: rounded(value).into(),
                ci95: model.ci95.map(|ci| rounded(ci * unit)),
                holds: (value - paper).abs() <= tolerance * paper.abs(),
                rule: format!("within {} of {paper}", percent(tolerance)),
                note: note.into(),
            },
        );
    }

    /// A condition, with the numbers that decide it.
    pub(crate) fn when(
        &mut self,
        id: &'static str,
        holds: bool,
        rule: &str,
        model: impl Into<Value>,
        note: &str,
    ) {
        self.judged.insert(
            id,
            Judged {
                model: model.into(),
                ci95: None,
                holds,
                rule: rule.into(),
                note: note.into(),
            },
        );
    }
}

/// A number without an interval.
pub(crate) fn plain(mean: f64) -> Estimate {
    Estimate {
        name: String::new(),
        mean,
        ci95: None,
    }
}
