//! What the parameters of a paper's machine decide: how well the fitted ones are determined, and which predictions hang
//! on which cost. A prediction that any value reproduces is worth nothing.

use std::fmt;

use rxlane_sim::SimError;
use rxlane_sim::scenario::Scenario;
use rxlane_sim::stop::Stop;
use serde_json::Value;

use crate::paper::Paper;
use crate::profile::{machine, setting, value};
use crate::reference::{Reference, Use};
use crate::wrong::run_with;
use crate::{PapersError, fit, papers_of, verdicts_of};

/// Fitted costs are tried at so many times their value, the others staying.
const GRID: [f64; 9] = [0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0];
/// And predictions at so many times each cost.
const SWING: [f64; 2] = [0.8, 1.2];
/// A number that no cost moves by more than this share hangs on none.
const MOVES: f64 = 0.01;
/// Fitted rows are met within this share of their value.
const MET: f64 = 0.1;

/// A cost and what hangs on it.
#[derive(Debug, Clone)]
pub struct CostReport {
    /// Key of a scenario.
    pub key: &'static str,
    /// Its value, in the unit of the key.
    pub value: f64,
    /// In cycles of the machine's clock, if it is a time.
    pub cycles: Option<f64>,
    /// `stated`, `fitted` or `assumed`.
    pub origin: &'static str,
    /// Where the paper states it, the rows it is fitted to, or what it rests on.
    pub from: &'static str,
    /// Largest residual at each factor of the grid; of fitted ones.
    pub residuals: Vec<(f64, f64)>,
}

impl CostReport {
    /// The factors between which all fitted rows are met within 10 %; none of costs that are not fitted.
    pub fn determined(&self) -> Option<(f64, f64)> {
        let met = || self.residuals.iter().filter(|(_, r)| *r <= MET);
        Some((met().next()?.0, met().next_back()?.0))
    }

    /// Whether no value of the grid is excluded.
    pub fn is_undetermined(&self) -> bool {
        !self.residuals.is_empty() && self.residuals.iter().all(|(_, r)| *r <= MET)
    }
}

/// A predicted row, and what it says with each cost 20 % lower and higher.
#[derive(Debug, Clone)]
pub struct RowReport {
    /// Identifier.
    pub id: &'static str,
    /// What the model says, and whether that holds.
    pub model: (Value, bool),
    /// The same with each cost of the machine lower and higher, in their order.
    pub swings: Vec<[(Value, bool); 2]>,
}

fn moved(a: &Value, b: &Value) -> f64 {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (b - a).abs() / a.abs().max(1e-12),
        _ => f64::from(u8::from(a != b)),
    }
}

impl RowReport {
    /// Whether the verdict is the same with every cost lower and higher.
    pub fn is_robust(&self) -> bool {
        let all = self.swings.iter().flatten();
        all.clone().all(|(_, met)| *met == self.model.1)
    }

    /// Whether no cost moves what the model says by more than 1 %, nor its verdict.
    pub fn is_insensitive(&self) -> bool {
        let mut all = self.swings.iter().flatten();
        self.is_robust() && all.all(|(v, _)| moved(&self.model.0, v) <= MOVES)
    }
}

/// The costs of a paper's machine, and its predictions.
#[derive(Debug, Clone)]
pub struct Sensitivity {
    /// Name of the paper.
    pub paper: &'static str,
    /// Its clock, GHz.
    pub clock_ghz: f64,
    /// Costs, in the order of their profile.
    pub costs: Vec<CostReport>,
    /// Predictions.
    pub rows: Vec<RowReport>,
}

/// Tries the costs of the machines of the papers of these rows. `progress` is told of every finished point.
///
/// # Errors
/// As [`crate::run`].
pub fn sensitivity(
    rows: &[Reference],
    stop: &Stop,
    mut progress: impl FnMut(),
) -> Result<Vec<Sensitivity>, PapersError> {
    let mut all = Vec::new();
    for paper in papers_of(rows) {
        let machine = machine(paper)?;
        let costs = costs(paper, &machine, &mut progress)?;
        let rows = tornado(paper, rows, &machine, stop, &mut progress)?;
        all.push(Sensitivity {
            paper: paper.name,
            clock_ghz: machine.cpu.clock_ghz,
            costs,
            rows,
        });
    }
    Ok(all)
}

