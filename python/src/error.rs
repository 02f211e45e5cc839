//! The package's exceptions, and which of them an error of a crate becomes.
//!
//! Messages name the thing, the cause and the cure, on one line. Those of the crates do already; what they say for the command
//! (`--yes`) or of Rust's types (`expected usize`) is said for Python here.

use pyo3::prelude::*;
use rxlane_papers::PapersError;
use rxlane_policy::PolicyError;
use rxlane_sim::SimError;

use crate::unit;

/// In a module, because the macro makes public items that need no documentation of their own.
#[allow(missing_docs)]
mod exceptions {
    pyo3::import_exception!(rxlane._errors, CallableError);
    pyo3::import_exception!(rxlane._errors, Error);
    pyo3::import_exception!(rxlane._errors, FileError);
    pyo3::import_exception!(rxlane._errors, PaperError);
    pyo3::import_exception!(rxlane._errors, PlanError);
    pyo3::import_exception!(rxlane._errors, PolicyError);
    pyo3::import_exception!(rxlane._errors, ResultsError);
    pyo3::import_exception!(rxlane._errors, ScenarioError);
    pyo3::import_exception!(rxlane._errors, SweepError);
}

use exceptions::{FileError, PaperError, ScenarioError};
pub(crate) use exceptions::{PlanError, PolicyError as WrongPolicy, SweepError};

/// What somebody has given may be part of a message, line ends and all.
fn on_one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for c in message.chars() {
        match c {
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

/// What is wrong with a key: the exception carries its name as `key`.
pub(crate) fn of_key(key: &str, message: String) -> PyErr {
    ScenarioError::new_err((on_one_line(&message), key.to_owned()))
}

pub(crate) fn of_sim(error: SimError) -> PyErr {
    match error {
        SimError::File { .. } | SimError::Output(_) | SimError::Interrupted { .. } => {
            FileError::new_err(on_one_line(&error.to_string()))
        }
        SimError::Value { ref key, .. } | SimError::Key { ref key } => {
            of_key(key, error.to_string())
        }
        SimError::Capture { .. } | SimError::Router(_) => {
            of_key("traffic.pattern", error.to_string())
        }
        SimError::TooManyPoints { points } => too_many(points),
        SimError::Syntax {
            path,
            line,
            message,
        } => {
            let (key, message) = in_words(&message);
            let said = SimError::Syntax {
                path,
                line,
                message,
            };
            of_key(&key, said.to_string())
        }
        SimError::Custom { what, source } => match source.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(source) => {
                exceptions::CallableError::new_err(on_one_line(&format!("{what}: {source}")))
            }
        },
        SimError::Stopped => exceptions::Error::new_err(error.to_string()),
        other => of_key("", other.to_string()),
    }
}

pub(crate) fn of_policy(error: &PolicyError) -> PyErr {
    match error {
        PolicyError::Plan(_) => {
            let text = error.to_string();
            PlanError::new_err(text.replace("--lane engine", "lane=\"engine\""))
        }
        _ => WrongPolicy::new_err(error.to_string()),
    }
}

pub(crate) fn of_papers(error: PapersError) -> PyErr {
    match error {
        PapersError::Sim(error) => of_sim(error),
        other => PaperError::new_err(on_one_line(&other.to_string())),
    }
}

/// `name` is that of the file.
pub(crate) fn of_results(name: &str, error: &rxlane_results::ResultsError) -> PyErr {
    exceptions::ResultsError::new_err(on_one_line(&format!("{name}: {error}")))
}

pub(crate) fn no_paper(name: &str, known: &[&str]) -> PyErr {
    let message = format!("{name}: no such paper: use {}", known.join(", "));
    PaperError::new_err(on_one_line(&message))
}

pub(crate) fn no_experiment(paper: &str, name: &str, known: &[&str]) -> PyErr {
    let message = format!(
        "{name}: {paper} has no such experiment: use {}",
        known.join(", ")
    );
    PaperError::new_err(on_one_line(&message))
}

pub(crate) fn too_many(points: usize) -> PyErr {
    let points = match points {
        usize::MAX => "more points than can be counted".to_owned(),
        points => format!("{points} points"),
    };
    SweepError::new_err(format!(
        "the sweep has {points}: pass many=True if you mean it, or sweep over less"
    ))
}

/// The key of a message about a type or name, and the message in words of Python.
fn in_words(message: &str) -> (String, String) {
    let (said, table) = match message.rsplit_once(" in `") {
        Some((said, table)) => (said, table.trim_end_matches('`')),
        None => (message, ""),
    };
    if let Some((name, known)) = said
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split_once('`'))
    {
        let key = joined(table, name);
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        return (key.clone(), unknown(&key, table, name, &known));
    }
    if let Some((name, known)) = said
        .strip_prefix("unknown variant `")
        .and_then(|rest| rest.split_once('`'))
    {
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let cure = format!("{table} = {name}: use one of {}", known.join(", "));
        return (table.to_owned(), cure);
    }
    if said.starts_with("data did not match any variant") {
        let cure = "give a list of values, or {\"from\": 0, \"to\": 1, \"step\": 0.1}";
        return (table.to_owned(), format!("{table}: {cure}"));
    }
    if let Some(expected) = said.split_once(", expected ").map(|(_, e)| e)
        && said.starts_with("invalid ")
        && !table.is_empty()
    {
        let given = said.split_once(": ").map_or(said, |(_, given)| given);
        let given = given.split_once(", expected ").map_or(given, |(g, _)| g);
        return (
            table.to_owned(),
            format!("{table}: {given}: give {}", wanted(table, expected)),
        );
    }
    match table {
        "" => (String::new(), message.to_owned()),
        key => (key.to_owned(), format!("{key}: {said}")),
    }
}

fn unknown(key: &str, table: &str, name: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|k| (strsim::jaro_winkler(k, name), *k))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((_, near)) => format!("{key}: no such key: did you mean {}?", joined(table, near)),
        None => format!("{key}: no such key: use one of {}", known.join(", ")),
    }
}

fn joined(table: &str, name: &str) -> String {
    if table.is_empty() {
        return name.to_owned();
    }
    format!("{table}.{name}")
}

/// What Rust's type is for people, with the unit that the key's name says.
fn wanted(key: &str, expected: &str) -> String {
    let unit = match unit::of_key(key) {
        Some(unit) if unit != "1" => format!(" of {unit}, without the unit"),
        _ => String::new(),
    };
    match expected {
        "f64" => format!("a number{unit}"),
        "usize" | "u64" | "u32" | "u16" => format!("a whole number from 0 on{unit}"),
        other => match other.strip_prefix("struct ") {
            Some(_) => "its keys, as a dict".to_owned(),
            None => other.to_owned(),
        },
    }
}
