//! Results as Arrow tables, handed over without a copy.
//!
//! Columns are made once, of the vectors that the simulator's results were gathered in, and shared from then on: a consumer of the
//! Arrow PyCapsule interface gets pointers to them, and they live as long as it needs them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    StructArray, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::column::{Column, broken, value};

/// The columns of a table while it is made.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    values: Vec<ArrayRef>,
    about: HashMap<String, String>,
}

impl Columns {
    fn put(&mut self, name: &str, unit: Option<&str>, kind: DataType, values: ArrayRef) {
        let metadata = unit.map(|u| ("unit".to_owned(), u.to_owned()));
        let field = Field::new(name, kind, values.null_count() > 0);
        self.fields
            .push(field.with_metadata(metadata.into_iter().collect()));
        self.values.push(values);
    }

    /// Numbers; NaN where there is none.
    pub(crate) fn numbers(&mut self, name: &str, unit: Option<&str>, values: Vec<f64>) {
        let missing = values.iter().any(|v| v.is_nan());
        let present = missing.then(|| NullBuffer::from_iter(values.iter().map(|v| !v.is_nan())));
        let values = Float64Array::new(values.into(), present);
        self.put(name, unit, DataType::Float64, Arc::new(values));
    }

    pub(crate) fn whole(&mut self, name: &str, unit: Option<&str>, values: Vec<i64>) {
        let values = Arc::new(Int64Array::from(values));
        self.put(name, unit, DataType::Int64, values);
    }

    pub(crate) fn counts(&mut self, name: &str, unit: Option<&str>, values: Vec<u64>) {
        let values = Arc::new(UInt64Array::from(values));
        self.put(name, unit, DataType::UInt64, values);
    }

    pub(crate) fn texts<T: AsRef<str>>(&mut self, name: &str, values: Vec<Option<T>>) {
        let values = Arc::new(StringArray::from_iter(values));
        self.put(name, None, DataType::Utf8, values);
    }

    /// What the table is of.
    pub(crate) fn about(&mut self, key: &str, text: String) {
        self.about.insert(format!("rxlane.{key}"), text);
    }

    pub(crate) fn finish(mut self) -> PyResult<Table> {
        self.about("version", env!("CARGO_PKG_VERSION").to_owned());
        let schema = Schema::new(self.fields).with_metadata(self.about);
        let batch = RecordBatch::try_new(Arc::new(schema), self.values).map_err(broken)?;
        Ok(Table { batch })
    }
}

/// Results in columns, each with a name and a unit.
///
/// Whatever takes Arrow takes it as it is, without a copy: `pyarrow.table(table)`, `polars.DataFrame(table)`,
/// `pandas.DataFrame.from_arrow(table)`, and, of a variable `results`, `duckdb.sql("select * from results")`. Units are in the metadata of the
/// fields, and what was simulated in that of the schema (`rxlane.scenario`, `rxlane.version`).
///
/// >>> table = rxlane.sweep(rxlane.Scenario(seconds=0.01), {"traffic.pps": [1e6, 3e6]}, metrics=["loss"])
/// >>> table.column_names, table.num_rows
/// (['case', 'index', 'traffic.pps', 'loss'], 2)
/// >>> table.units["traffic.pps"]
/// 'packets/s'
#[pyclass(frozen, module = "rxlane")]
#[derive(Clone)]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    fn schema(&self) -> PyResult<FFI_ArrowSchema> {
        FFI_ArrowSchema::try_from(self.batch.schema_ref().as_ref()).map_err(broken)
    }
}

#[pymethods]
impl Table {
    /// Names of the columns, in their order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let fields = self.batch.schema_ref().fields();
        fields.iter().map(|f| f.name().clone()).collect()
    }

    /// Units by the name of the column; columns without one are left out.
    #[getter]
    fn units(&self) -> HashMap<String, String> {
        let fields = self.batch.schema_ref().fields().iter();
        fields
            .filter_map(|f| Some((f.name().clone(), f.metadata().get("unit")?.clone())))
            .collect()
    }

    /// What the table is of, as texts: `rxlane.version`, and `rxlane.scenario` as TOML.
    #[getter]
    fn metadata(&self) -> HashMap<String, String> {
        self.batch.schema_ref().metadata().clone()
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Number of columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.batch.num_columns()
    }

    /// The column of that name.
    fn column(&self, name: &str) -> PyResult<Column> {
        let schema = self.batch.schema_ref();
        let (at, field) = schema.fields().find(name).ok_or_else(|| {
            PyKeyError::new_err(format!(
                "{name}: no such column: see column_names, {} of them",
                schema.fields().len()
            ))
        })?;
        Ok(Column {
            field: field.clone(),
            values: self.batch.column(at).clone(),
        })
    }

    fn __getitem__(&self, name: &str) -> PyResult<Column> {
        self.column(name)
    }

    fn __contains__(&self, name: &str) -> bool {
        self.batch.schema_ref().fields().find(name).is_some()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// A row as a dict; negative numbers count from the end.
    fn row<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for name in self.column_names() {
            dict.set_item(&name, self.column(&name)?.__getitem__(py, index)?)?;
        }
        Ok(dict)
    }

    /// All rows as dicts: convenient for few of them.
    fn to_rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let names = self.column_names();
        (0..self.batch.num_rows())
            .map(|row| {
                let dict = PyDict::new(py);
                for (name, values) in names.iter().zip(self.batch.columns()) {
                    dict.set_item(name, value(py, values, row)?)?;
                }
                Ok(dict)
            })
            .collect()
    }

    /// As a pyarrow.Table, without a copy. Needs pyarrow.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("rxlane._arrays")?
            .call_method1("to_pyarrow", (slf,))
    }

    /// As a pandas.DataFrame. Needs pandas and pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("rxlane._arrays")?
            .call_method1("to_pandas", (slf,))
    }

    /// As a polars.DataFrame, without a copy of numbers. Needs polars.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("rxlane._arrays")?
            .call_method1("to_polars", (slf,))
    }

    /// Writes a file, by the end of its name: `.parquet`, `.csv`, `.arrow`. Needs pyarrow. Raises FileError.
    fn write<'py>(slf: &Bound<'py, Self>, path: Bound<'py, PyAny>) -> PyResult<()> {
        slf.py()
            .import("rxlane._arrays")?
            .call_method1("write", (slf, path))?;
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!(
            "<rxlane.Table {} rows x {} columns>",
            self.num_rows(),
            self.num_columns()
        )
    }

    /// Arrow PyCapsule interface: all rows as one batch, not copied. A requested schema is left to the consumer, as the interface
    /// allows.
    #[pyo3(signature = (requested_schema=None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = std::iter::once(Ok(self.batch.clone()));
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Arrow PyCapsule interface: all rows as a struct, not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        drop(requested_schema);
        let rows = StructArray::from(self.batch.clone());
        let array = FFI_ArrowArray::new(&rows.to_data());
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        PyTuple::new(py, [self.__arrow_c_schema__(py)?, array])
    }

    /// Arrow PyCapsule interface.
    pub(crate) fn __arrow_c_schema__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, self.schema()?, c"arrow_schema")
    }
}
