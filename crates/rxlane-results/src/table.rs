//! CSV: the tidy form, and the simulator's own with a column a key and metric.

use crate::ResultsError;
use crate::json::{check_version, foreign};
use crate::tidy::{Key, Point, Source, Tidy, class_of};
use crate::unit::is_key;

/// Columns that all tidy files have; all others are keys.
pub(crate) const COLUMNS: [&str; 13] = [
    "schema_version",
    "source",
    "kind",
    "point",
    "case",
    "device",
    "class",
    "metric",
    "unit",
    "value",
    "ci95",
    "low",
    "high",
];
/// Columns of a study that are no metrics.
const OF_A_STUDY: [&str; 4] = ["replications", "attempts", "error", "block"];

pub(crate) fn source(name: &str) -> Option<Source> {
    [Source::Bench, Source::Sim]
        .into_iter()
        .find(|s| s.name() == name)
}

/// Rows of the tidy form, whose points are told by what is equal from row to row.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) all: Tidy,
    last: Option<Point>,
}

impl Reading {
    pub(crate) fn row(&mut self, point: Point, class: &str, metric: &str, numbers: [f64; 4]) {
        if self.last.as_ref() != Some(&point) {
            self.all.begin(point.clone());
            self.last = Some(point);
        }
        let [value, ci95, low, high] = numbers;
        self.all.add_with(class, metric, value, ci95, [low, high]);
    }
}

/// Reads what `--tidy FILE.csv` or `rxlane-lab sim run --csv` wrote.
///
/// # Errors
/// [`ResultsError`]: what is cut short, foreign, or of a later version.
pub fn of_csv(text: &[u8]) -> Result<Tidy, ResultsError> {
    let mut reader = csv::Reader::from_reader(text);
    let header = reader.headers().map_err(wrong)?.clone();
    let names: Vec<&str> = header.iter().collect();
    let has = |name: &str| names.contains(&name);
    let is_tidy = has("schema_version") && has("metric");
    let is_wide = has("index") && has("case");
    if !is_tidy && !is_wide {
        return Err(foreign("a table without the columns of one"));
    }
    if text.last() != Some(&b'\n') {
        return Err(ResultsError::Truncated("its last line has no end".into()));
    }
    let mut reading = Reading::default();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let cells: Vec<(&str, &str)> = names.iter().copied().zip(&record).collect();
        let line = record.position().map_or(0, csv::Position::line);
        match is_tidy {
            true => tidy(&cells, line, &mut reading)?,
            false => wide(&cells, line, &mut reading.all)?,
        }
    }
    Ok(reading.all)
}

fn wrong(e: csv::Error) -> ResultsError {
    let line = e.position().map_or(0, csv::Position::line);
    match e.kind() {
        csv::ErrorKind::UnequalLengths { .. } => {
            ResultsError::Truncated(format!("line {line} has other columns than the first"))
        }
        _ => foreign(format!("line {line} is no text in UTF-8")),
    }
}

fn key(text: &str) -> Key {
    match text.parse() {
        Ok(number) => Key::Number(number),
        Err(_) => Key::Text(text.into()),
    }
}

/// A number; an empty cell is none.
fn number(name: &str, text: &str, line: u64) -> Result<f64, ResultsError> {
    match text {
        "" => Ok(f64::NAN),
        text => text
            .parse()
            .map_err(|_| foreign(format!("line {line}: {name} = {text} is no number"))),
    }
}

fn tidy(cells: &[(&str, &str)], line: u64, to: &mut Reading) -> Result<(), ResultsError> {
    let cell = |name: &str| {
        let found = cells.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        found.ok_or_else(|| foreign(format!("it has no column {name}")))
    };
    let value = |name: &str| number(name, cell(name)?, line);
    let version = cell("schema_version")?;
    check_version(Some(
        &version
            .parse::<u64>()
            .map_or_else(|_| version.into(), serde_json::Value::from),
    ))?;
    let keys = cells
        .iter()
        .filter(|(name, v)| !COLUMNS.contains(name) && !v.is_empty());
    let from = cell("source")?;
    let point = Point {
        source: source(from).ok_or_else(|| foreign(format!("line {line}: source = {from}")))?,
        kind: cell("kind")?.into(),
        point: value("point")? as u64,
        case: cell("case")?.into(),
        device: cell("device")?.into(),
        keys: keys.map(|(name, v)| ((*name).into(), key(v))).collect(),
    };
    let numbers = [
        value("value")?,
        value("ci95")?,
        value("low")?,
        value("high")?,
    ];
    to.row(point, cell("class")?, cell("metric")?, numbers);
    Ok(())
}

/// A row a point, a column a key and metric.
fn wide(cells: &[(&str, &str)], line: u64, to: &mut Tidy) -> Result<(), ResultsError> {
    let mut point = Point {
        source: Source::Sim,
        kind: "run".into(),
        point: 0,
        case: String::new(),
        device: String::new(),
        keys: Vec::new(),
    };
    let mut metrics = Vec::new();
    for (name, text) in cells {
        match *name {
            "case" => point.case = (*text).into(),
            "index" => point.point = number(name, text, line)? as u64,
            name if OF_A_STUDY.contains(&name) => {}
            name if is_key(name) => point.keys.push((name.into(), key(text))),
            name if name.ends_with(".ci95") => {}
            name => metrics.push((name, number(name, text, line)?)),
        }
    }
    to.begin(point);
    for (name, value) in metrics {
        let interval = format!("{name}.ci95");
        let ci95 = cells.iter().find(|(n, _)| *n == interval);
        let ci95 = ci95.map_or(Ok(f64::NAN), |(n, v)| number(n, v, line))?;
        let (class, metric) = class_of(name);
        to.add_with(&class, &metric, value, ci95, [f64::NAN; 2]);
    }
    Ok(())
}
