//! Which namespaces are ours: a file per lab, removed with it.

use std::path::{Path, PathBuf};

use rxlane_system::sysctl;

use super::{LabConfig, Place};
use crate::BenchError;

/// SCHED_FIFO threads lose 50 ms a second to this limit, which would be measured as latency.
const THROTTLE: &str = "kernel.sched_rt_runtime_us";
/// Where the value it had is kept while labs are up.
const THROTTLE_FILE: &str = "/run/rxlane-lab/sched_rt_runtime_us";

/// A lab has its first namespace long before.
const BUILT_WITHIN: std::time::Duration = std::time::Duration::from_secs(60);

const DIRECTORY: &str = "/run/rxlane-lab";

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.json"))
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> BenchError + '_ {
    |source| BenchError::File {
        path: path.display().to_string(),
        source,
    }
}

/// Claims the names of a lab before anything is made.
pub(super) fn claim(config: &LabConfig) -> Result<(), BenchError> {
    let path = path(&config.name);
    if path.exists() {
        return Err(BenchError::LabExists(config.name.clone()));
    }
    for place in Place::ALL {
        let name = format!("{}-{}", config.name, place.suffix());
        if rxlane_system::netns::path_of(&name).exists() {
            return Err(BenchError::NotOurs(name));
        }
    }
    std::fs::create_dir_all(DIRECTORY).map_err(file_error(Path::new(DIRECTORY)))?;
    let json = serde_json::to_vec_pretty(config)
        .map_err(std::io::Error::from)
        .map_err(file_error(&path))?;
    std::fs::write(&path, json).map_err(file_error(&path))?;
    stop_throttling()
}

fn stop_throttling() -> Result<(), BenchError> {
    let file = Path::new(THROTTLE_FILE);
    if !file.exists() {
        let value =
            std::fs::read("/proc/sys/kernel/sched_rt_runtime_us").map_err(file_error(file))?;
        std::fs::write(file, value).map_err(file_error(file))?;
    }
    sysctl::write(THROTTLE, "-1").map_err(Into::into)
}

fn restore_throttling() -> Result<(), BenchError> {
    let file = Path::new(THROTTLE_FILE);
    if let Ok(value) = std::fs::read_to_string(file) {
        sysctl::write(THROTTLE, value.trim())?;
        std::fs::remove_file(file).map_err(file_error(file))?;
    }
    Ok(())
}

/// How a lab was built.
pub(super) fn read(name: &str) -> Result<LabConfig, BenchError> {
    let path = path(name);
    let Ok(json) = std::fs::read(&path) else {
        return Err(BenchError::NoLab(name.into()));
    };
    serde_json::from_slice(&json)
        .map_err(std::io::Error::from)
        .map_err(file_error(&path))
}

/// Gives the names back.
pub(super) fn release(name: &str) -> Result<(), BenchError> {
    let path = path(name);
    std::fs::remove_file(&path).map_err(file_error(&path))?;
    if list().is_empty() {
        restore_throttling()?;
    }
    // The directory goes with the last lab.
    let _ = std::fs::remove_dir(DIRECTORY);
    Ok(())
}

/// Labs that nobody will take down: their process was killed, or somebody deleted their namespaces.
pub(super) fn abandoned() -> Vec<LabConfig> {
    list()
        .iter()
        .filter_map(|name| read(name).ok())
        .filter(|config| {
            let orphan = config
                .owner
                .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
            orphan || has_vanished(&config.name)
        })
        .collect()
}

/// Whether none of its namespaces is there; one that is only being built is young.
fn has_vanished(name: &str) -> bool {
    let age = std::fs::metadata(path(name))
        .and_then(|m| m.modified())
        .ok()
        .and_then(|t| t.elapsed().ok());
    let there = |place: Place| {
        rxlane_system::netns::path_of(&format!("{name}-{}", place.suffix())).exists()
    };
    age.is_some_and(|age| age > BUILT_WITHIN) && !Place::ALL.into_iter().any(there)
}

/// Names of the labs that are up.
pub fn list() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(DIRECTORY)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
        .collect();
    names.sort();
    names
}
