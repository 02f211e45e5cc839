//! Running points: replications with confidence intervals, on all cores.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, mpsc};

use serde::{Deserialize, Serialize};

use crate::SimError;
use crate::outcome::{Outcome, simulate_until};
use crate::scenario::Scenario;
use crate::stop::Stop;
use crate::student::t_of_95_percent;
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
/// As [`simulate_until`].
pub fn replicate(scenario: &Scenario) -> Result<(Vec<Estimate>, Loads), SimError> {
    replicate_until(scenario, &Stop::never())
}

fn replicate_until(scenario: &Scenario, stop: &Stop) -> Result<(Vec<Estimate>, Loads), SimError> {
    let mut loads = LoadSamples::default();
    let outcomes = (0..scenario.replications)
        .map(|r| simulate_until(scenario, r, stop).inspect(|o| loads.merge(&o.loads)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((estimates(&outcomes), loads.counts().collect()))
}

/// The replications of a scenario, in their order, on so many threads. `finished` is told of each.
///
/// # Errors
/// As [`simulate_until`].
pub fn replications(
    scenario: &Scenario,
    threads: NonZeroUsize,
    stop: &Stop,
    mut finished: impl FnMut(),
) -> Result<Vec<Outcome>, SimError> {
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    outcomes.resize_with(scenario.replications as usize, || None);
    let work = |r| simulate_until(scenario, r, stop).map(|o| (r, o));
    spread(0..scenario.replications, threads, work, |(r, outcome)| {
        outcomes[r as usize] = Some(outcome);
        finished();
        Ok(())
    })?;
    Ok(outcomes.into_iter().flatten().collect())
}

/// Means and intervals of metrics over replications.
pub fn estimates(outcomes: &[Outcome]) -> Vec<Estimate> {
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
    let t = t_of_95_percent(values.len());
    (mean, Some(t * (variance / n).sqrt()))
}

/// Runs a point.
///
/// # Errors
/// As [`simulate_until`].
pub fn run_point(point: &Point) -> Result<Row, SimError> {
    run_point_until(point, &Stop::never())
}

fn run_point_until(point: &Point, stop: &Stop) -> Result<Row, SimError> {
    let (metrics, loads) = replicate_until(&point.scenario, stop)?;
    Ok(Row {
        index: point.index,
        case: point.case.clone(),
        keys: point.keys.iter().cloned().collect(),
        metrics,
        loads,
    })
}

/// All cores that this process may use.
pub fn all_cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Runs the points `todo` of a sweep on all cores and hands each row over as it is finished, in any order.
/// Ends early, and without an error, when `stop` asks for it; points that were not finished then are not handed over.
///
/// # Errors
/// The first point's error, and what `finished` returns.
pub fn run_sweep(
    sweep: &Sweep,
    todo: impl IntoIterator<Item = usize, IntoIter: Send>,
    stop: &Stop,
    finished: impl FnMut(Row) -> Result<(), SimError>,
) -> Result<(), SimError> {
    run_sweep_on(all_cores(), sweep, todo, stop, finished)
}

/// As [`run_sweep`], on so many threads. The rows are the same on any number of them.
///
/// # Errors
/// As [`run_sweep`].
pub fn run_sweep_on(
    threads: NonZeroUsize,
    sweep: &Sweep,
    todo: impl IntoIterator<Item = usize, IntoIter: Send>,
    stop: &Stop,
    finished: impl FnMut(Row) -> Result<(), SimError>,
) -> Result<(), SimError> {
    let work = |index| {
        let point = sweep.point(index)?;
        run_point_until(&point, stop)
    };
    match spread(todo, threads, work, finished) {
        Err(SimError::Stopped) if stop.is_asked() => Ok(()),
        ended => ended,
    }
}

/// Does `work` for each of `todo` on so many threads, and hands over what comes of it, in any order.
fn spread<I: Send, T: Send>(
    todo: impl IntoIterator<Item = I, IntoIter: Send>,
    threads: NonZeroUsize,
    work: impl Fn(I) -> Result<T, SimError> + Sync,
    mut finished: impl FnMut(T) -> Result<(), SimError>,
) -> Result<(), SimError> {
    let todo = Mutex::new(Some(todo.into_iter()));
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.get() {
            let send = send.clone();
            scope.spawn(|| {
                let send = send;
                let next = || {
                    let mut todo = todo.lock().unwrap_or_else(|e| e.into_inner());
                    todo.as_mut()?.next()
                };
                while let Some(item) = next() {
                    if send.send(work(item)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for done in receive {
            let handled = done.and_then(&mut finished);
            if handled.is_err() {
                // Without anything to do, the other threads end after what they are at.
                *todo.lock().unwrap_or_else(|e| e.into_inner()) = None;
                return handled;
            }
        }
        Ok(())
    })
}
