//! What is simulated, as Python sees it.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyMapping, PyTuple, PyType};
use rxlane_papers::PAPERS;
use rxlane_sim::custom::Custom;
use rxlane_sim::run::replications;
use rxlane_sim::scenario::{Loaded, load, parse};
use toml::{Table, Value};

use crate::custom;
use crate::error::{no_experiment, no_paper, of_key, of_sim};
use crate::result::RunResult;
use crate::running;
use crate::value::{settings, to_python};

/// A router and its traffic. Every key has a default, that of a scenario file of `rxlane-lab sim`; the reference of scenario
/// files explains them all. A scenario does not change; `with_` makes another one.
///
/// Keys are given as in a file: tables as keywords, or dotted keys in a dict.
///
/// >>> by_tables = rxlane.Scenario(seconds=0.1, traffic={"pps": 1.6e6, "rt_ratio": 0.3})
/// >>> by_keys = rxlane.Scenario({"seconds": 0.1, "traffic.pps": 1.6e6, "traffic.rt_ratio": 0.3})
/// >>> by_tables == by_keys, by_keys["traffic.pps"], by_keys["nic.descriptors"]
/// (True, 1600000.0, 512)
///
/// A function of Python can stand in the place of `traffic.pattern` (Arrivals), `stage` (Stage) and `interrupt.throttling` (Controller).
///
/// Raises ScenarioError for keys that do not exist and values that cannot be; its `key` names the key.
#[pyclass(frozen, module = "rxlane")]
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) loaded: Loaded,
}

/// Keys of a dict and keywords, in their order; functions go to `custom`.
fn given(
    keys: Option<&Bound<'_, PyMapping>>,
    keywords: Option<&Bound<'_, PyDict>>,
    custom: &mut Custom,
) -> PyResult<Vec<(String, Value)>> {
    let mut all = Vec::new();
    for mapping in keys.into_iter().chain(keywords.map(|k| k.as_mapping())) {
        let values = PyDict::new(mapping.py());
        for pair in mapping.items()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            let name = key.extract::<String>().unwrap_or_default();
            if !custom::take(&name, &value, custom)? {
                values.set_item(key, value)?;
            }
        }
        all.extend(settings("", values.as_mapping())?);
    }
    Ok(all)
}

/// The value of a dotted key.
fn find<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut keys = key.split('.');
    let first = table.get(keys.next()?)?;
    keys.try_fold(first, |at, key| at.as_table()?.get(key))
}

fn dotted(prefix: &str, table: &Table, all: &mut Vec<String>) {
    for (key, value) in table {
        let full = match prefix {
            "" => key.clone(),
            prefix => format!("{prefix}.{key}"),
        };
        match value {
            Value::Table(table) if prefix.is_empty() => dotted(&full, table, all),
            _ => all.push(full),
        }
    }
}

impl Scenario {
    fn changed(&self, settings: Vec<(String, Value)>) -> PyResult<Self> {
        let loaded = self.loaded.with(settings).map_err(of_sim)?;
        Ok(Self { loaded })
    }

    /// With what somebody has given for keys.
    fn with_given(
        &self,
        keys: Option<&Bound<'_, PyMapping>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut custom = self.loaded.scenario.custom.clone();
        let settings = given(keys, keywords, &mut custom)?;
        let mut this = self.clone();
        // It is checked with the settings.
        this.loaded.scenario.custom = custom;
        this.changed(settings)
    }

    /// Refused where there is a function, which no text can hold.
    fn only_text(&self, what: &str) -> PyResult<String> {
        match custom::keys(&self.loaded.scenario.custom).first() {
            None => self.text(),
            Some(key) => Err(of_key(
                key,
                format!(
                    "{key}: a function of Python cannot be {what}: make the scenario where it is run, or leave the function out"
                ),
            )),
        }
    }

    /// Every key with its value.
    fn whole(&self) -> PyResult<Table> {
        Table::try_from(&self.loaded.scenario)
            .map_err(|e| of_key("", format!("cannot write the scenario: {e}")))
    }

    /// The keys that were given; functions as comments.
    pub(crate) fn text(&self) -> PyResult<String> {
        let text = toml::to_string(&self.loaded.table)
            .map_err(|e| of_key("", format!("cannot write the scenario: {e}")))?;
        let functions = custom::keys(&self.loaded.scenario.custom);
        let comments = functions
            .iter()
            .map(|key| format!("# {key}: a function of Python\n"));
        Ok(comments.collect::<String>() + &text)
    }

    /// With other replications and seed, where they are given.
    pub(crate) fn repeated(&self, replications: Option<u32>, seed: Option<u64>) -> PyResult<Self> {
        let mut settings = Vec::new();
        if let Some(n) = replications {
            settings.push(("replications".to_owned(), Value::Integer(n.into())));
        }
        if let Some(seed) = seed {
            let seed = i64::try_from(seed)
                .map_err(|_| of_key("seed", format!("seed = {seed}: give at most 63 bits")))?;
            settings.push(("seed".to_owned(), Value::Integer(seed)));
        }
        match settings.is_empty() {
            true => Ok(self.clone()),
            false => self.changed(settings),
        }
    }
}

#[pymethods]
impl Scenario {
    #[new]
    #[pyo3(signature = (keys=None, /, **keywords))]
    fn new(
        keys: Option<&Bound<'_, PyMapping>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let empty = Loaded::new(Table::new(), Path::new(".")).map_err(of_sim)?;
        Self { loaded: empty }.with_given(keys, keywords)
    }