fn costs(
    paper: &Paper,
    machine: &Scenario,
    progress: &mut dyn FnMut(),
) -> Result<Vec<CostReport>, PapersError> {
    let mut all = Vec::new();
    for cost in paper.profile {
        let at = value(cost.key, machine)?;
        let (origin, from) = cost.origin.text();
        let mut residuals = Vec::new();
        if origin == "fitted" {
            for factor in GRID {
                let worst = fit::worst_residual(paper, &setting(cost.key, at * factor, machine))?;
                residuals.push((factor, worst));
                progress();
            }
        }
        all.push(CostReport {
            key: cost.key,
            value: at,
            cycles: cost
                .key
                .ends_with("_ns")
                .then_some(at * machine.cpu.clock_ghz),
            origin,
            from,
            residuals,
        });
    }
    Ok(all)
}

fn tornado(
    paper: &Paper,
    rows: &[Reference],
    machine: &Scenario,
    stop: &Stop,
    progress: &mut dyn FnMut(),
) -> Result<Vec<RowReport>, PapersError> {
    let mut judged = |base: &[String]| -> Result<_, SimError> {
        let data = run_with(paper, base, &[], None, stop, progress)?;
        verdicts_of(paper, &data)
    };
    let wanted = |id: &str| rows.iter().find(|r| r.id == id && r.usage == Use::Predict);
    let mut reports: Vec<RowReport> = Vec::new();
    for (id, j) in judged(&[])? {
        if let Some(r) = wanted(id) {
            let v = j.of(r);
            let met = v.holds();
            reports.push(RowReport {
                id,
                model: (v.model, met),
                swings: Vec::new(),
            });
        }
    }
    for cost in paper.profile {
        let at = value(cost.key, machine)?;
        let of = SWING.map(|factor| judged(&[setting(cost.key, at * factor, machine)]));
        let [low, high] = of;
        let (low, high) = (low?, high?);
        for report in &mut reports {
            let Some(r) = wanted(report.id) else {
                continue;
            };
            let swing = [&low, &high].map(|verdicts| {
                verdicts.get(report.id).map_or((Value::Null, false), |j| {
                    let v = j.of(r);
                    let met = v.holds();
                    (v.model, met)
                })
            });
            report.swings.push(swing);
        }
    }
    Ok(reports)
}

fn short(v: &Value) -> String {
    match v {
        Value::String(text) if text.chars().count() > 22 => {
            text.chars().take(21).chain(['~']).collect()
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl fmt::Display for Sensitivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {} GHz", self.paper, self.clock_ghz)?;
        for c in &self.costs {
            let cycles = c.cycles.map_or(String::new(), |n| format!("{n:.0} cycles"));
            writeln!(
                f,
                "  {:<24} {:>10.1} {cycles:>14}  {}: {}",
                c.key, c.value, c.origin, c.from
            )?;
            if c.residuals.is_empty() {
                continue;
            }
            let grid = c
                .residuals
                .iter()
                .map(|(x, r)| format!("{x}: {:.0} %", r * 100.0));
            writeln!(
                f,
                "      worst residual at times its value: {}",
                grid.collect::<Vec<_>>().join(", ")
            )?;
            match c.determined() {
                _ if c.is_undetermined() => {
                    writeln!(
                        f,
                        "      NOT DETERMINED: fitted rows are met with every value"
                    )?;
                }
                Some((low, high)) => {
                    writeln!(
                        f,
                        "      fitted rows are met within 10 % from {low} to {high} times it"
                    )?;
                }
                None => writeln!(f, "      no value meets all fitted rows within 10 %")?,
            }
        }
        writeln!(
            f,
            "  predictions with each cost at 0.8 and 1.2 times its value (* where the verdict changes):"
        )?;
        for r in &self.rows {
            let verdict = if r.model.1 { "reproduced" } else { "missed" };
            let worth = match (r.is_insensitive(), r.is_robust()) {
                (true, _) => "  hangs on no cost: says something of the mechanism only",
                (false, true) => "  same verdict throughout",
                (false, false) => "",
            };
            writeln!(
                f,
                "  {:<8} {verdict:<10} {}{worth}",
                r.id,
                short(&r.model.0)
            )?;
            for (c, swing) in self.costs.iter().zip(&r.swings) {
                if swing
                    .iter()
                    .all(|(v, met)| moved(&r.model.0, v) <= MOVES && *met == r.model.1)
                {
                    continue;
                }
                let [low, high] = swing.each_ref().map(|(v, met)| {
                    format!("{}{}", short(v), if *met == r.model.1 { "" } else { " *" })
                });
                writeln!(f, "      {:<24} {low} | {high}", c.key)?;
            }
        }
        Ok(())
    }
}
