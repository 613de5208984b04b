//! Table-driven tests of answers against expectations.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::matching::{Answers, Observed, assess, default_direction};
use super::{BenchmarkExpected, Direction, Status};

fn expected(value: Value) -> BenchmarkExpected {
    serde_json::from_value(value).unwrap()
}

fn status(expectation: &Value, output: &Value) -> Status {
    let observed = Observed {
        output: output.clone(),
        metrics: BTreeMap::from([("latency_ms".into(), 120.0), ("accuracy".into(), 0.9)]),
    };
    assess(&expected(expectation.clone()), &observed, &Answers::default()).status
}

#[test]
fn single_expectations() {
    use Status::{Fail, Pass, Skipped};
    for (expectation, output, wanted) in [
        (json!({"mode": "exact", "value": "hi"}), json!("hi\n"), Pass),
        (
            json!({"mode": "exact", "value": "hi", "keep_whitespace": true}),
            json!("hi\n"),
            Fail,
        ),
        (json!({"mode": "exact", "value": "Hi"}), json!("hi"), Fail),
        (
            json!({"mode": "exact", "value": "Hi", "ignore_case": true}),
            json!("hI"),
            Pass,
        ),
        (
            json!({"mode": "exact", "value": {"a": 1}}),
            json!("{\"a\": 1.0}"),
            Pass,
        ),
        (json!({"mode": "exact", "value": {"a": 1}}), json!({"a": 2}), Fail),
        (json!({"mode": "exact", "value": 3}), json!("3"), Pass),
        (json!({"mode": "contains", "value": "b"}), json!("abc"), Pass),
        (
            json!({"mode": "contains", "value": ["a", "d"]}),
            json!("abc"),
            Fail,
        ),
        (
            json!({"mode": "contains", "value": "x", "negate": true}),
            json!("abc"),
            Pass,
        ),
        (
            json!({"mode": "contains", "value": "b", "negate": true}),
            json!("abc"),
            Fail,
        ),
        (json!({"mode": "regex", "value": "^a.c$"}), json!("abc"), Pass),
        (json!({"mode": "regex", "value": "^A"}), json!("abc"), Fail),
        (
            json!({"mode": "json_path", "path": "$.a[*].b", "value": 2}),
            json!({"a": [{"b": 1}, {"b": 2}]}),
            Pass,
        ),
        (
            json!({"mode": "json_path", "path": "$.a[*].b", "value": [1, 2]}),
            json!({"a": [{"b": 1}, {"b": 2}]}),
            Pass,
        ),
        (json!({"mode": "json_path", "path": "$.c"}), json!({"a": 1}), Fail),
        (
            json!({"mode": "json_path", "path": "$.a"}),
            json!("not json"),
            Fail,
        ),
        (
            json!({"mode": "numeric", "value": 1, "tolerance": 0.1}),
            json!("it is 1.1"),
            Pass,
        ),
        (
            json!({"mode": "numeric", "value": 1, "tolerance": 0.1}),
            json!("it is 1.2"),
            Fail,
        ),
        (
            json!({"mode": "numeric", "value": 200, "relative_tolerance": 0.01}),
            json!(202),
            Pass,
        ),
        (json!({"mode": "numeric", "value": 7}), json!("seven"), Fail),
        (
            json!({"mode": "json_schema", "value": {"type": "object", "required": ["a"]}}),
            json!("{\"a\": 1}"),
            Pass,
        ),
        (
            json!({"mode": "json_schema", "value": {"type": "object", "required": ["a"]}}),
            json!("{}"),
            Fail,
        ),
        (json!({"mode": "json_schema", "value": true}), json!("[1]"), Pass),
        (json!({"mode": "json_schema", "value": true}), json!("[1"), Fail),
        (
            json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 120}}),
            json!(""),
            Pass,
        ),
        (
            json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 119}}),
            json!(""),
            Fail,
        ),
        (
            json!({"mode": "metric_threshold", "metric_thresholds": {"accuracy": 0.95}}),
            json!(""),
            Fail,
        ),
        (
            json!({"mode": "metric_threshold", "metric_thresholds": {"accuracy": 0.95}, "directions": {"accuracy": "lower"}}),
            json!(""),
            Pass,
        ),
        (
            json!({"mode": "metric_threshold", "metric_thresholds": {"cost_usd": 1}}),
            json!(""),
            Fail,
        ),
        (
            json!({"mode": "unsupported", "reason": "javascript"}),
            json!("x"),
            Skipped,
        ),
        (
            json!([{"mode": "exact", "value": "y"}, {"mode": "unsupported"}]),
            json!("x"),
            Skipped,
        ),
    ] {
        assert_eq!(status(&expectation, &output), wanted, "{expectation} on {output}");
    }
}

