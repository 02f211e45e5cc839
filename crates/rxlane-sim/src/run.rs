//! Running points: replications with confidence intervals, on all cores.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::SimError;
use crate::outcome::{Outcome, simulate};
use crate::scenario::Scenario;
use crate::sweep::{Point, Sweep};
use crate::tally::LoadSamples;

/// Reads and writes estimates as an object by name, in their order.
mod by_name {
    use serde::de::{MapAccess, Visitor};
    use serde::ser::SerializeMap;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Estimate;

    #[derive(Serialize, Deserialize)]
    struct Value {
        mean: f64,
        ci95: Option<f64>,
    }

    pub(super) fn serialize<S: Serializer>(all: &[Estimate], to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(all.len()))?;
        for e in all {
            let value = Value {
                mean: e.mean,
                ci95: e.ci95,
            };
            map.serialize_entry(&e.name, &value)?;
        }
        map.end()
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Estimate>, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<Estimate>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of metrics")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some((name, Value { mean, ci95 })) = map.next_entry()? {
                    all.push(Estimate { name, mean, ci95 });
                }
                Ok(all)
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// A mean over replications.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Name of the metric.
    pub name: String,
    /// Mean over the replications.
    pub mean: f64,
    /// Half of the 95 % confidence interval (Student's t); none of a single replication.
    pub ci95: Option<f64>,
}

/// Core loads, 0 to 1, with how often each was seen.
pub type Loads = Vec<(f64, u64)>;

/// The result of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Position in the sweep.
    pub index: usize,
    /// Name of the case, empty without cases.
    pub case: String,
    /// Swept keys and values.
    pub keys: BTreeMap<String, toml::Value>,
    /// Metrics; in JSON an object by name.
    #[serde(with = "by_name")]
    pub metrics: Vec<Estimate>,
    /// Core loads with how often they were seen, over all replications; empty without sampling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Loads,
}

impl Row {
    /// A metric's mean by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.estimate(name).map(|e| e.mean)
    }

    /// A metric's mean by its name, which must be that of a metric.
    ///
    /// # Errors
    /// [`SimError::Name`].
    pub fn require(&self, name: &str) -> Result<f64, SimError> {
        self.get(name)
            .ok_or_else(|| SimError::Name { name: name.into() })
    }

    /// A metric by its name.
    pub fn estimate(&self, name: &str) -> Option<&Estimate> {
        self.metrics.iter().find(|e| e.name == name)
    }

    /// A swept value, as a number.
    pub fn key(&self, name: &str) -> Option<f64> {
        match self.keys.get(name)? {
            toml::Value::Float(v) => Some(*v),
            toml::Value::Integer(v) => Some(*v as f64),
            _ => None,
        }
    }
}

/// Means and intervals over the replications of a scenario, and its core loads.
///
/// # Errors
/// As [`simulate`].
pub fn replicate(scenario: &Scenario) -> Result<(Vec<Estimate>, Loads), SimError> {
    let mut loads = LoadSamples::default();
    let outcomes = (0..scenario.replications)
        .map(|r| simulate(scenario, r).inspect(|o| loads.merge(&o.loads)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((estimates(&outcomes), loads.counts().collect()))
}

fn estimates(outcomes: &[Outcome]) -> Vec<Estimate> {
    let Some(first) = outcomes.first() else {
        return Vec::new();
    };
    let names = first.metrics.iter().map(|(name, _)| name);
    names
        .enumerate()
        .map(|(i, name)| {
            let values: Vec<f64> = outcomes.iter().map(|o| o.metrics[i].1).collect();
            let (mean, ci95) = mean_and_ci95(&values);
            Estimate {
                name: name.clone(),
                mean,
                ci95,
            }
        })
        .collect()
}

/// Mean of independent values, and half of its 95 % confidence interval.
pub fn mean_and_ci95(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, None);
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::NAN, |d| d.inverse_cdf(0.975));
    (mean, Some(t * (variance / n).sqrt()))
}

/// Runs a point.
///
/// # Errors
/// As [`simulate`].
pub fn run_point(point: &Point) -> Result<Row, SimError> {
    let (metrics, loads) = replicate(&point.scenario)?;
    Ok(Row {
        index: point.index,
        case: point.case.clone(),
        keys: point.keys.iter().cloned().collect(),
        metrics,
        loads,
    })
}

/// Runs the points `todo` of a sweep on all cores and hands each row over as it is finished, in any order.
/// Ends early when `stop` becomes true.
///
/// # Errors
/// The first point's error, and what `finished` returns.
pub fn run_sweep(
    sweep: &Sweep,
    todo: impl IntoIterator<Item = usize>,
    stop: &AtomicBool,
    mut finished: impl FnMut(Row) -> Result<(), SimError>,
) -> Result<(), SimError> {
    let todo: Mutex<VecDeque<usize>> = Mutex::new(todo.into_iter().collect());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let send = send.clone();
            scope.spawn(|| {
                let send = send;
                let next = || {
                    let mut todo = todo.lock().unwrap_or_else(|e| e.into_inner());
                    todo.pop_front()
                };
                while !stop.load(Ordering::Relaxed) {
                    let Some(index) = next() else {
                        return;
                    };
                    let row = sweep.point(index).and_then(|p| run_point(&p));
                    if send.send(row).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for row in receive {
            let handled = row.and_then(&mut finished);
            if handled.is_err() {
                // Without points to do, the other threads end after their current one.
                todo.lock().unwrap_or_else(|e| e.into_inner()).clear();
                return handled;
            }
        }
        Ok(())
    })
}
