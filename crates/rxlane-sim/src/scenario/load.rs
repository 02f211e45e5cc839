//! Reading scenario files: one may extend another, and single keys may be set on top.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Scenario;
use crate::SimError;
use crate::capture;
use crate::custom::Custom;
use crate::traffic::Pattern;

/// How many times in a row a file may extend another.
const DEPTH: usize = 8;

/// A scenario with what it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Everything merged, for further changes.
    pub table: Table,
    /// The scenario, checked.
    pub scenario: Scenario,
    /// Folder that paths of captures start from.
    pub folder: PathBuf,
}

/// Reads a file and applies `KEY=VALUE` settings.
///
/// # Errors
/// [`SimError::File`], and as [`parse`].
pub fn load(path: &Path, sets: &[String]) -> Result<Loaded, SimError> {
    let text = std::fs::read_to_string(path).map_err(|source| SimError::File {
        path: path.display().to_string(),
        source,
    })?;
    parse(&text, path, sets)
}

/// As [`load`], of a text that was found at `path`.
///
/// # Errors
/// [`SimError::Syntax`] with the line, [`SimError::Value`] and [`SimError::Key`] for what cannot be.
pub fn parse(text: &str, path: &Path, sets: &[String]) -> Result<Loaded, SimError> {
    parse_with(text, path, sets, &|path| std::fs::read_to_string(path))
}

/// As [`parse`], with `read` for the files that it extends.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(
    text: &str,
    path: &Path,
    sets: &[String],
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<Loaded, SimError> {
    let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
    let mut table = merged(text, path, DEPTH, read)?;
    for setting in sets {
        set(&mut table, setting)?;
    }
    let scenario = scenario_of(&table, &folder).map_err(|e| at_its_line(e, text, path))?;
    Ok(Loaded {
        table,
        scenario,
        folder,
    })
}

impl Loaded {
    /// A scenario without a file; paths of captures start from `folder`.
    ///
    /// # Errors
    /// [`SimError::Syntax`] and [`SimError::Value`] for what cannot be.
    pub fn new(table: Table, folder: &Path) -> Result<Self, SimError> {
        Ok(Self {
            scenario: scenario_of(&table, folder)?,
            table,
            folder: folder.to_owned(),
        })
    }

