//! What came of a run.

use std::collections::BTreeMap;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use rxlane_sim::histogram::Latencies;
use rxlane_sim::outcome::{Outcome, class_name};
use rxlane_sim::run::estimates;
use rxlane_sim::tally::LoadSamples;

use crate::estimate::Estimate;
use crate::scenario::Scenario;
use crate::table::{Columns, Table};
use crate::unit;

/// What came of Scenario.run: metrics with confidence intervals, and latencies as histograms.
///
/// >>> result = rxlane.Scenario({"seconds": 0.01, "traffic.rt_ratio": 0.3}).run(replications=2)
/// >>> result["latency_us.rt.p99"].unit
/// 'us'
/// >>> sorted(result.latencies)
/// ['be', 'rt']
///
/// Whatever takes Arrow takes it as the table `metrics`.
#[pyclass(frozen, module = "rxlane")]
pub(crate) struct RunResult {
    scenario: Scenario,
    estimates: Vec<rxlane_sim::run::Estimate>,
    outcomes: Vec<Outcome>,
}

impl RunResult {
    pub(crate) fn new(scenario: Scenario, outcomes: Vec<Outcome>) -> Self {
        Self {
            scenario,
            estimates: estimates(&outcomes),
            outcomes,
        }
    }
}

fn histogram(of: &Latencies) -> PyResult<Table> {
    let ns = |ps: rxlane_policy::Ps| ps.0 as f64 / 1e3;
    let mut table = Columns::default();
    let from = of.buckets().map(|(from, ..)| ns(from)).collect();
    table.numbers("from_ns", Some("ns"), from);
    let to = of.buckets().map(|(_, to, _)| ns(to)).collect();
    table.numbers("to_ns", Some("ns"), to);
    let packets = of.buckets().map(|(.., n)| n).collect();
    table.counts("packets", Some("packets"), packets);
    table.finish()
}

#[pymethods]
impl RunResult {
    /// What was simulated.
    #[getter]
    fn scenario(&self) -> Scenario {
        self.scenario.clone()
    }

    /// A row a metric: `metric`, `mean`, `ci95` (half of the 95 % confidence interval, missing of one replication), `unit`.
    #[getter]
    fn metrics(&self) -> PyResult<Table> {
        let all = &self.estimates;
        let mut table = Columns::default();
        table.texts("metric", all.iter().map(|e| Some(&e.name)).collect());
        table.numbers("mean", None, all.iter().map(|e| e.mean).collect());
        let ci95 = all.iter().map(|e| e.ci95.unwrap_or(f64::NAN)).collect();
        table.numbers("ci95", None, ci95);
        let units = all.iter().map(|e| unit::of_metric(&e.name)).collect();
        table.texts("unit", units);
        table.about("scenario", self.scenario.text()?);
        table.finish()
    }

    /// A row a replication: `replication`, and a column a metric.
    #[getter]
    fn replications(&self) -> PyResult<Table> {
        let mut table = Columns::default();
        let numbers = (0..self.outcomes.len() as u64).collect();
        table.counts("replication", Some("1"), numbers);
        for (i, estimate) in self.estimates.iter().enumerate() {
            let values = self.outcomes.iter().map(|o| o.metrics[i].1).collect();
            table.numbers(&estimate.name, unit::of_metric(&estimate.name), values);
        }
        table.about("scenario", self.scenario.text()?);
        table.finish()
    }

    /// Latency of each class over all replications, by the name that it has in metrics (`rt` and `be` of two classes, else `c0`,
    /// `c1`, ...): a row a bucket that holds something, `from_ns`, `to_ns`, `packets`. Buckets are within 1/32 of the latency.
    #[getter]
    fn latencies(&self) -> PyResult<BTreeMap<String, Table>> {
        let classes = self.outcomes.first().map_or(0, |o| o.latencies.len());
        (0..classes)
            .map(|class| {
                let mut all = Latencies::default();
                for outcome in &self.outcomes {
                    all.merge(&outcome.latencies[class]);
                }
                Ok((class_name(class, classes), histogram(&all)?))
            })
            .collect()
    }

    /// Loads of the cores that were seen with `cpu.sample_s`, over all replications: `load` (0 to 1), `samples`.
    #[getter]
    fn loads(&self) -> PyResult<Table> {
        let mut all = LoadSamples::default();
        self.outcomes.iter().for_each(|o| all.merge(&o.loads));
        let mut table = Columns::default();
        table.numbers("load", Some("1"), all.counts().map(|(l, _)| l).collect());
        table.counts("samples", Some("1"), all.counts().map(|(_, n)| n).collect());
        table.finish()
    }

    /// Names of the metrics, in their order.
    fn keys(&self) -> Vec<String> {
        self.estimates.iter().map(|e| e.name.clone()).collect()
    }

    fn __getitem__(&self, name: &str) -> PyResult<Estimate> {
        let found = self.estimates.iter().find(|e| e.name == name);
        found.map(Estimate::new).ok_or_else(|| {
            PyKeyError::new_err(format!(
                "{name}: no such metric of this scenario: see keys()"
            ))
        })
    }

    fn __contains__(&self, name: &str) -> bool {
        self.estimates.iter().any(|e| e.name == name)
    }

    fn __len__(&self) -> usize {
        self.estimates.len()
    }

    fn __repr__(&self) -> String {
        let show = |name: &str| {
            let found = self.estimates.iter().find(|e| e.name == name);
            found.map_or(String::new(), |e| format!(", {name} {:.4}", e.mean))
        };
        format!(
            "<rxlane.RunResult of {} replications{}{}>",
            self.outcomes.len(),
            show("throughput_pps"),
            show("loss")
        )
    }

    /// Arrow PyCapsule interface, of `metrics`.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.metrics()?.__arrow_c_stream__(py, requested_schema)
    }

    /// Arrow PyCapsule interface, of `metrics`.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.metrics()?.__arrow_c_schema__(py)
    }
}
