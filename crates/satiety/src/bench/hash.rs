//! What a case *is*, as a hash: the input and what is expected, with the contents of its files. Words that only
//! people read (description, tags, notes) do not count, so that rewording them keeps the baseline.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::suite::{BenchmarkCase, BenchmarkSuite};

/// The canonical form: keys sorted, no white space. Two values are the same exactly when these texts are.
pub fn canonical_json(value: &Value) -> String {
    fn write(value: &Value, out: &mut String) {
        match value {
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write(item, out);
                }
                out.push(']');
            }
            Value::Object(fields) => {
                // The map's own order depends on a feature that any crate of the build may switch on.
                let mut keys: Vec<&String> = fields.keys().collect();
                keys.sort_unstable();
                out.push('{');
                for (index, key) in keys.into_iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::String(key.clone()).to_string());
                    out.push(':');
                    if let Some(field) = fields.get(key) {
                        write(field, out);
                    }
                }
                out.push('}');
            }
            leaf => out.push_str(&leaf.to_string()),
        }
    }
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// BLAKE3 of the canonical form, in hexadecimal digits.
pub fn content_hash(value: &impl Serialize) -> String {
    // Only maps with keys that are no text cannot become JSON; nothing here has any. Such a value would hash as null.
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    blake3::hash(canonical_json(&value).as_bytes())
        .to_hex()
        .to_string()
}

/// The hash of a case. `files` are hashes of file contents by the names that the case uses.
pub fn case_hash(case: &BenchmarkCase, files: &BTreeMap<String, String>) -> String {
    let own: BTreeMap<&str, Option<&String>> = case
        .input
        .files
        .iter()
        .map(|name| (name.as_str(), files.get(name)))
        .collect();
    content_hash(&(&case.input, &case.expected, own))
}

/// The hash of a suite: its id and the hashes of its cases, in no particular order.
pub fn suite_hash(suite: &BenchmarkSuite, files: &BTreeMap<String, String>) -> String {
    let cases: BTreeMap<&str, String> = suite
        .cases
        .iter()
        .map(|case| (case.case_id.as_str(), case_hash(case, files)))
        .collect();
    content_hash(&(&suite.suite_id, cases))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::expected::{BenchmarkExpected, Mode};
    use serde_json::json;

    #[test]
    fn canonical_means_sorted_and_tight() {
        let value = json!({"b": [1, 2.5, "x\"y"], "a": {"d": null, "c": true}});
        assert_eq!(
            canonical_json(&value),
            r#"{"a":{"c":true,"d":null},"b":[1,2.5,"x\"y"]}"#
        );
        assert_eq!(
            content_hash(&json!({"a": 1})),
            blake3::hash(b"{\"a\":1}").to_hex().to_string()
        );
    }

    #[test]
    fn words_for_people_do_not_change_a_case_but_everything_else_does() {
        let none = BTreeMap::new();
        let case = BenchmarkCase::new("a", "say hi", BenchmarkExpected::with_value(Mode::Contains, "hi"));
        let hash = case_hash(&case, &none);
        let mut reworded = case.clone();
        reworded.description = "greets".into();
        reworded.tags.push("smoke".into());
        assert_eq!(case_hash(&reworded, &none), hash);

        let mut other_goal = case.clone();
        other_goal.input.goal = "say hello".into();
        let mut stricter = case.clone();
        stricter.expected.ignore_case = true;
        let mut with_file = case.clone();
        with_file.input.files.push("a.txt".into());
        let hashes = [
            hash,
            case_hash(&other_goal, &none),
            case_hash(&stricter, &none),
            case_hash(
                &with_file,
                &BTreeMap::from([("a.txt".to_owned(), "1".to_owned())]),
            ),
            case_hash(
                &with_file,
                &BTreeMap::from([("a.txt".to_owned(), "2".to_owned())]),
            ),
        ];
        let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }

    #[test]
    fn a_suite_is_its_cases_in_any_order() {
        let none = BTreeMap::new();
        let case = |id: &str| BenchmarkCase::new(id, id, BenchmarkExpected::with_value(Mode::Exact, id));
        let mut suite = BenchmarkSuite::new("s");
        suite.cases = vec![case("a"), case("b")];
        let hash = suite_hash(&suite, &none);
        suite.cases.reverse();
        assert_eq!(suite_hash(&suite, &none), hash);
        suite.cases.pop();
        assert_ne!(suite_hash(&suite, &none), hash);
    }
}
