//! Models that are wrong on purpose, each of which breaks what some rows claim. A rule that none of them breaks says
//! nothing, so it must not count.

use std::collections::BTreeMap;
use std::fmt::Write;

use rxlane_sim::SimError;
use rxlane_sim::stop::Stop;

use crate::paper::Paper;
use crate::reference::{Reference, Use};
use crate::statement::claims_of;
use crate::table::{Data, Rows};
use crate::{papers_of, references, rows_of_sweep, verdicts_of};

/// A model that is wrong.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) name: &'static str,
    /// Case, or nothing for all of them, and `KEY=VALUE`.
    pub(crate) sets: &'static [(&'static str, &'static str)],
    /// Cases whose results are exchanged.
    pub(crate) exchanged: &'static [(&'static str, &'static str)],
}

impl Wrong {
    /// Nothing is wrong: what the others begin with.
    pub(crate) const NONE: Self = Self {
        name: "",
        sets: &[],
        exchanged: &[],
    };
}

/// The verdicts of a model.
#[derive(Debug, Clone)]
pub struct Column {
    /// What is wrong with it.
    pub model: &'static str,
    /// Whether it meets a row.
    pub met: BTreeMap<&'static str, bool>,
    /// Whether a rule of a statement's own holds for it.
    pub holding: BTreeMap<&'static str, bool>,
}

/// The rules of a paper against the model, and against wrong ones.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// Name of the paper.
    pub paper: &'static str,
    /// The right model, run as the wrong ones are.
    pub right: Column,
    /// The wrong ones.
    pub wrong: Vec<Column>,
}

impl Matrix {
    /// Rows that the right model meets, with the number of wrong models that do not.
    pub fn rejections(&self) -> Vec<(&'static str, usize)> {
        let met = self.right.met.iter().filter(|(_, met)| **met);
        met.map(|(id, _)| {
            let rejects = |c: &&Column| c.met.get(id) == Some(&false);
            (*id, self.wrong.iter().filter(rejects).count())
        })
        .collect()
    }

    /// Statements whose own rule holds for the right model, with the number of wrong models for which it does not.
    pub fn contradictions(&self) -> BTreeMap<&'static str, usize> {
        let holding = self.right.holding.iter().filter(|(_, holds)| **holds);
        holding
            .map(|(id, _)| {
                let rejects = |c: &&Column| c.holding.get(id) == Some(&false);
                (*id, self.wrong.iter().filter(rejects).count())
            })
            .collect()
    }
}

/// What stands for a verdict in the table.
fn mark(met: Option<&bool>) -> char {
    match met {
        Some(true) => '#',
        Some(false) => '.',
        None => ' ',
    }
}

impl std::fmt::Display for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let uses: BTreeMap<String, Use> =
            references().into_iter().map(|r| (r.id, r.usage)).collect();
        writeln!(f, "{}: # met, . not met", self.paper)?;
        writeln!(f, "  0 {}", self.right.model)?;
        for (i, wrong) in self.wrong.iter().enumerate() {
            writeln!(f, "  {} {}", i + 1, wrong.model)?;
        }
        let mut head = String::new();
        for i in 0..=self.wrong.len() {
            let _ = write!(head, " {i}");
        }
        writeln!(f, "  {:<8} {:<12}{head}  rejected", "row", "counts as")?;
        for id in self.right.met.keys() {
            let columns = std::iter::once(&self.right).chain(&self.wrong);
            let marks: String = columns.flat_map(|c| [' ', mark(c.met.get(id))]).collect();
            let rejected = self.wrong.iter().filter(|c| c.met.get(id) == Some(&false));
            writeln!(
                f,
                "  {id:<8} {:<12}{marks}  {} of {}",
                uses.get(*id).map(ToString::to_string).unwrap_or_default(),
                rejected.count(),
                self.wrong.len()
            )?;
        }
        Ok(())
    }
}

/// Runs a paper with settings below its cases, and with settings over them; of what these change nothing about, the results are those of
/// `right`, if that is known.
pub(crate) fn run_with(
    paper: &Paper,
    base: &[String],
    sets: &[(&str, String)],
    right: Option<&Data>,
    stop: &Stop,
    progress: &mut dyn FnMut(),
) -> Result<Data, SimError> {
    let mut data = Data::default();
    for experiment in paper.experiments {
        let fewer = paper.fewer.iter().filter(|(file, _)| file == experiment);
        let below: Vec<String> = fewer
            .map(|(_, set)| (*set).to_owned())
            .chain(base.iter().cloned())
            .collect();
        let mut sweep = paper.read(experiment, &below)?;
        let mut differs = false;
        for (case, set) in sets {
            match *case {
                "" => sweep.override_cases(None, set)?,
                // Not every file has every case.
                case => match sweep.override_cases(Some(case), set) {
                    Err(SimError::Name { .. }) => continue,
                    done => done?,
                },
            }
            differs = true;
        }
        let rows = match right {
            Some(right) if !differs => right.of(experiment).clone(),
            _ => rows_of_sweep(&sweep, stop, progress)?,
        };
        data.put(experiment, rows);
    }
    Ok(data)
}

fn column(paper: &Paper, model: &'static str, data: &Data) -> Result<Column, SimError> {
    let of = |r: &Reference| paper.name == r.paper;
    let mut met: BTreeMap<&'static str, bool> = BTreeMap::new();
    let all = references();
    for (id, judged) in verdicts_of(paper, data)? {
        if let Some(r) = all.iter().filter(|r| of(r)).find(|r| r.id == id) {
            met.insert(id, judged.of(r).holds());
        }
    }
    let claims = claims_of(paper, data)?.into_iter();
    let holding = claims.map(|(id, claim)| (id, claim.holds)).collect();
    Ok(Column {
        model,
        met,
        holding,
    })
}

/// The matrix of each paper of these rows. `progress` is told of every finished point.
///
/// # Errors
/// As [`crate::run`].
pub fn wrong_models(
    rows: &[Reference],
    stop: &Stop,
    mut progress: impl FnMut(),
) -> Result<Vec<Matrix>, SimError> {
    let mut all = Vec::new();
    for paper in papers_of(rows) {
        let right = run_with(paper, &[], &[], None, stop, &mut progress)?;
        let mut wrong = Vec::new();
        for model in paper.wrong {
            let sets: Vec<(&str, String)> = model
                .sets
                .iter()
                .map(|(case, set)| (*case, (*set).to_owned()))
                .collect();
            let data = if sets.is_empty() {
                right.clone()
            } else {
                run_with(paper, &[], &sets, Some(&right), stop, &mut progress)?
            };
            let data = data.each(|rows: Rows| rows.exchanged(model.exchanged));
            wrong.push(column(paper, model.name, &data)?);
        }
        all.push(Matrix {
            paper: paper.name,
            right: column(paper, "the model", &right)?,
            wrong,
        });
    }
    Ok(all)
}
