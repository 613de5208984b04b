//! Reads `evals/evals.json`, the file in which Agent Skills define their cases. Several spellings of its keys
//! exist; all known ones are accepted, and unknown keys are kept as metadata.
//!
//! Such files state expectations in prose, so answers are judged: each assertion becomes a criterion, and the
//! expected output describes a good answer. Prose is never compared literally.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::check::Problem;
use super::expected::{BenchmarkExpected, Mode};
use super::loss::{Loss, Losses};
use super::reader::{Named, SuiteError, parse};
use super::suite::{BenchmarkCase, BenchmarkSuite};

/// Variant name of runs with the skill loaded.
pub const WITH_SKILL: &str = "with_skill";
/// Variant name of control runs without the skill.
pub const WITHOUT_SKILL: &str = "without_skill";

/// Keys that hold the list of cases.
const CASES: [&str; 9] = [
    "evals",
    "output_evals",
    "cases",
    "test_cases",
    "tests",
    "eval_cases",
    "evaluations",
    "scenarios",
    "tasks",
];

/// Keys that hold the prompt of a case.
const PROMPTS: [&str; 17] = [
    "prompt",
    "query",
    "input",
    "task",
    "question",
    "user_prompt",
    "user_message",
    "user_input",
    "instruction",
    "request",
    "message",
    "messages",
    "turns",
    "conversation",
    "prompts",
    "scenario",
    "goal",
];

/// Keys that hold assertions, in the order in which they become criteria.
const ASSERTIONS: [&str; 11] = [
    "assertions",
    "expectations",
    "expected_behaviors",
    "expected_behavior",
    "expected_chat_output",
    "expected_repo_state",
    "criteria",
    "success_criteria",
    "acceptance_criteria",
    "checks",
    "rubric",
];

/// Keys of an assertion that hold its text.
const TEXTS: [&str; 17] = [
    "text",
    "description",
    "assertion",
    "expectation",
    "check",
    "criterion",
    "criteria",
    "statement",
    "rubric",
    "expected",
    "pass_if",
    "requirement",
    "condition",
    "behavior",
    "rule",
    "question",
    "title",
];

/// Beginnings of keys that state an expectation; an unknown key of this kind is a loss that decides.
const DECIDING: [&str; 9] = [
    "expect", "assert", "must", "should", "check", "criteri", "grad", "verif", "forbid",
];

/// Beginnings of keys that state what must not happen.
const NEGATIVE: [&str; 9] = [
    "fail",
    "avoid",
    "never",
    "anti",
    "negative",
    "forbid",
    "prohibit",
    "disallow",
    "unacceptable",
];

/// Words in which an unknown key ends if each of its texts is an assertion by itself.
const PLAIN: [&str; 5] = ["assertions", "criteria", "expectations", "checks", "rubric"];

/// Cases read from an `evals.json` file.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillEvals {
    /// Suite whose target is the skill.
    pub suite: BenchmarkSuite,
    /// Deviations from the format that were tolerated.
    pub warnings: Vec<String>,
    /// Parts of the file that are kept as metadata but not checked.
    pub losses: Vec<Loss>,
}

