//! JSON Schemas of suite and case files, for editors and other programs. They are maintained by hand because
//! `expected` takes three forms; tests check that they agree with the reader.

use serde_json::{Value, json};

const CASE: &str = include_str!("schema/case.schema.json");
const SUITE: &str = include_str!("schema/suite.schema.json");

/// Returns the self-contained JSON Schema of a suite file.
pub fn suite_schema() -> Value {
    let (mut suite, mut case) = (parse(SUITE), parse(CASE));
    // The schema must be a single file, so the definitions of the case schema move to the top level.
    if let Some(case) = case.as_object_mut() {
        let mut definitions = case.remove("$defs").unwrap_or_else(|| json!({}));
        for key in ["$schema", "$id"] {
            case.remove(key);
        }
        definitions["case"] = Value::Object(case.clone());
        suite["$defs"] = definitions;
    }
    suite
}

fn parse(text: &str) -> Value {
    // Both files are compiled in, and a test parses them.
    serde_json::from_str(text).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::reader::{Named, read_suite};

    /// Reader and schema agree on valid files and on structurally invalid ones.
    #[test]
    fn schema_and_reader_agree() {
        let validator = jsonschema::validator_for(&suite_schema()).unwrap();
        let case = |expected: Value| json!({"suite_id": "s", "cases": [{"case_id": "a", "input": {"goal": "g"}, "expected": expected}]});
        let good = [
            json!({"suite_id": "s"}),
            json!({"suite_id": "s", "version": "1.2.3-rc.1", "repeats": 5, "metadata": {"tier": 1}}),
            case(json!({"mode": "exact", "value": {"a": 1}})),
            case(json!({"mode": "contains", "value": ["a", "b"], "ignore_case": true})),
            case(json!({"mode": "llm_judge", "value": ["greets"], "threshold": 0.5})),
            case(
                json!({"mode": "metric_threshold", "metric_thresholds": {"latency_ms": 5}, "directions": {"latency_ms": "higher"}}),
            ),
            case(json!({"mode": "human"})),
            case(json!({"mode": "regex", "value": "^a+$", "negate": true})),
            case(json!({"mode": "json_path", "path": "$.a", "value": 1})),
            case(json!({"mode": "json_schema", "value": {"type": "object"}})),
            case(
                json!([{"mode": "exact", "value": "a", "weight": 2}, {"any": [{"mode": "numeric", "value": 3, "tolerance": 0.1}]}]),
            ),
        ];
        let bad = [
            json!({}),
            json!({"suite_id": ""}),
            json!({"suite_id": "s", "version": "one"}),
            json!({"suite_id": "s", "repeats": 0}),
            json!({"suite_id": "s", "casez": []}),
            json!({"suite_id": "s", "cases": [{"case_id": "a", "input": {}, "expected": {"mode": "human"}}]}),
            json!({"suite_id": "s", "cases": [{"case_id": "a", "input": {"goal": "g"}}]}),
            json!({"suite_id": "s", "cases": [{"case_id": "a", "input": {"goal": "g"}, "difficulty": "brutal", "expected": {"mode": "human"}}]}),
            case(json!("yes")),
            case(json!([])),
            case(json!({})),
            case(json!({"mode": "exactly", "value": "a"})),
            case(json!({"mode": "exact"})),
            case(json!({"mode": "exact", "value": "a", "wieght": 2})),
            case(json!({"mode": "exact", "value": "a", "weight": -1})),
            case(json!({"mode": "exact", "value": "a", "threshold": 2})),
            case(json!({"mode": "json_path", "value": 1})),
            case(json!({"mode": "metric_threshold"})),
            case(json!({"mode": "exact", "all": [{"mode": "human"}]})),
            case(json!({"all": []})),
        ];
        for (list, right) in [(&good[..], true), (&bad[..], false)] {
            for value in list {
                let text = value.to_string();
                let read = read_suite(
                    Named {
                        file: "s.json",
                        text: &text,
                    },
                    &[],
                );
                assert_eq!(read.is_ok(), right, "reader: {text}: {read:?}");
                assert_eq!(validator.is_valid(value), right, "schema: {text}");
            }
        }
    }

    #[test]
    fn both_schemas_are_valid_and_the_case_schema_is_self_contained() {
        assert!(jsonschema::meta::is_valid(&suite_schema()));
        let case = jsonschema::validator_for(&parse(CASE)).unwrap();
        assert!(
            case.is_valid(&json!({"case_id": "a", "input": {"goal": "g"}, "expected": {"mode": "human"}}))
        );
        assert!(!case.is_valid(&json!({"case_id": "a"})));
    }
}
