//! A metric over replications.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A mean over replications with its 95 % confidence interval (Student's t). It can be calculated with as a number is.
///
/// >>> loss = rxlane.Scenario(seconds=0.01).run(replications=3)["loss"]
/// >>> loss.unit, float(loss) == loss.mean
/// ('1', True)
#[pyclass(frozen, module = "rxlane")]
#[derive(Clone)]
pub(crate) struct Estimate {
    /// Name of the metric.
    #[pyo3(get)]
    name: String,
    /// Mean over the replications, in `unit`.
    #[pyo3(get)]
    mean: f64,
    /// Half of the 95 % confidence interval, in `unit`; None of a single replication.
    #[pyo3(get)]
    ci95: Option<f64>,
    /// Unit; None where the metric has none.
    #[pyo3(get)]
    unit: Option<&'static str>,
}

impl Estimate {
    pub(crate) fn new(of: &rxlane_sim::run::Estimate) -> Self {
        Self {
            name: of.name.clone(),
            mean: of.mean,
            ci95: of.ci95,
            unit: crate::unit::of_metric(&of.name),
        }
    }
}

#[pymethods]
impl Estimate {
    fn __float__(&self) -> f64 {
        self.mean
    }

    fn __repr__(&self) -> String {
        let ci95 = self.ci95.map_or(String::new(), |c| format!(" +- {c}"));
        let unit = match self.unit {
            None | Some("1") => String::new(),
            Some(unit) => format!(" {unit}"),
        };
        format!("{}: {}{ci95}{unit}", self.name, self.mean)
    }
}

/// Mean of independent values, and half of its 95 % confidence interval (Student's t), as runs and sweeps calculate them; the
/// interval of a single value is None.
///
/// >>> rxlane.mean_and_ci95([1.0, 2.0, 3.0])[0]
/// 2.0
///
/// Raises ValueError without a value.
#[pyfunction]
pub(crate) fn mean_and_ci95(values: Vec<f64>) -> PyResult<(f64, Option<f64>)> {
    match values.is_empty() {
        true => Err(PyValueError::new_err(
            "no values have no mean: give at least one",
        )),
        false => Ok(rxlane_sim::run::mean_and_ci95(&values)),
    }
}
