//! Converts Inspect evaluation logs to benchmark runs. A `.json` log is one object. An `.eval` file is an
//! archive; the caller unpacks its `header.json` and `summaries.json` (or the individual samples, or, after a
//! crash, only the journal). Each combination of sample and epoch becomes one result.
//!
//! The scorer's value becomes the score. A sample error becomes an error, an exceeded time limit becomes a
//! timeout, and a sample without a score is skipped rather than failed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::hash::content_hash;
use super::reader::SuiteError;
use super::run::{BenchmarkResult, BenchmarkRun, ErrorOwner, Status};
use super::summary::summarize;

/// Scorer and pass threshold for imported samples.
#[derive(Debug, Clone, PartialEq)]
pub struct InspectOptions {
    /// Scorer whose value decides; defaults to the first by name.
    pub scorer: Option<String>,
    /// Minimum score for a sample to pass.
    pub threshold: f64,
}

impl Default for InspectOptions {
    fn default() -> Self {
        Self {
            scorer: None,
            threshold: 1.0,
        }
    }
}

/// Reads a complete `.json` log.
pub fn read_inspect_log(
    file: &str,
    text: &str,
    options: &InspectOptions,
) -> Result<BenchmarkRun, SuiteError> {
    let mut log = parse_object(file, text)?;
    let Some(Value::Array(samples)) = log.remove("samples") else {
        return Err(field_error(
            file,
            "samples",
            "is missing: the log was written without samples",
        ));
    };
    to_run(file, &log, &samples, options)
}

/// Reads the members of an `.eval` archive: the header (or the start of the journal), and the samples or
/// their summaries. Each sample text is one object or a list.
pub fn read_inspect_members(
    file: &str,
    header: &str,
    samples: &[&str],
    options: &InspectOptions,
) -> Result<BenchmarkRun, SuiteError> {
    let log = parse_object(file, header)?;
    let mut all = Vec::new();
    for text in samples {
        match parse_json(file, text)? {
            Value::Array(items) => all.extend(items),
            sample => all.push(sample),
        }
    }
    to_run(file, &log, &all, options)
}

fn to_run(
    file: &str,
    log: &Map<String, Value>,
    samples: &[Value],
    options: &InspectOptions,
) -> Result<BenchmarkRun, SuiteError> {
    let Some(spec) = log.get("eval").and_then(Value::as_object) else {
        return Err(field_error(file, "eval", "is missing: not an Inspect log"));
    };
    let text = |key: &str| {
        spec.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let time = |value: Option<&Value>| {
        value
            .and_then(Value::as_str)
            .and_then(|text| text.parse::<Timestamp>().ok())
    };
    let stats = log.get("stats");
    let started_at = time(stats.and_then(|stats| stats.get("started_at")))
        .or_else(|| time(spec.get("created")))
        .ok_or_else(|| field_error(file, "eval.created", "is not a valid timestamp"))?;
    let results: Vec<BenchmarkResult> = samples
        .iter()
        .enumerate()
        .map(|(index, sample)| {
            result(sample, options)
                .ok_or_else(|| field_error(file, &format!("samples[{index}].id"), "is missing"))
        })
        .collect::<Result<_, _>>()?;
    let mut config: BTreeMap<String, Value> =
        ["model", "dataset", "config", "revision", "packages", "task_args"]
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), spec.get(*key)?.clone())))
            .collect();
    config.extend(
        log.get("status")
            .map(|status| ("inspect_status".to_owned(), status.clone())),
    );
    let run_id = ["eval_id", "run_id", "task_id"]
        .iter()
        .map(|key| text(key))
        .find(|id| !id.is_empty());
    Ok(BenchmarkRun {
        run_id: run_id.unwrap_or_else(|| format!("inspect-{started_at}")),
        suite_id: text("task"),
        suite_hash: None,
        target: text("model"),
        started_at,
        completed_at: time(stats.and_then(|stats| stats.get("completed_at"))),
        config_snapshot: config,
        summary: Some(summarize(&results)),
        results,
    })
}

