//! Content hashes of cases and suites, from the input, the expectation and the contents of referenced files.
//! Texts for people only (description, tags, metadata) are excluded, so that rewording them keeps the
//! baseline.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::suite::{BenchmarkCase, BenchmarkSuite};

/// Canonical JSON: keys sorted, no white space. Two values are equal exactly when their canonical texts are.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

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
            // The iteration order of the map depends on a cargo feature that any crate of the build may
            // enable.
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, field)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_scalar(key, out);
                out.push(':');
                write(field, out);
            }
            out.push('}');
        }
        other => write_scalar(other, out),
    }
}

/// Writes a string, number, boolean or null; serializing these cannot fail.
fn write_scalar(value: &(impl Serialize + ?Sized), out: &mut String) {
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}

/// BLAKE3 hash of the canonical JSON, in hexadecimal.
pub fn content_hash(value: &impl Serialize) -> String {
    // Only maps with non-string keys cannot become JSON, and no type here has any. Such a value would hash as
    // null.
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    blake3::hash(canonical_json(&value).as_bytes())
        .to_hex()
        .to_string()
}

/// Content hash of a case. `files` maps the file names that the case uses to hashes of their contents.
pub fn case_hash(case: &BenchmarkCase, files: &BTreeMap<String, String>) -> String {
    let checks = case.expected.check_files();
    let own: BTreeMap<&str, Option<&String>> = case
        .input
        .files
        .iter()
        .chain(&checks)
        .map(|name| (name.as_str(), files.get(name)))
        .collect();
    content_hash(&(&case.input, &case.expected, own))
}

/// Content hash of a suite: its id and the hashes of its cases, in any order.
pub fn suite_hash(suite: &BenchmarkSuite, files: &BTreeMap<String, String>) -> String {
    let hashes: Vec<String> = suite.cases.iter().map(|case| case_hash(case, files)).collect();
    suite_hash_from_cases(suite, &hashes)
}

/// Content hash of a suite from precomputed case hashes, in the order of the cases.
pub fn suite_hash_from_cases(suite: &BenchmarkSuite, hashes: &[String]) -> String {
    let ids = suite.cases.iter().map(|case| case.case_id.as_str());
    let cases: BTreeMap<&str, &String> = ids.zip(hashes).collect();
    // Same as `content_hash`, but without building a value of the whole suite.
    let mut hasher = blake3::Hasher::new();
    let mut text = String::from("[");
    write_scalar(&suite.suite_id, &mut text);
    text.push_str(",{");
    for (index, (id, hash)) in cases.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_scalar(id, &mut text);
        text.push(':');
        write_scalar(hash, &mut text);
        hasher.update(text.as_bytes());
        text.clear();
    }
    text.push_str("}]");
    hasher.update(text.as_bytes());
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::expected::{BenchmarkExpected, Mode};
    use serde_json::json;

    #[test]
    fn canonical_json_is_sorted_and_compact() {
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

    /// Both ways to compute a suite hash must agree, or every baseline would become invalid.
    #[test]
    fn a_suite_hash_is_the_hash_of_its_parts() {
        let none = BTreeMap::new();
        let mut suite = BenchmarkSuite::new("s \"1\"");
        for id in [None, Some("b"), Some("a \u{e9}\n"), Some("\u{1f600}")] {
            suite.cases.extend(id.map(|id| {
                BenchmarkCase::new(
                    id,
                    "g",
                    BenchmarkExpected::with_value(Mode::Exact, json!({"z": 1.5, "a": [null]})),
                )
            }));
            let cases: BTreeMap<&str, String> = suite
                .cases
                .iter()
                .map(|case| (case.case_id.as_str(), case_hash(case, &none)))
                .collect();
            assert_eq!(suite_hash(&suite, &none), content_hash(&(&suite.suite_id, cases)));
        }
    }

    #[test]
    fn descriptions_do_not_change_a_case_hash_but_content_does() {
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
    fn a_suite_hash_ignores_the_order_of_cases() {
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
