//! Converts Inspect evaluation logs to benchmark runs. A `.json` log is one object. An `.eval` file is an
//! archive; the caller unpacks its `header.json` and `summaries.json` (or the individual samples, or, after a
//! crash, only the journal). Each combination of sample and epoch becomes one result.
//!
//! Every score of a sample is kept by name, on the scorer's own scale. One of them decides: the one that the
//! caller chose, the one that the task declared as its headline, or the only one. A sample error becomes an
//! error, an exceeded time limit becomes a timeout, and a sample without a score is skipped rather than failed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::hash::content_hash;
use super::imported_run::{Decision, RunImport, ScoreChoice, imported_scores};
use super::loss::Losses;
use super::reader::SuiteError;
use super::run::{BenchmarkResult, BenchmarkRun, ErrorOwner, NamedScore, Status};
use super::summary::summarize;

/// Reads a complete `.json` log.
pub fn read_inspect_log(file: &str, text: &str, options: &ScoreChoice) -> Result<RunImport, SuiteError> {
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
    options: &ScoreChoice,
) -> Result<RunImport, SuiteError> {
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

/// Keys of a sample that a result has in another form, or that only describe the log itself.
const SAMPLE_KEYS: [&str; 31] = [
    "id",
    "epoch",
    "input",
    "choices",
    "target",
    "scores",
    "score",
    "error",
    "error_retries",
    "limit",
    "limit_reason",
    "invalidation",
    "completed",
    "retries",
    "working_time",
    "total_time",
    "started_at",
    "completed_at",
    "model_usage",
    "role_usage",
    "uuid",
    "attachments",
    "events_data",
    "message_count",
    "turn_count",
    "token_limit",
    "token_limit_type",
    "output",
    "has_retries",
    "timelines",
    "model_fallbacks",
];

/// Keys of a log that the run has in another form.
const LOG_KEYS: [&str; 11] = [
    "version",
    "status",
    "eval",
    "results",
    "stats",
    "samples",
    "error",
    "location",
    "etag",
    "invalidated",
    "reductions",
];

fn to_run(
    file: &str,
    log: &Map<String, Value>,
    samples: &[Value],
    options: &ScoreChoice,
) -> Result<RunImport, SuiteError> {
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
    let mut losses = Losses::default();
    losses.unknown_keys("", log, &LOG_KEYS);
    let header = ScoreHeader::of(log, spec);
    let mut scored = Vec::with_capacity(samples.len());
    for sample in samples {
        if let Some(fields) = sample.as_object() {
            losses.unknown_keys("samples[].", fields, &SAMPLE_KEYS);
        }
        scored.push(header.scores_of(sample));
    }
    let decision = Decision::choose(
        file,
        &|name| header.position(name),
        header.headline.as_ref(),
        scored.iter().flatten(),
        options,
    )?;
    if decision.is_none() {
        losses.push_deciding(
            "samples[].scores",
            "no sample has a numeric score, so nothing decides",
        );
    }
    let mut results: Vec<BenchmarkResult> = samples
        .iter()
        .zip(scored)
        .enumerate()
        .map(|(index, (sample, scores))| {
            result(sample, scores, decision.as_ref())
                .ok_or_else(|| field_error(file, &format!("samples[{index}].id"), "is missing"))
        })
        .collect::<Result<_, _>>()?;
    results.extend(early_stops(log, &results));
    let planned = log
        .get("results")
        .and_then(|results| results.get("total_samples")?.as_u64())
        .unwrap_or(0);
    let missing = planned.saturating_sub(results.len() as u64);
    if missing > 0 {
        losses.push_deciding(
            "samples",
            format!("{missing} of {planned} planned samples are not in the log"),
        );
    }
    let mut config: BTreeMap<String, Value> =
        ["model", "dataset", "config", "revision", "packages", "task_args"]
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), spec.get(*key)?.clone())))
            .collect();
    let status = log.get("status").and_then(Value::as_str);
    config.extend(status.map(|status| ("inspect_status".to_owned(), status.into())));
    config.extend(
        decision
            .as_ref()
            .map(|decision| ("deciding_score".to_owned(), decision.describe())),
    );
    // A cancelled or failed evaluation has an end, but not all of its results.
    let complete = matches!(status, None | Some("success")) && missing == 0;
    let run_id = ["eval_id", "run_id", "task_id"]
        .iter()
        .map(|key| text(key))
        .find(|id| !id.is_empty());
    let mut scores = imported_scores(&results, |name| {
        let logged = header.means.iter().find(|(known, _)| known == name);
        logged.and_then(|(_, mean)| *mean)
    });
    scores.sort_by_cached_key(|score| header.position(&score.name));
    for score in &scores {
        if let (Some(own), Some(logged)) = (score.mean, score.log_mean)
            && (own - logged).abs() > 1e-6 * logged.abs().max(1.0)
        {
            losses.push_deciding(
                format!("results.scores.{}", score.name),
                format!("the log's mean is {logged}, that of its samples {own}"),
            );
        }
    }
    Ok(RunImport {
        run: BenchmarkRun {
            run_id: run_id.unwrap_or_else(|| format!("inspect-{started_at}")),
            suite_id: text("task"),
            suite_hash: None,
            target: text("model"),
            started_at,
            completed_at: time(stats.and_then(|stats| stats.get("completed_at"))).filter(|_| complete),
            config_snapshot: config,
            summary: Some(summarize(&results)),
            results,
        },
        scores,
        losses: losses.into_vec(),
    })
}

