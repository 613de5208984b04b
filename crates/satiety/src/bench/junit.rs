//! Reads `JUnit` XML as a run: the reports of pytest, Jest, Maven Surefire, gotestsum and others, and those that
//! [`super::report::junit_xml`] writes. Each test case is a case. A test that a tool reran has its last verdict,
//! and its earlier attempts are kept as attempts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use roxmltree::{Document, Node};
use serde_json::Value;

use super::imported_run::{
    RepeatCounter, ResultOrigin, RunImport, field_error, record_property, run_of_content,
};
use super::loss::Losses;
use super::reader::{Named, SuiteError};
use super::run::{Attempt, BenchmarkResult, Status};

/// Elements that describe failed attempts before the last one.
const RERUNS: [&str; 4] = ["flakyFailure", "flakyError", "rerunFailure", "rerunError"];

/// Elements of a test case that a result has in another form.
const KNOWN: [&str; 8] = [
    "failure",
    "error",
    "skipped",
    "system-out",
    "system-err",
    "properties",
    "property",
    "output",
];

/// Reads a report. `origin` gives the suite, target and time that the report does not state.
pub fn read_junit(file: Named<'_>, mut origin: ResultOrigin) -> Result<RunImport, SuiteError> {
    // Terminal colors in captured output are not valid XML, but common.
    let is_invalid = |letter: char| letter.is_control() && !matches!(letter, '\t' | '\n' | '\r');
    let text = file
        .text
        .trim_start_matches('\u{feff}')
        .replace(is_invalid, "\u{fffd}");
    let document = Document::parse(&text).map_err(|error| SuiteError::Syntax {
        file: file.file.to_owned(),
        reason: format!("invalid XML: {error}"),
    })?;
    let root = document.root_element();
    if !matches!(root.tag_name().name(), "testsuites" | "testsuite") {
        let reason = format!(
            "must be `testsuites` or `testsuite`, not `{}`",
            root.tag_name().name()
        );
        return Err(field_error(file.file, "root element", &reason));
    }
    let tests: Vec<Test<'_>> = root
        .descendants()
        .filter(|node| node.has_tag_name("testcase"))
        .map(|node| Test::new(node, file.file, &document))
        .collect::<Result<_, _>>()?;
    if tests.is_empty() {
        return Err(field_error(
            file.file,
            "testcase",
            "is missing: the report has no tests",
        ));
    }
    let suites: Vec<Node<'_, '_>> = root
        .descendants()
        .filter(|node| node.has_tag_name("testsuite"))
        .collect();
    let names: BTreeSet<&str> = suites
        .iter()
        .filter_map(|suite| suite.attribute("name"))
        .collect();
    let only = names.first().copied().filter(|_| names.len() == 1);
    let named = root.attribute("name").or(only).map(str::trim);
    if let Some(name) = named.filter(|name| !name.is_empty()) {
        name.clone_into(&mut origin.suite_id);
    }
    let timestamps = suites.iter().filter_map(|suite| suite.attribute("timestamp"));
    origin.recorded_at = timestamps
        .filter_map(parse_time)
        .min()
        .unwrap_or(origin.recorded_at);

    let mut losses = Losses::default();
    // The same test in differently named suites is another test, such as the same one in another browser.
    let mut places: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for test in &tests {
        places.entry(test.id(only)).or_default().insert(test.suite);
    }
    let mut repeats = RepeatCounter::default();
    let mut results = Vec::with_capacity(tests.len());
    for test in &tests {
        let id = test.id(only);
        let is_ambiguous = places.get(&id).is_some_and(|suites| suites.len() > 1);
        let id = if is_ambiguous {
            losses.push(
                "testcase",
                format!("`{id}` occurs in several test suites: the suite's name was added"),
            );
            format!("{} / {id}", test.suite)
        } else {
            id
        };
        let repeat = repeats.next(&id);
        results.push(test.result(id, repeat, &mut losses));
    }
    repeats.report("testcase", &mut losses);
    Ok(run_of_content("junit", &file.text, origin, results, None, losses))
}

/// A test case with the suite that contains it.
struct Test<'a> {
    node: Node<'a, 'a>,
    name: &'a str,
    class: &'a str,
    suite: &'a str,
}