    /// The same with other values of dotted keys, as `KEY=VALUE` settings give them.
    ///
    /// # Errors
    /// As [`Loaded::new`]; [`SimError::Key`] for what is no key.
    pub fn with(
        &self,
        settings: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, SimError> {
        let mut table = self.table.clone();
        for (key, value) in settings {
            put(&mut table, &key, value)?;
        }
        let known = Some(&self.scenario.traffic.pattern);
        let this = Self {
            scenario: scenario_like(&table, &self.folder, known)?,
            table,
            folder: self.folder.clone(),
        };
        this.with_custom(self.scenario.custom.clone())
    }

    /// The same with code in the place of what a file says.
    ///
    /// # Errors
    /// [`SimError::Value`] where it has no place in this scenario.
    pub fn with_custom(mut self, custom: Custom) -> Result<Self, SimError> {
        self.scenario.custom = custom;
        self.scenario.check()?;
        Ok(self)
    }
}

/// Makes a checked scenario of a merged table, and reads the captures that it names.
fn scenario_of(table: &Table, folder: &Path) -> Result<Scenario, SimError> {
    scenario_like(table, folder, None)
}

/// As of a table alone; a capture that `known` has, too, is not read again.
pub(crate) fn scenario_like(
    table: &Table,
    folder: &Path,
    known: Option<&Pattern>,
) -> Result<Scenario, SimError> {
    let mut scenario: Scenario =
        Scenario::deserialize_table(table).map_err(|message| SimError::Syntax {
            path: String::new(),
            line: 0,
            message,
        })?;
    let is_read = known.is_some_and(|known| scenario.traffic.pattern.take_from(known));
    if let (Pattern::Gaps { gaps, file }, false) = (&mut scenario.traffic.pattern, is_read) {
        *gaps = capture::with_file(&folder.join(file), capture::read)?;
    }
    let of_traffic = table.get("traffic").and_then(Value::as_table);
    super::recorded::read(&mut scenario.traffic, of_traffic, folder)?;
    if let Some(load) = scenario.traffic.link_load {
        let line = scenario.line_rate().0;
        scenario.traffic.pps = load * line * scenario.nic.count as f64;
    }
    scenario.check()?;
    Ok(scenario)
}

impl Scenario {
    fn deserialize_table(table: &Table) -> Result<Self, String> {
        Value::Table(table.clone())
            .try_into()
            .map_err(|e: toml::de::Error| one_line(&e.to_string()))
    }
}

fn one_line(message: &str) -> String {
    if message.contains("unknown field `prb`") {
        return "`prb` is gone: the key is `budgets`, highest class first".into();
    }
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn merged(
    text: &str,
    path: &Path,
    depth: usize,
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<Table, SimError> {
    let syntax = |e: toml::de::Error| SimError::Syntax {
        path: path.display().to_string(),
        line: e
            .span()
            .map_or(0, |s| text[..s.start].matches('\n').count() + 1),
        message: one_line(e.message()),
    };
    // Parse the text twice: as a scenario, because its errors know their lines, and as a table, to merge it.
    let extends = toml::from_str::<Scenario>(text).map_err(syntax)?.extends;
    let mut table: Table = toml::from_str(text).map_err(syntax)?;
    let Some(extends) = extends else {
        return Ok(table);
    };
    if depth == 0 {
        return Err(SimError::Syntax {
            path: path.display().to_string(),
            line: 0,
            message: "files extend each other without end: break the circle".into(),
        });
    }
    let base_path = path.parent().unwrap_or(Path::new(".")).join(extends);
    let base_text = read(&base_path).map_err(|source| SimError::File {
        path: base_path.display().to_string(),
        source,
    })?;
    let mut base = merged(&base_text, &base_path, depth - 1, read)?;
    table.remove("extends");
    lay_over(&mut base, table);
    Ok(base)
}

/// A pattern or an algorithm is replaced as a whole.
fn is_whole(table: &Table) -> bool {
    table.contains_key("pattern") || table.contains_key("algorithm")
}

/// Values of `over` replace those of `base`; tables merge.
pub(crate) fn lay_over(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(b)), Value::Table(o)) if !is_whole(&o) => lay_over(b, o),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Applies `KEY=VALUE` to a table.
///
/// # Errors
/// [`SimError::Key`] for what is no key.
pub fn set(table: &mut Table, text: &str) -> Result<(), SimError> {
    let (key, value) = key_and_value(text)?;
    put(table, &key, value)
}

/// Splits `KEY=VALUE`.
pub(crate) fn key_and_value(text: &str) -> Result<(String, Value), SimError> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| SimError::Key { key: text.into() })?;
    Ok((key.trim().to_owned(), value_of(value.trim())))
}

/// Sets a dotted key.
pub(crate) fn put(table: &mut Table, key: &str, value: Value) -> Result<(), SimError> {
    let unknown = || SimError::Key { key: key.into() };
    let (folders, last) = match key.rsplit_once('.') {
        Some((folders, last)) => (folders.split('.').collect(), last),
        None => (Vec::new(), key),
    };
    let mut at = table;
    for folder in folders {
        at = at
            .entry(folder)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(unknown)?;
    }
    if last.is_empty() {
        return Err(unknown());
    }
    match (at.get_mut(last), value) {
        (Some(Value::Table(old)), Value::Table(new)) if !is_whole(&new) => lay_over(old, new),
        (_, value) => {
            at.insert(last.into(), value);
        }
    }
    Ok(())
}

/// Reads a value such as `1.5e6`, `"poisson"`, `[60, 4]`, or a bare word.
fn value_of(text: &str) -> Value {
    toml::from_str::<Table>(&format!("v = {text}"))
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(text.into()))
}

/// Adds file and line to an error about a key of the file.
fn at_its_line(error: SimError, text: &str, path: &Path) -> SimError {
    let (key, message) = match &error {
        SimError::Value { key, value, cure } => (key.clone(), format!("{key} = {value}: {cure}")),
        SimError::Syntax {
            message, line: 0, ..
        } => (String::new(), message.clone()),
        _ => return error,
    };
    SimError::Syntax {
        path: path.display().to_string(),
        line: line_of(text, &key),
        message,
    }
}

/// The line of a dotted key, from 1; 0 when the text does not have it.
fn line_of(text: &str, key: &str) -> usize {
    let mut section = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_matches(['[', ']']).trim().to_owned();
            continue;
        }
        let Some((name, _)) = line.split_once('=') else {
            continue;
        };
        let full = if section.is_empty() {
            name.trim().to_owned()
        } else {
            format!("{section}.{}", name.trim())
        };
        if full == key {
            return number + 1;
        }
    }
    0
}
