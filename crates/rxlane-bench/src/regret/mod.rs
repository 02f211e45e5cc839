//! Whether anything is worse than with Linux alone: every load behind every firewall with every frame size and share of
//! RT, all devices in turn.
//!
//! That is hundreds of points, so each is written to a file when it is there, and a run goes on where the last one ended.

mod matrix;
mod record;
mod verdict;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use self::matrix::Row;
pub use self::matrix::{Matrix, Point};
use self::record::{Record, Run};
pub use self::verdict::{FORWARDED, P99_BELOW, RT_P99_ABOVE, Regret};
use crate::BenchError;
use crate::bench::summarise;
use crate::call::CallReport;
use crate::in_turn::in_turn;
use crate::lab::LabConfig;
use crate::options::Options;
use crate::results::DutResult;
use crate::search::kernel_capacity;
use crate::session::{RETRIES, Session, in_lab};
use crate::traffic::Traffic;
use crate::trial::Trial;

/// A point that looks worse than wanted is measured this often more, and medians count.
const SECOND_LOOKS: u32 = 2;
/// Above what the kernel forwards, a generator that falls behind mostly does so because nobody could send so much.
const RETRIES_ABOVE_CAPACITY: u32 = 1;

/// Every point measured, and what was worst.
#[derive(Debug, Clone, Serialize)]
pub struct RegretReport {
    /// False while points are missing.
    pub complete: bool,
    /// Points of the whole matrix.
    pub points_wanted: usize,
    /// Length of a trial.
    pub seconds: f64,
    /// Devices under test; ratios are to the first.
    pub duts: Vec<String>,
    /// Settings of the lab.
    pub settings: BTreeMap<String, String>,
    /// In the order in which they were measured.
    pub points: Vec<Point>,
    /// Closed loops: calls beside TCP, where they were asked for and all points are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallReport>,
}

/// Measures what of the matrix is not in the file yet, until a moment.
///
/// # Errors
/// A file of other settings; what else [`BenchError`] names.
pub fn regret(
    options: &Options,
    matrix: &Matrix,
    file: Option<&Path>,
    until: Option<Instant>,
) -> Result<RegretReport, BenchError> {
    matrix.check()?;
    let names: Vec<String> = options.duts.iter().map(|d| d.name().to_owned()).collect();
    let run = Run {
        matrix: matrix.clone(),
        duts: names.clone(),
        generator: options.lab.generator,
        seconds: options.seconds,
        repeat: options.repeat,
        flows: options.traffic.flows,
        seed: options.traffic.seed,
    };
    let mut record = Record::open(file, &run)?;
    let mut settings = std::collections::BTreeMap::new();
    let rows: Vec<Row> = matrix.rows().collect();
    for (i, row) in rows.iter().enumerate() {
        let done = record.points.iter().filter(|p| row.holds(p)).count();
        if done == matrix.loads.len() || is_over(until) {
            continue;
        }
        let options = Options {
            lab: LabConfig {
                firewall: row.firewall,
                ..options.lab.clone()
            },
            traffic: Traffic {
                rt_ratio: row.rt_ratio,
                frame: row.frame,
                ..options.traffic.clone()
            },
            ..options.clone()
        };
        let loads = &matrix.loads[done..];
        in_lab(&options, loads.len() as u64, |session| {
            settings = session.settings();
            let place = format!("{}/{}", i + 1, rows.len());
            along(&options, *row, loads, &place, session, &mut record, until)
        })?;
    }
    Ok(RegretReport {
        complete: record.points.len() == rows.len() * matrix.loads.len(),
        points_wanted: rows.len() * matrix.loads.len(),
        seconds: options.seconds,
        duts: names,
        settings,
        points: record.points,
        calls: None,
    })
}

fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|end| Instant::now() >= end)
}