impl<'a> Test<'a> {
    fn new(node: Node<'a, 'a>, file: &str, document: &Document<'_>) -> Result<Self, SuiteError> {
        let text = |name: &str| node.attribute(name).map(str::trim).unwrap_or_default();
        let name = text("name");
        if name.is_empty() {
            let line = document.text_pos_at(node.range().start).row;
            let field = format!("line {line}: testcase: name");
            return Err(field_error(file, &field, "is missing"));
        }
        let suite = node.ancestors().find(|node| node.has_tag_name("testsuite"));
        Ok(Self {
            node,
            name,
            class: text("classname"),
            suite: suite
                .and_then(|suite| suite.attribute("name"))
                .unwrap_or_default(),
        })
    }

    /// Class and name; the name alone if the class says the same or is that of the `only` suite.
    fn id(&self, only: Option<&str>) -> String {
        if self.class.is_empty() || self.class == self.name || Some(self.class) == only {
            return self.name.to_owned();
        }
        format!("{}::{}", self.class, self.name)
    }

    fn result(&self, case_id: String, repeat: u32, losses: &mut Losses) -> BenchmarkResult {
        let child = |name: &str| self.node.children().find(|node| node.has_tag_name(name));
        // `notrun` is written by GoogleTest, without an element.
        let is_disabled = matches!(
            self.node.attribute("status"),
            Some("notrun" | "disabled" | "skipped")
        );
        let (status, cause) = if let Some(error) = child("error") {
            (Status::Error, Some(error))
        } else if let Some(failure) = child("failure") {
            (Status::Fail, Some(failure))
        } else if let Some(skipped) = child("skipped") {
            (Status::Skipped, Some(skipped))
        } else if is_disabled {
            (Status::Skipped, None)
        } else {
            (Status::Pass, None)
        };
        let mut result = BenchmarkResult::new(case_id, repeat, status);
        let message = cause.map(cause_text).filter(|message| !message.is_empty());
        match status {
            Status::Error => {
                result.error = Some(message.unwrap_or_else(|| "error without a message".to_owned()));
                let kind = cause.and_then(|error| error.attribute("type"));
                result.error_kind = kind.map(str::to_owned).filter(|kind| !kind.is_empty());
            }
            _ => result.reasons.extend(message),
        }
        if let Some(seconds) = self.node.attribute("time") {
            // Surefire groups thousands.
            match seconds.replace(',', "").trim().parse::<f64>() {
                Ok(seconds) if seconds >= 0.0 && seconds.is_finite() => result.latency_ms = seconds * 1e3,
                _ => losses.push("testcase.time", "is not a number of seconds"),
            }
        }
        let output = child("system-out").and_then(|output| output.text());
        result.actual_output = output
            .map(str::trim)
            .filter(|output| !output.is_empty())
            .map(str::to_owned);
        for node in self.node.children().filter(Node::is_element) {
            let name = node.tag_name().name();
            if RERUNS.contains(&name) {
                result.retries = result.retries.saturating_add(1);
                result.attempts.push(Attempt {
                    latency_ms: 0.0,
                    error: Some(cause_text(node)),
                    error_kind: node.attribute("type").map(str::to_owned),
                    waited_ms: None,
                });
            } else if !KNOWN.contains(&name) {
                losses.push(format!("testcase.{name}"), "not imported");
            }
        }
        if result.retries > 0 {
            losses.push(
                "testcase",
                "a rerun test has the verdict of its last attempt; earlier ones are kept as attempts",
            );
        }
        let properties = self
            .node
            .descendants()
            .filter(|node| node.has_tag_name("property"));
        for property in properties {
            let name = property.attribute("name").unwrap_or_default();
            let value = property
                .attribute("value")
                .or(property.text())
                .unwrap_or_default();
            if !record_property(&mut result, name, &Value::String(value.to_owned())) {
                losses.push(format!("property {name}"), "not a number, so it is not imported");
            }
        }
        result
    }
}

/// Message of a failure, or the first line of its text, where Jest names the cause.
fn cause_text(node: Node<'_, '_>) -> String {
    let stated = node.attribute("message").map(str::trim);
    stated
        .filter(|message| !message.is_empty())
        .or_else(|| {
            let text = node.text()?;
            text.lines().map(str::trim).find(|line| !line.is_empty())
        })
        .or(node.attribute("type"))
        .unwrap_or_default()
        .to_owned()
}

