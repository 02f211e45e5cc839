//! The tidy form as JSON, CSV and, with the feature `parquet`, Parquet.

#[cfg(feature = "parquet")]
mod parquet;

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::tidy::{Key, RowOf, SCHEMA_VERSION, Tidy};
use crate::{ResultsError, table};

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// An object with `schema_version` and `rows`.
    Json,
    /// RFC 4180, with a header.
    Csv,
    /// Apache Parquet.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Format {
    /// By the end of a file's name.
    ///
    /// # Errors
    /// [`ResultsError::Output`] for another end.
    pub fn of(path: &Path) -> Result<Self, ResultsError> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("json") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            #[cfg(feature = "parquet")]
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(ResultsError::Output(format!(
                "{}: no format ends like that: use .json, .csv or .parquet",
                path.display()
            ))),
        }
    }
}

pub(crate) fn broken(e: impl std::fmt::Display) -> ResultsError {
    ResultsError::Output(e.to_string())
}

impl Tidy {
    /// Writes all rows.
    ///
    /// # Errors
    /// [`ResultsError::Output`].
    pub fn write(&self, format: Format, out: &mut (impl Write + Send)) -> Result<(), ResultsError> {
        match format {
            Format::Json => self.json(out),
            Format::Csv => self.csv(out),
            #[cfg(feature = "parquet")]
            Format::Parquet => parquet::file(self, out),
        }
    }

    fn json(&self, out: &mut impl Write) -> Result<(), ResultsError> {
        write!(out, "{{\"schema_version\": {SCHEMA_VERSION}, \"rows\": [").map_err(broken)?;
        for (number, row) in self.rows().enumerate() {
            let end = if number == 0 { "\n" } else { ",\n" };
            write!(out, "{end}{}", object(&row)).map_err(broken)?;
        }
        out.write_all(b"\n]}\n").map_err(broken)
    }

    fn csv(&self, out: &mut impl Write) -> Result<(), ResultsError> {
        let mut csv = csv::Writer::from_writer(out);
        let names = table::COLUMNS.iter().copied();
        csv.write_record(names.chain(self.keys().iter().map(String::as_str)))
            .map_err(broken)?;
        for row in self.rows() {
            let keys = self
                .keys()
                .iter()
                .map(|k| row.key(k).map_or(String::new(), Key::text));
            csv.write_record(texts(&row).into_iter().chain(keys))
                .map_err(broken)?;
        }
        csv.flush().map_err(broken)
    }
}

/// A number; nothing where there is none.
fn cell(value: f64) -> String {
    match value.is_nan() {
        true => String::new(),
        false => value.to_string(),
    }
}

/// The cells of the columns that all files have.
fn texts(row: &RowOf<'_>) -> [String; 13] {
    let at = row.point;
    [
        SCHEMA_VERSION.to_string(),
        at.source.name().into(),
        at.kind.clone(),
        at.point.to_string(),
        at.case.clone(),
        at.device.clone(),
        row.class().into(),
        row.metric().into(),
        row.unit().into(),
        cell(row.value),
        cell(row.ci95),
        cell(row.low),
        cell(row.high),
    ]
}

fn object(row: &RowOf<'_>) -> Value {
    let at = row.point;
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.into(), value);
    put("source", at.source.name().into());
    put("kind", at.kind.as_str().into());
    put("point", at.point.into());
    put("case", at.case.as_str().into());
    put("device", at.device.as_str().into());
    put("class", row.class().into());
    put("metric", row.metric().into());
    put("unit", row.unit().into());
    // NaN is null.
    put("value", json!(row.value));
    put("ci95", json!(row.ci95));
    put("low", json!(row.low));
    put("high", json!(row.high));
    for (name, value) in &at.keys {
        match value {
            Key::Number(v) => put(name, json!(v)),
            Key::Text(v) => put(name, v.as_str().into()),
        };
    }
    Value::Object(object)
}
