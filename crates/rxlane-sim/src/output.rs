//! Results as JSON, CSV and, with the feature `parquet`, Parquet: one row a point, one column a key or metric.

#[cfg(feature = "parquet")]
mod parquet;

use std::io::Write;

use crate::SimError;
use crate::run::Row;

/// How results are written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// An array of points.
    Json,
    /// RFC 4180, with a header.
    Csv,
    /// Apache Parquet: columns, for pandas and its like.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// The columns: texts first, then numbers. A number that a row lacks is NaN, and empty in CSV.
struct Columns {
    texts: Vec<(String, Vec<String>)>,
    numbers: Vec<(String, Vec<f64>)>,
}

/// A swept value as text: a string without its quotes.
pub fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(s) => s.clone(),
        toml::Value::Float(f) => f.to_string(),
        other => other.to_string(),
    }
}

fn columns(rows: &[Row]) -> Columns {
    let mut texts = vec![("case".to_owned(), Vec::new())];
    let mut numbers = vec![("index".to_owned(), Vec::new())];
    let keys: Vec<&String> = rows.iter().take(1).flat_map(|r| r.keys.keys()).collect();
    let mut metrics: Vec<&str> = Vec::new();
    for row in rows {
        for metric in &row.metrics {
            if !metrics.contains(&metric.name.as_str()) {
                metrics.push(&metric.name);
            }
        }
    }
    texts[0].1 = rows.iter().map(|r| r.case.clone()).collect();
    numbers[0].1 = rows.iter().map(|r| r.index as f64).collect();
    for key in keys {
        let numeric: Option<Vec<f64>> = rows.iter().map(|r| r.key(key)).collect();
        match numeric {
            Some(values) => numbers.push((key.clone(), values)),
            None => {
                let texts_of = rows
                    .iter()
                    .map(|r| r.keys.get(key).map(text_of).unwrap_or_default());
                texts.push((key.clone(), texts_of.collect()));
            }
        }
    }
    for name in metrics {
        let of = |r: &Row| r.get(name).unwrap_or(f64::NAN);
        numbers.push((name.to_owned(), rows.iter().map(of).collect()));
        let ci = |r: &Row| r.estimate(name).and_then(|e| e.ci95);
        if rows.iter().any(|r| ci(r).is_some()) {
            let values = rows.iter().map(|r| ci(r).unwrap_or(f64::NAN)).collect();
            numbers.push((format!("{name}.ci95"), values));
        }
    }
    Columns { texts, numbers }
}

/// Writes rows, in the order of their points.
///
/// # Errors
/// [`SimError::Output`].
pub fn write(
    rows: &mut [Row],
    format: Format,
    out: &mut (impl Write + Send),
) -> Result<(), SimError> {
    rows.sort_by_key(|r| r.index);
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, rows).map_err(broken)?;
            out.write_all(b"\n").map_err(broken)
        }
        Format::Csv => csv_rows(&columns(rows), out),
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::file(&columns(rows), out),
    }
}

fn broken(e: impl std::fmt::Display) -> SimError {
    SimError::Output(e.to_string())
}

fn csv_rows(columns: &Columns, out: &mut impl Write) -> Result<(), SimError> {
    let mut csv = csv::Writer::from_writer(out);
    let names = columns.texts.iter().map(|(n, _)| n);
    csv.write_record(names.chain(columns.numbers.iter().map(|(n, _)| n)))
        .map_err(broken)?;
    let rows = columns.texts[0].1.len();
    for row in 0..rows {
        let texts = columns.texts.iter().map(|(_, values)| values[row].clone());
        let numbers = columns.numbers.iter().map(|(_, values)| {
            if values[row].is_nan() {
                String::new()
            } else {
                values[row].to_string()
            }
        });
        csv.write_record(texts.chain(numbers)).map_err(broken)?;
    }
    csv.flush().map_err(broken)
}
