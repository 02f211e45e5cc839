//! Calibration: costs of a paper's machine from the rows that may set them, and no others.
//!
//! A compass search over a few parameters: each is moved up and down by its step; what lowers the sum of
//! squared relative residuals stays; when nothing does, steps are halved. The model is deterministic for a
//! seed, so is the result.

use crate::SimError;
use crate::reproduce::{PAPERS, Paper, Use, read_with, references};
use crate::run::{Row, run_point};
use crate::stats::Samples;

/// A parameter that is searched.
#[derive(Debug, Clone, Copy)]
struct Parameter {
    key: &'static str,
    start: f64,
    step: f64,
    min: f64,
    max: f64,
}

const fn parameter(key: &'static str, start: f64, step: f64, min: f64, max: f64) -> Parameter {
    Parameter {
        key,
        start,
        step,
        min,
        max,
    }
}

/// A row of the reference table and what the model makes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// Row.
    pub id: &'static str,
    /// What was compared.
    pub what: &'static str,
    /// The paper's value.
    pub paper: f64,
    /// The model's.
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
/// Steps are halved so often.
const HALVINGS: u32 = 7;

/// Keys with their values, and what remains.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// The paper.
    pub paper: &'static str,
    /// Keys and values.
    pub values: Vec<(&'static str, f64)>,
    /// One for each row that was fitted.
    pub residuals: Vec<Residual>,
}

