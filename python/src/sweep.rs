//! Sweeps, and their results in columns.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyMapping;
use rxlane_sim::output::text_of;
use rxlane_sim::run::{Row, run_sweep_on};
use toml::Value;

use crate::error::{SweepError, of_sim};
use crate::points::{Points, swept};
use crate::running;
use crate::scenario::Scenario;
use crate::table::{Columns, Table};
use crate::unit;

/// A metric of all points. A point that lacks it has NaN.
struct Metric {
    name: String,
    mean: Vec<f64>,
    /// Made for the first point that has an interval.
    ci95: Vec<f64>,
}

/// Gathers rows, which come in any order, in the columns that Arrow then takes over. A row's own form would take ten times as much
/// memory.
struct Gathered {
    points: usize,
    wanted: Option<Vec<String>>,
    metrics: Vec<Metric>,
    place: HashMap<String, usize>,
}

impl Gathered {
    fn new(points: usize, wanted: Option<Vec<String>>) -> Self {
        Self {
            points,
            wanted,
            metrics: Vec::new(),
            place: HashMap::new(),
        }
    }

    fn add(&mut self, row: Row) {
        for estimate in row.metrics {
            let wanted = self.wanted.as_ref();
            if wanted.is_some_and(|w| !w.contains(&estimate.name)) {
                continue;
            }
            let at = match self.place.get(&estimate.name) {
                Some(at) => *at,
                None => {
                    let at = self.metrics.len();
                    self.place.insert(estimate.name.clone(), at);
                    self.metrics.push(Metric {
                        name: estimate.name,
                        mean: vec![f64::NAN; self.points],
                        ci95: Vec::new(),
                    });
                    at
                }
            };
            let metric = &mut self.metrics[at];
            metric.mean[row.index] = estimate.mean;
            if let Some(ci95) = estimate.ci95 {
                if metric.ci95.is_empty() {
                    metric.ci95 = vec![f64::NAN; self.points];
                }
                metric.ci95[row.index] = ci95;
            }
        }
    }

    /// The columns in the order of the command's CSV: texts, then numbers.
    fn table(self, points: &Points) -> PyResult<Table> {
        let known = |name: &&String| !self.place.contains_key(*name);
        if let Some(unknown) = self.wanted.iter().flatten().find(known) {
            return Err(SweepError::new_err(format!(
                "{unknown}: no such metric of these points: leave `metrics` out to see them all"
            )));
        }
        let mut table = Columns::default();
        table.about("scenario", points.scenario.text()?);
        let sweep = &points.sweep;
        let cases = (0..self.points).map(|i| sweep.at(i).0.map_or("", |c| &c.name));
        table.texts("case", cases.map(Some).collect());
        let (numbers, texts): (Vec<_>, Vec<_>) = sweep
            .axes()
            .iter()
            .enumerate()
            .partition(|(_, (_, values))| values.iter().all(is_number));
        let column = |axis: usize| {
            let value = move |i| sweep.at(i).1.nth(axis).map(|(_, v)| v);
            (0..self.points).filter_map(value)
        };
        for (axis, (key, _)) in texts {
            table.texts(key, column(axis).map(|v| Some(text_of(v))).collect());
        }
        let index = (0..self.points as i64).collect();
        table.whole("index", Some("1"), index);
        for (axis, (key, values)) in numbers {
            let unit = unit::of_key(key);
            match values.iter().all(Value::is_integer) {
                true => {
                    let whole = column(axis).filter_map(Value::as_integer).collect();
                    table.whole(key, unit, whole);
                }
                false => table.numbers(key, unit, column(axis).map(number).collect()),
            }
        }
        for metric in self.metrics {
            let unit = unit::of_metric(&metric.name);
            table.numbers(&metric.name, unit, metric.mean);
            if !metric.ci95.is_empty() {
                table.numbers(&format!("{}.ci95", metric.name), unit, metric.ci95);
            }
        }
        table.finish()
    }
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Integer(_) | Value::Float(_))
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Integer(v) => *v as f64,
        Value::Float(v) => *v,
        _ => f64::NAN,
    }
}

/// Simulates all combinations of the values of dotted keys, and all cases of the scenario: a row a point, in the columns of the
/// command's CSV (`case`, `index`, swept keys, metrics, and `METRIC.ci95` beside each with several replications).
///
/// scenario: what all points share. Without `space`, its own sweep and cases.
/// space: dotted keys, each with its values: a list, whatever can be iterated, or {"from": 0, "to": 1, "step": 0.1}.
/// replications, seed, workers, progress: as of Scenario.run.
/// metrics: names of those to keep, which saves memory where there are many points; all without.
/// many: more than a million points are meant.
///
/// Python goes on meanwhile, and Ctrl-C ends it at once; for sweeps that must outlive that, see rxlane.study.
///
/// >>> table = rxlane.sweep(rxlane.Scenario(seconds=0.01), {"traffic.pps": [1e6, 2e6], "reception.strategy": ["sq", "ll-rr"]})
/// >>> table.num_rows, table["reception.strategy"].to_list()
/// (4, ['sq', 'sq', 'll-rr', 'll-rr'])
///
/// Raises ScenarioError for a point that cannot be, SweepError for an empty sweep, or one that is too large.
#[pyfunction]
#[pyo3(signature = (scenario, space=None, *, replications=None, seed=None, metrics=None, workers=None, progress=None, many=false))]
#[expect(clippy::too_many_arguments, reason = "they are keywords")]
pub(crate) fn sweep(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    space: Option<&Bound<'_, PyMapping>>,
    replications: Option<u32>,
    seed: Option<u64>,
    metrics: Option<Vec<String>>,
    workers: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
    many: bool,
) -> PyResult<Table> {
    let scenario = scenario.get().repeated(replications, seed)?;
    let points = swept(&scenario, space, many)?;
    let threads = running::threads(workers)?;
    let sweep = &points.sweep;
    let mut gathered = Gathered::new(sweep.len(), metrics);
    let ended = running::run(py, progress, sweep.len(), "points", |task| {
        run_sweep_on(threads, sweep, 0..sweep.len(), &task.stop, |row| {
            gathered.add(row);
            task.count();
            Ok(())
        })
    })?;
    ended.map_err(of_sim)?;
    gathered.table(&points)
}
