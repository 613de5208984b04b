//! What can be wrong with a suite that reads well: ids twice, patterns that are none, thresholds nobody can meet. All
//! problems are found at once, each with its file, its field and what to do.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expected::{BenchmarkExpected, Mode};
use super::suite::{BenchmarkCase, BenchmarkSuite};

/// Something that must be put right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// `cases[3].expected.value`.
    pub field: String,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.file, self.field, self.reason)
    }
}

/// Every problem of a suite. `places` are file and field of each case, in order; a case without one is placed by its
/// number.
pub fn check_suite(suite: &BenchmarkSuite, file: &str, places: &[(&str, String)]) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut own = |field: &str, reason: String| {
        found.push(Problem {
            file: file.to_owned(),
            field: field.to_owned(),
            reason,
        });
    };
    if suite.suite_id.trim().is_empty() {
        own(
            "suite_id",
            "is empty; runs and baselines are named after it".to_owned(),
        );
    }
    if let Err(error) = semver::Version::parse(&suite.version) {
        own(
            "version",
            format!(
                "`{}` is no semantic version such as 1.2.0: {error}",
                suite.version
            ),
        );
    }
    if suite.repeats == Some(0) {
        own("repeats", "must be at least 1".to_owned());
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
                    "`{}` is taken by {}: {}; ids must be unique in a suite",
                    case.case_id,
                    earlier.0,
                    join(&earlier.1, "case_id")
                ),
            });
        }
    }
    found
}

/// Every problem of one case; `place` is where it stands in the file, empty when the file is the case.
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
        push(join(place, "case_id"), "is empty".to_owned());
    } else if case.case_id.chars().any(char::is_control) {
        push(join(place, "case_id"), "has a control character".to_owned());
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

/// Why a name may lead out of the folder.
fn escapes(name: &str) -> Option<&'static str> {
    let parts = || name.split(['/', '\\']);
    if name.is_empty() {
        Some("is empty")
    } else if name.starts_with(['/', '\\']) || name.as_bytes().get(1) == Some(&b':') {
        Some("is absolute; write it relative to the suite's folder")
    } else if parts().any(|part| part == "..") {
        Some("leads out of the suite's folder")
    } else {
        None
    }
}

fn check_expected(expected: &BenchmarkExpected, place: &str, push: &mut dyn FnMut(String, String)) {
    let value = expected.value.as_ref();
    let at = |field: &str| join(place, field);
    match expected.mode {
        Mode::Exact if value.is_none() => {
            push(at("value"), "is missing; mode exact compares with it".to_owned());
        }
        Mode::Contains if !matches!(value, Some(value) if texts(value).is_some_and(|list| !list.is_empty())) =>
        {
            push(
                at("value"),
                "must be a text, or a list of texts that must all be there".to_owned(),
            );
        }
        Mode::Regex => match value.and_then(Value::as_str).map(regex::Regex::new) {
            None => push(at("value"), "must be a regular expression".to_owned()),
            Some(Err(error)) => push(at("value"), format!("is no regular expression: {error}")),
            Some(Ok(_)) => {}
        },
        Mode::JsonPath => match expected.path.as_deref().map(super::json_path::check) {
            None => push(at("path"), "is missing; for example $.items[0].name".to_owned()),
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
        Mode::LlmJudge if super::rubric::rubric_of(expected).is_none() => push(
            at("value"),
            "must be a rubric as a text, a list of criteria, or an object with `rubric` and `criteria`"
                .to_owned(),
        ),
        Mode::MetricThreshold if expected.metric_thresholds.as_ref().is_none_or(BTreeMap::is_empty) => {
            push(
                at("metric_thresholds"),
                "is missing; for example {\"latency_ms\": 5000}".to_owned(),
            );
        }
        Mode::All | Mode::Any if expected.parts.is_empty() => {
            push(
                place.to_owned(),
                "has no parts, so nothing is expected".to_owned(),
            );
        }
        _ => {}
    }
    for (name, bound) in expected.metric_thresholds.iter().flatten() {
        if !bound.is_finite() {
            push(
                at(&format!("metric_thresholds.{name}")),
                "is not a finite number".to_owned(),
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
            "has no threshold of the same name".to_owned(),
        );
    }
    if expected
        .threshold
        .is_some_and(|threshold| !(0.0..=1.0).contains(&threshold))
    {
        push(at("threshold"), "must be between 0 and 1".to_owned());
    }
    if !(expected.weight >= 0.0 && expected.weight.is_finite()) {
        push(at("weight"), "must not be negative".to_owned());
    }
    if !expected.parts.is_empty() && expected.parts.iter().all(|part| part.weight == 0.0) {
        push(place.to_owned(), "has only parts of weight 0".to_owned());
    }
    let key = if expected.mode == Mode::Any { "any" } else { "all" };
    for (index, part) in expected.parts.iter().enumerate() {
        check_expected(part, &at(&format!("{key}[{index}]")), push);
    }
}

/// A text, or a list of texts.
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
