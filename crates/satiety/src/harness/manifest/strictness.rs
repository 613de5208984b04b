//! When does one expectation ask at least as much as another? `a` implies `b` when every answer that passes `a` passes
//! `b`. The rules are sound and not complete: what they cannot show is not shown, and counts as incomparable.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::bench::expected::{BenchmarkExpected, Direction, Mode};
use crate::bench::matching::default_direction;
use crate::bench::rubric::{Rubric, rubric_of};

/// How a new expectation stands to the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// They ask the same.
    Same,
    /// The new one asks more.
    Stricter,
    /// The new one asks less.
    Weaker,
    /// Neither can be shown.
    Incomparable,
}

/// How `new` stands to `old`. A bound on a figure that was not looked at before proves nothing: a case whose figure is
/// not measured is skipped, whatever else it asks.
pub fn order(old: &BenchmarkExpected, new: &BenchmarkExpected) -> Order {
    let measured = figures(new).is_subset(&figures(old));
    match (implies(new, old) && measured, implies(old, new)) {
        (true, true) => Order::Same,
        (true, false) => Order::Stricter,
        (false, true) => Order::Weaker,
        (false, false) => Order::Incomparable,
    }
}

/// The figures that an expectation looks at.
fn figures(expected: &BenchmarkExpected) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    expected.walk(&mut |part| {
        if part.mode == Mode::MetricThreshold {
            names.extend(
                part.metric_thresholds
                    .iter()
                    .flatten()
                    .map(|(name, _)| name.as_str()),
            );
        }
    });
    names
}

/// Whether every answer that passes `a` surely passes `b`.
pub fn implies(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    if same(a, b) {
        return true;
    }
    match (a.negate, b.negate) {
        // Not a implies not b exactly when b implies a.
        (true, true) => return implies(&plain(b), &plain(a)),
        (true, false) | (false, true) if !is_group(a) && !is_group(b) => return false,
        // A negated group is no logic group, see below.
        _ => {}
    }
    // Weighted groups pass by their score, and parts of weight 0 do not count: only identity is known about them.
    if (is_group(a) && !is_logic(a)) || (is_group(b) && !is_logic(b)) {
        return weighted(a, b);
    }
    if b.mode == Mode::All {
        return b.parts.iter().all(|part| implies(a, part));
    }
    // Several texts are one demand each.
    if let (Mode::Contains, false, Some(Value::Array(items))) = (b.mode, b.negate, &b.value)
        && items.len() > 1
    {
        return items.iter().all(|item| {
            let single = BenchmarkExpected {
                value: Some(item.clone()),
                ..b.clone()
            };
            implies(a, &single)
        });
    }
    if a.mode == Mode::Any {
        return !a.parts.is_empty() && a.parts.iter().all(|part| implies(part, b));
    }
    if a.mode == Mode::All && a.parts.iter().any(|part| implies(part, b)) {
        return true;
    }
    if b.mode == Mode::Any {
        return b.parts.iter().any(|part| implies(a, part));
    }
    if is_group(a) || is_group(b) {
        return false;
    }
    leaf(a, b)
}

fn is_group(expected: &BenchmarkExpected) -> bool {
    matches!(expected.mode, Mode::All | Mode::Any)
}

/// A group that means exactly "all hold" or "one holds".
fn is_logic(expected: &BenchmarkExpected) -> bool {
    expected.threshold.is_none()
        && !expected.negate
        && !expected.parts.is_empty()
        && expected.parts.iter().all(|part| part.weight > 0.0)
}

/// The same weighted parts with a higher threshold.
fn weighted(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    let (Some(high), Some(low)) = (a.threshold, b.threshold) else {
        return false;
    };
    let level = |expected: &BenchmarkExpected| BenchmarkExpected {
        threshold: None,
        ..expected.clone()
    };
    !a.negate && !b.negate && high >= low && same(&level(a), &level(b))
}