/// Reads an `evals.json`. `folder` is the name of the skill's directory, used when the file does not name the
/// skill. `threshold` is the fraction of criteria that must be met (1 for all).
pub fn read_skill_evals(file: Named<'_>, folder: &str, threshold: f64) -> Result<SkillEvals, SuiteError> {
    let problem = |field: String, reason: String| Problem {
        file: file.file.to_owned(),
        field,
        reason,
    };
    let field_error = |field: &str, reason: &str| SuiteError::Field {
        file: file.file.to_owned(),
        field: field.to_owned(),
        reason: reason.to_owned(),
    };
    let (name, key, items, notes) = match parse(file)? {
        Value::Array(items) => (None, "", items, Map::new()),
        Value::Object(mut fields) => {
            let name = ["skill_name", "skill"].iter().find_map(|key| {
                let name = fields.get(*key)?.as_str()?.to_owned();
                fields.remove(*key);
                Some(name)
            });
            let found = CASES.iter().find_map(|key| Some((*key, fields.remove(*key)?)));
            let Some((key, Value::Array(items))) = found else {
                let reason = format!(
                    "must be a list of cases (also accepted: {})",
                    CASES[1..].join(", ")
                );
                return Err(field_error("evals", &reason));
            };
            (name, key, items, fields)
        }
        _ => {
            return Err(field_error("top level", "must be an object with a list `evals`"));
        }
    };
    let mut warnings = Vec::new();
    let mut losses = Losses::default();
    let name = name.unwrap_or_else(|| {
        warnings.push(format!(
            "`skill_name` is missing; using the directory name `{folder}`"
        ));
        folder.to_owned()
    });
    let mut suite = BenchmarkSuite::new(name.clone());
    suite.target = name;
    report_unchecked("", notes.keys(), &mut losses);
    suite.metadata = notes.into_iter().collect();
    let mut used_ids = BTreeSet::new();
    let mut unreadable = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let place = format!("{key}[{index}]");
        let fields = match item {
            Value::Object(fields) => fields,
            prompt @ Value::String(_) => Map::from_iter([("prompt".to_owned(), prompt)]),
            _ => {
                unreadable.push(problem(place, "must be an object".to_owned()));
                continue;
            }
        };
        let mut case = match read_case(fields, index, threshold) {
            Ok(case) => case,
            Err((field, reason)) => {
                unreadable.push(problem(format!("{place}.{field}"), reason));
                continue;
            }
        };
        report_unchecked(&format!("{key}[]."), case.metadata.keys(), &mut losses);
        if let Some(reason) = &case.skip {
            losses.push_deciding(place, format!("the case is skipped: {reason}"));
        }
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
    // One case that cannot be read does not take the others with it.
    let mut problems = Vec::new();
    if !suite.cases.is_empty() {
        for problem in unreadable {
            losses.push_deciding(problem.field, format!("{}; the case is missing", problem.reason));
        }
    } else if !unreadable.is_empty() {
        problems = unreadable;
    } else {
        problems.push(problem(
            key.to_owned(),
            "is empty: a suite needs at least one case".to_owned(),
        ));
    }
    problems.extend(super::check::check_suite(&suite, file.file, &[]));
    if problems.is_empty() {
        Ok(SkillEvals {
            suite,
            warnings,
            losses: losses.into_vec(),
        })
    } else {
        Err(SuiteError::Problems(problems))
    }
}

/// Reports keys that became metadata; those that state an expectation decide.
fn report_unchecked<'a>(prefix: &str, keys: impl Iterator<Item = &'a String>, losses: &mut Losses) {
    for key in keys.filter(|key| *key != "id") {
        let place = format!("{prefix}{key}");
        if is_deciding(key) {
            losses.push_deciding(place, "unknown key, kept as metadata but not checked");
        } else {
            losses.push(place, "kept as metadata");
        }
    }
}

