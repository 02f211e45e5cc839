//! Fitting: costs of a paper's machine from the rows that may set them, and no others.
//!
//! A compass search over a few parameters: each is moved up and down by its step; what lowers the sum of
//! squared relative residuals stays; when nothing does, steps are halved. The model is deterministic for a
//! seed, so is the result.

use rxlane_sim::SimError;
use rxlane_sim::descent::{Axis, descend};
use rxlane_sim::run::{Row, run_point};

use crate::paper::Paper;
use crate::profile::disturbance;
use crate::reference::{Use, references};
use crate::{PAPERS, PapersError};

/// A parameter that is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) key: &'static str,
    axis: Axis,
}

pub(crate) const fn parameter(
    key: &'static str,
    start: f64,
    step: f64,
    min: f64,
    max: f64,
) -> Parameter {
    let axis = Axis {
        start,
        step,
        min,
        max,
    };
    Parameter { key, axis }
}

/// A row of the reference table and what the model makes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// Identifier of the row, such as `LL-07`.
    pub id: &'static str,
    /// What was compared.
    pub what: &'static str,
    /// The paper's value.
    pub paper: f64,
    /// What the model gives.
    pub model: f64,
}

impl Residual {
    /// Relative to the paper's value; to `scale` where that is 0.
    pub fn relative(&self) -> f64 {
        let scale = if self.paper == 0.0 {
            ZERO_SCALE
        } else {
            self.paper
        };
        (self.model - self.paper) / scale
    }
}

/// A fitted rate of 0 interrupts is compared on the scale of the paper's 32,000.
const ZERO_SCALE: f64 = 32_000.0;

/// Keys with their values, and what remains.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Name of the paper whose machine was fitted.
    pub paper: &'static str,
    /// Keys and values.
    pub values: Vec<(&'static str, f64)>,
    /// One for each row that was fitted.
    pub residuals: Vec<Residual>,
}

/// Searches a paper's parameters. `progress` is told of every evaluation.
///
/// # Errors
/// [`PapersError::Unknown`], and as simulating.
pub fn fit(name: &str, mut progress: impl FnMut()) -> Result<Calibration, PapersError> {
    let paper = paper_of(name)?;
    let parameters = paper.parameters;
    let axes: Vec<Axis> = parameters.iter().map(|p| p.axis).collect();
    let (values, residuals) = descend(&axes, |values| {
        progress();
        let residuals = (paper.residuals)(paper, settings(parameters, values))?;
        Ok::<_, PapersError>((cost(&residuals), residuals))
    })?;
    debug_assert!(residuals.iter().all(|r| may_fit(r.id)));
    Ok(Calibration {
        paper: paper.name,
        values: parameters.iter().map(|p| p.key).zip(values).collect(),
        residuals,
    })
}

/// The largest residual of a paper's fitted rows, with one more setting.
pub(crate) fn worst_residual(paper: &Paper, setting: &str) -> Result<f64, SimError> {
    let residuals = (paper.residuals)(paper, vec![setting.to_owned()])?;
    Ok(residuals
        .iter()
        .map(|r| r.relative().abs())
        .fold(0.0, f64::max))
}

fn paper_of(name: &str) -> Result<&'static Paper, PapersError> {
    PAPERS
        .iter()
        .find(|p| p.name == name)
        .ok_or_else(|| PapersError::Unknown {
            name: name.into(),
            papers: crate::names_of_papers(),
        })
}

fn cost(residuals: &[Residual]) -> f64 {
    residuals.iter().map(|r| r.relative().powi(2)).sum()
}

/// Whether the table allows a row to set parameters.
fn may_fit(id: &str) -> bool {
    references()
        .iter()
        .any(|r| r.id == id && r.usage == Use::Fit)
}

/// Settings of parameter values, in the syntax of `--set`.
fn settings(parameters: &[Parameter], values: &[f64]) -> Vec<String> {
    let of = |key: &str| {
        parameters
            .iter()
            .zip(values)
            .find(|(p, _)| p.key == key)
            .map(|(_, v)| *v)
    };
    let mut sets: Vec<String> = parameters
        .iter()
        .zip(values)
        .filter(|(p, _)| !p.key.starts_with("disturbance"))
        .map(|(p, v)| match p.key {
            "nic.packet_buffer" => format!("{}={v:.0}", p.key),
            key => format!("{key}={v:?}"),
        })
        .collect();
    if let Some(rate) = of("disturbance.per_second") {
        sets.push(disturbance(crate::single_input_queue::OTHER_WORK_NS, rate));
    }
    sets
}

/// The rows that match a case of a sweep, under these settings.
pub(crate) fn rows_of(
    paper: &Paper,
    file: &str,
    case: &str,
    sets: &[String],
) -> Result<Vec<Row>, SimError> {
    let sweep = paper.read(file, sets)?;
    let threads: Vec<_> = (0..sweep.len())
        .map(|i| sweep.point(i))
        .filter(|p| p.as_ref().map_or(true, |p| p.case == case))
        .collect::<Result<_, _>>()?;
    std::thread::scope(|scope| {
        let handles: Vec<_> = threads
            .iter()
            .map(|point| scope.spawn(move || run_point(point)))
            .collect();
        handles
            .into_iter()
            .map(|h| h.join().unwrap_or(Err(SimError::Stopped)))
            .collect()
    })
}

/// Points at these loads, in their order.
pub(crate) fn at_loads(
    paper: &Paper,
    case: &str,
    loads: &[f64],
    sets: &[String],
    seconds: f64,
) -> Result<Vec<Row>, SimError> {
    let mut sets = sets.to_vec();
    sets.push(format!("sweep={{ \"traffic.pps\" = {loads:?} }}"));
    sets.push(format!("seconds={seconds:?}"));
    sets.push("replications=1".into());
    rows_of(paper, "machine.toml", case, &sets)
}

pub(crate) fn residual(id: &'static str, what: &'static str, paper: f64, model: f64) -> Residual {
    Residual {
        id,
        what,
        paper,
        model,
    }
}

/// The calibration file: what was found, laid over what the file had.
///
/// # Errors
/// As reading it.
pub fn file_of(calibration: &Calibration) -> Result<String, PapersError> {
    let mut table = paper_of(calibration.paper)?.calibration()?;
    let parameters: Vec<Parameter> = calibration
        .values
        .iter()
        .map(|(key, _)| parameter(key, 0.0, 0.0, 0.0, 0.0))
        .collect();
    let values: Vec<f64> = calibration.values.iter().map(|(_, v)| *v).collect();
    for set in settings(&parameters, &values) {
        rxlane_sim::scenario::set(&mut table, &set)?;
    }
    let mut text = format!(
        "# Set by `rxlane-lab sim fit {}` from rows marked fit:\n",
        calibration.paper
    );
    for r in &calibration.residuals {
        text.push_str(&format!(
            "#   {}: {}: paper {}, model {:.4}, {:+.1} %\n",
            r.id,
            r.what,
            r.paper,
            r.model,
            r.relative() * 100.0
        ));
    }
    text.push('\n');
    text.push_str(&toml::to_string_pretty(&table).map_err(|e| SimError::Output(e.to_string()))?);
    Ok(text)
}
