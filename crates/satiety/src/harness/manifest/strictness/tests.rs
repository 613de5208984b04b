use serde_json::json;

use super::*;

fn parse(value: Value) -> BenchmarkExpected {
    serde_json::from_value(value).unwrap()
}

#[test]
fn order_of_expectations() {
    for (old, new, expected) in [
        (
            json!({"mode": "contains", "value": "a"}),
            json!({"mode": "contains", "value": ["a", "b"]}),
            Order::Stricter,
        ),
        (
            json!({"mode": "contains", "value": "a"}),
            json!({"mode": "contains", "value": "ab"}),
            Order::Stricter,
        ),
        (
            json!({"mode": "contains", "value": "a"}),
            json!({"mode": "contains", "value": "b"}),
            Order::Incomparable,
        ),
        (
            json!({"mode": "contains", "value": "a"}),
            json!({"mode": "contains", "value": "A", "ignore_case": true}),
            Order::Weaker,
        ),
        (
            json!({"mode": "exact", "value": "cab"}),
            json!({"mode": "contains", "value": "a"}),
            Order::Weaker,
        ),
        (
            json!({"mode": "exact", "value": "cab"}),
            json!({"mode": "contains", "value": "x"}),
            Order::Incomparable,
        ),
        (
            json!({"mode": "exact", "value": "a"}),
            json!({"mode": "exact", "value": "a", "ignore_case": true}),
            Order::Weaker,
        ),
        (
            json!({"mode": "numeric", "value": 1, "tolerance": 0.1}),
            json!({"mode": "numeric", "value": 1, "tolerance": 0.05}),
            Order::Stricter,
        ),
        (
            json!({"mode": "numeric", "value": 1}),
            json!({"mode": "numeric", "value": 1, "relative_tolerance": 0.05}),
            Order::Weaker,
        ),
        (
            json!({"mode": "llm_judge", "value": "good?"}),
            json!({"mode": "llm_judge", "value": "good?", "threshold": 0.8}),
            Order::Stricter,
        ),
        (
            json!({"mode": "llm_judge", "value": "good?"}),
            json!({"mode": "llm_judge", "value": "good?", "threshold": 0.7}),
            Order::Same,
        ),
        (
            json!({"mode": "llm_judge", "value": "good?"}),
            json!({"mode": "llm_judge", "value": "fine?"}),
            Order::Incomparable,
        ),
        (
            json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 100}}),
            json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 90}}),
            Order::Stricter,
        ),
        (
            json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 100}}),
            json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 90, "never_measured": 0.5}}),
            Order::Incomparable,
        ),
        (
            json!({"mode": "exact", "value": " a ", "keep_whitespace": true}),
            json!({"mode": "exact", "value": " a "}),
            Order::Weaker,
        ),
        (
            json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 100}}),
            json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 110}}),
            Order::Weaker,
        ),
        (
            json!({"mode": "metric_threshold", "metric_thresholds": {"x": 1}}),
            json!({"mode": "metric_threshold", "metric_thresholds": {"x": 2}, "directions": {"x": "lower"}}),
            Order::Incomparable,
        ),
        (
            json!({"mode": "json_path", "path": "$.a"}),
            json!({"mode": "json_path", "path": "$.a", "value": 1}),
            Order::Stricter,
        ),
        (
            json!({"mode": "regex", "value": "a+"}),
            json!({"mode": "regex", "value": "a*"}),
            Order::Incomparable,
        ),
        (
            json!({"mode": "contains", "value": "a", "negate": true}),
            json!({"mode": "contains", "value": "ab", "negate": true}),
            Order::Weaker,
        ),
        (
            json!({"mode": "contains", "value": "a"}),
            json!({"mode": "contains", "value": "a", "negate": true}),
            Order::Incomparable,
        ),
        (
            json!({"mode": "contains", "value": "a"}),
            json!([{"mode": "contains", "value": "a"}, {"mode": "regex", "value": "x"}]),
            Order::Stricter,
        ),
        (
            json!({"mode": "contains", "value": "a"}),
            json!({"any": [{"mode": "contains", "value": "a"}, {"mode": "regex", "value": "x"}]}),
            Order::Weaker,
        ),
        (
            json!({"all": [{"mode": "contains", "value": "a"}, {"mode": "contains", "value": "b"}]}),
            json!({"mode": "contains", "value": ["b", "a"]}),
            Order::Same,
        ),
        // A part of weight 0, or a group that passes by its score, proves nothing.
        (
            json!({"mode": "contains", "value": "a"}),
            json!({"all": [{"mode": "contains", "value": "a", "weight": 0}, {"mode": "regex", "value": "x"}]}),
            Order::Incomparable,
        ),
        (
            json!({"mode": "contains", "value": "a"}),
            json!({"all": [{"mode": "contains", "value": "a"}, {"mode": "regex", "value": "x"}], "threshold": 0.5}),
            Order::Incomparable,
        ),
        (
            json!({"all": [{"mode": "regex", "value": "a"}, {"mode": "regex", "value": "x"}], "threshold": 0.5}),
            json!({"all": [{"mode": "regex", "value": "a"}, {"mode": "regex", "value": "x"}], "threshold": 0.6}),
            Order::Stricter,
        ),
    ] {
        assert_eq!(
            order(&parse(old.clone()), &parse(new.clone())),
            expected,
            "{old} → {new}"
        );
    }
}
