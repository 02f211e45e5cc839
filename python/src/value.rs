//! Values between Python, TOML and JSON.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString};
use rxlane_sim::sweep::MANY_POINTS;
use toml::{Table, Value};

use crate::error::{of_key, too_many};

/// A value of the key `key`: a number (also NumPy's), text or path, list or whatever can be iterated, mapping.
pub(crate) fn to_toml(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    // Of Python and of NumPy.
    if let Ok(value) = value.extract() {
        return Ok(Value::Boolean(value));
    }
    if value.is_instance_of::<PyInt>() {
        return whole(key, value);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::String(value.extract()?));
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        return Ok(Value::Table(to_table(key, mapping)?));
    }
    if let Ok(path) = value.extract::<std::path::PathBuf>() {
        return Ok(Value::String(path.display().to_string()));
    }
    if let Ok(items) = value.try_iter() {
        let mut list = Vec::new();
        for item in items {
            if list.len() > MANY_POINTS {
                return Err(of_key(
                    key,
                    format!(
                        "{key}: more than {MANY_POINTS} values: give fewer, or a range as {{\"from\": 0, \"to\": 1, \"step\": 0.1}}"
                    ),
                ));
            }
            list.push(to_toml(key, &item?)?);
        }
        return Ok(Value::Array(list));
    }
    // Numbers of NumPy are none of Python's.
    if value.hasattr("__index__")? {
        return whole(key, value);
    }
    if value.hasattr("__float__")? {
        return Ok(Value::Float(value.extract()?));
    }
    let kind = value.get_type().name()?;
    Err(of_key(
        key,
        format!(
            "{key}: {} of type {kind} is no value: give a number, text, list or dict, or leave the key out",
            value.repr()?
        ),
    ))
}

fn whole(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    value.extract().map(Value::Integer).map_err(|_| {
        of_key(
            key,
            format!("{key}: {value}: give a whole number of at most 63 bits"),
        )
    })
}

/// Keys, dotted or not, with their values.
pub(crate) fn to_table(prefix: &str, mapping: &Bound<'_, PyMapping>) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in settings(prefix, mapping)? {
        table.insert(key, value);
    }
    Ok(table)
}

/// As [`to_table`], in their order.
pub(crate) fn settings(
    prefix: &str,
    mapping: &Bound<'_, PyMapping>,
) -> PyResult<Vec<(String, Value)>> {
    let mut all = Vec::new();
    for pair in mapping.items()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
        let key: String = key.extract().map_err(|_| {
            let shown = key.to_string();
            of_key(
                &shown,
                format!("{shown}: keys are texts, as in \"traffic.pps\""),
            )
        })?;
        let full = match prefix {
            "" => key.clone(),
            prefix => format!("{prefix}.{key}"),
        };
        all.push((key, to_toml(&full, &value)?));
    }
    Ok(all)
}

/// How many values there are, where that can be known without looking at them.
pub(crate) fn length(values: &Bound<'_, PyAny>) -> Option<usize> {
    match values.is_instance_of::<PyString>() || values.is_instance_of::<PyDict>() {
        true => None,
        false => values.len().ok(),
    }
}

pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Boolean(v) => PyBool::new(py, *v).to_owned().into_any(),
        Value::Integer(v) => v.into_pyobject(py)?.into_any(),
        Value::Float(v) => v.into_pyobject(py)?.into_any(),
        Value::String(v) => v.into_pyobject(py)?.into_any(),
        Value::Datetime(v) => v.to_string().into_pyobject(py)?.into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(to_python(py, value)?)?;
            }
            list.into_any()
        }
        Value::Table(table) => {
            let dict = PyDict::new(py);
            for (key, value) in table {
                dict.set_item(key, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

pub(crate) fn json_to_python<'py>(
    py: Python<'py>,
    value: &serde_json::Value,
) -> PyResult<Bound<'py, PyAny>> {
    use serde_json::Value as Json;
    Ok(match value {
        Json::Null => py.None().into_bound(py),
        Json::Bool(v) => PyBool::new(py, *v).to_owned().into_any(),
        Json::Number(n) => match n.as_i64() {
            Some(v) => v.into_pyobject(py)?.into_any(),
            None => n.as_f64().into_pyobject(py)?.into_any(),
        },
        Json::String(v) => v.into_pyobject(py)?.into_any(),
        Json::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(json_to_python(py, value)?)?;
            }
            list.into_any()
        }
        Json::Object(map) => {
            let dict = PyDict::new(py);
            for (key, value) in map {
                dict.set_item(key, json_to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

/// Raised where there are more values than anyone wants by accident.
pub(crate) fn refuse_many(points: usize, many: bool) -> PyResult<()> {
    match points > MANY_POINTS && !many {
        true => Err(too_many(points)),
        false => Ok(()),
    }
}
