//! Harder variants of cases that every version passes: the next rung of a ladder declared by the author of
//! the case, or a tighter bound in its expectation. No content is generated, so a variant cannot be wrong.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::manifest::implies;
use crate::bench::expected::BenchmarkExpected;
use crate::bench::suite::{BenchmarkCase, Difficulty, Source};

/// Metadata key that lists harder variants of a case, each a set of fields that replace those of the case.
pub(crate) const LADDER: &str = "harder";

/// Harder variant of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct HarderVariant {
    /// New case; the old one stays unchanged.
    pub case: BenchmarkCase,
    /// How the variant is harder.
    pub how: String,
}

/// Returns the next harder variant of a case; `None` if nothing can be tightened. `taken` are the ids of its
/// suite.
pub fn harder_variant(case: &BenchmarkCase, taken: &BTreeSet<String>) -> Option<HarderVariant> {
    ladder(case, taken).or_else(|| tighter(case, taken))
}

/// Returns the first declared rung that is not in the suite yet.
fn ladder(case: &BenchmarkCase, taken: &BTreeSet<String>) -> Option<HarderVariant> {
    let rungs = case.metadata.get(LADDER)?.as_array()?;
    let (rung, id, patch) = (1..).zip(rungs).find_map(|(rung, patch)| {
        let id = variant_id(&case.case_id, rung);
        (!taken.contains(&id)).then_some((rung, id, patch.as_object()?))
    })?;
    let mut value = serde_json::to_value(variant(case, id)).ok()?;
    merge(value.as_object_mut()?, patch);
    let made: BenchmarkCase = serde_json::from_value(value).ok()?;
    // A rung must change the input or expect more.
    let same = made.input == case.input && !implies(&made.expected, &case.expected);
    (!same && (made.input != case.input || made.expected != case.expected)).then(|| HarderVariant {
        case: made,
        how: format!("rung {rung} of the ladder declared in the case"),
    })
}

/// Halves the tolerance, or raises the bound by a third of the distance to 1.
fn tighter(case: &BenchmarkCase, taken: &BTreeSet<String>) -> Option<HarderVariant> {
    let id = (1..=64)
        .map(|rung| variant_id(&case.case_id, rung))
        .find(|id| !taken.contains(id))?;
    let mut made = variant(case, id);
    let how = tighten(&mut made.expected)?;
    let stricter = implies(&made.expected, &case.expected) && made.expected != case.expected;
    stricter.then_some(HarderVariant { case: made, how })
}

fn tighten(expected: &mut BenchmarkExpected) -> Option<String> {
    if expected.negate {
        return None;
    }
    for (name, tolerance) in [
        ("tolerance", &mut expected.tolerance),
        ("relative tolerance", &mut expected.relative_tolerance),
    ] {
        if let Some(value) = tolerance.filter(|value| *value > 0.0) {
            *tolerance = Some(value / 2.0);
            return Some(format!("{name} {} instead of {value}", value / 2.0));
        }
    }
    if let Some(bound) = expected.threshold.filter(|bound| *bound < 1.0) {
        let raised = ((bound + (1.0 - bound) / 3.0) * 1e4).round() / 1e4;
        expected.threshold = Some(raised);
        return Some(format!("threshold {raised} instead of {bound}"));
    }
    expected.parts.iter_mut().find_map(tighten)
}

fn variant_id(case_id: &str, rung: u32) -> String {
    format!("{case_id}-harder-{rung}")
}

fn variant(case: &BenchmarkCase, case_id: String) -> BenchmarkCase {
    let mut made = case.clone();
    made.metadata.remove(LADDER);
    made.metadata
        .insert("variant_of".into(), Value::String(case.case_id.clone()));
    made.case_id = case_id;
    // A variant is a capability case: no version has passed it yet.
    made.tags.retain(|tag| tag != "regression");
    made.source = Source::Synthetic;
    made.skip = None;
    made.difficulty = match case.difficulty {
        Difficulty::Easy => Difficulty::Medium,
        Difficulty::Medium | Difficulty::Hard => Difficulty::Hard,
        Difficulty::Adversarial => Difficulty::Adversarial,
    };
    made
}

