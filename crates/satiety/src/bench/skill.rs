//! Reads `evals/evals.json`, the file in which Agent Skills define their cases. Several spellings of its keys
//! exist; all known ones are accepted, and unknown keys are kept as metadata.
//!
//! Such files state expectations in prose, so answers are judged: each assertion becomes a criterion, and the
//! expected output describes a good answer. Prose is never compared literally.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::expected::{BenchmarkExpected, Mode};
use super::reader::{Named, SuiteError, parse};
use super::suite::{BenchmarkCase, BenchmarkSuite};

/// Variant name of runs with the skill loaded.
pub const WITH_SKILL: &str = "with_skill";
/// Variant name of control runs without the skill.
pub const WITHOUT_SKILL: &str = "without_skill";

/// Keys that hold assertions, in the order in which they become criteria.
const ASSERTIONS: [&str; 6] = [
    "assertions",
    "expectations",
    "expected_behaviors",
    "expected_behavior",
    "expected_chat_output",
    "expected_repo_state",
];

/// Cases read from an `evals.json` file.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillEvals {
    /// Suite whose target is the skill.
    pub suite: BenchmarkSuite,
    /// Deviations from the format that were tolerated.
    pub warnings: Vec<String>,
}

/// Reads an `evals.json`. `folder` is the name of the skill's directory, used when the file does not name the
/// skill. `threshold` is the fraction of criteria that must be met (1 for all).
pub fn read_skill_evals(file: Named<'_>, folder: &str, threshold: f64) -> Result<SkillEvals, SuiteError> {
    let field_error = |field: String, reason: &str| SuiteError::Field {
        file: file.file.to_owned(),
        field,
        reason: reason.to_owned(),
    };
    let (name, key, items, notes) = match parse(file)? {
        Value::Array(items) => (None, String::new(), items, Map::new()),
        Value::Object(mut fields) => {
            let name = ["skill_name", "skill"].iter().find_map(|key| {
                let name = fields.get(*key)?.as_str()?.to_owned();
                fields.remove(*key);
                Some(name)
            });
            let found = ["evals", "output_evals"]
                .iter()
                .find_map(|key| Some((*key, fields.remove(*key)?)));
            let Some((key, Value::Array(items))) = found else {
                return Err(field_error("evals".to_owned(), "must be a list of cases"));
            };
            (name, key.to_owned(), items, fields)
        }
        _ => {
            return Err(field_error(
                "top level".to_owned(),
                "must be an object with a list `evals`",
            ));
        }
    };
    let mut warnings = Vec::new();
    let name = name.unwrap_or_else(|| {
        warnings.push(format!(
            "`skill_name` is missing; using the directory name `{folder}`"
        ));
        folder.to_owned()
    });
    let mut suite = BenchmarkSuite::new(name.clone());
    suite.target = name;
    suite.metadata = notes.into_iter().collect();
    let mut used_ids = BTreeSet::new();
    for (index, item) in items.into_iter().enumerate() {
        let place = format!("{key}[{index}]");
        let Value::Object(fields) = item else {
            return Err(field_error(place, "must be an object"));
        };
        let mut case = read_case(fields, index, threshold).map_err(|(field, reason)| {
            field_error(
                if field.is_empty() {
                    place.clone()
                } else {
                    format!("{place}.{field}")
                },
                reason,
            )
        })?;
        if case.expected.mode == Mode::Human {
            warnings.push(format!(
                "{}: no expectation, so the case requires a human label",
                case.case_id
            ));
        }
        let wanted = case.case_id.clone();
        let mut number = 2;
        while !used_ids.insert(case.case_id.clone()) {
            case.case_id = format!("{wanted}-{number}");
            number += 1;
        }
        if case.case_id != wanted {
            warnings.push(format!("duplicate id `{wanted}` renamed to `{}`", case.case_id));
        }
        suite.cases.push(case);
    }
    let problems = super::check::check_suite(&suite, file.file, &[]);
    if problems.is_empty() {
        Ok(SkillEvals { suite, warnings })
    } else {
        Err(SuiteError::Problems(problems))
    }
}