/// The same but for what only people or siblings see.
fn same(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    let bare = |expected: &BenchmarkExpected| BenchmarkExpected {
        weight: 1.0,
        reason: None,
        ..expected.clone()
    };
    a.mode != Mode::Unsupported && bare(a) == bare(b)
}

fn plain(expected: &BenchmarkExpected) -> BenchmarkExpected {
    BenchmarkExpected {
        negate: false,
        ..expected.clone()
    }
}

fn leaf(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    match (a.mode, b.mode) {
        (Mode::Exact, Mode::Exact) => {
            // Looser about case or white space is weaker.
            a.value == b.value
                && (b.ignore_case || !a.ignore_case)
                && (a.keep_whitespace || !b.keep_whitespace)
                && rest_equal(a, b)
        }
        (Mode::Exact, Mode::Contains) => {
            let Some(Value::String(text)) = &a.value else {
                return false;
            };
            texts(b).is_some_and(|wanted| wanted.iter().all(|part| holds(text, part, a, b)))
        }
        (Mode::Contains, Mode::Contains) => match (texts(a), texts(b)) {
            (Some(have), Some(wanted)) => wanted
                .iter()
                .all(|part| have.iter().any(|text| holds(text, part, a, b))),
            _ => false,
        },
        (Mode::Numeric, Mode::Numeric) => {
            a.value == b.value
                && a.path == b.path
                && a.tolerance.unwrap_or(0.0) <= b.tolerance.unwrap_or(0.0)
                && a.relative_tolerance.unwrap_or(0.0) <= b.relative_tolerance.unwrap_or(0.0)
        }
        (Mode::JsonPath, Mode::JsonPath) => a.path == b.path && b.value.is_none() && b.tolerance.is_none(),
        (Mode::LlmJudge, Mode::LlmJudge) => a.value == b.value && judge_threshold(a) >= judge_threshold(b),
        (Mode::MetricThreshold, Mode::MetricThreshold) => metrics(a, b),
        _ => false,
    }
}

fn rest_equal(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    (a.path.as_ref(), a.tolerance, a.relative_tolerance, a.threshold)
        == (b.path.as_ref(), b.tolerance, b.relative_tolerance, b.threshold)
}

/// The texts of a `contains`.
fn texts(expected: &BenchmarkExpected) -> Option<Vec<&str>> {
    match expected.value.as_ref()? {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// Whether an answer that has `text` by the rules of `a` surely has `part` by those of `b`. White space around a text
/// counts only where it is kept, and an answer contains its trimmed self.
fn holds(text: &str, part: &str, a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    let text = if a.keep_whitespace { text } else { text.trim() };
    let part = if b.keep_whitespace { part } else { part.trim() };
    if b.ignore_case {
        text.to_lowercase().contains(&part.to_lowercase())
    } else {
        !a.ignore_case && text.contains(part)
    }
}

fn judge_threshold(expected: &BenchmarkExpected) -> f64 {
    expected.threshold.unwrap_or_else(|| {
        rubric_of(expected)
            .as_ref()
            .map_or(1.0, Rubric::default_threshold)
    })
}

fn metrics(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    // A threshold on the share of bounds that are kept makes it a weighted group.
    if a.threshold != b.threshold || a.threshold.is_some() {
        return false;
    }
    let empty = BTreeMap::new();
    let have = a.metric_thresholds.as_ref().unwrap_or(&empty);
    let direction = |expected: &BenchmarkExpected, name: &str| {
        expected
            .directions
            .get(name)
            .copied()
            .unwrap_or_else(|| default_direction(name))
    };
    b.metric_thresholds.iter().flatten().all(|(name, bound)| {
        have.get(name).is_some_and(|mine| {
            direction(a, name) == direction(b, name)
                && match direction(b, name) {
                    Direction::Lower => mine <= bound,
                    Direction::Higher => mine >= bound,
                }
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: Value) -> BenchmarkExpected {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_asks_more() {
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
}
