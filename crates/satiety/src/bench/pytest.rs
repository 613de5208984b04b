//! Reads results of pytest as a run: the report of pytest-json-report (one JSON object) and the log of
//! pytest-reportlog (one JSON object per line and phase of a test). Each test is a case.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::imported_run::{
    RepeatCounter, ResultOrigin, RunImport, field_error, record_property, run_of_content,
};
use super::loss::Losses;
use super::reader::{Named, SuiteError, parse};
use super::run::{Attempt, BenchmarkResult, Status};

/// Key that every line of pytest-reportlog has.
const REPORT_TYPE: &str = "$report_type";

/// Whether a text is a log of pytest-reportlog.
pub fn is_pytest_log(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let line: Option<Map<String, Value>> = first.and_then(|line| serde_json::from_str(line).ok());
    line.is_some_and(|line| line.contains_key(REPORT_TYPE))
}

/// Reads the report of pytest-json-report.
pub fn read_pytest_report(file: Named<'_>, mut origin: ResultOrigin) -> Result<RunImport, SuiteError> {
    let report = parse(file)?;
    let tests = report
        .get("tests")
        .and_then(Value::as_array)
        .ok_or_else(|| field_error(file.file, "tests", "must be a list"))?;
    let created = report.get("created").and_then(Value::as_f64);
    origin.recorded_at = created.and_then(unix_time).unwrap_or(origin.recorded_at);
    let mut losses = Losses::default();
    let mut repeats = RepeatCounter::default();
    let mut results = Vec::with_capacity(tests.len());
    for (index, test) in tests.iter().enumerate() {
        let place = |key: &str| format!("tests[{index}].{key}");
        let id = text(test, "nodeid")
            .ok_or_else(|| field_error(file.file, &place("nodeid"), "is missing or not a string"))?;
        let stated = text(test, "outcome")
            .ok_or_else(|| field_error(file.file, &place("outcome"), "is missing or not a string"))?;
        let phase = |name: &str| test.get(name);
        // A rerun test has the phases of its last attempt.
        let outcome = match stated {
            "rerun" => {
                losses.push(
                    "tests[].outcome",
                    "a rerun test has the verdict of its last attempt",
                );
                phase("call")
                    .or(phase("setup"))
                    .and_then(|phase| text(phase, "outcome"))
                    .unwrap_or(stated)
            }
            stated => stated,
        };
        let phases = ["call", "setup", "teardown"].map(phase);
        let failed = phases
            .into_iter()
            .flatten()
            .find(|phase| text(phase, "outcome").is_some_and(|outcome| outcome != "passed"));
        let mut result = result(id, repeats.next(id), outcome, failed.map(cause)).ok_or_else(|| {
            let reason = format!(
                "unknown outcome `{outcome}` (expected one of: passed, failed, error, skipped, xfailed, xpassed, rerun)"
            );
            field_error(file.file, &place("outcome"), &reason)
        })?;
        result.retries = u32::from(stated == "rerun");
        let call = phase("call");
        result.latency_ms = call.map_or(0.0, duration_ms);
        result.actual_output = call.and_then(|call| text(call, "stdout")).map(str::to_owned);
        properties(&mut result, test.get("user_properties"), &mut losses);
        results.push(result);
    }
    let collectors = report.get("collectors").and_then(Value::as_array);
    for collector in collectors.into_iter().flatten() {
        results.extend(collection_error(collector, &mut repeats));
    }
    repeats.report("tests", &mut losses);
    require_tests(file.file, &results)?;
    Ok(run_of_content(
        "pytest", &file.text, origin, results, None, losses,
    ))
}