/// Times with and without an offset; those without are taken as UTC.
fn parse_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    text.parse().ok().or_else(|| {
        let local: jiff::civil::DateTime = text.parse().ok()?;
        Some(local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::junit_xml;
    use crate::bench::run::BenchmarkRun;

    fn read(text: &str) -> Result<RunImport, String> {
        let origin = ResultOrigin {
            suite_id: "file".to_owned(),
            target: "file.xml".to_owned(),
            recorded_at: Timestamp::UNIX_EPOCH,
        };
        let file = Named {
            file: "file.xml",
            text,
        };
        read_junit(file, origin).map_err(|error| error.to_string())
    }

    fn verdicts(import: &RunImport) -> Vec<(&str, u32, Status)> {
        let results = import.run.results.iter();
        results
            .map(|result| (result.case_id.as_str(), result.repeat, result.status))
            .collect()
    }

    #[test]
    fn verdicts_of_pytest_are_read() {
        let import = read(
            r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests">
            <testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5" time="0.2" timestamp="2026-08-01T10:00:00.5+00:00" hostname="h">
            <testcase classname="tests.test_a" name="test_ok" time="0.25"><properties>
              <property name="tokens" value="12" /><property name="recall" value="0.5" /><property name="note" value="x" /></properties></testcase>
            <testcase classname="tests.test_a" name="test_bad[1]" time="1,000.5"><failure message="assert 1 == 2&#10;more">long text</failure></testcase>
            <testcase classname="tests.test_a" name="test_err"><error message="failed on setup" type="RuntimeError">x</error></testcase>
            <testcase classname="tests.test_a" name="test_skip"><skipped type="pytest.skip" message="later">x</skipped></testcase>
            <testcase classname="tests.test_a" name="test_ok" time="soon"/>
            </testsuite></testsuites>"#,
        )
        .unwrap();
        assert_eq!(
            verdicts(&import),
            [
                ("tests.test_a::test_ok", 0, Status::Pass),
                ("tests.test_a::test_bad[1]", 0, Status::Fail),
                ("tests.test_a::test_err", 0, Status::Error),
                ("tests.test_a::test_skip", 0, Status::Skipped),
                ("tests.test_a::test_ok", 1, Status::Pass),
            ]
        );
        let results = &import.run.results;
        assert_eq!((results[0].latency_ms, results[0].token_cost), (250.0, 12));
        assert_eq!(results[0].metrics["recall"], 0.5);
        assert_eq!(results[1].latency_ms, 1_000_500.0);
        assert_eq!(results[1].reasons, ["assert 1 == 2\nmore"]);
        assert_eq!(results[2].error_kind.as_deref(), Some("RuntimeError"));
        assert_eq!(import.run.suite_id, "pytest tests");
        assert_eq!(import.run.started_at.to_string(), "2026-08-01T10:00:00.5Z");
        let lost: Vec<String> = import.losses.iter().map(ToString::to_string).collect();
        assert_eq!(
            lost,
            [
                "property note: not a number, so it is not imported",
                "testcase: `tests.test_a::test_ok` occurs 2 times: taken as repeats of one case",
                "testcase.time: is not a number of seconds",
            ]
        );
    }

    #[test]
    fn reruns_of_surefire_are_attempts() {
        let import = read(
            r#"<testsuite name="org.AppTest" tests="2" time="0.1" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
            <properties><property name="java.version" value="21"/></properties>
            <testcase name="flaky" classname="org.AppTest" time="0.01"><flakyFailure message="once" type="E"><stackTrace>at</stackTrace></flakyFailure></testcase>
            <testcase name="down" classname="org.AppTest"><failure message="first" type="E"/><rerunFailure message="second" type="E"/><rerunError type="T">third</rerunError></testcase>
            </testsuite>"#,
        )
        .unwrap();
        assert_eq!(
            verdicts(&import),
            [("flaky", 0, Status::Pass), ("down", 0, Status::Fail)]
        );
        let attempts = &import.run.results[1].attempts;
        assert_eq!((import.run.results[0].retries, attempts.len()), (1, 2));
        assert_eq!(attempts[1].error.as_deref(), Some("third"));
    }

    #[test]
    fn equal_names_in_several_suites_stay_apart() {
        let import = read(
            r#"<testsuites><testsuite name="chrome"><testsuite name="inner"><testcase name="a" status="notrun"/></testsuite>
            <testcase classname="login" name="works"/></testsuite>
            <testsuite name="firefox" timestamp="2026-08-01T10:00:00"><testcase classname="login" name="works"><failure/></testcase></testsuite></testsuites>"#,
        )
        .unwrap();
        assert_eq!(
            verdicts(&import),
            [
                ("a", 0, Status::Skipped),
                ("chrome / login::works", 0, Status::Pass),
                ("firefox / login::works", 0, Status::Fail),
            ]
        );
        assert_eq!(import.losses[0].count, 2);
        assert_eq!(import.run.suite_id, "file");
    }

    #[test]
    fn reports_of_jest_and_gotestsum_are_read() {
        let jest = read(
            r#"<testsuites name="jest tests" tests="2" failures="1" errors="0" time="1.2">
            <testsuite name="cart" errors="0" failures="1" timestamp="2026-08-01T10:00:00" time="0.9" tests="2">
            <testcase classname="cart adds" name="cart adds" time="0.004"></testcase>
            <testcase classname="cart removes" name="cart removes" time="0.01"><failure>Error: expect(received).toBe(expected)
                at Object.toBe (cart.test.js:7:5)</failure></testcase></testsuite></testsuites>"#,
        )
        .unwrap();
        assert_eq!(
            verdicts(&jest),
            [("cart adds", 0, Status::Pass), ("cart removes", 0, Status::Fail)]
        );
        assert_eq!(
            jest.run.results[1].reasons,
            ["Error: expect(received).toBe(expected)"]
        );
        let go = read(
            r#"<testsuites tests="3" failures="1"><testsuite tests="2" failures="1" time="0.1" name="example.com/a">
            <properties><property name="go.version" value="go1.24"></property></properties>
            <testcase classname="example.com/a" name="TestX" time="0.000000"></testcase>
            <testcase classname="example.com/a" name="TestX/sub_case" time="0.01"><failure message="Failed" type="">=== RUN</failure></testcase>
            </testsuite><testsuite name="example.com/b"><testcase classname="example.com/b" name="TestX"><skipped message="later"></skipped></testcase>
            </testsuite></testsuites>"#,
        )
        .unwrap();
        assert_eq!(
            verdicts(&go),
            [
                ("example.com/a::TestX", 0, Status::Pass),
                ("example.com/a::TestX/sub_case", 0, Status::Fail),
                ("example.com/b::TestX", 0, Status::Skipped),
            ]
        );
    }

    #[test]
    fn the_own_report_is_read_back() {
        let results = vec![
            BenchmarkResult::new("a", 0, Status::Pass),
            BenchmarkResult::new("b", 0, Status::Fail),
        ];
        let run = BenchmarkRun {
            run_id: "r".into(),
            suite_id: "desk".into(),
            suite_hash: None,
            target: "t".into(),
            started_at: Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: BTreeMap::new(),
            results,
            summary: None,
        };
        let import = read(&junit_xml([&run])).unwrap();
        assert_eq!(import.run.suite_id, "desk");
        assert_eq!(
            verdicts(&import),
            [("a", 0, Status::Pass), ("b", 0, Status::Fail)]
        );
    }

    #[test]
    fn unusable_reports_are_errors() {
        let deep = format!(
            "{}{}",
            "<testsuite>".repeat(50_000),
            "</testsuite>".repeat(50_000)
        );
        for (text, expected) in [
            ("<testsuite>", "file.xml: invalid XML: "),
            (
                "<html/>",
                "root element: must be `testsuites` or `testsuite`, not `html`",
            ),
            ("<testsuites/>", "testcase: is missing: the report has no tests"),
            (
                "<testsuite>\n<testcase/></testsuite>",
                "line 2: testcase: name: is missing",
            ),
            (deep.as_str(), "the report has no tests"),
            (
                "<!DOCTYPE x [<!ENTITY a \"b\">]><testsuite>&a;</testsuite>",
                "invalid XML: ",
            ),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(expected), "{found}");
        }
    }
}
