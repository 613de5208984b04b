//! Parses suite and case files in JSON, YAML or TOML. Errors name the file and the field. The caller reads
//! the files and passes their texts with their names.

use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use super::check::{Problem, check_suite};
use super::suite::{BenchmarkCase, BenchmarkSuite};

/// Text format of a suite or case file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// JSON text (`.json` files).
    Json,
    /// YAML 1.2 text (`.yaml` and `.yml` files).
    Yaml,
    /// TOML text (`.toml` files).
    Toml,
}

/// Reason why a file cannot be read as a suite.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// The file extension is not supported.
    #[error("{file}: unsupported file extension (expected one of: .json, .yaml, .yml, .toml)")]
    Format {
        /// Name of the file.
        file: String,
    },
    /// The text is not valid JSON, YAML or TOML.
    #[error("{file}: {reason}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Position and cause as reported by the parser.
        reason: String,
    },
    /// A field is missing, unknown or of the wrong type.
    #[error("{file}: {field}: {reason}")]
    Field {
        /// Name of the file.
        file: String,
        /// Path of the field, such as `cases[3].expected.mode`.
        field: String,
        /// What is wrong with the field.
        reason: String,
    },
    /// Fields that are well-formed but have unusable values.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Problems(Vec<Problem>),
}

/// A file name with the text of the file.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// File name for messages; its extension determines the format.
    pub file: &'a str,
    /// Contents of the file.
    pub text: &'a str,
}

/// Determines the format from the file extension.
pub(crate) fn format_of(file: &str) -> Result<TextFormat, SuiteError> {
    let extension = file.rsplit('.').next().unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "json" => Ok(TextFormat::Json),
        "yaml" | "yml" => Ok(TextFormat::Yaml),
        "toml" => Ok(TextFormat::Toml),
        _ => Err(SuiteError::Format {
            file: file.to_owned(),
        }),
    }
}

/// Reads and checks a suite together with the files of its `cases/` directory. A case file holds one case or
/// a list.
pub fn read_suite(suite: Named<'_>, cases: &[Named<'_>]) -> Result<BenchmarkSuite, SuiteError> {
    let mut read: BenchmarkSuite = read_text(suite)?;
    if read.name.is_empty() {
        read.name.clone_from(&read.suite_id);
    }
    // Origin of each case, for errors that only show once all cases are read.
    let mut places: Vec<(&str, String)> = (0..read.cases.len())
        .map(|index| (suite.file, format!("cases[{index}]")))
        .collect();
    for file in cases {
        for (place, case) in read_cases(*file)? {
            places.push((file.file, place));
            read.cases.push(case);
        }
    }
    let problems = check_suite(&read, suite.file, &places);
    if problems.is_empty() {
        Ok(read)
    } else {
        Err(SuiteError::Problems(problems))
    }
}

/// Reads the cases of one file without checking them. Each comes with its path in the file (empty when the
/// file is a single case).
pub fn read_cases(file: Named<'_>) -> Result<Vec<(String, BenchmarkCase)>, SuiteError> {
    match parse(file)? {
        Value::Array(items) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| {
                let place = format!("[{index}]");
                let case = decode_at(file.file, &place, item)?;
                Ok((place, case))
            })
            .collect(),
        object => {
            let case = decode(file.file, object).map_err(|error| at_line::<BenchmarkCase>(error, file))?;
            Ok(vec![(String::new(), case)])
        }
    }
}

/// Deserializes a text. JSON is deserialized directly, which takes half the time and avoids an intermediate
/// value. Only invalid input is parsed again, the slower way that reports the failing field.
fn read_text<T: DeserializeOwned>(file: Named<'_>) -> Result<T, SuiteError> {
    if format_of(file.file)? == TextFormat::Json
        && let Ok(read) = serde_json::from_str(strip_bom(file.text))
    {
        return Ok(read);
    }
    decode(file.file, parse(file)?).map_err(|error| at_line::<T>(error, file))
}

/// Adds the line of a field to an error in a TOML file.
fn at_line<T: DeserializeOwned>(error: SuiteError, file: Named<'_>) -> SuiteError {
    match (error, toml_line::<T>(file)) {
        (
            SuiteError::Field {
                file: name,
                field,
                reason,
            },
            Some(line),
        ) => SuiteError::Field {
            file: format!("{name}:{line}"),
            field,
            reason,
        },
        (other, _) => other,
    }
}

/// Line of the first field of a TOML file that does not fit the type.
fn toml_line<T: DeserializeOwned>(file: Named<'_>) -> Option<usize> {
    if format_of(file.file).ok()? != TextFormat::Toml {
        return None;
    }
    let text = strip_bom(file.text);
    let span = toml::from_str::<T>(text).err()?.span()?;
    Some(text.get(..span.start)?.matches('\n').count() + 1)
}

/// Strips the byte order mark that some editors write.
fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Parses a text in any of the three formats to a JSON value.
pub fn parse(file: Named<'_>) -> Result<Value, SuiteError> {
    let syntax = |reason: String| SuiteError::Syntax {
        file: file.file.to_owned(),
        reason,
    };
    let text = strip_bom(file.text);
    match format_of(file.file)? {
        TextFormat::Json => serde_json::from_str(text).map_err(|error| syntax(error.to_string())),
        TextFormat::Yaml => crate::yaml::parse(text).map_err(syntax),
        TextFormat::Toml => toml::from_str(text).map_err(|error| syntax(error.to_string())),
    }
}

/// Deserializes a JSON value; errors name the field.
pub(super) fn decode<T: DeserializeOwned>(file: &str, value: Value) -> Result<T, SuiteError> {
    decode_at(file, "", value)
}

fn decode_at<T: DeserializeOwned>(file: &str, place: &str, value: Value) -> Result<T, SuiteError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = match (place, path.as_str()) {
            ("", ".") => "top level".to_owned(),
            ("", path) => path.to_owned(),
            (place, ".") => place.to_owned(),
            (place, path) => format!("{place}.{path}"),
        };
        SuiteError::Field {
            file: file.to_owned(),
            field,
            reason: with_suggestion(&error.into_inner().to_string()),
        }
    })
}

/// Adds a suggestion to "unknown field `x`, expected one of `a`, `b`".
fn with_suggestion(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (Some((typed, known)), true) = (quoted.split_first(), message.starts_with("unknown ")) else {
        return message.to_owned();
    };
    match nearest(typed, known.iter().copied()) {
        Some(name) => format!("{message}; did you mean `{name}`?"),
        None => message.to_owned(),
    }
}

/// Returns the known name that is closest to a mistyped one.
pub(super) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(typed, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, name)| name)
}
