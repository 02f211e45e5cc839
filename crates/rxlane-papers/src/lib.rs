//! The results that five papers state, against the model: a verdict a row.
//!
//! A folder a paper holds its scenarios (`*.toml`), what it states (`rows.csv`), how its costs are fitted (`fit.rs`), how
//! its rows are judged (`rows.rs`) and its figures (`figures.rs`). Adding a paper adds a folder and a line of [`PAPERS`].
//! Costs come from rows marked `fit` only; the model is judged by all others. What the papers state beyond that is in
//! `statements.csv`, and judged by a row or in `claims.rs`. `measured` holds what a router of today does beside both.

#![forbid(unsafe_code)]

mod beyond_softnet;
mod claims;
mod error;
mod figure;
mod fit;
mod interrupt_throttling;
mod interval;
mod judge;
mod low_latency_router;
mod measured;
mod multiple_nics;
mod paper;
mod profile;
mod reference;
mod report;
mod scorecard;
mod sensitivity;
mod single_input_queue;
mod statement;
mod table;
mod wrong;

use std::collections::BTreeMap;

use rxlane_sim::SimError;
use rxlane_sim::run::run_sweep;
use rxlane_sim::stop::Stop;
use rxlane_sim::sweep::Sweep;

pub use error::PapersError;
pub use fit::{Calibration, Residual, file_of, fit};
pub use judge::Verdict;
use judge::{Judged, Verdicts};
pub use measured::{Compared, Measurement, compare};
pub use paper::Paper;
pub use reference::{Reference, Use, references};
pub use report::html;
pub use scorecard::{Score, scorecard};
pub use sensitivity::{CostReport, RowReport, Sensitivity, sensitivity};
pub use statement::{Finding, Statement, counts, statements};
pub use table::{Data, Rows};
pub use wrong::{Column, Matrix, wrong_models};

/// Every paper that the model is held to.
pub const PAPERS: [Paper; 5] = [
    low_latency_router::PAPER,
    multiple_nics::PAPER,
    interrupt_throttling::PAPER,
    single_input_queue::PAPER,
    beyond_softnet::PAPER,
];

fn names_of_papers() -> String {
    PAPERS.map(|p| p.name).join(", ")
}

/// Papers and rows that a selection names: `all`, a paper, or ids of rows.
///
/// # Errors
/// [`PapersError::Unknown`].
pub fn select(names: &[String]) -> Result<Vec<Reference>, PapersError> {
    let all = references();
    if names.is_empty() {
        return Ok(all);
    }
    let mut chosen: Vec<Reference> = Vec::new();
    for name in names {
        let matching: Vec<&Reference> = all
            .iter()
            .filter(|r| name == "all" || *name == r.paper || name.eq_ignore_ascii_case(&r.id))
            .collect();
        if matching.is_empty() {
            return Err(PapersError::Unknown {
                name: name.clone(),
                papers: names_of_papers(),
            });
        }
        for r in matching {
            if !chosen.iter().any(|c| c.id == r.id) {
                chosen.push(r.clone());
            }
        }
    }
    Ok(chosen)
}

/// Points of all experiments of the papers of these rows.
///
/// # Errors
/// As reading scenarios.
pub fn points(rows: &[Reference]) -> Result<usize, SimError> {
    let mut points = 0;
    for paper in papers_of(rows) {
        for experiment in paper.experiments {
            points += paper.read(experiment, &[])?.len();
        }
    }
    Ok(points)
}

fn papers_of(rows: &[Reference]) -> impl Iterator<Item = &'static Paper> + '_ {
    PAPERS
        .iter()
        .filter(|p| rows.iter().any(|r| r.paper == p.name))
}

/// Runs the experiments that these rows need. `progress` is told of every finished point.
///
/// # Errors
/// As running them; [`SimError::Stopped`] when `stop` was asked for.
pub fn run(
    rows: &[Reference],
    stop: &Stop,
    mut progress: impl FnMut(),
) -> Result<BTreeMap<&'static str, Data>, SimError> {
    let mut all = BTreeMap::new();
    for paper in papers_of(rows) {
        let mut data = Data::default();
        for experiment in paper.experiments {
            let sweep = paper.read(experiment, &[])?;
            data.put(experiment, rows_of_sweep(&sweep, stop, &mut progress)?);
        }
        all.insert(paper.name, data);
    }
    Ok(all)
}

fn rows_of_sweep(sweep: &Sweep, stop: &Stop, progress: &mut dyn FnMut()) -> Result<Rows, SimError> {
    let mut finished = Vec::new();
    run_sweep(sweep, 0..sweep.len(), stop, |row| {
        finished.push(row);
        progress();
        Ok(())
    })?;
    if finished.len() < sweep.len() {
        return Err(SimError::Stopped);
    }
    finished.sort_by_key(|r| r.index);
    Ok(Rows::new(finished))
}

/// The verdict on each of the rows, in their order.
///
/// # Errors
/// As reading calibrations, which some rows state.
pub fn judge(
    rows: &[Reference],
    data: &BTreeMap<&'static str, Data>,
) -> Result<Vec<Verdict>, SimError> {
    let mut all = BTreeMap::new();
    for paper in papers_of(rows) {
        if let Some(data) = data.get(paper.name) {
            all.extend(verdicts_of(paper, data)?);
        }
    }
    Ok(rows
        .iter()
        .map(|r| match all.get(r.id.as_str()) {
            Some(judged) => judged.of(r),
            None => Verdict::unjudged(r),
        })
        .collect())
}

fn verdicts_of(paper: &Paper, data: &Data) -> Result<BTreeMap<&'static str, Judged>, SimError> {
    let mut verdicts = Verdicts::default();
    (paper.judge)(data, &mut verdicts)?;
    data.check_names()?;
    Ok(verdicts.into_map())
}
