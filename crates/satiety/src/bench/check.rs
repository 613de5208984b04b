//! Validates a parsed suite: duplicate ids, invalid patterns, unsatisfiable thresholds. All problems are
//! reported at once, each with file, field and a suggested fix.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expected::{BenchmarkExpected, Mode};
use super::suite::{BenchmarkCase, BenchmarkSuite};

/// A problem in a suite or case file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SuiteProblem")]
pub struct Problem {
    /// Name of the file.
    pub file: String,
    /// Path of the field, such as `cases[3].expected.value`.
    pub field: String,
    /// Cause of the problem and how to fix it.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.file, self.field, self.reason)
    }
}

/// Returns all problems of a suite. `places` are the file and field of each case, in order; a case without
/// one is located by its index.
pub fn check_suite(suite: &BenchmarkSuite, file: &str, places: &[(&str, String)]) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut push_suite = |field: &str, reason: String| {
        found.push(Problem {
            file: file.to_owned(),
            field: field.to_owned(),
            reason,
        });
    };
    if suite.suite_id.trim().is_empty() {
        push_suite("suite_id", "must not be empty".to_owned());
    }
    if let Err(error) = semver::Version::parse(&suite.version) {
        push_suite(
            "version",
            format!(
                "`{}` is not a valid semantic version (such as 1.2.0): {error}",
                suite.version
            ),
        );
    }
    if suite.repeats == Some(0) {
        push_suite("repeats", "must be at least 1".to_owned());
    }
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    let place_of = |index: usize| match places.get(index) {
        Some((file, place)) => (*file, Cow::Borrowed(place.as_str())),
        None => (file, Cow::Owned(format!("cases[{index}]"))),
    };
    for (index, case) in suite.cases.iter().enumerate() {
        let place = place_of(index);
        found.extend(check_case(case, place.0, &place.1));
        if let Some(earlier) = first.insert(&case.case_id, index).map(place_of) {
            found.push(Problem {
                file: place.0.to_owned(),
                field: join(&place.1, "case_id"),
                reason: format!(
                    "duplicate id `{}`, already used in {}: {}",
                    case.case_id,
                    earlier.0,
                    join(&earlier.1, "case_id")
                ),
            });
        }
    }
    found
}

/// Returns all problems of one case. `place` is its path in the file, empty when the file is a single case.
pub fn check_case(case: &BenchmarkCase, file: &str, place: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut push = |field: String, reason: String| {
        found.push(Problem {
            file: file.to_owned(),
            field,
            reason,
        });
    };
    if case.case_id.trim().is_empty() {
        push(join(place, "case_id"), "must not be empty".to_owned());
    } else if case.case_id.chars().any(char::is_control) {
        push(
            join(place, "case_id"),
            "must not contain control characters".to_owned(),
        );
    }
    if case.repeats == Some(0) {
        push(join(place, "repeats"), "must be at least 1".to_owned());
    }
    for (index, name) in case.input.files.iter().enumerate() {
        if let Some(reason) = escapes(name) {
            push(
                join(place, &format!("input.files[{index}]")),
                format!("`{name}` {reason}"),
            );
        }
    }
    check_expected(&case.expected, &join(place, "expected"), &mut push);
    found
}

/// Reason why a path may lie outside of the directory.
pub(super) fn escapes(name: &str) -> Option<&'static str> {
    let parts = || name.split(['/', '\\']);
    if name.is_empty() {
        Some("must not be empty")
    } else if name.starts_with(['/', '\\']) || name.as_bytes().get(1) == Some(&b':') {
        Some("must be relative to the suite's directory")
    } else if parts().any(|part| part == "..") {
        Some("must not leave the suite's directory")
    } else {
        None
    }
}

