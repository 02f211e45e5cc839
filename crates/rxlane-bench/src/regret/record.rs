//! The points measured so far, in a file: a line of JSON each, after one that says what was to be measured.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::matrix::{Matrix, Point};
use crate::BenchError;
use crate::lab::Drive;

/// What all points of a file have in common: its first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) matrix: Matrix,
    pub(super) duts: Vec<String>,
    pub(super) generator: Drive,
    pub(super) seconds: f64,
    pub(super) repeat: u32,
    pub(super) flows: u32,
    pub(super) seed: u64,
}

/// The points measured so far, and where they are kept.
pub(super) struct Record {
    pub(super) points: Vec<Point>,
    file: Option<(PathBuf, File)>,
}

impl Record {
    pub(super) fn open(path: Option<&Path>, run: &Run) -> Result<Self, BenchError> {
        let Some(path) = path else {
            return Ok(Self {
                points: Vec::new(),
                file: None,
            });
        };
        let failed = |source| BenchError::File {
            path: path.display().to_string(),
            source,
        };
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed)?;
        let lines: Result<Vec<String>, _> = BufReader::new(&file).lines().collect();
        let lines = lines.map_err(failed)?;
        let points = match lines.split_first() {
            None => {
                let head = serde_json::to_string(run).map_err(|e| failed(e.into()))?;
                writeln!(file, "{head}").map_err(failed)?;
                Vec::new()
            }
            Some((head, points)) => {
                if serde_json::from_str(head).ok().as_ref() != Some(run) {
                    return Err(BenchError::Parameter(format!(
                        "{} was begun with other settings: give the same, or another file",
                        path.display()
                    )));
                }
                let whole = points.iter().map_while(|l| serde_json::from_str(l).ok());
                let whole: Vec<Point> = whole.collect();
                // The last line may have been cut off; what it said is measured again.
                let kept = lines
                    .iter()
                    .take(1 + whole.len())
                    .map(|l| l.len() as u64 + 1);
                if whole.len() < points.len() {
                    file.set_len(kept.sum()).map_err(failed)?;
                }
                whole
            }
        };
        Ok(Self {
            points,
            file: Some((path.to_owned(), file)),
        })
    }

    pub(super) fn add(&mut self, point: Point) -> Result<(), BenchError> {
        if let Some((path, file)) = &mut self.file {
            let failed = |source| BenchError::File {
                path: path.display().to_string(),
                source,
            };
            let line = serde_json::to_string(&point).map_err(|e| failed(e.into()))?;
            writeln!(file, "{line}").map_err(failed)?;
        }
        self.points.push(point);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::lab::Firewall;

    fn run() -> Run {
        Run {
            matrix: Matrix {
                firewalls: vec![Firewall::None, Firewall::Stateful(60)],
                frames: vec![Frame::Fixed(64), Frame::Imix],
                rt_ratios: vec![0.0, 0.2],
                loads: vec![0.5, 2.0],
            },
            duts: vec!["kernel".into(), "express".into()],
            generator: Drive::Circle,
            seconds: 0.5,
            repeat: 1,
            flows: 16,
            seed: 1,
        }
    }

    fn point(load: f64) -> Point {
        Point {
            firewall: Firewall::None,
            frame: Frame::Imix,
            rt_ratio: 0.2,
            load,
            capacity_pps: 1e6,
            capacity_limited: true,
            offered_pps: load * 1e6,
            valid: false,
            rounds: 0,
            duts: Vec::new(),
        }
    }

    #[test]
    fn a_run_goes_on_where_it_ended_even_if_its_last_line_was_cut_off() {
        let name = format!("rxlane-regret-{}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut record = Record::open(Some(&path), &run()).unwrap();
        record.add(point(0.5)).unwrap();
        record.add(point(2.0)).unwrap();
        drop(record);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let mut record = Record::open(Some(&path), &run()).unwrap();
        let loads =
            |record: &Record| -> Vec<f64> { record.points.iter().map(|p| p.load).collect() };
        assert_eq!(loads(&record), [0.5]);
        record.add(point(1.0)).unwrap();
        drop(record);
        let record = Record::open(Some(&path), &run()).unwrap();
        assert_eq!(loads(&record), [0.5, 1.0]);
        let other = Run { seed: 2, ..run() };
        assert!(Record::open(Some(&path), &other).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
