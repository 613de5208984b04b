//! Strictness of expectations: `a` implies `b` if every answer that passes `a` passes `b`. The rules are
//! sound but not complete: what they cannot prove counts as incomparable.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::bench::expected::{BenchmarkExpected, Direction, Mode};
use crate::bench::matching::default_direction;
use crate::bench::rubric::{Rubric, parse_rubric};

/// Strictness of a new expectation compared with the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Both are equally strict.
    Same,
    /// The new one is stricter.
    Stricter,
    /// The new one is weaker.
    Weaker,
    /// Neither can be proven.
    Incomparable,
}

/// Compares the strictness of `new` with that of `old`. A bound on a metric that was not checked before
/// proves nothing, nor does an unsupported check: a case whose metric is not measured is skipped, whatever
/// else it expects.
pub fn order(old: &BenchmarkExpected, new: &BenchmarkExpected) -> Order {
    let checked = new.unsupported_reason().is_none() && checked_metrics(new).is_subset(&checked_metrics(old));
    match (implies(new, old) && checked, implies(old, new)) {
        (true, true) => Order::Same,
        (true, false) => Order::Stricter,
        (false, true) => Order::Weaker,
        (false, false) => Order::Incomparable,
    }
}

/// Returns the metrics that an expectation checks.
fn checked_metrics(expected: &BenchmarkExpected) -> BTreeSet<&str> {
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

/// Whether every answer that passes `a` certainly passes `b`.
pub(crate) fn implies(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    if same(a, b) {
        return true;
    }
    // Not a implies not b exactly if b implies a.
    if a.negate && b.negate {
        return implies(&without_negation(b), &without_negation(a));
    }
    // Split groups that mean exactly "all hold" or "one holds", in the order of Whitman's algorithm for free
    // lattices, which misses nothing that the parts can show. Every other group is treated as a unit.
    if is_logic(b) && b.mode == Mode::All {
        return b.parts.iter().all(|part| implies(a, part));
    }
    // Several texts are one requirement each.
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
    if is_logic(a) && a.mode == Mode::Any {
        return a.parts.iter().all(|part| implies(part, b));
    }
    if is_logic(a) && a.parts.iter().any(|part| implies(part, b)) {
        return true;
    }
    if is_logic(b) && b.parts.iter().any(|part| implies(a, part)) {
        return true;
    }
    if is_group(a) || is_group(b) {
        // Weighted groups pass by their score, and parts of weight 0 do not count: only identity can be
        // proven.
        return weighted(a, b);
    }
    !a.negate && !b.negate && leaf(a, b)
}

fn is_group(expected: &BenchmarkExpected) -> bool {
    matches!(expected.mode, Mode::All | Mode::Any)
}

/// Whether a group means exactly "all hold" or "one holds".
fn is_logic(expected: &BenchmarkExpected) -> bool {
    is_group(expected)
        && expected.threshold.is_none()
        && !expected.negate
        && !expected.parts.is_empty()
        && expected.parts.iter().all(|part| part.weight > 0.0)
}

/// Whether both have the same weighted parts, and the threshold of `a` is at least that of `b`.
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

/// Whether both are equal except for weight and reason.
fn same(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    let bare = |expected: &BenchmarkExpected| BenchmarkExpected {
        weight: 1.0,
        reason: None,
        ..expected.clone()
    };
    a.mode != Mode::Unsupported && bare(a) == bare(b)
}

fn without_negation(expected: &BenchmarkExpected) -> BenchmarkExpected {
    BenchmarkExpected {
        negate: false,
        ..expected.clone()
    }
}

fn leaf(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    match (a.mode, b.mode) {
        (Mode::Exact, Mode::Exact) => {
            // Ignoring case or white space is weaker.
            a.value == b.value
                && (b.ignore_case || !a.ignore_case)
                && (a.keep_whitespace || !b.keep_whitespace)
                && rest_equal(a, b)
        }
        (Mode::Exact, Mode::Contains) => {
            let Some(Value::String(text)) = &a.value else {
                return false;
            };
            texts(b).is_some_and(|wanted| wanted.iter().all(|part| contains_text(text, part, a, b)))
        }
        (Mode::Contains, Mode::Contains) => match (texts(a), texts(b)) {
            (Some(have), Some(wanted)) => wanted
                .iter()
                .all(|part| have.iter().any(|text| contains_text(text, part, a, b))),
            _ => false,
        },
        (Mode::Numeric, Mode::Numeric) => {
            a.value == b.value
                && a.path == b.path
                && a.tolerance.unwrap_or(0.0) <= b.tolerance.unwrap_or(0.0)
                && a.relative_tolerance.unwrap_or(0.0) <= b.relative_tolerance.unwrap_or(0.0)
        }
        (Mode::JsonPath, Mode::JsonPath) => {
            // A path that selects nothing also gives an empty list.
            let selects = a.value != Some(Value::Array(Vec::new()));
            a.path == b.path && selects && b.value.is_none() && b.tolerance.is_none()
        }
        (Mode::LlmJudge, Mode::LlmJudge) => a.value == b.value && judge_threshold(a) >= judge_threshold(b),
        (Mode::MetricThreshold, Mode::MetricThreshold) => metrics(a, b),
        _ => false,
    }
}

fn rest_equal(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    (a.path.as_ref(), a.tolerance, a.relative_tolerance, a.threshold)
        == (b.path.as_ref(), b.tolerance, b.relative_tolerance, b.threshold)
}

/// Returns the texts of a `contains` expectation.
fn texts(expected: &BenchmarkExpected) -> Option<Vec<&str>> {
    match expected.value.as_ref()? {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// Whether an answer that contains `text` by the rules of `a` certainly contains `part` by those of `b`.
/// Surrounding white space counts only if it is kept, and an answer contains its trimmed self.
fn contains_text(text: &str, part: &str, a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    let text = if a.keep_whitespace { text } else { text.trim() };
    let part = if b.keep_whitespace { part } else { part.trim() };
    if !b.ignore_case {
        return !a.ignore_case && text.contains(part);
    }
    let part = part.to_lowercase();
    if a.ignore_case || a.mode == Mode::Exact {
        return text.to_lowercase().contains(&part);
    }
    // Σ is lowercased to ς at the end of a word and to σ elsewhere. Inside a longer answer either may occur,
    // so it proves nothing.
    text.split('Σ')
        .any(|stretch| stretch.to_lowercase().contains(&part))
}

fn judge_threshold(expected: &BenchmarkExpected) -> f64 {
    expected.threshold.unwrap_or_else(|| {
        parse_rubric(expected)
            .as_ref()
            .map_or(1.0, Rubric::default_threshold)
    })
}

fn metrics(a: &BenchmarkExpected, b: &BenchmarkExpected) -> bool {
    // A threshold on the share of met bounds makes it a weighted group.
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
mod laws;
#[cfg(test)]
mod tests;
