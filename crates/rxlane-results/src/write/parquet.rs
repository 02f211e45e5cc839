//! Apache Parquet: a column a name, with a missing number as null.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::broken;
use crate::ResultsError;
use crate::tidy::{Key, RowOf, SCHEMA_VERSION, Tidy};

type OfRow<'a, T> = Box<dyn Fn(&RowOf<'_>) -> T + 'a>;

/// A column's values, by the row.
enum Column<'a> {
    Whole(OfRow<'a, i64>),
    Text(OfRow<'a, Option<String>>),
    Number(OfRow<'a, f64>),
}

fn columns(tidy: &Tidy) -> Vec<(&str, Column<'_>)> {
    fn text<'a>(of: impl Fn(&RowOf<'_>) -> String + 'a) -> Column<'a> {
        Column::Text(Box::new(move |r| Some(of(r))))
    }
    let mut all = vec![
        (
            "schema_version",
            Column::Whole(Box::new(|_| SCHEMA_VERSION.into())),
        ),
        ("source", text(|r| r.point.source.name().into())),
        ("kind", text(|r| r.point.kind.clone())),
        ("point", Column::Whole(Box::new(|r| r.point.point as i64))),
        ("case", text(|r| r.point.case.clone())),
        ("device", text(|r| r.point.device.clone())),
        ("class", text(|r| r.class().into())),
        ("metric", text(|r| r.metric().into())),
        ("unit", text(|r| r.unit().into())),
        ("value", Column::Number(Box::new(|r| r.value))),
        ("ci95", Column::Number(Box::new(|r| r.ci95))),
        ("low", Column::Number(Box::new(|r| r.low))),
        ("high", Column::Number(Box::new(|r| r.high))),
    ];
    for key in tidy.keys() {
        let column = match tidy.is_number(key) {
            true => Column::Number(Box::new(|r| r.key(key).map_or(f64::NAN, Key::number))),
            false => Column::Text(Box::new(|r| r.key(key).map(Key::text))),
        };
        all.push((key, column));
    }
    all
}

fn field(name: &str, column: &Column<'_>) -> Result<Arc<Type>, ResultsError> {
    let (physical, repetition, logical) = match column {
        Column::Whole(_) => (Physical::INT64, Repetition::REQUIRED, None),
        Column::Number(_) => (Physical::DOUBLE, Repetition::OPTIONAL, None),
        Column::Text(_) => (
            Physical::BYTE_ARRAY,
            Repetition::OPTIONAL,
            Some(LogicalType::String),
        ),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
        .map(Arc::new)
        .map_err(broken)
}

pub(super) fn file(tidy: &Tidy, out: &mut (impl Write + Send)) -> Result<(), ResultsError> {
    let columns = columns(tidy);
    let fields = columns.iter().map(|(name, column)| field(name, column));
    let schema = Type::group_type_builder("results")
        .with_fields(fields.collect::<Result<_, _>>()?)
        .build()
        .map_err(broken)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut file =
        SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(broken)?;
    let mut group = file.next_row_group().map_err(broken)?;
    for (_, column) in &columns {
        match column {
            Column::Whole(of) => {
                let values: Vec<i64> = tidy.rows().map(|r| of(&r)).collect();
                write::<Int64Type, _>(&mut group, &values, None)?;
            }
            Column::Number(of) => {
                let values: Vec<f64> = tidy.rows().map(|r| of(&r)).collect();
                let there: Vec<i16> = values.iter().map(|v| i16::from(!v.is_nan())).collect();
                let values: Vec<f64> = values.into_iter().filter(|v| !v.is_nan()).collect();
                write::<DoubleType, _>(&mut group, &values, Some(&there))?;
            }
            Column::Text(of) => {
                let texts: Vec<Option<String>> = tidy.rows().map(|r| of(&r)).collect();
                let there: Vec<i16> = texts.iter().map(|t| i16::from(t.is_some())).collect();
                let values: Vec<ByteArray> =
                    texts.iter().flatten().map(|t| t.as_str().into()).collect();
                write::<ByteArrayType, _>(&mut group, &values, Some(&there))?;
            }
        }
    }
    group.close().map_err(broken)?;
    file.close().map_err(broken)?;
    Ok(())
}

fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Result<(), ResultsError> {
    let mut column = group
        .next_column()
        .map_err(broken)?
        .ok_or_else(|| broken("no column"))?;
    column
        .typed::<T>()
        .write_batch(values, there, None)
        .map_err(broken)?;
    column.close().map_err(broken)
}