/// Returns `None` when the sample has no id.
fn result(sample: &Value, options: &InspectOptions) -> Option<BenchmarkResult> {
    let case_id = match sample.get("id")? {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => return None,
    };
    let epoch = sample.get("epoch").and_then(Value::as_u64).unwrap_or(1);
    let repeat = u32::try_from(epoch.saturating_sub(1)).unwrap_or(u32::MAX);
    let score = score_of(sample, options);
    let limit = sample
        .get("limit")
        .filter(|limit| !limit.is_null())
        .map(limit_name);
    let error = sample.get("error").filter(|error| !error.is_null()).map(message);
    let status = match (&error, limit.as_deref(), score) {
        (Some(_), _, _) => Status::Error,
        (None, Some("time" | "working"), _) => Status::Timeout,
        (None, _, Some(score)) if score >= options.threshold - 1e-9 => Status::Pass,
        (None, _, Some(_)) => Status::Fail,
        (None, _, None) => Status::Skipped,
    };
    let mut result = BenchmarkResult::new(case_id, repeat, status);
    // The log does not attribute errors; the target is the most likely owner.
    result.error_owner = matches!(status, Status::Error | Status::Timeout).then_some(ErrorOwner::Target);
    result.case_hash = Some(content_hash(&(sample.get("input"), sample.get("target"))));
    result.score = score.map(|score| score.clamp(0.0, 1.0));
    result.error = error;
    result.error_kind = limit.map(|limit| format!("limit: {limit}"));
    let seconds = ["working_time", "total_time"]
        .iter()
        .find_map(|key| sample.get(*key)?.as_f64());
    result.latency_ms = seconds.unwrap_or(0.0).max(0.0) * 1e3;
    let usage = |key: &str| -> Option<u64> {
        let models = sample.get("model_usage")?.as_object()?;
        Some(models.values().filter_map(|model| model.get(key)?.as_u64()).sum())
    };
    result.token_cost = usage("total_tokens").unwrap_or(0);
    result.tokens_in = usage("input_tokens");
    result.tokens_out = usage("output_tokens");
    result.actual_output = sample
        .get("output")
        .and_then(|output| output.get("completion"))
        .or_else(|| scorer(sample, options)?.get("answer"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    result.retries = sample
        .get("retries")
        .and_then(Value::as_u64)
        .and_then(|retries| u32::try_from(retries).ok())
        .unwrap_or(0);
    result.reasons = match (
        status,
        scorer(sample, options).and_then(|score| score.get("explanation")?.as_str()),
    ) {
        (Status::Fail, Some(explanation)) => vec![explanation.to_owned()],
        (Status::Skipped, _) => vec!["no scorer returned a value".to_owned()],
        _ => Vec::new(),
    };
    Some(result)
}

fn scorer<'a>(sample: &'a Value, options: &InspectOptions) -> Option<&'a Value> {
    let scores = sample.get("scores")?.as_object()?;
    match &options.scorer {
        Some(name) => scores.get(name),
        // Ordered by name, because not every writer preserves the order of a map.
        None => scores
            .iter()
            .min_by_key(|(name, _)| name.as_str())
            .map(|(_, score)| score),
    }
}

fn score_of(sample: &Value, options: &InspectOptions) -> Option<f64> {
    fn number(value: &Value) -> Option<f64> {
        match value {
            Value::Number(number) => number.as_f64(),
            Value::Bool(right) => Some(f64::from(u8::from(*right))),
            Value::String(letter) => match letter.as_str() {
                "C" => Some(1.0),
                "P" => Some(0.5),
                "I" | "N" => Some(0.0),
                text => text.parse().ok(),
            },
            // Multiple values of one scorer have equal weight.
            Value::Array(items) => {
                crate::stats::mean(&items.iter().map(number).collect::<Option<Vec<_>>>()?).ok()
            }
            Value::Object(fields) => {
                crate::stats::mean(&fields.values().map(number).collect::<Option<Vec<_>>>()?).ok()
            }
            Value::Null => None,
        }
    }
    number(scorer(sample, options)?.get("value")?).filter(|score| score.is_finite())
}

/// A limit is given by its name or as an object with a `type`.
fn limit_name(limit: &Value) -> String {
    limit
        .as_str()
        .or_else(|| limit.get("type")?.as_str())
        .unwrap_or("unknown")
        .to_owned()
}

fn message(error: &Value) -> String {
    error
        .as_str()
        .or_else(|| error.get("message")?.as_str())
        .map_or_else(|| error.to_string(), str::to_owned)
}

fn parse_object(file: &str, text: &str) -> Result<Map<String, Value>, SuiteError> {
    match parse_json(file, text)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(field_error(file, "top level", "must be an object")),
    }
}

/// Parses JSON as Python writes it: `NaN` and infinities become null.
fn parse_json(file: &str, text: &str) -> Result<Value, SuiteError> {
    serde_json::from_str(text).or_else(|error| {
        serde_json::from_str(&replace_constants(text)).map_err(|_| syntax_error(file, &error))
    })
}