/// Merges the patch into the target (RFC 7396): objects field by field; null removes a field.
fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (target.get_mut(name), value) {
            (_, Value::Null) => {
                target.remove(name);
            }
            // The id is derived from the rung and cannot be chosen by the author.
            _ if name == "case_id" => {}
            (Some(Value::Object(inner)), Value::Object(patch)) => merge(inner, patch),
            _ => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::expected::Mode;

    fn case(expected: &Value) -> BenchmarkCase {
        serde_json::from_value(json!({"case_id": "c", "input": {"goal": "g"}, "expected": expected})).unwrap()
    }

    fn taken(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn bounds_are_tightened() {
        for (expected, how) in [
            (
                json!({"mode": "numeric", "value": 3, "tolerance": 0.5}),
                Some("tolerance 0.25 instead of 0.5"),
            ),
            (
                json!({"mode": "llm_judge", "value": "kind", "threshold": 0.7}),
                Some("threshold 0.8 instead of 0.7"),
            ),
            (
                json!({"all": [{"mode": "exact", "value": "x"}, {"mode": "numeric", "value": 1, "relative_tolerance": 0.1}]}),
                Some("relative tolerance 0.05 instead of 0.1"),
            ),
            (json!({"mode": "exact", "value": "x"}), None),
            (json!({"mode": "numeric", "value": 3, "tolerance": 0}), None),
            // A smaller tolerance of a negated check is easier.
            (
                json!({"mode": "numeric", "value": 3, "tolerance": 0.5, "negate": true}),
                None,
            ),
        ] {
            let case = case(&expected);
            let found = harder_variant(&case, &taken(&["c"]));
            assert_eq!(
                found.as_ref().map(|harder| harder.how.as_str()),
                how,
                "{expected}"
            );
            if let Some(found) = found {
                assert_eq!(found.case.case_id, "c-harder-1");
                assert_eq!(found.case.input, case.input);
                assert!(implies(&found.case.expected, &case.expected));
                assert!(!implies(&case.expected, &found.case.expected));
            }
        }
    }

    #[test]
    fn rungs_are_taken_in_order() {
        let mut climb = case(&json!({"mode": "exact", "value": "6"}));
        climb.metadata.insert(
            LADDER.into(),
            json!([
                {"input": {"goal": "add 1, 2, 3, 4"}, "expected": {"value": "10"}},
                {"input": {"goal": "add 1 to 100"}, "expected": {"value": "5050"}, "difficulty": "adversarial"},
            ]),
        );
        climb.tags = vec!["regression".into(), "sum".into()];
        let first = harder_variant(&climb, &taken(&["c"])).unwrap();
        assert_eq!(
            (first.case.case_id.as_str(), first.case.input.goal.as_str()),
            ("c-harder-1", "add 1, 2, 3, 4")
        );
        assert_eq!(
            first.case.expected,
            BenchmarkExpected::with_value(Mode::Exact, "10")
        );
        assert_eq!(first.case.tags, ["sum"]);
        assert!(!first.case.metadata.contains_key(LADDER));
        let second = harder_variant(&climb, &taken(&["c", "c-harder-1"])).unwrap();
        assert_eq!(second.case.difficulty, Difficulty::Adversarial);
        assert_eq!(
            harder_variant(&climb, &taken(&["c", "c-harder-1", "c-harder-2"])),
            None
        );
    }

    #[test]
    fn invalid_or_weaker_rungs_are_skipped() {
        for rung in [
            json!({"input": 3}),
            json!({}),
            json!("x"),
            // The same input with a weaker expectation.
            json!({"expected": {"mode": "contains", "value": ""}}),
        ] {
            let mut climb = case(&json!({"mode": "exact", "value": "6"}));
            climb.metadata.insert(LADDER.into(), json!([rung]));
            assert_eq!(harder_variant(&climb, &taken(&["c"])), None, "{rung}");
        }
    }
}
