//! The five papers against the model.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use rxlane_papers::{PAPERS, Verdict, judge, points, run, select};

use crate::error::{of_papers, of_sim};
use crate::running;
use crate::table::{Columns, Table};

/// The papers that the model is held to, each with its experiments, for Scenario.from_paper.
///
/// >>> sorted(rxlane.papers())[:2]
/// ['beyond-softnet', 'interrupt-throttling']
#[pyfunction]
pub(crate) fn papers() -> BTreeMap<&'static str, Vec<&'static str>> {
    PAPERS
        .iter()
        .map(|p| (p.name, p.experiments.to_vec()))
        .collect()
}

fn table(verdicts: &[Verdict]) -> PyResult<Table> {
    let mut table = Columns::default();
    let mut texts = |name: &str, of: &dyn Fn(&Verdict) -> Option<String>| {
        table.texts(name, verdicts.iter().map(of).collect());
    };
    texts("id", &|v| Some(v.id.clone()));
    texts("paper", &|v| Some(v.paper.clone()));
    texts("use", &|v| Some(v.usage.to_string()));
    texts("quantity", &|v| Some(v.quantity.clone()));
    texts("scenario", &|v| Some(v.scenario.clone()));
    texts("paper_value", &|v| Some(v.paper_value.clone()));
    texts("unit", &|v| Some(v.unit.clone()));
    texts("verdict", &|v| Some(v.verdict.to_owned()));
    texts("model_text", &|v| v.model.as_str().map(str::to_owned));
    texts("judged", &|v| Some(v.judged.clone()));
    texts("rule", &|v| Some(v.rule.clone()));
    texts("effect", &|v| Some(v.effect.clone()));
    texts("note", &|v| Some(v.note.clone()));
    let number = |v: &Verdict| v.model.as_f64().unwrap_or(f64::NAN);
    table.numbers("model", None, verdicts.iter().map(number).collect());
    let ci95 = |v: &Verdict| v.ci95.unwrap_or(f64::NAN);
    table.numbers("ci95", None, verdicts.iter().map(ci95).collect());
    table.finish()
}

/// What five papers state, against the model: a row a stated result, with its verdict (`reproduced` or `missed`) and the rule.
///
/// what: nothing for all of them, or names of papers and rows, such as "LL-01".
/// progress: as of Scenario.run.
///
/// `use` says what a row counts as; only rows of "predict" say something about the model. `model` is the model's number,
/// `model_text` what it does where that is no number, `unit` the unit of both.
///
/// >>> rxlane.reproduce("NIC-05")["verdict"].to_list()
/// ['reproduced']
///
/// Raises PaperError for a name that there is not.
#[pyfunction]
#[pyo3(signature = (*what, progress=None))]
pub(crate) fn reproduce(
    py: Python<'_>,
    what: Vec<String>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    let rows = select(&what).map_err(of_papers)?;
    let total = points(&rows).map_err(of_sim)?;
    let verdicts = running::run(py, progress, total, "points", |task| {
        let data = run(&rows, &task.stop, || task.count())?;
        judge(&rows, &data)
    })?;
    table(&verdicts.map_err(of_sim)?)
}
