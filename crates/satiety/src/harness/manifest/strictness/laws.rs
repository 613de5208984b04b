//! Laws of the order, checked on every pair and triple of a set of expectations rather than on selected ones.

use serde_json::json;

use super::*;
use crate::bench::matching::{Answers, Observed, assess};
use crate::bench::run::Status;

fn leaves() -> Vec<Value> {
    vec![
        json!({"mode": "exact", "value": "cab"}),
        json!({"mode": "exact", "value": "cab", "ignore_case": true}),
        json!({"mode": "exact", "value": " cab ", "keep_whitespace": true}),
        json!({"mode": "exact", "value": {"a": 1}}),
        json!({"mode": "contains", "value": "a"}),
        json!({"mode": "contains", "value": "ab"}),
        json!({"mode": "contains", "value": "A", "ignore_case": true}),
        json!({"mode": "contains", "value": " a", "keep_whitespace": true}),
        json!({"mode": "contains", "value": ["a", "b"]}),
        json!({"mode": "contains", "value": ["b", "a", "c"]}),
        json!({"mode": "contains", "value": []}),
        json!({"mode": "contains", "value": "ΑΣ"}),
        json!({"mode": "contains", "value": "ας", "ignore_case": true}),
        json!({"mode": "numeric", "value": 1}),
        json!({"mode": "numeric", "value": 1, "tolerance": 0.1}),
        json!({"mode": "numeric", "value": 1, "tolerance": 0.1, "relative_tolerance": 0.2}),
        json!({"mode": "json_path", "path": "$.a"}),
        json!({"mode": "json_path", "path": "$.a", "value": 1}),
        json!({"mode": "json_path", "path": "$.a", "value": []}),
        json!({"mode": "json_path", "path": "$.a", "value": [1, 2]}),
        json!({"mode": "regex", "value": "a.?b"}),
        json!({"mode": "llm_judge", "value": "good?"}),
        json!({"mode": "llm_judge", "value": "good?", "threshold": 0.9}),
        json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 100}}),
        json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 90}}),
        json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 90, "score": 0.5}}),
    ]
}

/// Leaves, their negations, groups of two, groups that pass by their score, and nested groups.
fn universe() -> Vec<BenchmarkExpected> {
    let leaves = leaves();
    let with = |value: &Value, key: &str, to: Value| {
        let mut value = value.clone();
        value[key] = to;
        value
    };
    let mut all = leaves.clone();
    all.extend(leaves.iter().map(|leaf| with(leaf, "negate", json!(true))));
    let few: Vec<&Value> = [0, 4, 6, 8, 13, 14, 17, 21, 22, 24]
        .iter()
        .map(|&index| &leaves[index])
        .collect();
    let mut groups = Vec::new();
    for (index, a) in few.iter().enumerate() {
        for b in &few[index + 1..] {
            groups.push(json!({"all": [a, b]}));
            groups.push(json!({"any": [a, b]}));
        }
    }
    let scored: Vec<Value> = [0.4, 0.6]
        .iter()
        .flat_map(|threshold| {
            groups
                .iter()
                .step_by(17)
                .map(move |group| with(group, "threshold", json!(threshold)))
        })
        .collect();
    let light = with(few[1], "weight", json!(0));
    let nested: Vec<Value> = groups
        .iter()
        .chain(&scored)
        .step_by(11)
        .flat_map(|group| {
            [
                json!({"all": [group, few[1]]}),
                json!({"any": [group, few[5]]}),
                json!({"all": [group, light]}),
                json!({"all": [group, few[2]], "negate": true}),
            ]
        })
        .collect();
    all.extend(groups);
    all.extend(scored);
    all.extend(nested);
    all.into_iter()
        .map(|value| serde_json::from_value(value).unwrap())
        .collect()
}

