//! JSON: of the bench, of the simulator, and the tidy form itself.

use serde_json::{Map, Value};

use crate::tidy::{Key, Point, SCHEMA_VERSION, Source, Tidy, class_of};
use crate::{ResultsError, bench, table};

/// Reads what `rxlane-lab bench --json`, `rxlane-lab sim run --json` or `--tidy FILE.json` wrote.
///
/// # Errors
/// [`ResultsError`]: what is cut short, foreign, or of a later version.
pub fn of_json(text: &[u8]) -> Result<Tidy, ResultsError> {
    let value: Value = serde_json::from_slice(text).map_err(|e| match e.is_eof() {
        true => ResultsError::Truncated(format!("line {}", e.line())),
        false => ResultsError::Foreign(format!("line {} is not JSON", e.line())),
    })?;
    match &value {
        Value::Array(points) => sim(points),
        Value::Object(object) => {
            check_version(object.get("schema_version"))?;
            match object.get("rows").and_then(Value::as_array) {
                Some(rows) => tidy(rows),
                None => bench::read(object),
            }
        }
        _ => Err(foreign("neither points nor a report")),
    }
}

pub(crate) fn foreign(what: impl Into<String>) -> ResultsError {
    ResultsError::Foreign(what.into())
}

/// Files from before there was a version are of the first.
pub(crate) fn check_version(found: Option<&Value>) -> Result<(), ResultsError> {
    match found {
        None => Ok(()),
        Some(v) if v.as_u64() == Some(SCHEMA_VERSION.into()) => Ok(()),
        Some(v) => Err(ResultsError::Version {
            found: v.to_string(),
        }),
    }
}

pub(crate) fn key(value: &Value) -> Key {
    match value {
        Value::String(text) => Key::Text(text.clone()),
        other => match other.as_f64() {
            Some(number) => Key::Number(number),
            None => Key::Text(other.to_string()),
        },
    }
}

/// Points of `rxlane-lab sim run`.
fn sim(points: &[Value]) -> Result<Tidy, ResultsError> {
    let mut all = Tidy::default();
    for point in points {
        let object = |name: &str| point.get(name).and_then(Value::as_object);
        let index = point.get("index").and_then(Value::as_u64);
        let (Some(index), Some(metrics)) = (index, object("metrics")) else {
            return Err(foreign("points without index and metrics"));
        };
        let text = |name: &str| point.get(name).and_then(Value::as_str).unwrap_or_default();
        let keys = object("keys").into_iter().flatten();
        all.begin(Point {
            source: Source::Sim,
            kind: "run".into(),
            point: index,
            case: text("case").into(),
            device: String::new(),
            keys: keys.map(|(name, v)| (name.clone(), key(v))).collect(),
        });
        for (name, estimate) in metrics {
            let number = |what: &str| estimate.get(what).and_then(Value::as_f64);
            // What is no number for JSON was none.
            let (class, metric) = class_of(name);
            let value = number("mean").unwrap_or(f64::NAN);
            let ci95 = number("ci95").unwrap_or(f64::NAN);
            all.add_with(&class, &metric, value, ci95, [f64::NAN; 2]);
        }
    }
    Ok(all)
}

/// Rows of the tidy form.
fn tidy(rows: &[Value]) -> Result<Tidy, ResultsError> {
    let mut reading = table::Reading::default();
    for (number, row) in rows.iter().enumerate() {
        let row = row
            .as_object()
            .ok_or_else(|| foreign("rows that are none"))?;
        let (point, class, metric, numbers) = one(row).ok_or_else(|| {
            foreign(format!(
                "row {} lacks a column of the tidy form",
                number + 1
            ))
        })?;
        reading.row(point, class, metric, numbers);
    }
    Ok(reading.all)
}

fn one(row: &Map<String, Value>) -> Option<(Point, &str, &str, [f64; 4])> {
    let text = |name: &str| row.get(name)?.as_str();
    let number = |name: &str| row.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let keys = row
        .iter()
        .filter(|(name, value)| !table::COLUMNS.contains(&name.as_str()) && !value.is_null());
    let point = Point {
        source: table::source(text("source")?)?,
        kind: text("kind")?.into(),
        point: row.get("point")?.as_u64()?,
        case: text("case")?.into(),
        device: text("device")?.into(),
        keys: keys
            .map(|(name, value)| (name.clone(), key(value)))
            .collect(),
    };
    let numbers = ["value", "ci95", "low", "high"].map(number);
    Some((point, text("class")?, text("metric")?, numbers))
}
