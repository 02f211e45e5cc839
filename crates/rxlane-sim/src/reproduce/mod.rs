//! The results that five papers state, against the model: a verdict a row.

mod beyond_softnet;
mod experiments;
mod figures;
mod interrupt_throttling;
mod judge;
mod low_latency_router;
mod multiple_nics;
mod reference;
mod report;
mod single_input_queue;
mod table;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use crate::SimError;
use crate::run::run_sweep;

pub use experiments::{Experiment, PAPERS, Paper, read};
pub(crate) use experiments::{calibration_table, read_with};
pub use judge::Verdict;
use judge::Verdicts;
pub use reference::{Reference, Use, references};
pub use report::html;
pub use table::{Data, Rows};

/// Papers and rows that a selection names: `all`, a paper, or ids of rows.
///
/// # Errors
/// [`SimError::NoExperiment`].
pub fn select(names: &[String]) -> Result<Vec<Reference>, SimError> {
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
            return Err(SimError::NoExperiment {
                name: name.clone(),
                papers: PAPERS.map(|p| p.name).join(", "),
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
            points += read(paper, experiment.file)?.len();
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
/// As running them; [`SimError::Stopped`] when `stop` became true.
pub fn run(
    rows: &[Reference],
    stop: &AtomicBool,
    mut progress: impl FnMut(),
) -> Result<BTreeMap<&'static str, Data>, SimError> {
    let mut all = BTreeMap::new();
    for paper in papers_of(rows) {
        let mut data = Data::default();
        for experiment in paper.experiments {
            let sweep = read(paper, experiment.file)?;
            let mut finished = Vec::new();
            run_sweep(&sweep, 0..sweep.len(), stop, |row| {
                finished.push(row);
                progress();
                Ok(())
            })?;
            if finished.len() < sweep.len() {
                return Err(SimError::Stopped);
            }
            finished.sort_by_key(|r| r.index);
            data.put(experiment.file, Rows::new(finished));
        }
        all.insert(paper.name, data);
    }
    Ok(all)
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
        let Some(data) = data.get(paper.name) else {
            continue;
        };
        let mut verdicts = Verdicts::default();
        (paper.judge)(data, &mut verdicts)?;
        all.extend(verdicts.into_map());
    }
    Ok(rows
        .iter()
        .map(|r| match all.get(r.id.as_str()) {
            Some(judged) => judged.of(r),
            None => Verdict::unjudged(r),
        })
        .collect())
}