/// Samples that early stopping did not run are skipped results, so that the run still has every planned one.
fn early_stops(log: &Map<String, Value>, results: &[BenchmarkResult]) -> Vec<BenchmarkResult> {
    let stops = log
        .get("results")
        .and_then(|results| results.get("early_stopping")?.get("early_stops")?.as_array());
    let known: BTreeSet<(&str, u32)> = results
        .iter()
        .map(|result| (result.case_id.as_str(), result.repeat))
        .collect();
    let stops = stops.into_iter().flatten().filter_map(|stop| {
        let id = sample_id(stop)?;
        let repeat = repeat_of(stop);
        if known.contains(&(id.as_str(), repeat)) {
            return None;
        }
        let mut result = BenchmarkResult::new(id, repeat, Status::Skipped);
        let reason = stop.get("reason").and_then(Value::as_str);
        result.reasons.push(match reason {
            Some(reason) => format!("stopped early: {reason}"),
            None => "stopped early".to_owned(),
        });
        Some(result)
    });
    stops.collect()
}

/// What the header says about scores: their order, means and the declared headline.
struct ScoreHeader {
    /// Names in the order of the log's results, with the log's own mean.
    means: Vec<(String, Option<f64>)>,
    /// Scorers in the order of the task.
    scorers: Vec<String>,
    /// Scorers whose accuracy the log has; Inspect counts their unknown texts as 0.
    with_accuracy: BTreeSet<String>,
    /// Scorer and score that the task declares as its headline.
    headline: Option<(Option<String>, Option<String>)>,
}

impl ScoreHeader {
    fn of(log: &Map<String, Value>, spec: &Map<String, Value>) -> Self {
        let results = log.get("results").and_then(Value::as_object);
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut entries: Vec<Value> = results
            .and_then(|results| results.get("scores")?.as_array().cloned())
            .unwrap_or_default();
        // Older logs have a single scorer with its metrics next to it.
        if let Some(results) = results.filter(|results| entries.is_empty() && results.contains_key("metrics"))
        {
            let mut entry = Map::new();
            let name = results.get("scorer").and_then(|scorer| {
                scorer
                    .as_str()
                    .map(str::to_owned)
                    .or_else(|| text(scorer, "name"))
            });
            entry.insert(
                "name".to_owned(),
                name.unwrap_or_else(|| UNNAMED.to_owned()).into(),
            );
            entry.extend(
                results
                    .get("metrics")
                    .map(|metrics| ("metrics".to_owned(), metrics.clone())),
            );
            entries.push(Value::Object(entry));
        }
        let mut header = Self {
            means: Vec::new(),
            scorers: Vec::new(),
            with_accuracy: BTreeSet::new(),
            headline: None,
        };
        for entry in &entries {
            let Some(name) = text(entry, "name") else { continue };
            let scorer = text(entry, "scorer").unwrap_or_else(|| name.clone());
            let id = if scorer == name {
                name
            } else {
                format!("{scorer}/{name}")
            };
            let metric = |wanted: &str| {
                entry
                    .get("metrics")?
                    .as_object()?
                    .iter()
                    .find_map(|(key, metric)| {
                        let key = key.rsplit('/').next().unwrap_or(key);
                        (key == wanted).then(|| metric.get("value").unwrap_or(metric).as_f64())
                    })
            };
            if metric("accuracy").is_some() {
                header.with_accuracy.insert(scorer);
            }
            // Other reducers (mode, at_least_k) do not give a mean of the samples.
            let is_mean = text(entry, "reducer").is_none_or(|reducer| reducer == "mean");
            let mean = metric("mean")
                .or_else(|| metric("accuracy"))
                .flatten()
                .filter(|_| is_mean);
            match header.means.iter_mut().find(|(known, _)| *known == id) {
                Some((_, known)) => *known = known.or(mean),
                None => header.means.push((id, mean)),
            }
        }
        let declared = spec
            .get("scorers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for scorer in declared {
            header.scorers.extend(text(scorer, "name"));
        }
        header.headline = spec
            .get("headline_metric")
            .filter(|headline| !headline.is_null())
            .map(|headline| (text(headline, "scorer"), text(headline, "score")))
            .filter(|(scorer, score)| scorer.is_some() || score.is_some());
        header
    }

