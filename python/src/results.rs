//! Results that others have written, as a table.

use pyo3::prelude::*;
use rxlane_results::{Key, RowOf, SCHEMA_VERSION, of_csv, of_json};

use crate::error::of_results;
use crate::table::{Columns, Table};
use crate::unit;

/// Rows of the shared form, of the text of a file; `name` is the file's, `csv` whether it is CSV, else it is JSON.
///
/// >>> text = b'[{"index": 0, "case": "", "keys": {}, "metrics": {"loss": {"mean": 0.5, "ci95": null}}}]'
/// >>> rxlane._rxlane.results_of("a.json", text, False).row(0)["metric"]
/// 'loss'
///
/// Raises ResultsError.
#[pyfunction]
pub(crate) fn results_of(py: Python<'_>, name: &str, text: &[u8], csv: bool) -> PyResult<Table> {
    let read = py.detach(|| match csv {
        true => of_csv(text),
        false => of_json(text),
    });
    let tidy = read.map_err(|e| of_results(name, &e))?;
    let mut table = Columns::default();
    let rows = || tidy.rows();
    fn texts<'a>(
        rows: impl Iterator<Item = RowOf<'a>>,
        of: fn(RowOf<'a>) -> &'a str,
    ) -> Vec<Option<&'a str>> {
        rows.map(|r| Some(of(r))).collect()
    }
    table.whole(
        "schema_version",
        None,
        vec![SCHEMA_VERSION.into(); tidy.len()],
    );
    table.texts("source", texts(rows(), |r| r.point.source.name()));
    table.texts("kind", texts(rows(), |r| &r.point.kind));
    let points = rows().map(|r| r.point.point as i64).collect();
    table.whole("point", Some("1"), points);
    table.texts("case", texts(rows(), |r| &r.point.case));
    table.texts("device", texts(rows(), |r| r.device()));
    table.texts("class", texts(rows(), |r| r.class()));
    table.texts("metric", texts(rows(), |r| r.metric()));
    table.texts("unit", texts(rows(), |r| r.unit()));
    for (column, of) in [
        ("value", (|r| r.value) as fn(&RowOf<'_>) -> f64),
        ("ci95", |r| r.ci95),
        ("low", |r| r.low),
        ("high", |r| r.high),
    ] {
        table.numbers(column, None, rows().map(|r| of(&r)).collect());
    }
    for key in tidy.keys() {
        match tidy.is_number(key) {
            true => {
                let of = |r: RowOf<'_>| r.key(key).map_or(f64::NAN, Key::number);
                table.numbers(key, unit::of_key(key), rows().map(of).collect());
            }
            false => table.texts(key, rows().map(|r| r.key(key).map(Key::text)).collect()),
        }
    }
    table.about("schema_version", SCHEMA_VERSION.to_string());
    table.finish()
}