fn check_expected(expected: &BenchmarkExpected, place: &str, push: &mut dyn FnMut(String, String)) {
    let value = expected.value.as_ref();
    let at = |field: &str| join(place, field);
    match expected.mode {
        Mode::Exact if value.is_none() => {
            push(at("value"), "is missing: mode `exact` requires it".to_owned());
        }
        Mode::Contains if !matches!(value, Some(value) if texts(value).is_some_and(|list| !list.is_empty())) =>
        {
            push(at("value"), "must be a string or a list of strings".to_owned());
        }
        Mode::Regex => match value.and_then(Value::as_str).map(regex::Regex::new) {
            None => push(at("value"), "must be a regular expression".to_owned()),
            Some(Err(error)) => push(at("value"), format!("is not a valid regular expression: {error}")),
            Some(Ok(_)) => {}
        },
        Mode::JsonPath => match expected.path.as_deref().map(super::json_path::check) {
            None => push(at("path"), "is missing (example: $.items[0].name)".to_owned()),
            Some(Err(error)) => push(at("path"), error),
            Some(Ok(())) => {}
        },
        Mode::Numeric => {
            if value.and_then(Value::as_f64).is_none() {
                push(at("value"), "must be a number".to_owned());
            }
            for (name, tolerance) in [
                ("tolerance", expected.tolerance),
                ("relative_tolerance", expected.relative_tolerance),
            ] {
                if tolerance.is_some_and(|tolerance| !(tolerance >= 0.0 && tolerance.is_finite())) {
                    push(at(name), "must not be negative".to_owned());
                }
            }
        }
        Mode::JsonSchema => match value.map(super::json_schema::check) {
            None => push(at("value"), "must be a JSON Schema".to_owned()),
            Some(Err(error)) => push(at("value"), error),
            Some(Ok(())) => {}
        },
        Mode::Javascript | Mode::Python => match super::code_check::parse_check(expected) {
            Err(reason) => push(at("value"), reason),
            Ok(check) => {
                if let Some((file, reason)) = check
                    .file
                    .as_deref()
                    .and_then(|file| Some((file, escapes(file)?)))
                {
                    push(at("value.file"), format!("`{file}` {reason}"));
                }
            }
        },
        Mode::Similar if !matches!(value, Some(value) if texts(value).is_some_and(|list| !list.is_empty())) =>
        {
            push(at("value"), "must be a text or a list of texts".to_owned());
        }
        Mode::LlmJudge if super::rubric::parse_rubric(expected).is_none() => push(
            at("value"),
            "must be a rubric string, a list of criteria, or an object with `rubric` and `criteria`"
                .to_owned(),
        ),
        Mode::MetricThreshold if expected.metric_thresholds.as_ref().is_none_or(BTreeMap::is_empty) => {
            push(
                at("metric_thresholds"),
                "is missing (example: {\"latency_ms\": 5000})".to_owned(),
            );
        }
        Mode::All | Mode::Any if expected.parts.is_empty() => {
            push(place.to_owned(), "must have at least one part".to_owned());
        }
        _ => {}
    }
    for (name, bound) in expected.metric_thresholds.iter().flatten() {
        if !bound.is_finite() {
            push(
                at(&format!("metric_thresholds.{name}")),
                "must be a finite number".to_owned(),
            );
        }
    }
    if let Some(name) = expected.directions.keys().find(|name| {
        !expected
            .metric_thresholds
            .iter()
            .flatten()
            .any(|(metric, _)| metric == *name)
    }) {
        push(
            at(&format!("directions.{name}")),
            "must have a threshold of the same name".to_owned(),
        );
    }
    let transforms = expected.transforms.iter().enumerate();
    let programs = transforms.map(|(index, program)| (format!("transforms[{index}]"), program));
    let scorer = expected
        .scorer
        .iter()
        .map(|program| ("scorer".to_owned(), program));
    for (field, transform) in programs.chain(scorer) {
        let place = at(&field);
        if transform.code.is_some() == transform.file.is_some() {
            push(
                place.clone(),
                "must have exactly one of `code` and `file`".to_owned(),
            );
        }
        let file = transform.file.as_deref();
        if let Some((file, reason)) = file.and_then(|file| Some((file, escapes(file)?))) {
            push(join(&place, "file"), format!("`{file}` {reason}"));
        }
    }
    // Programs return scores on any scale.
    let is_program = super::code_check::language(expected.mode).is_some();
    if !is_program
        && expected
            .threshold
            .is_some_and(|threshold| !(0.0..=1.0).contains(&threshold))
    {
        push(at("threshold"), "must be between 0 and 1".to_owned());
    }
    if !(expected.weight >= 0.0 && expected.weight.is_finite()) {
        push(at("weight"), "must not be negative".to_owned());
    }
    if !expected.parts.is_empty() && expected.parts.iter().all(|part| part.weight == 0.0) {
        push(
            place.to_owned(),
            "must have a part with positive weight".to_owned(),
        );
    }
    let key = if expected.mode == Mode::Any { "any" } else { "all" };
    for (index, part) in expected.parts.iter().enumerate() {
        check_expected(part, &at(&format!("{key}[{index}]")), push);
    }
}

/// Returns the strings of a string or a list of strings.
pub(super) fn texts(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

fn join(place: &str, field: &str) -> String {
    if place.is_empty() {
        field.to_owned()
    } else {
        format!("{place}.{field}")
    }
}