    /// Reads a scenario file, with dotted keys of a dict or keywords over what it says.
    ///
    ///     rxlane.Scenario.from_toml("examples/sim.toml", {"traffic.pps": 1.7e6})
    ///
    /// Raises FileError, and ScenarioError with file and line.
    #[classmethod]
    #[pyo3(signature = (path, keys=None, /, **keywords))]
    fn from_toml(
        _class: &Bound<'_, PyType>,
        path: PathBuf,
        keys: Option<&Bound<'_, PyMapping>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let loaded = load(&path, &[]).map_err(of_sim)?;
        Self { loaded }.with_given(keys, keywords)
    }

    /// Reads the text of a scenario file. Paths in it start from `folder`; without one, from where the process is.
    ///
    /// >>> rxlane.Scenario.from_text("[traffic]\npps = 1.6e6")["traffic.pps"]
    /// 1600000.0
    #[classmethod]
    #[pyo3(signature = (text, folder=None))]
    fn from_text(
        _class: &Bound<'_, PyType>,
        text: &str,
        folder: Option<PathBuf>,
    ) -> PyResult<Self> {
        let folder = folder.unwrap_or_default();
        let loaded = parse(text, &folder.join("scenario.toml"), &[]).map_err(of_sim)?;
        Ok(Self { loaded })
    }

    /// An experiment of one of the five papers, as `papers()` names them: its machine, its traffic, its sweep.
    ///
    /// >>> rxlane.Scenario.from_paper("low-latency-router", "fig-5a.toml")["traffic.frame"]
    /// 128
    ///
    /// Raises PaperError.
    #[classmethod]
    fn from_paper(_class: &Bound<'_, PyType>, paper: &str, experiment: &str) -> PyResult<Self> {
        let known = PAPERS.map(|p| p.name);
        let found = PAPERS.iter().find(|p| p.name == paper);
        let found = found.ok_or_else(|| no_paper(paper, &known))?;
        if !found.experiments.contains(&experiment) {
            return Err(no_experiment(paper, experiment, found.experiments));
        }
        let loaded = found.load(experiment, &[]).map_err(of_sim)?;
        Ok(Self { loaded })
    }

    /// The same scenario with other values of dotted keys.
    ///
    /// >>> slow = rxlane.Scenario().with_({"cpu.packet_ns": 1200})
    /// >>> slow["cpu.packet_ns"]
    /// 1200.0
    #[pyo3(signature = (keys=None, /, **keywords))]
    fn with_(
        &self,
        keys: Option<&Bound<'_, PyMapping>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        self.with_given(keys, keywords)
    }

    /// Simulates it, without its sweep and cases, and returns what came of it.
    ///
    /// replications: independent runs, from whose spread the confidence intervals come; without, as the scenario says.
    /// seed: equal seeds give equal results, to the bit, on any number of workers and in the command `rxlane-lab sim`.
    /// workers: threads; all cores without.
    /// progress: True for a bar (needs tqdm), or a callable that is given how many replications are done, and of how many.
    ///
    /// Python goes on meanwhile, and Ctrl-C ends it at once.
    ///
    /// >>> result = rxlane.Scenario({"seconds": 0.01, "traffic.pps": 2e6}).run(replications=3, seed=7)
    /// >>> 0.1 < float(result["loss"]) < 0.2
    /// True
    #[pyo3(signature = (*, replications=None, seed=None, workers=None, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        replications: Option<u32>,
        seed: Option<u64>,
        workers: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<RunResult> {
        let this = self.repeated(replications, seed)?;
        let scenario = &this.loaded.scenario;
        let threads = running::threads(workers)?;
        let total = scenario.replications as usize;
        let outcomes = running::run(py, progress, total, "runs", |task| {
            self::replications(scenario, threads, &task.stop, || task.count())
        })?;
        let outcomes = outcomes.map_err(of_sim)?;
        Ok(RunResult::new(this, outcomes))
    }

    /// The value of a dotted key, given or default.
    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        match find(&self.whole()?, key) {
            Some(value) => to_python(py, value),
            None => Err(PyKeyError::new_err(format!(
                "{key}: the scenario has no such key"
            ))),
        }
    }

    fn __contains__(&self, key: &str) -> PyResult<bool> {
        Ok(find(&self.whole()?, key).is_some())
    }

    /// All dotted keys that have a value, given or default.
    fn keys(&self) -> PyResult<Vec<String>> {
        let mut all = Vec::new();
        dotted("", &self.whole()?, &mut all);
        Ok(all)
    }

    /// Every key with its value, as nested dicts.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &Value::Table(self.whole()?))
    }

    /// The keys that were given, as the text of a scenario file.
    fn to_toml(&self) -> PyResult<String> {
        self.only_text("written as a scenario file, as studies do")
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<Self>()
            .is_ok_and(|o| o.get().loaded.scenario == self.loaded.scenario)
    }

    fn __repr__(&self) -> PyResult<String> {
        let text = self.text()?;
        let lines: Vec<&str> = text.lines().filter(|l| !l.is_empty()).collect();
        Ok(format!("<rxlane.Scenario {}>", lines.join("; ")))
    }

    /// So that it can be sent to other processes.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = py.get_type::<Self>().getattr("from_text")?;
        let folder = self.loaded.folder.display().to_string();
        let arguments = (self.only_text("sent to another process")?, folder).into_pyobject(py)?;
        (make, arguments).into_pyobject(py)
    }
}