    /// Position of a score in the log's own order.
    fn position(&self, name: &str) -> (usize, usize) {
        let scorer = name.split('/').next().unwrap_or(name);
        let of_mean = self.means.iter().position(|(known, _)| known == name);
        let of_scorer = self.scorers.iter().position(|known| known == scorer);
        (of_mean.unwrap_or(usize::MAX), of_scorer.unwrap_or(usize::MAX))
    }

    /// All scores of a sample, in the log's own order.
    fn scores_of(&self, sample: &Value) -> Vec<NamedScore> {
        let mut found = Vec::new();
        let mut push = |name: String, value: &Value, score: &Value, scorer: &str| {
            let (number, known_range) = numeric_value(value);
            let number = match (number, value) {
                (None, Value::String(_)) if self.with_accuracy.contains(scorer) => Some(0.0),
                (number, _) => number,
            };
            found.push(NamedScore {
                label: value.as_str().map(str::to_owned),
                range: known_range.then_some([0.0, 1.0]),
                reason: score
                    .get("explanation")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                ..NamedScore::new(name, number)
            });
        };
        let legacy = sample.get("score").filter(|score| score.is_object());
        let unnamed = self.means.first().map_or(UNNAMED, |(name, _)| name.as_str());
        let scores = sample.get("scores").and_then(Value::as_object);
        let named = scores
            .into_iter()
            .flatten()
            .map(|(name, score)| (name.as_str(), score));
        for (scorer, score) in named.chain(legacy.map(|score| (unnamed, score))) {
            match score.get("value") {
                Some(Value::Object(values)) => {
                    for (key, value) in values {
                        push(format!("{scorer}/{key}"), value, score, scorer);
                    }
                }
                Some(Value::Array(values)) => {
                    for (number, value) in (1..).zip(values) {
                        push(format!("{scorer}/{number}"), value, score, scorer);
                    }
                }
                Some(value) => push(scorer.to_owned(), value, score, scorer),
                None => {}
            }
        }
        found.sort_by_cached_key(|score| self.position(&score.name));
        found
    }
}

/// Name of the score in logs from before scorers had names.
const UNNAMED: &str = "score";

/// Converts a value as Inspect does: letter grades, words and numbers. The second part tells whether the value
/// itself implies a scale from 0 to 1.
fn numeric_value(value: &Value) -> (Option<f64>, bool) {
    match value {
        Value::Number(number) => (number.as_f64().filter(|number| number.is_finite()), false),
        Value::Bool(right) => (Some(f64::from(u8::from(*right))), true),
        Value::String(text) => match text.as_str() {
            "C" => (Some(1.0), true),
            "P" => (Some(0.5), true),
            "I" | "N" => (Some(0.0), true),
            text => match text.to_lowercase().as_str() {
                "yes" | "true" => (Some(1.0), true),
                "no" | "false" => (Some(0.0), true),
                text => {
                    let number = text.trim().parse().ok();
                    (number.filter(|number: &f64| number.is_finite()), false)
                }
            },
        },
        _ => (None, false),
    }
}