/// Reads a case; the error is a field and what is wrong with it.
fn read_case(
    mut fields: Map<String, Value>,
    index: usize,
    threshold: f64,
) -> Result<BenchmarkCase, (&'static str, String)> {
    let (key, prompt) = PROMPTS
        .iter()
        .find_map(|key| Some((*key, fields.remove(*key)?)))
        .ok_or_else(|| ("prompt", "is missing".to_owned()))?;
    let (goal, messages) = prompt_of(prompt).ok_or_else(|| {
        let reason = "must be a string, a list of messages, or an object with `prompt`";
        (key, reason.to_owned())
    })?;
    let id = match fields.remove("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id),
        Some(Value::Number(id)) => Some(id.to_string()),
        Some(_) => return Err(("id", "must be a string or a number".to_owned())),
    };
    let name = match fields.remove("name") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name).filter(|name| !name.trim().is_empty()),
        Some(Value::Number(name)) => Some(name.to_string()),
        Some(_) => return Err(("name", "must be a string".to_owned())),
    };
    let mut criteria = Vec::new();
    for key in ASSERTIONS {
        if let Some(value) = fields.remove(key) {
            let found = assertions(&value).ok_or_else(|| {
                let reason = format!(
                    "must contain strings, or objects with one of: {}, name",
                    TEXTS.join(", ")
                );
                (key, reason)
            })?;
            criteria.extend(found);
        }
    }
    let reference = match fields.remove("expected_output") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text).filter(|text| !text.trim().is_empty()),
        Some(other) => Some(other.to_string()),
    };
    criteria.extend(other_assertions(&mut fields));
    let mut skip = None;
    let mut files = Vec::new();
    let listed = match fields.remove("files") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(one @ (Value::String(_) | Value::Object(_))) => vec![one],
        Some(_) => return Err(("files", "must be a list of paths".to_owned())),
    };
    for item in listed {
        match file_of(&item).ok_or_else(|| {
            (
                "files",
                "must be a list of paths, or of objects with `path`".to_owned(),
            )
        })? {
            Fixture::Path(path) => match super::check::escapes(&path) {
                Some(reason) => skip = Some(format!("file `{path}` {reason}")),
                None => files.push(path),
            },
            Fixture::Inline(path) => {
                skip = Some(format!(
                    "file `{path}` is given by its content; write it next to the skill instead"
                ));
            }
        }
    }
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
    let mut case = BenchmarkCase::new(case_id, goal, expected);
    case.input.messages = messages;
    case.input.files = files;
    case.skip = skip;
    case.metadata = fields.into_iter().collect::<BTreeMap<_, _>>();
    if let (Some(id), Some(_)) = (id, name) {
        case.metadata.insert("id".to_owned(), Value::String(id));
    }
    Ok(case)
}

/// Assertions below keys that no list above has, such as `must_not_mention`: their texts with the words of the key.
fn other_assertions(fields: &mut Map<String, Value>) -> Vec<String> {
    let keys: Vec<String> = fields.keys().filter(|key| is_deciding(key)).cloned().collect();
    let mut criteria = Vec::new();
    for key in keys {
        let is_plain = PLAIN.iter().any(|end| key.ends_with(end));
        let found = match fields.get(&key) {
            // Settings of a grader are objects, too.
            Some(Value::Object(_)) if !is_plain => None,
            Some(value) => assertions(value).filter(|found| !found.is_empty()),
            None => None,
        };
        let Some(found) = found else { continue };
        let words = key.replace('_', " ");
        criteria.extend(found.into_iter().map(|text| {
            if is_negative(&key) {
                format!("this must not be the case ({words}): {text}")
            } else if is_plain {
                text
            } else {
                format!("{words}: {text}")
            }
        }));
        fields.remove(&key);
    }
    criteria
}

/// Whether a key states an expectation.
fn is_deciding(key: &str) -> bool {
    let states = |word: &str| DECIDING.iter().any(|start| word.starts_with(start));
    key.split(['_', '-']).any(states) || is_negative(key)
}

/// Whether a key states what must not happen.
fn is_negative(key: &str) -> bool {
    NEGATIVE.iter().any(|start| key.starts_with(start))
}

/// Goal and messages of a prompt: a text, a conversation, or an object that contains the text.
fn prompt_of(prompt: Value) -> Option<(String, Option<Vec<Value>>)> {
    match prompt {
        Value::String(text) => Some((text, None)),
        Value::Array(turns) if turns.iter().all(Value::is_string) => {
            let goal = turns.last()?.as_str()?.to_owned();
            let messages = turns
                .into_iter()
                .map(|turn| json!({"role": "user", "content": turn}));
            Some((goal, Some(messages.collect())))
        }
        Value::Array(messages) => {
            let goal = messages.last()?.get("content")?.as_str()?.to_owned();
            let complete = messages.iter().all(|message| {
                message.get("role").is_some_and(Value::is_string) && message.get("content").is_some()
            });
            complete.then_some((goal, Some(messages)))
        }
        Value::Object(mut fields) => ["prompt", "text", "content", "goal", "query"]
            .iter()
            .find_map(|key| match fields.remove(*key)? {
                Value::String(text) => Some((text, None)),
                _ => None,
            }),
        _ => None,
    }
}