/// Reads a log of pytest-reportlog. A log without the end of the session is incomplete.
pub fn read_pytest_log(file: Named<'_>, mut origin: ResultOrigin) -> Result<RunImport, SuiteError> {
    let mut losses = Losses::default();
    let mut repeats = RepeatCounter::default();
    let mut results: Vec<BenchmarkResult> = Vec::new();
    // Tests of parallel processes are interleaved, so phases are collected per test.
    let mut open: BTreeMap<String, Execution> = BTreeMap::new();
    let mut attempts: BTreeMap<String, Vec<Attempt>> = BTreeMap::new();
    let mut started: Option<f64> = None;
    let mut is_finished = false;
    for (number, line) in (1..)
        .zip(file.text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let entry: Value = serde_json::from_str(line).map_err(|error| SuiteError::Syntax {
            file: file.file.to_owned(),
            reason: format!("line {number}: {error}"),
        })?;
        let missing = |key: &str| field_error(file.file, &format!("line {number}: {key}"), "is missing");
        match text(&entry, REPORT_TYPE).ok_or_else(|| missing(REPORT_TYPE))? {
            "TestReport" => {}
            "CollectReport" => {
                results.extend(collection_error(&entry, &mut repeats));
                continue;
            }
            "SessionFinish" => {
                is_finished = true;
                continue;
            }
            "SessionStart" => continue,
            other => {
                losses.push(format!("{REPORT_TYPE} {other}"), "not imported");
                continue;
            }
        }
        let id = text(&entry, "nodeid").ok_or_else(|| missing("nodeid"))?;
        let outcome = text(&entry, "outcome").ok_or_else(|| missing("outcome"))?;
        let when = text(&entry, "when").ok_or_else(|| missing("when"))?;
        if let Some(start) = entry.get("start").and_then(Value::as_f64) {
            started = Some(started.map_or(start, |earlier: f64| earlier.min(start)));
        }
        let execution = open.entry(id.to_owned()).or_default();
        execution.observe(when, outcome, &entry);
        if when != "teardown" {
            continue;
        }
        let Some(execution) = open.remove(id) else {
            continue;
        };
        if execution.is_rerun {
            attempts.entry(id.to_owned()).or_default().push(Attempt {
                latency_ms: execution.latency_ms,
                error: execution.cause,
                error_kind: None,
                waited_ms: None,
            });
            continue;
        }
        let earlier = attempts.remove(id).unwrap_or_default();
        results.extend(execution.into_result(id, repeats.next(id), earlier, &mut losses));
    }
    for id in open.into_keys() {
        let mut result = BenchmarkResult::new(id.as_str(), repeats.next(&id), Status::Error);
        result.error = Some("the test did not end".to_owned());
        results.push(result);
    }
    repeats.report("nodeid", &mut losses);
    require_tests(file.file, &results)?;
    origin.recorded_at = started.and_then(unix_time).unwrap_or(origin.recorded_at);
    let mut import = run_of_content("pytest", &file.text, origin, results, None, losses);
    if !is_finished {
        import.run.completed_at = None;
    }
    Ok(import)
}

/// Phases of one execution of a test.
#[derive(Default)]
struct Execution {
    /// Outcome so far: that of the call, unless setup or teardown failed.
    outcome: Option<&'static str>,
    is_rerun: bool,
    cause: Option<String>,
    latency_ms: f64,
    output: Option<String>,
    properties: Option<Value>,
}

impl Execution {
    fn observe(&mut self, when: &str, outcome: &str, entry: &Value) {
        let is_xfail = entry.get("wasxfail").is_some();
        let found = match (when, outcome) {
            (_, "rerun") => {
                self.is_rerun = true;
                None
            }
            (_, "skipped") if is_xfail => Some("xfailed"),
            ("call", "passed") if is_xfail => Some("xpassed"),
            ("call", "passed") => Some("passed"),
            ("call", "failed") => Some("failed"),
            (_, "failed") => Some("error"),
            (_, "skipped") => Some("skipped"),
            _ => None,
        };
        if outcome != "passed" {
            self.cause = Some(cause(entry));
        }
        if when == "call" {
            self.latency_ms = duration_ms(entry);
            let sections = entry.get("sections").and_then(Value::as_array);
            let captured = sections.into_iter().flatten().find_map(|section| {
                let name = section.get(0)?.as_str()?;
                name.starts_with("Captured stdout")
                    .then(|| section.get(1)?.as_str())?
            });
            self.output = captured.map(str::to_owned);
        }
        if let Some(properties) = entry.get("user_properties") {
            self.properties = Some(properties.clone());
        }
        // A test that failed and whose teardown failed, too, has failed.
        self.outcome = match (self.outcome, found) {
            (Some("failed"), _) | (_, None) => self.outcome,
            (_, found) => found,
        };
    }

    fn into_result(
        self,
        id: &str,
        repeat: u32,
        attempts: Vec<Attempt>,
        losses: &mut Losses,
    ) -> Option<BenchmarkResult> {
        let mut result = result(id, repeat, self.outcome?, self.cause)?;
        result.latency_ms = self.latency_ms;
        result.actual_output = self.output;
        result.retries = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        result.attempts = attempts;
        if result.retries > 0 {
            losses.push("outcome", "a rerun test has the verdict of its last attempt");
        }
        properties(&mut result, self.properties.as_ref(), losses);
        Some(result)
    }
}

/// A result from the outcome that pytest reports; `None` for an unknown one. An expected failure says nothing
/// about the test, so it is skipped.
fn result(id: &str, repeat: u32, outcome: &str, cause: Option<String>) -> Option<BenchmarkResult> {
    let status = match outcome {
        "passed" | "xpassed" => Status::Pass,
        "failed" => Status::Fail,
        "error" => Status::Error,
        "skipped" | "xfailed" => Status::Skipped,
        _ => return None,
    };
    let mut result = BenchmarkResult::new(id, repeat, status);
    let cause = cause.filter(|cause| !cause.is_empty());
    match outcome {
        "error" => result.error = cause.or_else(|| Some("setup or teardown failed".to_owned())),
        "xfailed" => result.reasons.push("expected failure".to_owned()),
        "xpassed" => result
            .reasons
            .push("passed although a failure was expected".to_owned()),
        "passed" => {}
        _ => result.reasons.extend(cause),
    }
    Some(result)
}

