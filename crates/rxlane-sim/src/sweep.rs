//! Many scenarios from one: named cases times all combinations of swept values.

use std::path::PathBuf;

use serde::Serialize;
use toml::{Table, Value};

use crate::SimError;
use crate::custom::Custom;
use crate::scenario::{Case, Loaded, Scenario, Values};
use crate::scenario::{key_and_value, put, scenario_like};
use crate::traffic::Pattern;

/// Most points that a sweep may have without asking again.
pub const MANY_POINTS: usize = 1_000_000;

/// The points of a scenario file; each is made when it is asked for.
#[derive(Debug, Clone)]
pub struct Sweep {
    table: Table,
    folder: PathBuf,
    cases: Vec<Case>,
    axes: Vec<(String, Vec<Value>)>,
    custom: Custom,
    /// What captures have been read.
    pattern: Pattern,
}

/// One scenario of a sweep.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Position in the sweep.
    pub index: usize,
    /// Name of its case; empty without cases.
    pub case: String,
    /// Swept keys and their values here.
    pub keys: Vec<(String, Value)>,
    /// The scenario of this point, with every key.
    pub scenario: Scenario,
}

impl Sweep {
    /// The sweep of a file; one point for a file without `[sweep]` and `[[case]]`.
    ///
    /// # Errors
    /// [`SimError::Value`] for a range that is none.
    pub fn new(loaded: &Loaded) -> Result<Self, SimError> {
        let axes = loaded
            .scenario
            .sweep
            .iter()
            .map(|(key, values)| Ok((key.clone(), expand(key, values)?)))
            .collect::<Result<_, SimError>>()?;
        Ok(Self {
            table: loaded.table.clone(),
            folder: loaded.folder.clone(),
            cases: loaded.scenario.case.clone(),
            axes,
            custom: loaded.scenario.custom.clone(),
            pattern: loaded.scenario.traffic.pattern.clone(),
        })
    }

    /// Lays a `KEY=VALUE` setting over what cases set: over the case of that name, or over all of them.
    ///
    /// # Errors
    /// [`SimError::Key`] for what is no key, [`SimError::Name`] for a case that does not exist.
    pub fn override_cases(&mut self, case: Option<&str>, setting: &str) -> Result<(), SimError> {
        let (key, value) = key_and_value(setting)?;
        let mut some = false;
        for c in &mut self.cases {
            if case.is_none_or(|name| name == c.name) {
                c.set.insert(key.clone(), value.clone());
                some = true;
            }
        }
        match case {
            Some(name) if !some => Err(SimError::Name { name: name.into() }),
            _ => Ok(()),
        }
    }

    /// Swept keys with their values, the one that varies slowest first.
    pub fn axes(&self) -> &[(String, Vec<Value>)] {
        &self.axes
    }

    /// All combinations of cases and values.
    pub fn len(&self) -> usize {
        self.axes
            .iter()
            .map(|(_, values)| values.len())
            .fold(self.cases.len().max(1), usize::saturating_mul)
    }

    /// Whether an axis has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the point `index` is: its case, and the swept keys with their values.
    pub fn at(&self, index: usize) -> (Option<&Case>, impl Iterator<Item = (&str, &Value)>) {
        let (mut rest, mut stride) = (index, 1);
        for (_, values) in &self.axes {
            stride *= values.len();
        }
        let case = self.cases.get(index / stride);
        rest %= stride;
        let keys = self.axes.iter().map(move |(key, values)| {
            stride /= values.len();
            let value = &values[rest / stride];
            rest %= stride;
            (key.as_str(), value)
        });
        (case, keys)
    }

    /// The point `index`, below [`Sweep::len`]; the last axis varies fastest.
    ///
    /// # Errors
    /// The errors of reading a scenario, for combinations that are not valid.
    pub fn point(&self, index: usize) -> Result<Point, SimError> {
        let mut table = self.table.clone();
        let (case, keys) = self.at(index);
        let keys: Vec<(String, Value)> = keys.map(|(k, v)| (k.to_owned(), v.clone())).collect();
        for (key, value) in case.iter().flat_map(|c| &c.set) {
            put(&mut table, key, value.clone())?;
        }
        for (key, value) in &keys {
            put(&mut table, key, value.clone())?;
        }
        let mut scenario = scenario_like(&table, &self.folder, Some(&self.pattern))?;
        if !self.custom.is_empty() {
            scenario.custom = self.custom.clone();
            scenario.check()?;
        }
        Ok(Point {
            index,
            case: case.map(|c| c.name.clone()).unwrap_or_default(),
            keys,
            scenario,
        })
    }
}

fn expand(key: &str, values: &Values) -> Result<Vec<Value>, SimError> {
    match values {
        Values::List(list) => Ok(list.clone()),
        Values::Range { from, to, step } => {
            let steps = (to - from) / step;
            if !(steps.is_finite() && *step > 0.0 && steps >= 0.0) {
                return Err(SimError::Value {
                    key: format!("sweep.{key}"),
                    value: format!("{from} to {to} by {step}"),
                    cure: "give from <= to and a step above 0",
                });
            }
            // Add a little before rounding down, or 0.05 to 2.0 by 0.05 would end at 1.95.
            let last = ((steps + 1e-9).floor() as usize).min(MANY_POINTS);
            Ok((0..=last)
                .map(|i| Value::Float(rounded(from + i as f64 * step)))
                .collect())
        }
    }
}

/// Rounds a value: 0.15 rather than 0.15000000000000002.
fn rounded(v: f64) -> f64 {
    format!("{v:.12e}").parse().unwrap_or(v)
}