/// The loads of one row, from the smallest on.
fn along(
    options: &Options,
    row: Row,
    loads: &[f64],
    place: &str,
    session: &mut Session,
    record: &mut Record,
    until: Option<Instant>,
) -> Result<(), BenchError> {
    let same = |p: &&Point| p.firewall == row.firewall && p.frame == row.frame;
    let known = record.points.iter().find(same);
    let (capacity_pps, capacity_limited) = match known {
        Some(p) => (p.capacity_pps, p.capacity_limited),
        None => match kernel_capacity(session) {
            Ok(pps) => (pps, false),
            Err(BenchError::GeneratorTooSlow { pps }) if pps > 0.0 => (pps, true),
            Err(e) => return Err(e),
        },
    };
    // What was too much for the generator once is not tried with more.
    let of_row = record.points.iter().filter(|p| row.holds(p));
    let mut reachable = of_row.filter(|p| p.load > 1.0).all(|p| p.valid);
    // What the kernel forwards without loss is all that the generator can send.
    reachable &= !capacity_limited;
    for load in loads {
        if is_over(until) {
            return Ok(());
        }
        let offered_pps = load * capacity_pps;
        // In the search for the capacity, so that whoever falls behind now was stalled.
        let has_been_sent = *load <= 1.0;
        let mut valid = has_been_sent || reachable;
        session.retries = if has_been_sent {
            RETRIES
        } else {
            RETRIES_ABOVE_CAPACITY
        };
        session.bar.set_message(format!(
            "{place}: firewall {}, frames of {}, {:.0} % RT, {load}x",
            row.firewall,
            row.frame,
            row.rt_ratio * 100.0
        ));
        let mut rounds = Vec::new();
        let mut wanted = if valid { options.repeat } else { 0 };
        while (rounds.len() as u32) < wanted {
            let Some(round) = round(options, session, offered_pps, rounds.len() as u32)? else {
                valid = false;
                reachable &= has_been_sent;
                break;
            };
            rounds.push(round);
            let looked = rounds.len() as u32;
            if looked == options.repeat && is_suspicious(*load, &results(options, &rounds)) {
                wanted = looked + SECOND_LOOKS;
            }
        }
        record.add(Point {
            firewall: row.firewall,
            frame: row.frame,
            rt_ratio: row.rt_ratio,
            load: *load,
            capacity_pps,
            capacity_limited,
            offered_pps,
            valid,
            rounds: rounds.len() as u32,
            duts: if valid {
                results(options, &rounds)
            } else {
                Vec::new()
            },
        })?;
    }
    Ok(())
}

/// All devices once; `None` when the generator cannot offer so much.
fn round(
    options: &Options,
    session: &mut Session,
    pps: f64,
    round: u32,
) -> Result<Option<Vec<Trial>>, BenchError> {
    let trials = in_turn(round, options.duts.len(), |i| {
        match session.trial(&options.duts[i], pps, options.seconds) {
            Ok(trial) if trial.valid => Ok(trial),
            Ok(_) => Err(None),
            Err(e) => Err(Some(e)),
        }
    });
    match trials {
        Ok(trials) => Ok(Some(trials)),
        Err(None) => Ok(None),
        Err(Some(e)) => Err(e),
    }
}

fn results(options: &Options, rounds: &[Vec<Trial>]) -> Vec<DutResult> {
    let duts = options.duts.iter().enumerate();
    duts.map(|(i, dut)| summarise(dut.name(), rounds.iter().map(|r| &r[i])))
        .collect()
}

fn is_suspicious(load: f64, duts: &[DutResult]) -> bool {
    let (first, others) = (&duts[0], &duts[1..]);
    others
        .iter()
        .any(|dut| !Regret::of(dut, first).is_none(load))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::lab::Firewall;

    fn matrix() -> Matrix {
        Matrix {
            firewalls: vec![Firewall::None, Firewall::Stateful(60)],
            frames: vec![Frame::Fixed(64), Frame::Imix],
            rt_ratios: vec![0.0, 0.2],
            loads: vec![0.5, 2.0],
        }
    }

    #[test]
    fn a_matrix_has_all_combinations_once() {
        assert_eq!(matrix().rows().count(), 8);
        assert!(matrix().check().is_ok());
        let descending = Matrix {
            loads: vec![2.0, 0.5],
            ..matrix()
        };
        assert!(descending.check().is_err());
    }
}
