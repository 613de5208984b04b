//! What a case *is*, as a hash: the input and what is expected, with the contents of its files. Words that only
//! people read (description, tags, notes) do not count, so that rewording them keeps the baseline.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::suite::{BenchmarkCase, BenchmarkSuite};

/// The canonical form: keys sorted, no white space. Two values are the same exactly when these texts are.
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
            // The map's own order depends on a feature that any crate of the build may switch on.
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, field)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                leaf(key, out);
                out.push(':');
                write(field, out);
            }
            out.push('}');
        }
        other => leaf(other, out),
    }
}

/// A text, a number, a truth or nothing; none of these can fail to be written.
fn leaf(value: &(impl Serialize + ?Sized), out: &mut String) {
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
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
    let hashes: Vec<String> = suite.cases.iter().map(|case| case_hash(case, files)).collect();
    suite_hash_of(suite, &hashes)
}

/// The same, for whoever has the hashes of its cases, in the order of the cases.
pub fn suite_hash_of(suite: &BenchmarkSuite, hashes: &[String]) -> String {
    let ids = suite.cases.iter().map(|case| case.case_id.as_str());
    let cases: BTreeMap<&str, &String> = ids.zip(hashes).collect();
    // The form of `content_hash`, written without a value of the whole suite in between.
    let mut hasher = blake3::Hasher::new();
    let mut text = String::from("[");
    leaf(&suite.suite_id, &mut text);
    text.push_str(",{");
    for (index, (id, hash)) in cases.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        leaf(id, &mut text);
        text.push(':');
        leaf(hash, &mut text);
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

    /// The short way to a suite's hash and the long one must not part, or every baseline would be of another suite.
    #[test]
    fn a_suites_hash_is_the_hash_of_its_parts() {
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
