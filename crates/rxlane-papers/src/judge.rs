//! Verdicts, each by a rule that stands beside it and that a wrong model breaks.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::interval::Interval;
use crate::reference::{Reference, Use};

/// A row's end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Identifier of the row, such as `LL-07`.
    pub id: String,
    /// Name of the paper that states it.
    pub paper: String,
    /// What the row counts as.
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
    /// Which quantity of the model is compared.
    pub judged: String,
    /// When it is reproduced.
    pub rule: String,
    /// What the row claims of the system: a change against what, or a shape. A model without it must miss.
    pub effect: String,
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
    /// Whether the model does as the paper says.
    pub fn holds(&self) -> bool {
        self.verdict == "reproduced"
    }

    /// The model's number with its interval, or what it does.
    pub fn shown(&self) -> String {
        let model = match &self.model {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match self.ci95 {
            Some(ci) => format!("{model} +- {ci}"),
            None => model,
        }
    }

    pub(crate) fn unjudged(r: &Reference) -> Self {
        Judged {
            model: Value::Null,
            ci95: None,
            holds: false,
            judged: String::new(),
            rule: "none".into(),
            effect: String::new(),
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
    judged: String,
    rule: String,
    effect: String,
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
            judged: self.judged.clone(),
            rule: self.rule.clone(),
            effect: self.effect.clone(),
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
pub(crate) fn rounded(v: f64) -> f64 {
    if v == 0.0 || !v.is_finite() {
        return v;
    }
    let scale = 10f64.powi(3 - v.abs().log10().floor() as i32);
    (v * scale).round() / scale
}

pub(crate) fn percent(part: f64) -> String {
    format!("{} %", rounded(part * 100.0))
}

/// Fit rows must be met more closely than predictions.
pub(crate) const FIT: f64 = 0.10;
/// How far a predicted number may be from the stated one, as a share of it.
pub(crate) const PREDICT: f64 = 0.15;

/// What a predicted number is the change of.
pub(crate) struct Baseline {
    /// Its name.
    pub(crate) what: &'static str,
    /// What the model says of it, in the paper's unit.
    pub(crate) model: f64,
    /// What the paper says of it.
    pub(crate) stated: f64,
}

/// A number that the paper states, and the model's.
pub(crate) struct Number<'a> {
    /// Which quantity of the model it is.
    pub(crate) judged: &'a str,
    /// In the paper's unit.
    pub(crate) model: Interval,
    pub(crate) stated: f64,
    /// How far from it the whole interval may be, as a share.
    pub(crate) tolerance: f64,
    /// What it is the change of, or why it is the change of nothing.
    pub(crate) effect: Result<Baseline, &'static str>,
    pub(crate) note: &'a str,
}

/// An order, a shape or a bound.
pub(crate) struct Shape<'a> {
    /// Which quantities of the model are compared.
    pub(crate) judged: &'a str,
    pub(crate) holds: bool,
    pub(crate) rule: &'a str,
    /// What the row claims, which a model without it breaks.
    pub(crate) effect: &'a str,
    /// The numbers that decide it.
    pub(crate) model: Value,
    pub(crate) note: &'a str,
}

impl Verdicts {
    pub(crate) fn into_map(self) -> BTreeMap<&'static str, Judged> {
        self.judged
    }

    /// The whole interval must be within the tolerance. A change must also be nearer to what is stated than its baseline
    /// is, that of the model and that of the paper, because tolerances are wider than many of the papers' effects.
    pub(crate) fn number(&mut self, id: &'static str, n: &Number<'_>) {
        let near = n.model.within(n.tolerance, n.stated);
        let mut rule = format!("within {} of {}", percent(n.tolerance), n.stated);
        let (nearer, effect) = match &n.effect {
            Ok(b) => {
                let far = n.model.farthest(n.stated);
                let from_baseline = [b.model, b.stated].map(|b| (b - n.stated).abs());
                rule += &format!(", and nearer to it than {} is", b.what);
                (
                    from_baseline.iter().all(|d| far < *d),
                    format!(
                        "the change from {}: {} in the model, {} stated",
                        b.what,
                        rounded(b.model),
                        b.stated
                    ),
                )
            }
            Err(why) => (true, (*why).to_owned()),
        };
        let half = n.model.half();
        let judged = Judged {
            model: rounded(n.model.mean).into(),
            ci95: half.is_finite().then(|| rounded(half)),
            holds: near && nearer,
            judged: n.judged.into(),
            rule,
            effect,
            note: n.note.into(),
        };
        self.put(id, judged);
    }

    /// A condition, with the numbers that decide it.
    pub(crate) fn shape(&mut self, id: &'static str, s: Shape<'_>) {
        let judged = Judged {
            model: s.model,
            ci95: None,
            holds: s.holds,
            judged: s.judged.into(),
            rule: s.rule.into(),
            effect: s.effect.into(),
            note: s.note.into(),
        };
        self.put(id, judged);
    }

    fn put(&mut self, id: &'static str, judged: Judged) {
        let before = self.judged.insert(id, judged);
        debug_assert!(before.is_none(), "{id} is judged twice");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(model: Interval, effect: Result<Baseline, &'static str>) -> bool {
        let mut v = Verdicts::default();
        let number = Number {
            judged: "latency",
            model,
            stated: 10.4,
            tolerance: PREDICT,
            effect,
            note: "",
        };
        v.number("LL-19", &number);
        v.judged["LL-19"].holds
    }

    fn from_sq(model: f64) -> Result<Baseline, &'static str> {
        Ok(Baseline {
            what: "SQ",
            model,
            stated: 11.7,
        })
    }

    #[test]
    fn a_change_that_is_no_nearer_than_its_baseline_misses_within_any_tolerance() {
        let at = Interval::exact;
        assert!(holds(at(11.7), Err("a level")));
        assert!(!holds(at(11.7), from_sq(11.7)), "no change at all");
        assert!(!holds(at(9.0), from_sq(11.7)), "too much of it");
        assert!(holds(at(10.1), from_sq(11.7)));
        assert!(
            !holds(at(10.1), from_sq(10.5)),
            "the model's baseline is nearer"
        );
    }

    #[test]
    fn an_interval_that_leaves_the_tolerance_misses() {
        let wide = Interval {
            low: 8.0,
            mean: 10.4,
            high: 12.8,
        };
        assert!(!holds(wide, Err("a level")));
        assert!(!holds(Interval::NONE, Err("a level")));
    }
}
