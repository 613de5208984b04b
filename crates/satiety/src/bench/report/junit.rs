//! `JUnit` XML report for CI systems: one test case per benchmark case, with its repeats as output. A case
//! passes when every decided repeat passed. A case without decided repeats is an error or skipped, never a
//! failure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::bench::run::{BenchmarkResult, BenchmarkRun, Status};
use crate::bench::summary::summarize;

/// Formats runs as `JUnit` XML, one test suite each.
pub fn junit_xml<'a>(runs: impl IntoIterator<Item = &'a BenchmarkRun>) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for run in runs {
        test_suite(&mut out, run);
    }
    out.push_str("</testsuites>\n");
    out
}

fn test_suite(out: &mut String, run: &BenchmarkRun) {
    let groups = by_case_and_variant(run);
    let kinds: Vec<Kind> = groups
        .values()
        .map(|results| Kind::from_results(results))
        .collect();
    let count = |kind: Kind| kinds.iter().filter(|&&found| found == kind).count();
    let seconds: f64 = run.results.iter().map(|result| result.latency_ms).sum::<f64>() / 1e3;
    let summary = summarize(&run.results);
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\" timestamp=\"{}\">",
        escape(&run.suite_id),
        groups.len(),
        count(Kind::Failure),
        count(Kind::Error),
        count(Kind::Skipped),
        escape(&run.started_at.to_string())
    );
    let mut properties = vec![("run_id", run.run_id.clone()), ("target", run.target.clone())];
    properties.extend(summary.pass_rate.map(|rate| ("pass_rate", format!("{rate:.6}"))));
    properties.push(("token_cost", summary.total_token_cost.to_string()));
    property_list(out, &properties);
    for ((case_id, results), kind) in groups.iter().zip(kinds) {
        test_case(out, &run.suite_id, case_id, results, kind);
    }
    out.push_str("  </testsuite>\n");
}

/// Results by case, with the variant if there are several: the variants of a case are different tests.
fn by_case_and_variant(run: &BenchmarkRun) -> BTreeMap<String, Vec<&BenchmarkResult>> {
    let variants: BTreeSet<Option<&str>> = run
        .results
        .iter()
        .map(|result| result.variant.as_deref())
        .collect();
    let mut groups: BTreeMap<String, Vec<&BenchmarkResult>> = BTreeMap::new();
    for result in &run.results {
        let name = match &result.variant {
            Some(variant) if variants.len() > 1 => format!("{} [{variant}]", result.case_id),
            _ => result.case_id.clone(),
        };
        groups.entry(name).or_default().push(result);
    }
    groups
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pass,
    Failure,
    Error,
    Skipped,
}

impl Kind {
    fn from_results(results: &[&BenchmarkResult]) -> Self {
        let decided: Vec<bool> = results.iter().filter_map(|result| result.decided()).collect();
        if decided.contains(&false) {
            Self::Failure
        } else if results
            .iter()
            .any(|result| matches!(result.status, Status::Error | Status::Timeout))
        {
            Self::Error
        } else if decided.is_empty() {
            Self::Skipped
        } else {
            Self::Pass
        }
    }
}

fn test_case(out: &mut String, suite: &str, case_id: &str, results: &[&BenchmarkResult], kind: Kind) {
    let seconds: f64 = results.iter().map(|result| result.latency_ms).sum::<f64>() / 1e3;
    let _ = writeln!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.3}\">",
        escape(suite),
        escape(case_id)
    );
    let passes = results
        .iter()
        .filter(|result| result.status == Status::Pass)
        .count();
    let tokens: u64 = results.iter().map(|result| result.token_cost).sum();
    let element = match kind {
        Kind::Pass => None,
        Kind::Failure => Some("failure"),
        Kind::Error => Some("error"),
        Kind::Skipped => Some("skipped"),
    };
    if let Some(element) = element {
        let example = results
            .iter()
            .find(|result| result.status != Status::Pass && Kind::from_results(&[**result]) == kind);
        let cause = example.or(results.first()).map_or(String::new(), |result| {
            result.error.clone().unwrap_or_else(|| result.reasons.join("; "))
        });
        let message = format!("{passes} of {} passed: {cause}", results.len());
        let _ = writeln!(out, "      <{element} message=\"{}\"/>", escape(&message));
    }
    // Properties of a test case are not in the schema that CI servers validate with, so its numbers are output.
    let _ = write!(
        out,
        "      <system-out>{passes} of {} repeats passed, {tokens} tokens",
        results.len()
    );
    let scores: Vec<f64> = results.iter().filter_map(|result| result.score).collect();
    if let Ok(score) = crate::stats::mean(&scores) {
        let _ = write!(out, ", mean score {score:.6}");
    }
    out.push('\n');
    for result in results {
        let status = format!("{:?}", result.status).to_lowercase();
        let _ = writeln!(
            out,
            "repeat {}: {status}, {:.0} ms",
            result.repeat, result.latency_ms
        );
        if let Some(output) = &result.actual_output {
            out.push_str(&escape(output));
            out.push('\n');
        }
    }
    out.push_str("</system-out>\n    </testcase>\n");
}

fn property_list(out: &mut String, properties: &[(&str, String)]) {
    out.push_str("    <properties>\n");
    for (name, value) in properties {
        let _ = writeln!(
            out,
            "      <property name=\"{name}\" value=\"{}\"/>",
            escape(value)
        );
    }
    out.push_str("    </properties>\n");
}

/// Escapes text for XML 1.0 and removes control characters that XML cannot represent.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(letter),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}');
            }
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_one_test_and_errors_are_not_failures() {
        use Status::{Error, Fail, Pass, Skipped};
        let mut results: Vec<BenchmarkResult> = [
            ("a", 0, Pass),
            ("a", 1, Pass),
            ("b", 0, Pass),
            ("b", 1, Fail),
            ("c", 0, Error),
            ("d", 0, Skipped),
        ]
        .map(|(id, repeat, status)| BenchmarkResult::new(id, repeat, status))
        .into();
        results[3].reasons.push("`x` & <y>".into());
        results[3].actual_output = Some("bell \u{7} ]]>".into());
        results[4].error = Some("exit code 1".into());
        let run = BenchmarkRun {
            run_id: "r".into(),
            suite_id: "s \"quoted\"".into(),
            suite_hash: None,
            target: "t".into(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: std::collections::BTreeMap::new(),
            results,
            summary: None,
        };
        let xml = junit_xml([&run]);
        for expected in [
            "<testsuite name=\"s &quot;quoted&quot;\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\"",
            "<failure message=\"1 of 2 passed: `x` &amp; &lt;y&gt;\"/>",
            "<error message=\"0 of 1 passed: exit code 1\"/>",
            "bell \u{fffd} ]]&gt;",
            "<system-out>1 of 2 repeats passed, 0 tokens\nrepeat 0: pass, 0 ms\n",
        ] {
            assert!(xml.contains(expected), "{expected}\n{xml}");
        }
        assert_eq!(xml.matches("<testcase ").count(), 4);
        assert_eq!(xml.matches("</testcase>").count(), 4);
        assert_eq!(xml.matches("<properties>").count(), 1, "only of the suite");
        let two = junit_xml([&run, &run]);
        assert_eq!(two.matches("<testsuite ").count(), 2);
        assert_eq!(two.matches("<testsuites>").count(), 1);
    }
}
