//! Suite and case files as text, made into values; JSON, YAML and TOML say the same. Errors name the file and the
//! field. Nothing is opened here: texts come with their names.

use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use super::check::{Problem, check_suite};
use super::suite::{BenchmarkCase, BenchmarkSuite};

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// JSON.
    Json,
    /// YAML 1.2.
    Yaml,
    /// TOML.
    Toml,
}

/// Why a text is no suite.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// A name that does not tell the format.
    #[error("{file}: a suite or case file ends in .json, .yaml, .yml or .toml")]
    Format {
        /// The file.
        file: String,
    },
    /// The text is not JSON, YAML or TOML.
    #[error("{file}: {reason}")]
    Syntax {
        /// The file.
        file: String,
        /// Where and what, as the parser says it.
        reason: String,
    },
    /// A field that is missing, unknown or of another kind.
    #[error("{file}: {field}: {reason}")]
    Field {
        /// The file.
        file: String,
        /// `cases[3].expected.mode`.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Fields that are there and cannot be used.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Problems(Vec<Problem>),
}

/// The text of a file and its name.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The name in messages; its ending tells the format.
    pub file: &'a str,
    /// The contents.
    pub text: &'a str,
}

/// The format by the ending of the name.
pub(crate) fn format_of(file: &str) -> Result<TextFormat, SuiteError> {
    let ending = file.rsplit('.').next().unwrap_or_default();
    match ending.to_ascii_lowercase().as_str() {
        "json" => Ok(TextFormat::Json),
        "yaml" | "yml" => Ok(TextFormat::Yaml),
        "toml" => Ok(TextFormat::Toml),
        _ => Err(SuiteError::Format {
            file: file.to_owned(),
        }),
    }
}

/// Reads a suite with the files of its `cases/` folder, and checks everything. Case files hold one case or a list.
pub fn read_suite(suite: Named<'_>, cases: &[Named<'_>]) -> Result<BenchmarkSuite, SuiteError> {
    let mut read: BenchmarkSuite = read_text(suite)?;
    if read.name.is_empty() {
        read.name.clone_from(&read.suite_id);
    }
    // Where each case came from, for messages about what only shows when all are together.
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

/// Reads the cases of one file with their places in it (empty for a file that is one case), unchecked.
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
        object => Ok(vec![(String::new(), decode(file.file, object)?)]),
    }
}

/// A text as a type. JSON is read straight into it, which takes half the time and none of the memory of a value in
/// between; only what cannot be read is read again, the long way that knows which field it was.
fn read_text<T: DeserializeOwned>(file: Named<'_>) -> Result<T, SuiteError> {
    if format_of(file.file)? == TextFormat::Json
        && let Ok(read) = serde_json::from_str(without_mark(file.text))
    {
        return Ok(read);
    }
    decode(file.file, parse(file)?)
}

/// Some editors begin a file with a byte order mark.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A text of any of the three formats as a JSON value.
pub fn parse(file: Named<'_>) -> Result<Value, SuiteError> {
    let syntax = |reason: String| SuiteError::Syntax {
        file: file.file.to_owned(),
        reason,
    };
    let text = without_mark(file.text);
    match format_of(file.file)? {
        TextFormat::Json => serde_json::from_str(text).map_err(|error| syntax(error.to_string())),
        TextFormat::Yaml => crate::yaml::parse(text).map_err(syntax),
        TextFormat::Toml => toml::from_str(text).map_err(|error| syntax(error.to_string())),
    }
}

/// A JSON value as a type, with the field in errors.
pub(super) fn decode<T: DeserializeOwned>(file: &str, value: Value) -> Result<T, SuiteError> {
    decode_at(file, "", value)
}

fn decode_at<T: DeserializeOwned>(file: &str, place: &str, value: Value) -> Result<T, SuiteError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = match (place, path.as_str()) {
            ("", ".") => "the file".to_owned(),
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

/// Adds what was probably meant to "unknown field `x`, expected one of `a`, `b`".
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

/// The known name that a typed one was probably meant to be.
pub(super) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(typed, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, name)| name)
}