/// A file of a case.
enum Fixture {
    Path(String),
    /// Given by its content instead of a path in the skill.
    Inline(String),
}

fn file_of(item: &Value) -> Option<Fixture> {
    match item {
        Value::String(path) => Some(Fixture::Path(path.clone())),
        Value::Object(fields) => {
            let path = ["path", "file", "source", "src", "name", "filename"]
                .iter()
                .find_map(|key| fields.get(*key)?.as_str().map(str::to_owned))?;
            let is_inline = ["content", "contents", "text"]
                .iter()
                .any(|key| fields.contains_key(*key));
            Some(if is_inline {
                Fixture::Inline(path)
            } else {
                Fixture::Path(path)
            })
        }
        _ => None,
    }
}

fn judged(value: Value, threshold: f64) -> BenchmarkExpected {
    BenchmarkExpected {
        threshold: Some(threshold),
        ..BenchmarkExpected::with_value(Mode::LlmJudge, value)
    }
}

/// Accepts one string, a list of strings, a list of objects that contain one, or an object of named texts.
fn assertions(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(items) => items.iter().map(any_text).collect(),
        Value::Object(fields) => match assertion_text(value) {
            Some(text) => Some(vec![text]),
            None => fields.values().map(any_text).collect(),
        },
        _ => None,
    }
    .map(|texts: Vec<String>| texts.into_iter().filter(|text| !text.trim().is_empty()).collect())
}

/// Text of an assertion; all texts of an object whose keys are unknown.
fn any_text(item: &Value) -> Option<String> {
    assertion_text(item).or_else(|| {
        let texts = item.as_object()?.iter();
        let texts = texts.filter_map(|(key, value)| Some(format!("{key}: {}", value.as_str()?)));
        let list: Vec<String> = texts.collect();
        (!list.is_empty()).then(|| list.join("; "))
    })
}

