//! The scenario files under `experiments/`, built in.

use std::path::Path;

use super::judge::Verdicts;
use super::table::Data;
use crate::SimError;
use crate::scenario::parse_with;
use crate::sweep::Sweep;

/// A sweep of a paper.
#[derive(Debug)]
pub struct Experiment {
    /// Its file.
    pub file: &'static str,
}

/// A paper with its experiments.
#[derive(Debug)]
pub struct Paper {
    /// Name, and folder under `experiments/`.
    pub name: &'static str,
    /// Title.
    pub title: &'static str,
    /// Files that are run.
    pub experiments: &'static [Experiment],
    /// Says what becomes of its rows.
    pub(super) judge: fn(&Data, &mut Verdicts) -> Result<(), SimError>,
}

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../experiments/", $path)))),*]
    };
}

/// Every file by its path below `experiments/`.
const FILES: &[(&str, &str)] = files![
    "low-latency-router/calibration.toml",
    "low-latency-router/machine.toml",
    "low-latency-router/fig-5a.toml",
    "low-latency-router/fig-5b-6b-7b.toml",
    "low-latency-router/fig-6a-7a.toml",
    "multiple-nics/calibration.toml",
    "multiple-nics/machine.toml",
    "multiple-nics/fig-4.toml",
    "multiple-nics/fig-5-6.toml",
    "interrupt-throttling/calibration.toml",
    "interrupt-throttling/machine.toml",
    "interrupt-throttling/fig-3-8.toml",
    "single-input-queue/calibration.toml",
    "single-input-queue/machine.toml",
    "single-input-queue/fig-4-10.toml",
    "beyond-softnet/calibration.toml",
    "beyond-softnet/machine.toml",
    "beyond-softnet/fig-4-6.toml",
    "beyond-softnet/greedy.toml",
    "beyond-softnet/smp.toml",
];

const fn run(file: &'static str) -> Experiment {
    Experiment { file }
}

/// The five papers.
pub const PAPERS: [Paper; 5] = [
    Paper {
        name: "low-latency-router",
        title: "Building a Low Latency Linux Software Router",
        experiments: &[
            run("fig-5a.toml"),
            run("fig-5b-6b-7b.toml"),
            run("fig-6a-7a.toml"),
        ],
        judge: super::low_latency_router::judge,
    },
    Paper {
        name: "multiple-nics",
        title: "How Do Multiple Network Cards Influence the Software Router Performance?",
        experiments: &[run("fig-4.toml"), run("fig-5-6.toml")],
        judge: super::multiple_nics::judge,
    },
    Paper {
        name: "interrupt-throttling",
        title: "Optimizing Latency and CPU Load in Packet Processing Systems",
        experiments: &[run("fig-3-8.toml")],
        judge: super::interrupt_throttling::judge,
    },
    Paper {
        name: "single-input-queue",
        title: "Improving packet reception with a single input queue (Orosz)",
        experiments: &[run("fig-4-10.toml")],
        judge: super::single_input_queue::judge,
    },
    Paper {
        name: "beyond-softnet",
        title: "Beyond Softnet",
        experiments: &[run("fig-4-6.toml"), run("greedy.toml"), run("smp.toml")],
        judge: super::beyond_softnet::judge,
    },
];

/// The text of a file below `experiments/`.
fn text_of(path: &Path) -> std::io::Result<String> {
    let name = path.to_string_lossy();
    FILES
        .iter()
        .find(|(file, _)| *file == name)
        .map(|(_, text)| (*text).to_owned())
        .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
}

/// Reads a paper's file, with `KEY=VALUE` settings on top.
///
/// # Errors
/// As reading a scenario.
pub(crate) fn read_with(paper: &Paper, file: &str, sets: &[String]) -> Result<Sweep, SimError> {
    let path = Path::new(paper.name).join(file);
    let text = text_of(&path).map_err(|source| SimError::File {
        path: path.display().to_string(),
        source,
    })?;
    Sweep::new(&parse_with(&text, &path, sets, &text_of)?)
}

/// Reads a paper's file.
///
/// # Errors
/// As reading a scenario.
pub fn read(paper: &Paper, file: &str) -> Result<Sweep, SimError> {
    read_with(paper, file, &[])
}

/// A paper's calibration file as a table.
///
/// # Errors
/// [`SimError::File`] for a paper without one.
pub(crate) fn calibration_table(paper: &str) -> Result<toml::Table, SimError> {
    let path = Path::new(paper).join("calibration.toml");
    let text = text_of(&path).map_err(|source| SimError::File {
        path: path.display().to_string(),
        source,
    })?;
    text.parse().map_err(|e: toml::de::Error| SimError::Syntax {
        path: path.display().to_string(),
        line: 0,
        message: e.message().to_owned(),
    })
}