/// Searches a paper's parameters. `progress` is told of every evaluation.
///
/// # Errors
/// [`SimError::NoExperiment`], and as simulating.
pub fn calibrate(name: &str, mut progress: impl FnMut()) -> Result<Calibration, SimError> {
    let paper = PAPERS
        .iter()
        .find(|p| p.name == name)
        .ok_or_else(|| SimError::NoExperiment {
            name: name.into(),
            papers: PAPERS.map(|p| p.name).join(", "),
        })?;
    let parameters = parameters_of(paper);
    let mut values: Vec<f64> = parameters.iter().map(|p| p.start).collect();
    let mut evaluate = |values: &[f64]| {
        progress();
        evaluate(paper, &parameters, values)
    };
    let mut residuals = evaluate(&values)?;
    let mut scale = 1.0;
    for _ in 0..=HALVINGS {
        loop {
            let mut moved = false;
            for (i, p) in parameters.iter().enumerate() {
                for direction in [1.0, -1.0] {
                    let mut tried = values.clone();
                    tried[i] = (tried[i] + direction * scale * p.step).clamp(p.min, p.max);
                    if tried[i] == values[i] {
                        continue;
                    }
                    let found = evaluate(&tried)?;
                    if cost(&found) < cost(&residuals) {
                        (values, residuals, moved) = (tried, found, true);
                        break;
                    }
                }
            }
            if !moved {
                break;
            }
        }
        scale /= 2.0;
    }
    debug_assert!(residuals.iter().all(|r| may_fit(r.id)));
    Ok(Calibration {
        paper: paper.name,
        values: parameters.iter().map(|p| p.key).zip(values).collect(),
        residuals,
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

fn parameters_of(paper: &Paper) -> Vec<Parameter> {
    match paper.name {
        // The ISR's cost is that of multiple-nics: SQ rows tell only the sum with waking up.
        "low-latency-router" => vec![
            parameter("cpu.packet_ns", 571.0, 8.0, 400.0, 700.0),
            parameter("cpu.wake_ns", 2000.0, 400.0, 0.0, 8000.0),
            parameter("cpu.ring_ns", 40.0, 40.0, 0.0, 400.0),
            parameter("nic.fixed_latency_us", 7.0, 1.0, 0.0, 12.0),
        ],
        "multiple-nics" => vec![
            parameter("cpu.isr_ns", 1700.0, 160.0, 200.0, 5000.0),
            parameter("interrupt.tx_delay_ns", 3000.0, 1600.0, 100.0, 10_000.0),
        ],
        "interrupt-throttling" => vec![
            parameter("cpu.packet_ns", 480.0, 16.0, 300.0, 700.0),
            parameter("cpu.isr_ns", 1500.0, 160.0, 200.0, 5000.0),
            parameter("nic.packet_buffer", 4096.0, 256.0, 0.0, 16_384.0),
        ],
        "single-input-queue" => vec![
            parameter("cpu.packet_ns", 800.0, 80.0, 200.0, 4000.0),
            parameter(
                "disturbance.ns",
                400_000.0,
                100_000.0,
                10_000.0,
                3_000_000.0,
            ),
            parameter("disturbance.per_second", 200.0, 40.0, 1.0, 2000.0),
        ],
        _ => vec![
            parameter("cpu.isr_ns", 16_000.0, 800.0, 1000.0, 60_000.0),
            parameter("cpu.packet_ns", 20_000.0, 800.0, 1000.0, 60_000.0),
        ],
    }
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
    if let (Some(ns), Some(rate)) = (of("disturbance.ns"), of("disturbance.per_second")) {
        sets.push(disturbance(ns, rate));
    }
    sets
}

fn disturbance(ns: f64, per_second: f64) -> String {
    format!(
        "cpu.disturbance=[{{ name = \"other work of core 0\", per_second = {per_second:?}, ns = {ns:?}, redraw_s = 0.02 }}]"
    )
}

/// The rows that match a case of a sweep, under these settings.
fn rows_of(paper: &Paper, file: &str, case: &str, sets: &[String]) -> Result<Vec<Row>, SimError> {
    let sweep = read_with(paper, file, sets)?;
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
fn at_loads(
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

fn get(row: &Row, metric: &str) -> f64 {
    row.get(metric).unwrap_or(f64::NAN)
}

fn evaluate(
    paper: &Paper,
    parameters: &[Parameter],
    values: &[f64],
) -> Result<Vec<Residual>, SimError> {
    let sets = settings(parameters, values);
    match paper.name {
        "low-latency-router" => low_latency_router(paper, sets),
        "multiple-nics" => multiple_nics(paper, sets),
        "interrupt-throttling" => interrupt_throttling(paper, sets),
        "single-input-queue" => single_input_queue(paper, sets),
        _ => beyond_softnet(paper, sets),
    }
}

fn residual(id: &'static str, what: &'static str, paper: f64, model: f64) -> Residual {
    Residual {
        id,
        what,
        paper,
        model,
    }
}

fn low_latency_router(paper: &Paper, mut sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    sets.push("traffic.rt_ratio=0.3".into());
    let sq = at_loads(paper, "SQ", &[1.5e6, 1.7e6, 2.0e6], &sets, 1.0)?;
    let ll = at_loads(paper, "LL-RR", &[2.0e6], &sets, 1.0)?;
    let capacity = get(&sq[2], "throughput_pps");
    Ok(vec![
        residual("LL-01", "capacity of SQ, pps", 1.75e6, capacity),
        residual("LL-07", "the same, as load at 100 % CPU", 1.7e6, capacity),
        residual(
            "LL-07",
            "capacity of LL-RR, pps",
            1.7e6,
            get(&ll[0], "throughput_pps"),
        ),
        residual(
            "LL-10",
            "IRQ/s of SQ at 1.5 Mpps",
            32_000.0,
            get(&sq[0], "irq_per_s"),
        ),
        residual(
            "LL-15",
            "IRQ/s of SQ at 1.7 Mpps",
            0.0,
            get(&sq[1], "irq_per_s"),
        ),
        residual(
            "LL-18",
            "mean latency of SQ at 1.5 Mpps, us",
            11.7,
            get(&sq[0], "latency_us.mean"),
        ),
    ])
}

fn multiple_nics(paper: &Paper, sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    let rows = at_loads(paper, "2 NICs", &[0.3e6, 1.0e6], &sets, 2.0)?;
    Ok(vec![
        residual(
            "NIC-01",
            "capacity, pps",
            0.9e6,
            get(&rows[1], "throughput_pps"),
        ),
        residual(
            "NIC-05",
            "IRQ/s at 0.3 Mpps",
            270_000.0,
            get(&rows[0], "irq_per_s"),
        ),
        residual("NIC-06", "CPU at 0.3 Mpps", 0.79, get(&rows[0], "cpu")),
    ])
}

fn interrupt_throttling(paper: &Paper, sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    let rows = at_loads(paper, "off", &[0.49e6, 2.5e6], &sets, 0.3)?;
    Ok(vec![
        residual(
            "ITR-01",
            "capacity, pps",
            2.1e6,
            get(&rows[1], "throughput_pps"),
        ),
        residual(
            "ITR-02",
            "CPU just below 0.5 Mpps",
            0.98,
            get(&rows[0], "cpu"),
        ),
        residual(
            "ITR-05",
            "mean latency under overload, us",
            2300.0,
            get(&rows[1], "latency_us.mean"),
        ),
    ])
}

fn single_input_queue(paper: &Paper, sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    let rows = rows_of(paper, "fig-4-10.toml", "default", &sets)?;
    let loads = Samples::new(rows.iter().flat_map(|r| r.loads.iter().copied()));
    // Loss of 1 % at 500 bytes: where a plot in per cent begins to show it.
    let at_500 = rows
        .iter()
        .find(|r| r.key("traffic.frame") == Some(492.0))
        .map_or(f64::NAN, |r| get(r, "loss_ring"));
    Ok(vec![
        residual("SIQ-02", "P(core load < 10 %)", 0.12, loads.below(0.1)),
        residual("SIQ-05", "kernel loss at 500 bytes", 0.01, at_500),
    ])
}

fn beyond_softnet(paper: &Paper, sets: Vec<String>) -> Result<Vec<Residual>, SimError> {
    // The line from 27 kpps down to 0 at 60 kpps, at its ends and in its middle.
    let rows = at_loads(paper, "plain", &[27e3, 43.5e3, 60e3], &sets, 5.0)?;
    Ok(vec![
        residual(
            "SOFT-02",
            "forwarded of 27 kpps",
            27e3,
            get(&rows[0], "throughput_pps"),
        ),
        residual(
            "SOFT-01",
            "forwarded half-way to 60 kpps",
            13.5e3,
            get(&rows[1], "throughput_pps"),
        ),
        residual(
            "SOFT-01",
            "forwarded of 60 kpps",
            0.0,
            get(&rows[2], "throughput_pps"),
        ),
    ])
}

/// The calibration file: what was found, laid over what the file had.
///
/// # Errors
/// As reading it.
pub fn file_of(calibration: &Calibration) -> Result<String, SimError> {
    let mut table = crate::reproduce::calibration_table(calibration.paper)?;
    let parameters: Vec<Parameter> = calibration
        .values
        .iter()
        .map(|(key, _)| parameter(key, 0.0, 0.0, 0.0, 0.0))
        .collect();
    let values: Vec<f64> = calibration.values.iter().map(|(_, v)| *v).collect();
    for set in settings(&parameters, &values) {
        crate::scenario::set(&mut table, &set)?;
    }
    let mut text = format!(
        "# Set by `rxlane sim calibrate {}` from rows marked fit:\n",
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