/// Replaces `NaN`, `Infinity` and `-Infinity` outside of strings with `null`.
fn replace_constants(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut in_string) = (text, false);
    while let Some(letter) = rest.chars().next() {
        let constant = ["NaN", "-Infinity", "Infinity"]
            .into_iter()
            .find(|word| !in_string && rest.starts_with(word));
        let taken = match (constant, letter) {
            (Some(word), _) => {
                out.push_str("null");
                word.len()
            }
            (None, '\\') if in_string => {
                let escape = rest.chars().take(2).map(char::len_utf8).sum();
                out.push_str(rest.get(..escape).unwrap_or_default());
                escape
            }
            (None, letter) => {
                in_string ^= letter == '"';
                out.push(letter);
                letter.len_utf8()
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

fn syntax_error(file: &str, error: &serde_json::Error) -> SuiteError {
    SuiteError::Syntax {
        file: file.to_owned(),
        reason: error.to_string(),
    }
}

fn field_error(file: &str, field: &str, reason: &str) -> SuiteError {
    SuiteError::Field {
        file: file.to_owned(),
        field: field.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Error, Fail, Pass, Skipped, Timeout};

    const HEADER: &str = r#"{"version": 2, "status": "success",
        "eval": {"task": "arithmetic", "run_id": "r1", "created": "2026-08-01T10:00:00+00:00", "model": "mock/model"},
        "stats": {"started_at": "2026-08-01T10:00:01+00:00", "completed_at": "2026-08-01T10:05:00+00:00"}}"#;
    const SAMPLES: &str = r#"[
        {"id": 1, "epoch": 1, "input": "2+2", "target": "4", "scores": {"match": {"value": "C", "answer": "4"}}, "working_time": 1.5, "total_time": 2,
         "model_usage": {"m": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}, "n": {"total_tokens": 5}}},
        {"id": 1, "epoch": 2, "input": "2+2", "target": "4", "scores": {"match": {"value": "I", "explanation": "got 5"}}},
        {"id": "b", "epoch": 1, "scores": {"match": {"value": 0.5}}},
        {"id": "c", "epoch": 1, "scores": {"match": {"value": "C"}}, "error": "boom"},
        {"id": "d", "epoch": 1, "limit": "time", "scores": {"match": {"value": "I"}}},
        {"id": "e", "epoch": 1, "scores": {}},
        {"id": "f", "epoch": 1, "limit": {"type": "token"}, "scores": {"match": {"value": {"a": 1, "b": true}}}}
    ]"#;

    #[test]
    fn samples_become_results() {
        let run = read_inspect_members("x.eval", HEADER, &[SAMPLES], &InspectOptions::default()).unwrap();
        assert_eq!(
            (run.run_id.as_str(), run.suite_id.as_str(), run.target.as_str()),
            ("r1", "arithmetic", "mock/model")
        );
        let statuses: Vec<Status> = run.results.iter().map(|result| result.status).collect();
        assert_eq!(statuses, [Pass, Fail, Fail, Error, Timeout, Skipped, Pass]);
        let first = &run.results[0];
        assert_eq!(
            (first.case_id.as_str(), first.repeat, first.latency_ms),
            ("1", 0, 1500.0)
        );
        assert_eq!(
            (first.token_cost, first.tokens_in, first.actual_output.as_deref()),
            (20, Some(10), Some("4"))
        );
        assert_eq!(
            (run.results[1].repeat, run.results[1].reasons[0].as_str()),
            (1, "got 5")
        );
        assert_eq!(first.case_hash, run.results[1].case_hash);
        assert_ne!(first.case_hash, run.results[2].case_hash);
        assert_eq!(run.results[6].error_kind.as_deref(), Some("limit: token"));
        assert_eq!(run.summary.unwrap().counts.skipped, 1);

        let lenient = InspectOptions {
            threshold: 0.5,
            ..InspectOptions::default()
        };
        let run = read_inspect_members("x.eval", HEADER, &[SAMPLES], &lenient).unwrap();
        assert_eq!(run.results[2].status, Pass);
    }

    #[test]
    fn python_nan_and_infinity_become_null() {
        let sample =
            r#"{"id": "NaN \" NaN", "scores": {"match": {"value": NaN}}, "x": [-Infinity, Infinity]}"#;
        let run = read_inspect_members("x.eval", HEADER, &[sample], &InspectOptions::default()).unwrap();
        assert_eq!(
            (run.results[0].case_id.as_str(), run.results[0].status),
            ("NaN \" NaN", Skipped)
        );
        let message = read_inspect_members("x.eval", HEADER, &["{\"id\": NaNa}"], &InspectOptions::default());
        assert!(message.unwrap_err().to_string().starts_with("x.eval: "));
    }

    #[test]
    fn a_json_log_contains_its_samples() {
        let whole = format!(
            "{}, \"samples\": {SAMPLES}}}",
            HEADER.trim_end_matches('}').to_owned() + "}"
        );
        let run = read_inspect_log("x.json", &whole, &InspectOptions::default()).unwrap();
        assert_eq!(run.results.len(), 7);
        for (text, expected) in [
            ("{", "x.json: EOF"),
            ("{}", "x.json: samples: is missing"),
            (r#"{"samples": []}"#, "x.json: eval: is missing"),
            (
                r#"{"eval": {"created": "2026-08-01T10:00:00Z"}, "samples": [{}]}"#,
                "x.json: samples[0].id: is missing",
            ),
        ] {
            let message = read_inspect_log("x.json", text, &InspectOptions::default())
                .unwrap_err()
                .to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
