//! Converts the record of a failed production request to a regression case, scrubbed and tagged with the
//! failure category. Records rarely contain the correct answer; without one, a person decides.

use serde_json::{Map, Value};
use thiserror::Error;

use super::expected::{BenchmarkExpected, Mode};
use super::hash::content_hash;
use super::scrub::{ScrubReport, Scrubber};
use super::suite::{BenchmarkCase, Source};

/// Reason why a record cannot be converted to a case.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FailureError {
    /// The record is not a JSON object.
    #[error("the record must be a JSON object")]
    NotAnObject,
    /// The record has no goal, prompt or messages.
    #[error("the record has no question (expected one of: `goal`, `prompt`, `input`, `query`, `messages`)")]
    NoGoal,
}

/// Keys of the question, the correct answer, the category and the message, in order of preference.
const GOALS: [&str; 6] = ["goal", "prompt", "input", "query", "question", "task"];
const CORRECT_ANSWERS: [&str; 4] = ["expected", "expected_output", "correct_output", "correction"];
const CATEGORIES: [&str; 5] = [
    "failure_category",
    "category",
    "error_kind",
    "error_type",
    "status",
];
const MESSAGES: [&str; 3] = ["error", "message", "reason"];

/// Converts a failed record to a case and reports what was scrubbed.
pub fn case_from_failure(record: &Value) -> Result<(BenchmarkCase, ScrubReport), FailureError> {
    let mut scrubber = Scrubber::new();
    let Value::Object(fields) = scrubber.value(record) else {
        return Err(FailureError::NotAnObject);
    };
    let messages = fields
        .get("messages")
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty())
        .cloned();
    let goal = GOALS
        .iter()
        .find_map(|key| goal_in(fields.get(*key)?))
        .or_else(|| {
            messages
                .as_ref()?
                .iter()
                .rev()
                .find_map(|message| goal_in(message.get("content")?))
        })
        .ok_or(FailureError::NoGoal)?;
    let category = category(&fields);
    let expected = CORRECT_ANSWERS
        .iter()
        .find_map(|key| fields.get(*key))
        .map_or_else(
            || BenchmarkExpected {
                reason: Some("created from a failure; specify the correct answer".to_owned()),
                ..BenchmarkExpected::of(Mode::Human)
            },
            correct_answer,
        );
    // The same failure yields the same case, regardless of the reporter.
    let hash = content_hash(&(&goal, &messages, &expected));
    let mut case = BenchmarkCase::new(
        format!("{category}-{}", hash.get(..12).unwrap_or(&hash)),
        goal,
        expected,
    );
    case.description = text_of(&fields, &MESSAGES).unwrap_or_else(|| format!("failed with {category}"));
    case.input.messages = messages;
    case.input.context = fields.get("context").and_then(Value::as_array).and_then(|items| {
        items
            .iter()
            .map(|item| item.as_object().cloned())
            .collect::<Option<Vec<_>>>()
    });
    case.tags = vec!["regression".to_owned(), category];
    case.source = Source::Regression;
    for key in ["record_id", "id", "timestamp", "model", "version"] {
        if let Some(value) = fields.get(key) {
            case.metadata.insert(key.to_owned(), value.clone());
        }
    }
    Ok((case, scrubber.report().clone()))
}

/// Parses an expectation in suite format, or a value to match.
fn correct_answer(value: &Value) -> BenchmarkExpected {
    serde_json::from_value::<BenchmarkExpected>(value.clone())
        .ok()
        // An empty list is the answer itself, not an empty expectation.
        .filter(|expected| expected.mode != Mode::All || !expected.parts.is_empty())
        .unwrap_or_else(|| BenchmarkExpected::with_value(Mode::Exact, value.clone()))
}

fn goal_in(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text,
        Value::Object(fields) => fields.get("goal")?.as_str()?,
        _ => return None,
    };
    (!text.trim().is_empty()).then(|| text.to_owned())
}

fn category(fields: &Map<String, Value>) -> String {
    let nested = fields
        .get("error")
        .and_then(Value::as_object)
        .and_then(|error| text_of(error, &["kind", "type", "code"]));
    let raw = text_of(fields, &CATEGORIES)
        .or(nested)
        .unwrap_or_else(|| "failure".to_owned());
    let slug: String = raw
        .to_lowercase()
        .chars()
        .map(|letter| if letter.is_alphanumeric() { letter } else { '-' })
        .take(40)
        .collect();
    let slug = slug
        .split('-')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    if slug.is_empty() {
        "failure".to_owned()
    } else {
        slug
    }
}

fn text_of(fields: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter()
        .find_map(|key| fields.get(*key)?.as_str().map(str::to_owned))
        .filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::check::check_case;
    use serde_json::json;

    #[test]
    fn a_failure_becomes_a_tagged_and_scrubbed_case() {
        let record = json!({
            "id": "req-7",
            "prompt": "Mail the report to alice@example.org",
            "error": {"kind": "Tool Timeout", "message": "gave up"},
            "context": [{"path": "/home/alice/report.txt"}],
        });
        let (case, report) = case_from_failure(&record).unwrap();
        assert_eq!(case.input.goal, "Mail the report to [EMAIL-1]");
        assert_eq!(case.tags, ["regression", "tool-timeout"]);
        assert!(case.case_id.starts_with("tool-timeout-"));
        assert_eq!(
            (case.source, case.expected.mode),
            (Source::Regression, Mode::Human)
        );
        assert_eq!(report.total(), 2);
        assert!(!serde_json::to_string(&case).unwrap().contains("alice"));
        assert_eq!(check_case(&case, "f", ""), []);
        assert_eq!(case_from_failure(&record).unwrap().0.case_id, case.case_id);
    }

    #[test]
    fn a_known_correct_answer_becomes_the_expectation() {
        let of = |record: Value| case_from_failure(&record).map(|(case, _)| case);
        let text = of(json!({"input": {"goal": "2+2"}, "expected_output": "4", "failure_category": "math"}))
            .unwrap();
        assert_eq!(
            (text.expected.mode, text.expected.value),
            (Mode::Exact, Some(json!("4")))
        );
        let empty = of(json!({"goal": "list them", "expected": []})).unwrap();
        assert_eq!(
            (empty.expected.mode, empty.expected.value),
            (Mode::Exact, Some(json!([])))
        );
        let full = of(json!({"goal": "2+2", "expected": {"mode": "numeric", "value": 4}})).unwrap();
        assert_eq!(
            (full.expected.mode, full.tags[1].as_str()),
            (Mode::Numeric, "failure")
        );
        let chat = of(
            json!({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null}]}),
        )
        .unwrap();
        assert_eq!(chat.input.goal, "hi");
        assert_eq!(of(json!({"error": "x"})), Err(FailureError::NoGoal));
        assert_eq!(of(json!([1])), Err(FailureError::NotAnObject));
    }
}
