//! A column of a table, as the Arrow C data interface gives it to others.

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef};
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

/// A column of a Table: whole numbers, numbers or texts, with a name and a unit.
///
/// `pyarrow.array(column)`, `polars.Series(column)` and whatever else takes Arrow gets it without a copy, and so does
/// `numpy.asarray(column)` where pyarrow is installed.
///
/// >>> losses = rxlane.sweep(rxlane.Scenario(seconds=0.01), {"traffic.pps": [1e6, 3e6]})["loss"]
/// >>> len(losses), losses.unit, losses[0]
/// (2, '1', 0.0)
#[pyclass(frozen, module = "rxlane", sequence)]
pub(crate) struct Column {
    pub(crate) field: FieldRef,
    pub(crate) values: ArrayRef,
}

pub(crate) fn broken(e: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("cannot make an Arrow table: {e}"))
}

/// A value of a column; None where there is none.
pub(crate) fn value<'py>(
    py: Python<'py>,
    values: &dyn Array,
    row: usize,
) -> PyResult<Bound<'py, PyAny>> {
    if values.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match values.data_type() {
        DataType::Int64 => {
            let value = values.as_primitive::<Int64Type>().value(row);
            value.into_pyobject(py)?.into_any()
        }
        DataType::UInt64 => {
            let value = values.as_primitive::<UInt64Type>().value(row);
            value.into_pyobject(py)?.into_any()
        }
        DataType::Float64 => {
            let value = values.as_primitive::<Float64Type>().value(row);
            value.into_pyobject(py)?.into_any()
        }
        _ => {
            let value = values.as_string::<i32>().value(row);
            value.into_pyobject(py)?.into_any()
        }
    })
}

#[pymethods]
impl Column {
    /// Name of the column.
    #[getter]
    fn name(&self) -> &str {
        self.field.name()
    }

    /// Unit of the values; None where they have none.
    #[getter]
    fn unit(&self) -> Option<&str> {
        self.field.metadata().get("unit").map(String::as_str)
    }

    /// All values as a list; None where there is none.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for row in 0..self.values.len() {
            list.append(value(py, &self.values, row)?)?;
        }
        Ok(list)
    }

    /// The values as a NumPy array: without a copy where pyarrow is installed and no value is missing. A missing number is NaN.
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let arrays = slf.py().import("rxlane._arrays")?;
        arrays.call_method1("to_numpy", (slf,))
    }

    /// What `numpy.asarray` calls.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arrays = slf.py().import("rxlane._arrays")?;
        arrays.call_method1("to_numpy", (slf, dtype, copy))
    }

    fn __len__(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: isize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let length = self.values.len();
        let row = match index < 0 {
            true => length.checked_sub(index.unsigned_abs()),
            false => Some(index.unsigned_abs()),
        };
        match row.filter(|r| *r < length) {
            Some(row) => value(py, &self.values, row),
            None => Err(PyIndexError::new_err(format!(
                "row {index}: {} has {length} rows",
                self.field.name()
            ))),
        }
    }

    fn __repr__(&self) -> String {
        let unit = self.unit().map_or(String::new(), |u| format!(", {u}"));
        format!(
            "<rxlane.Column {}{unit}, {} rows>",
            self.field.name(),
            self.values.len()
        )
    }

    /// Arrow PyCapsule interface. The values are not copied; a requested schema is left to the consumer, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        drop(requested_schema);
        let schema = self.__arrow_c_schema__(py)?;
        let array = FFI_ArrowArray::new(&self.values.to_data());
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        PyTuple::new(py, [schema, array])
    }

    /// Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.field.as_ref()).map_err(broken)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}