/// A file that cannot be collected has tests that did not run.
fn collection_error(collector: &Value, repeats: &mut RepeatCounter) -> Option<BenchmarkResult> {
    let is_failed = matches!(text(collector, "outcome"), Some("failed" | "error"));
    let id = text(collector, "nodeid").filter(|_| is_failed)?;
    let mut result = BenchmarkResult::new(id, repeats.next(id), Status::Error);
    result.error = Some(cause(collector));
    result.error_kind = Some("collection".to_owned());
    Some(result)
}

fn require_tests(file: &str, results: &[BenchmarkResult]) -> Result<(), SuiteError> {
    if results.is_empty() {
        return Err(field_error(file, "tests", "is empty: the report has no tests"));
    }
    Ok(())
}

/// Message of a phase that did not pass: the message of the crash, or the last line of its text.
fn cause(phase: &Value) -> String {
    let crash = phase
        .pointer("/crash/message")
        .or(phase.pointer("/longrepr/reprcrash/message"))
        // The third entry of a skip is its reason.
        .or(phase.pointer("/longrepr/2"));
    let message = crash.and_then(Value::as_str).or_else(|| {
        let lines = text(phase, "longrepr")?.lines().rev();
        lines.map(str::trim).find(|line| !line.is_empty())
    });
    message.unwrap_or_default().to_owned()
}

