//! JSON parsing with errors that name line and field: typed deserialization for native formats, and a cursor
//! for foreign ones.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::InputError;

/// Deserializes a complete document. `first_line` is the line of the file at which the document begins.
pub(super) fn typed<T: DeserializeOwned>(text: &str, first_line: usize) -> Result<T, InputError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| located(&error.path().to_string(), error.inner(), first_line))?;
    deserializer
        .end()
        .map_err(|error| located("", &error, first_line))?;
    Ok(value)
}

fn located(path: &str, error: &serde_json::Error, first_line: usize) -> InputError {
    let line = (error.line() + first_line).saturating_sub(1).max(1);
    let text = error.to_string();
    let problem = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(problem, _)| problem);
    if error.is_data() {
        let path = if path.is_empty() || path == "." {
            "the document"
        } else {
            path
        };
        InputError::Field {
            line,
            path: path.to_owned(),
            problem: reword(problem),
        }
    } else {
        InputError::Syntax {
            line,
            column: error.column(),
            problem: problem.to_owned(),
        }
    }
}

/// Rewords "invalid type: integer `3`, expected a string" to "expected a string, found integer `3`".
fn reword(problem: &str) -> String {
    let stripped = problem
        .strip_prefix("invalid type: ")
        .or_else(|| problem.strip_prefix("invalid value: "));
    match stripped.and_then(|rest| rest.split_once(", expected ")) {
        Some((found, expected)) => {
            let expected = match expected {
                "u32" => "a whole number from 0 to 4294967295",
                "a sequence" => "a list",
                "a map" => "an object",
                other if other.starts_with("struct ") => "an object",
                other => other,
            };
            format!("expected {expected}, found {found}")
        }
        None => problem.to_owned(),
    }
}

/// Parsed lines of a JSON Lines text, without empty lines.
pub(super) struct Lines<'a> {
    pub(super) values: Vec<Line<'a>>,
    pub(super) incomplete: Option<usize>,
}

pub(super) struct Line<'a> {
    pub(super) number: usize,
    pub(super) text: &'a str,
    pub(super) value: Value,
}

/// Parses every line. In a growing file, an invalid last line without a line end is reported instead of being
/// an error.
pub(super) fn lines(text: &str, growing: bool) -> Result<Lines<'_>, InputError> {
    let mut found = Lines {
        values: Vec::new(),
        incomplete: None,
    };
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let number = index + 1;
        let line = raw.trim();
        if line.is_empty() {
            continue;
        }
        match typed::<Value>(line, number) {
            Ok(value) => found.values.push(Line {
                number,
                text: line,
                value,
            }),
            Err(_) if growing && !raw.ends_with('\n') => found.incomplete = Some(number),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// A value with its line and path, for error messages.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) value: &'a Value,
    line: usize,
    path: Path<'a>,
}

#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Cursor<'a> {
    pub(super) fn new(value: &'a Value, line: usize) -> Self {
        Self {
            value,
            line,
            path: Path::Root,
        }
    }

    /// The value of `key`; `None` if absent or null.
    pub(super) fn get(&'a self, key: &'a str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Self {
            value,
            line: self.line,
            path: Path::Key(&self.path, key),
        })
    }

    /// The string value of `key`; `None` if absent or null, an error for other types.
    pub(super) fn optional_string(&'a self, key: &'a str) -> Result<Option<&'a str>, InputError> {
        self.get(key).map(|value| value.string()).transpose()
    }

    /// The string value of `key`; `None` for other types. For optional keys of foreign formats.
    pub(super) fn string_if_present(&self, key: &str) -> Option<&'a str> {
        self.value.get(key).and_then(Value::as_str)
    }

    pub(super) fn string(&self) -> Result<&'a str, InputError> {
        self.value.as_str().ok_or_else(|| self.expected("a string"))
    }

    /// Calls `each` for every element of a list; an error for other types.
    pub(super) fn for_each(
        &'a self,
        mut each: impl FnMut(Cursor<'_>) -> Result<(), InputError>,
    ) -> Result<(), InputError> {
        let elements = self.value.as_array().ok_or_else(|| self.expected("a list"))?;
        for (index, value) in elements.iter().enumerate() {
            each(Cursor {
                value,
                line: self.line,
                path: Path::Index(&self.path, index),
            })?;
        }
        Ok(())
    }

    pub(super) fn expected(&self, what: &str) -> InputError {
        let path = match self.path {
            Path::Root => "the line".to_owned(),
            path => path.to_string(),
        };
        InputError::Field {
            line: self.line,
            path,
            problem: format!("expected {what}, found {}", kind_of(self.value)),
        }
    }
}

/// Name of the type of a JSON value.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Path::Root, key) => write!(formatter, "{key}"),
            Self::Key(parent, key) => write!(formatter, "{parent}.{key}"),
            Self::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}