/// Text of an assertion. An object with a type and a value, such as `{"type": "contains", "value": "x"}`,
/// becomes a sentence that a judge can decide.
fn assertion_text(item: &Value) -> Option<String> {
    match item {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => {
            let text = |key: &str| fields.get(key)?.as_str().map(str::to_owned);
            let typed = || {
                let value = fields.get("value").or(fields.get("pattern"))?;
                Some(format!(
                    "{}: {}",
                    text("type")?,
                    super::compare_values::as_text(value)
                ))
            };
            TEXTS
                .iter()
                .find_map(|key| text(key))
                .or_else(typed)
                .or_else(|| text("name"))
        }
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
    fn what_must_not_happen_is_a_criterion_too() {
        let found = read(
            r#"[{"id": "a", "prompt": "p", "expect": ["states the scope"], "fail": ["scans first", "guesses"]},
                {"id": "b", "prompt": "q", "assertions": ["asks"], "failure_mode": "writes too early", "anti_patterns": {"x": "pads"}}]"#,
        )
        .unwrap();
        let criteria = |index: usize| parse_rubric(&found.suite.cases[index].expected).unwrap().criteria;
        assert_eq!(
            criteria(0),
            [
                "expect: states the scope",
                "this must not be the case (fail): scans first",
                "this must not be the case (fail): guesses"
            ]
        );
        assert_eq!(criteria(1)[0], "asks");
        assert!(
            criteria(1).contains(&"this must not be the case (failure mode): writes too early".to_owned())
        );
        assert!(
            found.losses.iter().all(|loss| !loss.place.contains("fail")),
            "{:?}",
            found.losses
        );
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
    fn unknown_assertions_keep_their_words() {
        let found = read(
            r#"{"skill_name": "pdf", "cases": [
            {"id": "a", "input": "x", "deterministic_assertions": [{"check": "passes the gate", "cmd": ["python"]}],
             "rubric": [{"dimension": "fidelity", "pass_if": "nothing is invented"}, {"dimension": "tone", "level": "formal"}]},
            {"id": "b", "turns": ["hello", "and now?"], "evaluation_criteria": {"polite": "is polite"}, "must_not_mention": ["price", "rivals"],
             "expected_trigger": true, "grading": {"type": "llm"}},
            {"id": "c"}, "only a prompt"
        ]}"#,
        )
        .unwrap();
        let cases = &found.suite.cases;
        assert_eq!(cases.len(), 3);
        let criteria = |index: usize| parse_rubric(&cases[index].expected).unwrap().criteria;
        assert_eq!(
            criteria(0),
            [
                "nothing is invented",
                "dimension: tone; level: formal",
                "passes the gate"
            ]
        );
        assert_eq!(
            criteria(1),
            ["is polite", "must not mention: price", "must not mention: rivals"]
        );
        assert_eq!(cases[1].input.messages.as_ref().unwrap().len(), 2);
        assert_eq!(cases[2].input.goal, "only a prompt");
        let lost: Vec<String> = found.losses.iter().map(ToString::to_string).collect();
        assert_eq!(
            lost,
            [
                "cases[2].prompt: is missing; the case is missing",
                "cases[].expected_trigger: unknown key, kept as metadata but not checked",
                "cases[].grading: unknown key, kept as metadata but not checked",
            ]
        );
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
                r#"{"evals": [{"prompt": 1}, {"prompt": "a", "files": 3}]}"#,
                "evals[0].prompt: must be a string, a list of messages, or an object with `prompt`\nevals.json: evals[1].files: must be",
            ),
            (r#"{"evals": []}"#, "evals: is empty"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn shapes_of_the_wild_are_read() {
        let found = read(
            r#"{"skill_name": "pdf", "test_cases": [
            {"id": 1, "prompt": "a", "assertions": [{"name": "title", "check": "has a title"}, {"type": "contains", "value": "x"}],
             "files": [{"path": "in/a.pdf", "description": "the input"}, "b.pdf"]},
            {"id": 2, "input": {"prompt": "b"}, "criteria": {"polite": "is polite"}, "files": ["../x"]},
            {"id": 3, "task": "c", "expected_output": "A table", "files": [{"name": "c.csv", "content": "1,2"}]},
            {"id": 4, "prompt": [{"role": "user", "content": "d"}], "expectations": ["e"], "should_trigger": true, "level": 1}
        ]}"#,
        )
        .unwrap();
        let cases = &found.suite.cases;
        let rubric = |index: usize| parse_rubric(&cases[index].expected).unwrap();
        assert_eq!(rubric(0).criteria, ["has a title", "contains: x"]);
        assert_eq!(cases[0].input.files, ["in/a.pdf", "b.pdf"]);
        assert_eq!(rubric(1).criteria, ["is polite"]);
        assert!(cases[1].skip.as_deref().unwrap().contains("must not leave"));
        assert!(cases[2].skip.as_deref().unwrap().contains("given by its content"));
        assert_eq!(
            (cases[3].input.goal.as_str(), cases[3].skip.as_deref()),
            ("d", None)
        );
        let deciding: Vec<&str> = found
            .losses
            .iter()
            .filter(|loss| loss.decides)
            .map(|loss| loss.place.as_str())
            .collect();
        assert_eq!(
            deciding,
            ["test_cases[1]", "test_cases[2]", "test_cases[].should_trigger"]
        );
        assert_eq!(found.losses.last().unwrap().place, "test_cases[].level");
    }
}
