//! The points of a sweep, one by one.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use rxlane_sim::scenario::Loaded;
use rxlane_sim::sweep::{self, Sweep};
use toml::{Table, Value};

use crate::error::{SweepError, of_sim};
use crate::scenario::Scenario;
use crate::value::{length, refuse_many, to_python, to_toml};

/// One scenario of a sweep.
#[pyclass(frozen, module = "rxlane")]
pub(crate) struct Point {
    point: sweep::Point,
    loaded: Loaded,
}

#[pymethods]
impl Point {
    /// Position in the sweep.
    #[getter]
    fn index(&self) -> usize {
        self.point.index
    }

    /// Name of its case; empty without cases.
    #[getter]
    fn case(&self) -> &str {
        &self.point.case
    }

    /// Swept keys with their values here.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in &self.point.keys {
            dict.set_item(key, to_python(py, value)?)?;
        }
        Ok(dict)
    }

    /// What is simulated here.
    #[getter]
    fn scenario(&self) -> Scenario {
        Scenario {
            loaded: self.loaded.clone(),
        }
    }

    fn __repr__(&self) -> String {
        let keys = self.point.keys.iter();
        let keys: Vec<String> = keys.map(|(k, v)| format!("{k} = {v}")).collect();
        format!("<rxlane.Point {} {}>", self.point.index, keys.join(", "))
    }
}

/// The points of a sweep: all cases of a scenario times all combinations of the values of dotted keys. Each is made when it is
/// asked for. Keys vary in alphabetical order, the last the fastest, as in the command.
///
/// >>> points = rxlane.Points(rxlane.Scenario(), {"traffic.pps": [1e6, 2e6], "nic.descriptors": [64, 512]})
/// >>> len(points), points[3].keys
/// (4, {'nic.descriptors': 512, 'traffic.pps': 2000000.0})
///
/// Raises SweepError for an axis without values and, without `many=True`, for more than a million points.
#[pyclass(frozen, module = "rxlane")]
pub(crate) struct Points {
    pub(crate) sweep: Sweep,
    pub(crate) scenario: Scenario,
}

/// A scenario with the axes of `space` in place of, or beside, its own.
pub(crate) fn swept(
    scenario: &Scenario,
    space: Option<&Bound<'_, PyMapping>>,
    many: bool,
) -> PyResult<Points> {
    let mut axes = Table::new();
    if let Some(space) = space {
        // Lengths first: nobody wants to wait for a billion values to be refused.
        let mut points = 1_usize;
        for pair in space.items()? {
            let (key, values): (String, Bound<'_, PyAny>) = pair.extract().map_err(|_| {
                SweepError::new_err("the space of a sweep is a dict of dotted keys and their values, as {\"traffic.pps\": [1e6, 2e6]}")
            })?;
            points = points.saturating_mul(length(&values).unwrap_or(1).max(1));
            refuse_many(points, many)?;
            let listed = match to_toml(&key, &values)? {
                listed @ (Value::Array(_) | Value::Table(_)) => listed,
                single => Value::Array(vec![single]),
            };
            if matches!(&listed, Value::Array(values) if values.is_empty()) {
                return Err(empty(&key));
            }
            axes.insert(key, listed);
        }
    }
    let with_axes = match axes.is_empty() {
        true => scenario.clone(),
        false => {
            // Axes replace those of the same key as a whole, a list as well as a range.
            let mut table = scenario.loaded.table.clone();
            let own = table.entry("sweep").or_insert_with(|| Table::new().into());
            if let Value::Table(own) = own {
                own.extend(axes);
            }
            let loaded = Loaded::new(table, &scenario.loaded.folder)
                .and_then(|l| l.with_custom(scenario.loaded.scenario.custom.clone()))
                .map_err(of_sim)?;
            Scenario { loaded }
        }
    };
    let sweep = Sweep::new(&with_axes.loaded).map_err(of_sim)?;
    if let Some((key, _)) = sweep.axes().iter().find(|(_, values)| values.is_empty()) {
        return Err(empty(key));
    }
    refuse_many(sweep.len(), many)?;
    // What no point can have is said before any is run.
    sweep.point(0).map_err(of_sim)?;
    Ok(Points {
        sweep,
        scenario: with_axes,
    })
}

fn empty(key: &str) -> PyErr {
    SweepError::new_err(format!(
        "sweep over {key}: it has no values: give at least one, or leave the key out"
    ))
}

#[pymethods]
impl Points {
    #[new]
    #[pyo3(signature = (scenario, space=None, *, many=false))]
    fn new(
        scenario: &Bound<'_, Scenario>,
        space: Option<&Bound<'_, PyMapping>>,
        many: bool,
    ) -> PyResult<Self> {
        swept(scenario.get(), space, many)
    }

    /// Swept keys, in the order in which they vary: the last the fastest.
    #[getter]
    fn keys(&self) -> Vec<String> {
        let axes = self.sweep.axes().iter();
        axes.map(|(key, _)| key.clone()).collect()
    }

    /// Swept keys with all of their values.
    #[getter]
    fn axes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, values) in self.sweep.axes() {
            dict.set_item(key, to_python(py, &Value::Array(values.clone()))?)?;
        }
        Ok(dict)
    }

    fn __len__(&self) -> usize {
        self.sweep.len()
    }

    fn __getitem__(&self, index: usize) -> PyResult<Point> {
        if index >= self.sweep.len() {
            return Err(PyIndexError::new_err(format!(
                "point {index}: there are {}",
                self.sweep.len()
            )));
        }
        let point = self.sweep.point(index).map_err(of_sim)?;
        let mut table = self.scenario.loaded.table.clone();
        table.remove("sweep");
        let cases = table.remove("case");
        let base = Loaded {
            table,
            ..self.scenario.loaded.clone()
        };
        let set = cases
            .iter()
            .flat_map(|c| c.as_array().into_iter().flatten());
        let set = set
            .filter(|c| c.get("name").and_then(Value::as_str) == Some(&point.case))
            .filter_map(|c| c.get("set")?.as_table().cloned())
            .flatten();
        let settings = set.chain(point.keys.iter().cloned());
        let loaded = base.with(settings).map_err(of_sim)?;
        Ok(Point { point, loaded })
    }

    fn __repr__(&self) -> String {
        format!("<rxlane.Points {} of them>", self.sweep.len())
    }
}