#[test]
fn groups_weight_their_parts() {
    let has = |text: &str, weight: f64| json!({"mode": "contains", "value": text, "weight": weight});
    for (expectation, wanted, score) in [
        (json!([has("a", 3.0), has("z", 1.0)]), Status::Fail, 0.75),
        (
            json!({"all": [has("a", 3.0), has("z", 1.0)], "threshold": 0.75}),
            Status::Pass,
            0.75,
        ),
        (
            json!({"all": [has("a", 3.0), has("z", 1.0)], "threshold": 0.8}),
            Status::Fail,
            0.75,
        ),
        (json!({"any": [has("a", 1.0), has("z", 1.0)]}), Status::Pass, 1.0),
        (json!({"any": [has("y", 1.0), has("z", 1.0)]}), Status::Fail, 0.0),
        (json!({"all": [has("a", 1.0), has("z", 0.0)]}), Status::Pass, 1.0),
        (
            json!({"any": [has("y", 1.0), has("z", 1.0)], "negate": true}),
            Status::Pass,
            1.0,
        ),
        (
            json!({"all": [has("a", 1.0), {"any": [has("z", 1.0), has("b", 1.0)]}]}),
            Status::Pass,
            1.0,
        ),
    ] {
        let observed = Observed {
            output: json!("ab"),
            ..Observed::default()
        };
        let found = assess(&expected(expectation.clone()), &observed, &Answers::default());
        assert_eq!(
            (found.status, found.score),
            (wanted, Some(score)),
            "{expectation}"
        );
        assert_eq!(
            found.reasons.is_empty(),
            wanted == Status::Pass,
            "{expectation}: {:?}",
            found.reasons
        );
    }
}

#[test]
fn judges_and_people_complete_pending_parts() {
    let observed = Observed {
        output: json!("ab"),
        ..Observed::default()
    };
    let case = expected(json!([
        {"mode": "contains", "value": "a"},
        {"mode": "llm_judge", "value": ["polite", "short"], "threshold": 0.5},
        {"mode": "human"},
    ]));
    let mut answers = Answers::default();
    let first = assess(&case, &observed, &answers);
    let places: Vec<&str> = first.pending.iter().map(|part| part.place.as_str()).collect();
    assert_eq!(
        (first.status, first.score, places),
        (Status::Pending, None, vec!["1", "2"])
    );

    answers.judged.insert("1".into(), 0.5);
    assert_eq!(assess(&case, &observed, &answers).pending.len(), 1);
    answers.labelled.insert(String::new(), true);
    let done = assess(&case, &observed, &answers);
    assert_eq!(done.status, Status::Pass);
    assert!((done.score.unwrap() - 2.5 / 3.0).abs() < 1e-12);
    answers.judged.insert("1".into(), 0.49);
    let failed = assess(&case, &observed, &answers);
    assert_eq!(
        (failed.status, failed.reasons),
        (
            Status::Fail,
            vec!["judge score 0.49 is below the threshold 0.50".to_owned()]
        )
    );
}

#[test]
fn decided_expectations_need_no_judge() {
    let observed = Observed {
        output: json!("ab"),
        ..Observed::default()
    };
    for (case, wanted) in [
        (
            json!([{"mode": "contains", "value": "z"}, {"mode": "llm_judge", "value": "nice"}]),
            Status::Fail,
        ),
        (
            json!({"any": [{"mode": "contains", "value": "a"}, {"mode": "human"}]}),
            Status::Pass,
        ),
        (
            json!({"all": [{"mode": "contains", "value": "z", "weight": 3}, {"mode": "human"}], "threshold": 0.5}),
            Status::Fail,
        ),
    ] {
        let found = assess(&expected(case.clone()), &observed, &Answers::default());
        assert_eq!((found.status, found.pending.len()), (wanted, 0), "{case}");
    }
}

#[test]
fn lower_latency_and_cost_is_better() {
    for name in [
        "latency_ms",
        "cost_usd",
        "token_cost",
        "output_tokens",
        "p95_latency",
        "total_duration",
    ] {
        assert_eq!(default_direction(name), Direction::Lower, "{name}");
    }
    for name in ["accuracy", "score", "steps_done"] {
        assert_eq!(default_direction(name), Direction::Higher, "{name}");
    }
}