/// Whether it passes for every answer, metric and judge of a small world.
fn passes(expected: &BenchmarkExpected) -> Vec<bool> {
    let outputs = [
        json!("cab"),
        json!("CAB"),
        json!(" cab "),
        json!("a"),
        json!("b"),
        json!(" a"),
        json!("x a b"),
        json!("abc"),
        json!("1"),
        json!("1.05"),
        json!("1.15"),
        json!("ΑΣΑ"),
        json!("ας"),
        json!({"a": 1}),
        json!({"a": []}),
        json!({"a": [1, 2]}),
        json!({"b": 1}),
        json!(""),
    ];
    let mut places = vec![String::new()];
    for first in 0..3 {
        places.push(first.to_string());
        places.extend((0..3).map(|second| format!("{first}.{second}")));
    }
    let mut found = Vec::new();
    for output in outputs {
        for (latency, score) in [(50.0, 0.2), (95.0, 0.9), (150.0, 0.9)] {
            for judged in [0.5, 0.8, 1.0] {
                let observed = Observed {
                    output: output.clone(),
                    metrics: [("latency_ms".to_owned(), latency), ("score".to_owned(), score)].into(),
                };
                let answers = Answers {
                    judged: places.iter().map(|place| (place.clone(), judged)).collect(),
                    ..Answers::default()
                };
                found.push(assess(expected, &observed, &answers).status == Status::Pass);
            }
        }
    }
    found
}

#[test]
fn implied_expectations_always_hold() {
    let universe = universe();
    let worlds: Vec<Vec<bool>> = universe.iter().map(passes).collect();
    let mut implications = 0;
    for (a, in_a) in universe.iter().zip(&worlds) {
        assert!(implies(a, a));
        for (b, in_b) in universe.iter().zip(&worlds) {
            if implies(a, b) {
                implications += 1;
                let broken = in_a.iter().zip(in_b).position(|(a, b)| *a && !b);
                assert_eq!(broken, None, "{a:?} does not imply {b:?}");
            }
        }
    }
    // Far more than the reflexive pairs: the law is not vacuous.
    assert!(implications > 3 * universe.len(), "{implications}");
}

#[test]
fn implication_and_order_are_transitive() {
    let universe = universe();
    let table = |relation: &dyn Fn(&BenchmarkExpected, &BenchmarkExpected) -> bool| -> Vec<Vec<bool>> {
        universe
            .iter()
            .map(|a| universe.iter().map(|b| relation(a, b)).collect())
            .collect()
    };
    let tables = [
        table(&implies),
        table(&|new, old| matches!(order(old, new), Order::Same | Order::Stricter)),
    ];
    for table in tables {
        for (a, from_a) in table.iter().enumerate() {
            for (b, _) in from_a.iter().enumerate().filter(|(_, holds)| **holds) {
                for (c, holds) in table[b].iter().enumerate() {
                    assert!(
                        !holds || from_a[c],
                        "{:?} → {:?} → {:?}",
                        universe[a],
                        universe[b],
                        universe[c]
                    );
                }
            }
        }
    }
}

/// An additional requirement is stricter or the same, and an additional alternative is weaker or the same.
#[test]
fn a_requirement_is_stricter_and_an_alternative_is_weaker() {
    let (more, other) = (
        BenchmarkExpected::with_value(Mode::Regex, "z"),
        BenchmarkExpected::with_value(Mode::Regex, "y"),
    );
    for expected in universe() {
        let both = BenchmarkExpected {
            parts: vec![expected.clone(), more.clone()],
            ..BenchmarkExpected::of(Mode::All)
        };
        assert_eq!(order(&expected, &both), Order::Stricter, "{expected:?}");
        assert_eq!(order(&both, &expected), Order::Weaker, "{expected:?}");
        let either = BenchmarkExpected {
            parts: vec![expected.clone(), other.clone()],
            ..BenchmarkExpected::of(Mode::Any)
        };
        assert_eq!(order(&expected, &either), Order::Weaker, "{expected:?}");
    }
    let sound = BenchmarkExpected::with_value(Mode::Contains, "a");
    let unchecked = BenchmarkExpected::all(vec![
        sound.clone(),
        BenchmarkExpected::unsupported("unknown check"),
    ]);
    assert_eq!(order(&sound, &unchecked), Order::Incomparable);
}