fn read_case(
    mut fields: Map<String, Value>,
    index: usize,
    threshold: f64,
) -> Result<BenchmarkCase, (&'static str, &'static str)> {
    let prompt = ["prompt", "query", "input"]
        .iter()
        .find_map(|key| Some((*key, fields.remove(*key)?)))
        .ok_or(("prompt", "is missing"))?;
    let Value::String(prompt) = prompt.1 else {
        return Err((prompt.0, "must be a string"));
    };
    let id = match fields.remove("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id),
        Some(Value::Number(id)) => Some(id.to_string()),
        Some(_) => return Err(("id", "must be a string or a number")),
    };
    let name = match fields.remove("name") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name).filter(|name| !name.trim().is_empty()),
        Some(_) => return Err(("name", "must be a string")),
    };
    let mut criteria = Vec::new();
    for key in ASSERTIONS {
        if let Some(value) = fields.remove(key) {
            criteria.extend(assertions(&value).ok_or((
                key,
                "must contain strings, or objects with `text` or `description`",
            ))?);
        }
    }
    let reference = match fields.remove("expected_output") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text).filter(|text| !text.trim().is_empty()),
        Some(other) => Some(other.to_string()),
    };
    let files = match fields.remove("files") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or(("files", "must be a list of paths"))?,
        Some(_) => return Err(("files", "must be a list of paths")),
    };
    let expected = match (criteria.is_empty(), reference) {
        (false, Some(text)) => judged(json!({"rubric": text, "criteria": criteria}), threshold),
        (false, None) => judged(json!({"criteria": criteria}), threshold),
        (true, Some(text)) => BenchmarkExpected::with_value(
            Mode::LlmJudge,
            format!("A good answer matches this description of the expected outcome in substance:\n{text}"),
        ),
        (true, None) => BenchmarkExpected::of(Mode::Human),
    };
    let case_id = name
        .clone()
        .or(id.clone())
        .unwrap_or_else(|| (index + 1).to_string());
    let mut case = BenchmarkCase::new(case_id, prompt, expected);
    case.input.files = files;
    case.metadata = fields.into_iter().collect::<BTreeMap<_, _>>();
    if let (Some(id), Some(_)) = (id, name) {
        case.metadata.insert("id".to_owned(), Value::String(id));
    }
    Ok(case)
}

fn judged(value: Value, threshold: f64) -> BenchmarkExpected {
    BenchmarkExpected {
        threshold: Some(threshold),
        ..BenchmarkExpected::with_value(Mode::LlmJudge, value)
    }
}

/// Accepts one string, a list of strings, or a list of objects that contain one.
fn assertions(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::String(text) => Some(text.clone()),
                Value::Object(fields) => ["text", "description", "assertion", "name"]
                    .iter()
                    .find_map(|key| fields.get(*key)?.as_str().map(str::to_owned)),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::rubric::parse_rubric;

    fn read(text: &str) -> Result<SkillEvals, SuiteError> {
        read_skill_evals(
            Named {
                file: "evals.json",
                text,
            },
            "folder",
            1.0,
        )
    }

    #[test]
    fn every_key_spelling_becomes_criteria() {
        let found = read(
            r#"{"skill_name": "pdf", "owner": "docs", "evals": [
            {"id": 1, "prompt": "a", "expectations": ["one", "two"], "files": ["in/a.pdf"]},
            {"id": 2, "name": "named", "prompt": "b", "expected_output": "A table", "assertions": [{"id": "x", "text": "three"}]},
            {"id": "s", "prompt": "c", "expected_behaviors": [{"name": "n", "description": "four"}], "expected_repo_state": "clean"},
            {"prompt": "d", "expected_output": "A summary", "level": 3},
            {"prompt": "e"},
            {"name": "named", "prompt": "f", "expectations": ["five"]}
        ]}"#,
        )
        .unwrap();
        let suite = &found.suite;
        assert_eq!(
            (suite.suite_id.as_str(), suite.target.as_str(), suite.cases.len()),
            ("pdf", "pdf", 6)
        );
        let ids: Vec<&str> = suite.cases.iter().map(|case| case.case_id.as_str()).collect();
        assert_eq!(ids, ["1", "named", "s", "4", "5", "named-2"]);
        let rubric = |index: usize| parse_rubric(&suite.cases[index].expected).unwrap();
        assert_eq!(rubric(0).criteria, ["one", "two"]);
        assert_eq!(
            (rubric(1).text.as_deref(), rubric(1).criteria.len()),
            (Some("A table"), 1)
        );
        assert_eq!(rubric(2).criteria, ["four", "clean"]);
        assert!(rubric(3).text.unwrap().ends_with("A summary") && rubric(3).criteria.is_empty());
        assert_eq!(suite.cases[3].metadata["level"], 3);
        assert_eq!(suite.cases[4].expected.mode, Mode::Human);
        assert_eq!(suite.cases[0].input.files, ["in/a.pdf"]);
        assert_eq!(suite.metadata["owner"], "docs");
        assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    }

    #[test]
    fn the_directory_names_an_unnamed_skill() {
        for text in [
            r#"[{"prompt": "a", "expectations": ["x"]}]"#,
            r#"{"output_evals": [{"prompt": "a", "expectations": ["x"]}]}"#,
        ] {
            let found = read(text).unwrap();
            assert_eq!(found.suite.suite_id, "folder");
            assert!(found.warnings[0].contains("`skill_name` is missing"));
        }
    }

    #[test]
    fn errors_name_file_and_field() {
        for (text, expected) in [
            (r#"{"evals": {}}"#, "evals.json: evals: must be a list of cases"),
            ("3", "evals.json: top level: must be an object"),
            (
                r#"{"evals": [{"id": 1}]}"#,
                "evals.json: evals[0].prompt: is missing",
            ),
            (
                r#"{"evals": [{"prompt": "a", "expectations": [3]}]}"#,
                "evals.json: evals[0].expectations: must contain strings",
            ),
            (
                r#"{"evals": [{"prompt": "a", "files": ["../x"], "expectations": ["y"]}]}"#,
                "must not leave the suite's directory",
            ),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
