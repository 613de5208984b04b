//! Suite reader: accepted files and error messages.

use serde_json::json;

use super::*;

const YAML: &str = r#"
suite_id: planner
target: planner-agent
version: 1.4.0
repeats: 5
metadata: {domain: planning}
cases:
  - case_id: two-steps
    input:
      goal: "Plan: fetch, then summarise"
      context: [{role: note, text: "no network"}]
      files: [data/a.txt]
    expected:
      - {mode: contains, value: [fetch, summarise], ignore_case: true, weight: 2}
      - any:
          - {mode: json_path, path: "$.steps[0].name", value: fetch}
          - {mode: regex, value: "(?i)step 1"}
      - {mode: metric_threshold, metric_thresholds: {latency_ms: 5000}}
    tags: [multi-step]
    difficulty: hard
"#;

const TOML: &str = r#"
suite_id = "planner"
target = "planner-agent"
version = "1.4.0"
repeats = 5
metadata = { domain = "planning" }
[[cases]]
case_id = "two-steps"
tags = ["multi-step"]
difficulty = "hard"
[cases.input]
goal = "Plan: fetch, then summarise"
context = [{ role = "note", text = "no network" }]
files = ["data/a.txt"]
[[cases.expected]]
mode = "contains"
value = ["fetch", "summarise"]
ignore_case = true
weight = 2
[[cases.expected]]
any = [{ mode = "json_path", path = "$.steps[0].name", value = "fetch" }, { mode = "regex", value = "(?i)step 1" }]
[[cases.expected]]
mode = "metric_threshold"
metric_thresholds = { latency_ms = 5000 }
"#;

fn read(file: &str, text: &str) -> Result<BenchmarkSuite, SuiteError> {
    read_suite(Named { file, text }, &[])
}

#[test]
fn the_three_formats_are_equivalent() {
    let yaml = read("suite.yaml", YAML).unwrap();
    assert_eq!(yaml, read("suite.toml", TOML).unwrap());
    let json = serde_json::to_string(&yaml).unwrap();
    assert_eq!(yaml, read("suite.json", &json).unwrap());

    assert_eq!(yaml.name, "planner");
    let case = &yaml.cases[0];
    assert_eq!(
        (case.difficulty, case.source),
        (Difficulty::Hard, Source::Synthetic)
    );
    assert_eq!((case.expected.mode, case.expected.parts.len()), (Mode::All, 3));
    assert_eq!(
        (case.expected.parts[0].weight, case.expected.parts[1].mode),
        (2.0, Mode::Any)
    );
    assert_eq!(yaml.repeats_of(case), 5);
}

#[test]
fn cases_are_read_from_separate_files() {
    let one = r#"{"case_id": "b", "input": {"goal": "g"}, "expected": {"mode": "exact", "value": "x"}}"#;
    let two = "- {case_id: c, input: {goal: g}, expected: {mode: human}}\n- {case_id: d, input: {goal: g}, expected: {mode: human}}\n";
    let suite = Named {
        file: "suite.yaml",
        text: YAML,
    };
    let files = [
        Named {
            file: "cases/b.json",
            text: one,
        },
        Named {
            file: "cases/more.yml",
            text: two,
        },
    ];
    let read = read_suite(suite, &files).unwrap();
    let ids: Vec<&str> = read.cases.iter().map(|case| case.case_id.as_str()).collect();
    assert_eq!(ids, ["two-steps", "b", "c", "d"]);

    let again = [
        files[0],
        Named {
            file: "cases/again.json",
            text: one,
        },
    ];
    let message = read_suite(suite, &again).unwrap_err().to_string();
    assert_eq!(
        message,
        "cases/again.json: case_id: duplicate id `b`, already used in cases/b.json: case_id"
    );
}

#[test]
fn errors_name_file_and_field_with_a_suggestion() {
    let case = |fields: &str| {
        format!(r#"{{"suite_id": "s", "cases": [{{"case_id": "a", "input": {{"goal": "g"}}, {fields}}}]}}"#)
    };
    for (text, expected) in [
        (
            "{\"suite_id\": }".to_owned(),
            "s.json: expected value at line 1 column 14",
        ),
        ("{}".to_owned(), "s.json: top level: missing field `suite_id`"),
        (
            case(r#""expected": {"mode": "human"}, "tag": []"#),
            "s.json: cases[0].tag: unknown field `tag`, expected one of",
        ),
        (
            case(r#""expected": {"mode": "human"}, "tag": []"#),
            "did you mean `tags`?",
        ),
        (
            case(r#""expected": [{"mode": "human"}, {"mode": "containz"}]"#),
            "s.json: cases[0].expected[1].mode: unknown variant `containz`",
        ),
        (
            case(r#""expected": {"mode": "containz"}"#),
            "did you mean `contains`?",
        ),
        (
            case(r#""expected": {"value": 1}"#),
            "s.json: cases[0].expected: is missing `mode`",
        ),
        (
            case(r#""expected": 3"#),
            "an expectation or a list of expectations",
        ),
        (
            case(r#""expected": {"mode": "regex", "value": "("}"#),
            "s.json: cases[0].expected.value: is not a valid regular expression",
        ),
        (
            case(r#""expected": {"any": [{"mode": "human"}, {"mode": "json_path", "path": "$.["}]}"#),
            "s.json: cases[0].expected.any[1].path: is not a valid JSON Path",
        ),
        (
            case(r#""expected": {"mode": "json_schema", "value": {"type": "strong"}}"#),
            "s.json: cases[0].expected.value: is not a valid JSON Schema",
        ),
        (
            case(r#""expected": {"mode": "json_schema", "value": {"$ref": "https://example.org/x.json"}}"#),
            "s.json: cases[0].expected.value: is not a valid JSON Schema",
        ),
        (
            r#"{"suite_id": "s", "version": "1.0", "repeats": 0}"#.to_owned(),
            "s.json: version: `1.0` is not a valid semantic version",
        ),
    ] {
        let message = read("s.json", &text).unwrap_err().to_string();
        assert!(
            message.contains(expected),
            "{text}\n  gave: {message}\n  not: {expected}"
        );
    }
    assert!(
        read("s.yaml", "suite_id: [")
            .unwrap_err()
            .to_string()
            .starts_with("s.yaml: ")
    );
    assert!(
        read("s.toml", "suite_id = ")
            .unwrap_err()
            .to_string()
            .starts_with("s.toml: ")
    );
    assert!(
        read("s.txt", "")
            .unwrap_err()
            .to_string()
            .contains("expected one of: .json")
    );
}

#[test]
fn all_problems_are_reported_and_files_stay_inside() {
    let suite = json!({"suite_id": "s", "version": "x", "cases": [
        {"case_id": "", "input": {"goal": "g", "files": ["../secret", "/etc/passwd", "ok/a.txt"]}, "expected": {"mode": "human"}},
    ]});
    let Err(SuiteError::Problems(problems)) = read("s.json", &suite.to_string()) else {
        panic!("accepted")
    };
    let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "version",
            "cases[0].case_id",
            "cases[0].input.files[0]",
            "cases[0].input.files[1]"
        ]
    );
}
