//! Apache Parquet.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::{Columns, broken};
use crate::SimError;

pub(super) fn file(columns: &Columns, out: &mut (impl Write + Send)) -> Result<(), SimError> {
    let field = |name: &str, physical: Physical, logical: Option<LogicalType>| {
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
            .map_err(broken)
    };
    let mut fields = Vec::new();
    for (name, _) in &columns.texts {
        fields.push(field(
            name,
            Physical::BYTE_ARRAY,
            Some(LogicalType::String),
        )?);
    }
    for (name, _) in &columns.numbers {
        fields.push(field(name, Physical::DOUBLE, None)?);
    }
    let schema = Type::group_type_builder("points")
        .with_fields(fields)
        .build()
        .map_err(broken)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut file =
        SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(broken)?;
    let mut group = file.next_row_group().map_err(broken)?;
    for (_, values) in &columns.texts {
        let values: Vec<ByteArray> = values.iter().map(|v| v.as_str().into()).collect();
        let mut column = group
            .next_column()
            .map_err(broken)?
            .ok_or_else(|| broken("no column"))?;
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, None, None)
            .map_err(broken)?;
        column.close().map_err(broken)?;
    }
    for (_, values) in &columns.numbers {
        let mut column = group
            .next_column()
            .map_err(broken)?
            .ok_or_else(|| broken("no column"))?;
        column
            .typed::<DoubleType>()
            .write_batch(values, None, None)
            .map_err(broken)?;
        column.close().map_err(broken)?;
    }
    group.close().map_err(broken)?;
    file.close().map_err(broken)?;
    Ok(())
}