fn sample_id(sample: &Value) -> Option<String> {
    match sample.get("id")? {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

fn repeat_of(sample: &Value) -> u32 {
    let epoch = sample.get("epoch").and_then(Value::as_u64).unwrap_or(1);
    u32::try_from(epoch.saturating_sub(1)).unwrap_or(u32::MAX)
}

/// Returns `None` when the sample has no id.
fn result(
    sample: &Value,
    mut scores: Vec<NamedScore>,
    decision: Option<&Decision>,
) -> Option<BenchmarkResult> {
    let present = |key: &str| sample.get(key).filter(|value| !value.is_null());
    let limit = present("limit").map(limit_name);
    let error = present("error").map(message);
    let verdict = decision.and_then(|decision| decision.apply(&mut scores));
    let deciding = scores.iter().find(|score| score.decides).cloned();
    let passed = verdict.map(|(passed, _)| passed);
    let cancelled = error.as_deref().is_some_and(|error| error.starts_with("CancelledError"))
        // A summary without an end belongs to a sample that was running when the log was written.
        || (error.is_none() && passed.is_none() && sample.get("completed") == Some(&Value::Bool(false)));
    let invalidated = present("invalidation");
    let status = match (limit.as_deref(), passed) {
        _ if invalidated.is_some() => Status::Skipped,
        _ if cancelled || error.is_some() => Status::Error,
        (_, Some(true)) => Status::Pass,
        (Some("time" | "working"), _) => Status::Timeout,
        (_, Some(false)) => Status::Fail,
        (_, None) => Status::Skipped,
    };
    let mut result = BenchmarkResult::new(sample_id(sample)?, repeat_of(sample), status);
    result.error_owner = match status {
        // The person who cancelled it decided, not the target.
        Status::Error if cancelled => Some(ErrorOwner::Infra),
        // The log does not attribute errors; the target is the most likely owner.
        Status::Error | Status::Timeout => Some(ErrorOwner::Target),
        _ => None,
    };
    result.case_hash = Some(content_hash(&(sample.get("input"), sample.get("target"))));
    result.score = verdict.and_then(|(_, score)| score);
    result.error_kind = if cancelled {
        Some("cancelled".to_owned())
    } else {
        limit.map(|limit| format!("limit: {limit}"))
    };
    result.error = error.or_else(|| cancelled.then(|| "the sample did not complete".to_owned()));
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
    let answer = |score: &NamedScore| {
        let scorer = score.name.split('/').next()?;
        sample.get("scores")?.get(scorer)?.get("answer").cloned()
    };
    result.actual_output = sample
        .get("output")
        .and_then(|output| output.get("completion").cloned())
        .or_else(|| answer(deciding.as_ref()?))
        .and_then(|answer| answer.as_str().map(str::to_owned));
    let retries = sample.get("retries").and_then(Value::as_u64);
    result.retries = retries
        .and_then(|retries| u32::try_from(retries).ok())
        .unwrap_or(0);
    result.reasons = match (status, deciding.and_then(|score| score.reason)) {
        (Status::Skipped, _) if invalidated.is_some() => {
            let reason = invalidated.and_then(|why| why.get("reason")?.as_str());
            vec![format!("invalidated: {}", reason.unwrap_or("no reason given"))]
        }
        (Status::Fail, Some(explanation)) => vec![explanation],
        (Status::Skipped, _) => vec!["no scorer returned a value".to_owned()],
        _ => Vec::new(),
    };
    result.scores = scores;
    Some(result)
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
        {"id": "f", "epoch": 1, "limit": {"type": "token"}, "scores": {"match": {"value": true}}}
    ]"#;

    #[test]
    fn samples_become_results() {
        let run = read_inspect_members("x.eval", HEADER, &[SAMPLES], &ScoreChoice::default())
            .unwrap()
            .run;
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

        let lenient = ScoreChoice {
            threshold: Some(0.5),
            ..ScoreChoice::default()
        };
        let run = read_inspect_members("x.eval", HEADER, &[SAMPLES], &lenient)
            .unwrap()
            .run;
        assert_eq!(run.results[2].status, Pass);
    }

    #[test]
    fn python_nan_and_infinity_become_null() {
        let sample =
            r#"{"id": "NaN \" NaN", "scores": {"match": {"value": NaN}}, "x": [-Infinity, Infinity]}"#;
        let run = read_inspect_members("x.eval", HEADER, &[sample], &ScoreChoice::default())
            .unwrap()
            .run;
        assert_eq!(
            (run.results[0].case_id.as_str(), run.results[0].status),
            ("NaN \" NaN", Skipped)
        );
        let message = read_inspect_members("x.eval", HEADER, &["{\"id\": NaNa}"], &ScoreChoice::default());
        assert!(message.unwrap_err().to_string().starts_with("x.eval: "));
    }

    #[test]
    fn a_json_log_contains_its_samples() {
        let whole = format!(
            "{}, \"samples\": {SAMPLES}}}",
            HEADER.trim_end_matches('}').to_owned() + "}"
        );
        let run = read_inspect_log("x.json", &whole, &ScoreChoice::default())
            .unwrap()
            .run;
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
            let message = read_inspect_log("x.json", text, &ScoreChoice::default())
                .unwrap_err()
                .to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }

    /// A log with a scale of 1 to 10, letter grades, a dictionary and an unscored value.
    fn several() -> String {
        let score = |name: &str, scorer: &str, metric: &str, mean: f64| serde_json::json!({"name": name, "scorer": scorer, "metrics": {metric: {"name": metric, "value": mean}}});
        let sample = |id: u32, suspicion: u32, letter: &str, harm: Option<f64>| {
            serde_json::json!({"id": id, "epoch": 1, "messages": [{"role": "user"}], "scores": {
                "suspicion": {"value": suspicion, "explanation": "looks odd"}, "match": {"value": letter},
                "grades": {"value": {"harm": harm, "category": "mild"}}}})
        };
        serde_json::json!({
            "version": 2, "status": "success",
            "eval": {"task": "t", "run_id": "r", "created": "2026-08-01T10:00:00Z", "model": "m"},
            "results": {"total_samples": 2, "scores": [
                score("suspicion", "suspicion", "mean", 5.0), score("match", "match", "accuracy", 0.5),
                score("harm", "grades", "mean", 0.25)]},
            "stats": {"started_at": "2026-08-01T10:00:01Z", "completed_at": "2026-08-01T10:05:00Z"},
            "samples": [sample(1, 3, "C", Some(0.25)), sample(2, 7, "I", None)],
        })
        .to_string()
    }

    #[test]
    fn every_scorer_is_kept_and_one_must_be_chosen() {
        let text = several();
        let read = |options: ScoreChoice| read_inspect_log("x.json", &text, &options);
        let scorer = |name: &str| ScoreChoice {
            scorer: Some(name.to_owned()),
            ..ScoreChoice::default()
        };
        let message = |options: ScoreChoice| read(options).unwrap_err().to_string();
        // The log's own order, not the alphabetical one.
        assert_eq!(
            message(ScoreChoice::default()),
            "x.json: scorer: must be chosen: the file has 3 scorers and does not say which decides \
             (expected one of: suspicion (3 to 7), match (0 to 1), grades/harm (0.25 to 0.25))"
        );
        assert!(message(scorer("nosuch")).contains("unknown scorer `nosuch` (expected one of: suspicion"));
        assert!(message(scorer("category")).contains("`grades/category` has no numeric value"));
        assert!(
            message(scorer("suspicion"))
                .contains("threshold: is required: the values of `suspicion` are 3 to 7")
        );

        let import = read(scorer("match")).unwrap();
        let statuses: Vec<Status> = import.run.results.iter().map(|result| result.status).collect();
        assert_eq!(statuses, [Pass, Fail]);
        for score in import.scores.iter().filter(|score| score.log_mean.is_some()) {
            assert_eq!(score.mean, score.log_mean, "{}", score.name);
        }
        let names: Vec<&str> = import.scores.iter().map(|score| score.name.as_str()).collect();
        assert_eq!(names, ["suspicion", "match", "grades/harm", "grades/category"]);
        assert_eq!(import.scores[2].unscored, 1);
        let scores = &import.run.results[0].scores;
        assert_eq!(
            (scores[0].value, scores[1].decides, scores[1].label.as_deref()),
            (Some(3.0), true, Some("C"))
        );
        assert_eq!(import.run.results[0].metric("suspicion"), Some(3.0));
        assert_eq!(import.losses[0].place, "samples[].messages");
        assert_eq!((import.losses[0].count, import.losses[0].decides), (2, false));
    }

    #[test]
    fn a_threshold_or_a_range_decides_on_the_scorers_own_scale() {
        let text = several();
        let read = |threshold: Option<f64>, range: Option<(f64, f64)>, lower_is_better: bool| {
            let options = ScoreChoice {
                scorer: Some("suspicion".to_owned()),
                threshold,
                range,
                lower_is_better,
            };
            let run = read_inspect_log("x.json", &text, &options)
                .map_err(|error| error.to_string())?
                .run;
            Ok::<_, String>(
                run.results
                    .into_iter()
                    .map(|result| (result.status, result.score))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            read(Some(5.0), None, false).unwrap(),
            [(Fail, None), (Pass, None)]
        );
        assert_eq!(read(Some(5.0), None, true).unwrap(), [(Pass, None), (Fail, None)]);
        assert_eq!(
            read(None, Some((3.0, 7.0)), true).unwrap(),
            [(Pass, Some(1.0)), (Fail, Some(0.0))]
        );
        assert_eq!(
            read(Some(7.0), Some((-1.0, 15.0)), false).unwrap(),
            [(Fail, Some(0.25)), (Pass, Some(0.5))]
        );
        assert!(
            read(None, Some((0.0, 5.0)), false)
                .unwrap_err()
                .contains("3 to 7, outside of 0 to 5")
        );
        assert!(
            read(None, Some((7.0, 3.0)), false)
                .unwrap_err()
                .contains("range: must have a minimum")
        );
    }

    #[test]
    fn a_declared_headline_decides() {
        let text = several().replace(
            r#""task":"t""#,
            r#""task":"t","headline_metric":{"scorer":"match"}"#,
        );
        let import = read_inspect_log("x.json", &text, &ScoreChoice::default()).unwrap();
        assert_eq!(
            import.scores.iter().find(|score| score.decides).unwrap().name,
            "match"
        );
    }

    #[test]
    fn cancelled_and_stopped_samples_are_neither_complete_nor_removed() {
        let log = |status: &str, samples: &str, planned: u32| {
            let text = format!(
                r#"{{"status": "{status}", "eval": {{"task": "t", "run_id": "r", "created": "2026-08-01T10:00:00Z"}},
                "results": {{"total_samples": {planned}, "scores": [{{"name": "match", "metrics": {{"accuracy": {{"value": 1}}}}}}],
                    "early_stopping": {{"early_stops": [{{"id": 1, "epoch": 2, "reason": "enough"}}]}}}},
                "stats": {{"completed_at": "2026-08-01T10:05:00Z"}}, "samples": {samples}}}"#
            );
            read_inspect_log("x.json", &text, &ScoreChoice::default()).unwrap()
        };
        let right = r#"{"id": 1, "epoch": 1, "scores": {"match": {"value": "C"}}}"#;
        let stopped = log("success", &format!("[{right}]"), 2);
        assert_eq!(stopped.run.results[1].status, Skipped);
        assert_eq!(stopped.run.results[1].reasons, ["stopped early: enough"]);
        assert!(stopped.run.completed_at.is_some() && stopped.losses.is_empty());

        let missing = log("success", &format!("[{right}]"), 5);
        assert!(missing.run.completed_at.is_none() && missing.losses[0].decides);
        assert_eq!(
            missing.losses[0].reason,
            "3 of 5 planned samples are not in the log"
        );

        let samples = format!(
            r#"[{right}, {{"id": 2, "error": "CancelledError('scope')"}}, {{"id": 3, "completed": false}},
            {{"id": 4, "scores": {{"match": {{"value": "C"}}}}, "invalidation": {{"reason": "typo"}}}}]"#
        );
        let cancelled = log("cancelled", &samples, 4);
        let results = &cancelled.run.results;
        assert_eq!(
            (results[1].status, results[1].owner()),
            (Error, ErrorOwner::Infra)
        );
        assert_eq!(
            (results[2].status, results[2].error_kind.as_deref()),
            (Error, Some("cancelled"))
        );
        assert_eq!(
            (results[3].status, results[3].reasons[0].as_str()),
            (Skipped, "invalidated: typo")
        );
        assert!(cancelled.run.completed_at.is_none());

        let wrong = log(
            "success",
            r#"[{"id": 1, "scores": {"match": {"value": "I"}}}, {"id": 1, "epoch": 2}]"#,
            2,
        );
        assert_eq!(
            wrong.losses[0].reason,
            "the log's mean is 1, that of its samples 0"
        );
    }
}