/// Properties are pairs in a log, and objects in a report.
fn properties(result: &mut BenchmarkResult, listed: Option<&Value>, losses: &mut Losses) {
    let mut record = |name: &str, value: &Value| {
        if !record_property(result, name, value) {
            losses.push(
                format!("user_properties {name}"),
                "not a number, so it is not imported",
            );
        }
    };
    for property in listed.and_then(Value::as_array).into_iter().flatten() {
        match property {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| record(name, value)),
            Value::Array(pair) => {
                if let [Value::String(name), value] = pair.as_slice() {
                    record(name, value);
                }
            }
            _ => {}
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn duration_ms(phase: &Value) -> f64 {
    phase
        .get("duration")
        .and_then(Value::as_f64)
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .unwrap_or(0.0)
        * 1e3
}

fn unix_time(seconds: f64) -> Option<Timestamp> {
    let since_epoch = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
    Timestamp::from_duration(since_epoch).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> ResultOrigin {
        ResultOrigin {
            suite_id: "report".to_owned(),
            target: "report.json".to_owned(),
            recorded_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn verdicts(import: &RunImport) -> Vec<(&str, Status, &str)> {
        let results = import.run.results.iter();
        results
            .map(|result| {
                let reason = result
                    .error
                    .as_deref()
                    .or(result.reasons.first().map(String::as_str));
                (result.case_id.as_str(), result.status, reason.unwrap_or_default())
            })
            .collect()
    }

    #[test]
    fn the_report_has_a_verdict_per_test() {
        let text = r#"{"created": 1785578400.5, "exitcode": 1, "root": "/x", "summary": {"total": 6},
            "collectors": [{"nodeid": "", "outcome": "passed"}, {"nodeid": "b.py", "outcome": "failed", "longrepr": "x\nE   ImportError: no"}],
            "tests": [
            {"nodeid": "a.py::ok", "outcome": "passed", "call": {"duration": 0.5, "outcome": "passed", "stdout": "hi"}, "user_properties": [{"tokens": 7}, {"who": "me"}]},
            {"nodeid": "a.py::bad", "outcome": "failed", "call": {"duration": 1, "outcome": "failed", "crash": {"message": "assert 1 == 2"}}},
            {"nodeid": "a.py::skip", "outcome": "skipped", "setup": {"outcome": "skipped", "longrepr": "('a.py', 4, 'Skipped: later')"}},
            {"nodeid": "a.py::xf", "outcome": "xfailed", "call": {"outcome": "skipped"}},
            {"nodeid": "a.py::err", "outcome": "error", "setup": {"outcome": "failed", "crash": {"message": "RuntimeError: fixture"}}},
            {"nodeid": "a.py::again", "outcome": "rerun", "setup": {"outcome": "passed"}, "call": {"outcome": "passed"}}]}"#;
        let file = Named {
            file: "report.json",
            text,
        };
        let import = read_pytest_report(file, origin()).unwrap();
        assert_eq!(
            verdicts(&import),
            [
                ("a.py::ok", Status::Pass, ""),
                ("a.py::bad", Status::Fail, "assert 1 == 2"),
                ("a.py::skip", Status::Skipped, "('a.py', 4, 'Skipped: later')"),
                ("a.py::xf", Status::Skipped, "expected failure"),
                ("a.py::err", Status::Error, "RuntimeError: fixture"),
                ("a.py::again", Status::Pass, ""),
                ("b.py", Status::Error, "E   ImportError: no"),
            ]
        );
        let first = &import.run.results[0];
        assert_eq!((first.latency_ms, first.token_cost), (500.0, 7));
        assert_eq!(first.actual_output.as_deref(), Some("hi"));
        assert_eq!(import.run.results[5].retries, 1);
        assert_eq!(import.run.started_at.to_string(), "2026-08-01T10:00:00.5Z");
        assert_eq!(import.losses.len(), 2, "{:?}", import.losses);
    }

    #[test]
    fn phases_of_a_log_become_one_verdict() {
        let line = |id: &str, when: &str, outcome: &str, more: &str| {
            format!(
                "{{\"nodeid\": \"{id}\", \"when\": \"{when}\", \"outcome\": \"{outcome}\", \"duration\": 0.1, \"start\": 1785578400.0{more}, \"$report_type\": \"TestReport\"}}\n"
            )
        };
        let crash = ", \"longrepr\": {\"reprcrash\": {\"message\": \"boom\"}}";
        let mut text = "{\"pytest_version\": \"9\", \"$report_type\": \"SessionStart\"}\n".to_owned();
        for (id, phases) in [
            (
                "ok",
                &[
                    ("setup", "passed", ""),
                    ("call", "passed", ", \"user_properties\": [[\"recall\", 0.5]]"),
                    ("teardown", "passed", ""),
                ][..],
            ),
            (
                "flaky",
                &[
                    ("setup", "passed", ""),
                    ("call", "rerun", crash),
                    ("teardown", "passed", ""),
                    ("setup", "passed", ""),
                    ("call", "passed", ""),
                    ("teardown", "passed", ""),
                ],
            ),
            ("setup", &[("setup", "failed", crash), ("teardown", "passed", "")]),
            (
                "teardown",
                &[
                    ("setup", "passed", ""),
                    ("call", "passed", ""),
                    ("teardown", "failed", crash),
                ],
            ),
            (
                "both",
                &[
                    ("setup", "passed", ""),
                    ("call", "failed", crash),
                    ("teardown", "failed", crash),
                ],
            ),
            (
                "skip",
                &[
                    (
                        "setup",
                        "skipped",
                        ", \"longrepr\": [\"a.py\", 4, \"Skipped: later\"]",
                    ),
                    ("teardown", "passed", ""),
                ],
            ),
            (
                "xfail",
                &[
                    ("setup", "passed", ""),
                    ("call", "skipped", ", \"wasxfail\": \"\""),
                    ("teardown", "passed", ""),
                ],
            ),
            ("killed", &[("setup", "passed", "")]),
        ] {
            for (when, outcome, more) in phases {
                text += &line(id, when, outcome, more);
            }
        }
        assert!(is_pytest_log(&text));
        let read = |text: &str| {
            let file = Named {
                file: "log.jsonl",
                text,
            };
            read_pytest_log(file, origin()).map_err(|error| error.to_string())
        };
        let import = read(&text).unwrap();
        assert_eq!(
            verdicts(&import),
            [
                ("ok", Status::Pass, ""),
                ("flaky", Status::Pass, ""),
                ("setup", Status::Error, "boom"),
                ("teardown", Status::Error, "boom"),
                ("both", Status::Fail, "boom"),
                ("skip", Status::Skipped, "Skipped: later"),
                ("xfail", Status::Skipped, "expected failure"),
                ("killed", Status::Error, "the test did not end"),
            ]
        );
        assert_eq!(import.run.results[0].metrics["recall"], 0.5);
        assert_eq!(import.run.results[1].attempts.len(), 1);
        assert!(import.run.completed_at.is_none(), "the session did not finish");
        text += "{\"exitstatus\": 1, \"$report_type\": \"SessionFinish\"}";
        assert!(read(&text).unwrap().run.completed_at.is_some());
        for (text, expected) in [
            (
                "{\"$report_type\": \"TestReport\"}",
                "log.jsonl: line 1: nodeid: is missing",
            ),
            ("{}", "line 1: $report_type: is missing"),
            ("{\"$report_type\": \"SessionFinish\"}\n{", "line 2: EOF"),
            ("{\"$report_type\": \"SessionFinish\"}", "the report has no tests"),
        ] {
            assert!(read(text).unwrap_err().contains(expected), "{text}");
        }
    }
}
