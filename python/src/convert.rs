//! Values between Python and Rust: plain objects in, plain objects out.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple, PyType};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use crate::error::Failure;

/// How deep nested objects are followed; deeper ones are most likely a cycle.
const MAX_DEPTH: usize = 64;

/// Converts a Python object to JSON.
///
/// Dicts, lists, tuples, strings, numbers and `None` are converted as they are. Pydantic models, dataclasses,
/// and other objects with attributes become objects, so the messages of frameworks can be passed without
/// conversion. `place` names the object in errors.
pub(crate) fn to_json(object: &Bound<'_, PyAny>, place: &str) -> PyResult<Value> {
    convert(object, place, 0)
}

fn convert(object: &Bound<'_, PyAny>, place: &str, depth: usize) -> PyResult<Value> {
    if depth > MAX_DEPTH {
        return Err(
            Failure::new(format!("{place} is nested deeper than {MAX_DEPTH} levels"))
                .at(place)
                .into(),
        );
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = object.cast::<PyString>() {
        // Lone surrogates have no UTF-8 form.
        return Ok(Value::String(text.to_string_lossy().into_owned()));
    }
    if object.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(object.extract()?));
    }
    if object.is_instance_of::<PyInt>() {
        if let Ok(number) = object.extract::<i64>() {
            return Ok(Value::from(number));
        }
        return number(object.extract::<f64>().unwrap_or(f64::NAN), place);
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return number(float.extract()?, place);
    }
    if let Ok(list) = object.cast::<PyList>() {
        return sequence(list.iter(), place, depth);
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return sequence(tuple.iter(), place, depth);
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        return entries(dict.iter().map(Ok), place, depth);
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::String(
            String::from_utf8_lossy(bytes.as_bytes()).into_owned(),
        ));
    }
    if object.is_instance_of::<PyType>() {
        return Err(unsupported(object, place));
    }
    // Pydantic models, then enumerations, dataclasses, numpy scalars and mappings.
    if let Ok(dump) = object.getattr("model_dump") {
        return convert(&dump.call0()?, place, depth + 1);
    }
    if object.hasattr("__dataclass_fields__")? {
        let fields = object.getattr("__dataclass_fields__")?;
        let names = fields.try_iter()?;
        let pairs = names.map(|name| {
            let name = name?;
            let value = object.getattr(name.cast::<PyString>()?)?;
            Ok((name, value))
        });
        return entries(pairs, place, depth);
    }
    if let Ok(mapping) = object.cast::<PyMapping>() {
        let items = mapping.items()?;
        let pairs = items.iter().map(|item| item.extract());
        return entries(pairs, place, depth);
    }
    if object.hasattr("isoformat")? {
        return convert(&object.call_method0("isoformat")?, place, depth + 1);
    }
    if object.hasattr("tolist")? {
        return convert(&object.call_method0("tolist")?, place, depth + 1);
    }
    if object.hasattr("hex")? && object.hasattr("urn")? {
        return Ok(Value::String(object.str()?.to_string_lossy().into_owned()));
    }
    if let Ok(value) = object.getattr("value")
        && object.hasattr("_name_")?
    {
        return convert(&value, place, depth + 1);
    }
    if let Ok(attributes) = object.getattr("__dict__")
        && let Ok(attributes) = attributes.cast::<PyDict>()
    {
        let public = attributes
            .iter()
            .filter(|(name, value)| !name.to_string().starts_with('_') && !value.is_callable());
        return entries(public.map(Ok), place, depth);
    }
    Err(unsupported(object, place))
}

fn number(value: f64, place: &str) -> PyResult<Value> {
    Number::from_f64(value).map(Value::Number).ok_or_else(|| {
        Failure::new(format!("{place} must be a finite number, not {value}"))
            .at(place)
            .into()
    })
}

fn sequence<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    place: &str,
    depth: usize,
) -> PyResult<Value> {
    items
        .enumerate()
        .map(|(index, item)| convert(&item, &format!("{place}[{index}]"), depth + 1))
        .collect::<PyResult<Vec<_>>>()
        .map(Value::Array)
}

fn entries<'py>(
    pairs: impl Iterator<Item = PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)>>,
    place: &str,
    depth: usize,
) -> PyResult<Value> {
    let mut map = Map::new();
    for pair in pairs {
        let (key, value) = pair?;
        let Ok(key) = key.cast::<PyString>() else {
            return Err(Failure::new(format!(
                "{place} has a key that is not a string: {}",
                type_name(&key)
            ))
            .at(place)
            .into());
        };
        let key = key.to_string_lossy().into_owned();
        let value = convert(&value, &format!("{place}.{key}"), depth + 1)?;
        map.insert(key, value);
    }
    Ok(Value::Object(map))
}

fn unsupported(object: &Bound<'_, PyAny>, place: &str) -> PyErr {
    Failure::new(format!("{place} has an unsupported type: {}", type_name(object)))
        .at(place)
        .hint("pass dicts, lists, strings and numbers, dataclasses or pydantic models")
        .into()
}

/// Name of the type of an object, for messages.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object
        .get_type()
        .name()
        .map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

/// Converts a serializable value to plain Python objects.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let value = serde_json::to_value(value).map_err(|error| Failure::new(error.to_string()))?;
    json_to_python(py, &value)
}

fn json_to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => value.into_pyobject(py)?.into_any(),
            (None, Some(value)) => value.into_pyobject(py)?.into_any(),
            (None, None) => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(json_to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(map) => {
            let dict = PyDict::new(py);
            for (key, value) in map {
                dict.set_item(key, json_to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

/// Converts a Python object to a type of the library; an error names the field.
pub(crate) fn from_python<T: DeserializeOwned>(object: &Bound<'_, PyAny>, place: &str) -> PyResult<T> {
    Ok(deserialize(to_json(object, place)?, place)?)
}

/// Settings of the library with some values replaced.
pub(crate) fn settings<T: Default + Serialize + DeserializeOwned>(
    given: &Bound<'_, PyDict>,
    place: &str,
) -> PyResult<T> {
    overlay(&T::default(), given, place)
}

/// `base` with the given fields replaced; a field that `base` does not have is an error.
pub(crate) fn overlay<T: Serialize + DeserializeOwned>(
    base: &T,
    given: &Bound<'_, PyDict>,
    place: &str,
) -> PyResult<T> {
    let mut value = serde_json::to_value(base).map_err(|error| Failure::new(error.to_string()))?;
    if let (Value::Object(fields), Value::Object(given)) = (&mut value, to_json(given, place)?) {
        for (name, value) in given {
            match fields.get_mut(&name) {
                Some(field) => *field = value,
                None => return Err(Failure::new(format!("unknown setting `{name}`")).at(name).into()),
            }
        }
    }
    Ok(deserialize(value, place)?)
}

/// Decodes JSON into a type of the library; an error names the field.
pub(crate) fn deserialize<T: DeserializeOwned>(value: Value, place: &str) -> Result<T, Failure> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        let place = if field == "." {
            place.to_owned()
        } else {
            format!("{place}.{field}")
        };
        Failure::new(format!("{place}: {}", error.inner())).at(place)
    })
}
