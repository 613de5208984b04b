//! Reads promptfoo's results (`promptfoo eval --output results.json`) as a run: each combination of test, prompt
//! and provider is a result, each assertion and named score is a score.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::bench::derived::{DERIVED_METRICS, DerivedMetrics};
use crate::bench::hash::content_hash;
use crate::bench::imported_run::{RunImport, imported_scores};
use crate::bench::loss::Losses;
use crate::bench::reader::{Named, SuiteError, parse};
use crate::bench::run::{BenchmarkResult, BenchmarkRun, ErrorOwner, NamedScore, Status};
use crate::bench::summary::summarize_run;

/// Keys of a result that the imported one has in another form.
const RESULT_KEYS: [&str; 25] = [
    "cost",
    "description",
    "error",
    "evalId",
    "failureReason",
    "gradingResult",
    "id",
    "latencyMs",
    "metadata",
    "namedScores",
    "persisted",
    "prompt",
    "promptId",
    "promptIdx",
    "provider",
    "repeatIndex",
    "response",
    "score",
    "success",
    "testCase",
    "testIdx",
    "text",
    "tokenUsage",
    "vars",
    "pluginId",
];

/// Reads a results file. Repeats of a test are recognized by its index, or by their order.
pub fn read_promptfoo_results(file: Named<'_>) -> Result<RunImport, SuiteError> {
    let error = |field: &str, reason: &str| SuiteError::Field {
        file: file.file.to_owned(),
        field: field.to_owned(),
        reason: reason.to_owned(),
    };
    let document = parse(file)?;
    // Versions 2 and 3 of the format, and the list alone.
    let results = document.get("results").unwrap_or(&Value::Null);
    let rows = results
        .get("results")
        .or(Some(results))
        .and_then(Value::as_array)
        .ok_or_else(|| error("results.results", "must be a list of results"))?;
    let time = [
        results.get("timestamp"),
        document.pointer("/metadata/exportedAt"),
        document.get("createdAt"),
    ]
    .into_iter()
    .flatten()
    .find_map(|time| time.as_str()?.parse::<Timestamp>().ok())
    .ok_or_else(|| error("results.timestamp", "is not a valid timestamp"))?;
    let providers: BTreeSet<String> = rows.iter().map(provider_name).collect();
    let prompts: BTreeSet<Option<u64>> = rows
        .iter()
        .map(|row| row.get("promptIdx").and_then(Value::as_u64))
        .collect();
    let mut losses = Losses::default();
    let mut repeats: BTreeMap<(String, String), u32> = BTreeMap::new();
    let mut imported = Vec::with_capacity(rows.len());
    let mut prompt_numbers = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let Some(fields) = row.as_object() else {
            return Err(error(&format!("results.results[{index}]"), "must be an object"));
        };
        losses.unknown_keys("results.results[].", fields, &RESULT_KEYS);
        let case_id = case_name(row, index, prompts.len() > 1);
        if let (true, Some(prompt)) = (prompts.len() > 1, row.get("promptIdx").and_then(Value::as_u64)) {
            let number = u32::try_from(prompt + 1).unwrap_or(u32::MAX);
            prompt_numbers.insert(case_id.clone(), number);
        }
        let provider = provider_name(row);
        let repeat = repeats.entry((case_id.clone(), provider.clone())).or_default();
        let mut result = result(fields, case_id, *repeat)
            .ok_or_else(|| error(&format!("results.results[{index}].success"), "is missing"))?;
        *repeat += 1;
        result.variant = (providers.len() > 1).then_some(provider);
        imported.push(result);
    }
    if imported.is_empty() {
        return Err(error("results.results", "is empty"));
    }
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let suite_id = text(document.pointer("/config/description"))
        .filter(|description| !description.trim().is_empty())
        .unwrap_or_else(|| "promptfoo".to_owned());
    let run_id = text(document.get("evalId"))
        .or_else(|| text(document.get("id")))
        .unwrap_or_else(|| format!("promptfoo-{time}"));
    let config = document.get("config");
    let derived = DerivedMetrics {
        prompts: prompt_numbers,
        ..super::derived_metrics(
            config.and_then(|config| config.get("derivedMetrics")),
            &mut losses,
        )
    };
    let mut snapshot = BTreeMap::new();
    snapshot.extend(config.map(|config| ("config".to_owned(), config.clone())));
    if !derived.metrics.is_empty() {
        snapshot.insert(DERIVED_METRICS.to_owned(), serde_json::json!(derived));
    }
    Ok(RunImport {
        scores: imported_scores(&imported, |_| None),
        losses: losses.into_vec(),
        run: BenchmarkRun {
            run_id,
            suite_id,
            suite_hash: None,
            target: providers.into_iter().collect::<Vec<_>>().join(", "),
            started_at: time,
            completed_at: Some(time),
            summary: Some(summarize_run(&imported, &snapshot)),
            config_snapshot: snapshot,
            results: imported,
        },
    })
}

fn provider_name(row: &Value) -> String {
    let provider = row.get("provider");
    provider
        .and_then(Value::as_str)
        .or_else(|| {
            let label = provider?.get("label").and_then(Value::as_str);
            label
                .filter(|label| !label.is_empty())
                .or(provider?.get("id")?.as_str())
        })
        .unwrap_or_default()
        .to_owned()
}

/// The description of the test, or its number; with the prompt if there are several.
fn case_name(row: &Value, index: usize, has_prompts: bool) -> String {
    let number = row.get("testIdx").and_then(Value::as_u64).unwrap_or(index as u64);
    let described = row.pointer("/testCase/description").and_then(Value::as_str);
    let name = match described.filter(|text| !text.trim().is_empty()) {
        // Descriptions need not be unique, but indexes are.
        Some(description) => format!("{description} ({})", number + 1),
        None => format!("test {}", number + 1),
    };
    match row.get("promptIdx").and_then(Value::as_u64) {
        Some(prompt) if has_prompts => format!("{name} / prompt {}", prompt + 1),
        _ => name,
    }
}

/// Returns `None` when the row has no verdict.
fn result(row: &Map<String, Value>, case_id: String, repeat: u32) -> Option<BenchmarkResult> {
    let grading = row.get("gradingResult").filter(|grading| !grading.is_null());
    let passed = row
        .get("success")
        .or_else(|| grading?.get("pass"))
        .and_then(Value::as_bool)?;
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    let error = row
        .get("error")
        .and_then(Value::as_str)
        .filter(|error| !error.is_empty());
    // 2 means that the provider failed; a failed assertion also sets `error`.
    let has_failed = match row.get("failureReason").and_then(Value::as_u64) {
        Some(reason) => reason == 2,
        None => error.is_some() && grading.is_none(),
    };
    let status = match (has_failed, passed) {
        (true, _) => Status::Error,
        (false, true) => Status::Pass,
        (false, false) => Status::Fail,
    };
    let mut result = BenchmarkResult::new(case_id, repeat, status);
    if has_failed {
        result.error = error.map(str::to_owned);
        result.error_owner = Some(ErrorOwner::Target);
    }
    result.case_hash = Some(content_hash(&(
        row.get("prompt").and_then(|prompt| prompt.get("raw")),
        row.get("vars"),
        row.get("testCase").and_then(|test| test.get("assert")),
    )));
    result.score = number(row.get("score")).filter(|score| (0.0..=1.0).contains(score) && !has_failed);
    result.latency_ms = number(row.get("latencyMs")).unwrap_or(0.0).max(0.0);
    result.cost_usd = number(row.get("cost"));
    let usage = row
        .get("tokenUsage")
        .or_else(|| row.get("response")?.get("tokenUsage"));
    let tokens = |key: &str| usage.and_then(|usage| usage.get(key)?.as_u64());
    result.token_cost = tokens("total").unwrap_or(0);
    result.tokens_in = tokens("prompt");
    result.tokens_out = tokens("completion");
    let output = row.get("response").and_then(|response| response.get("output"));
    result.actual_output = output.map(crate::bench::compare_values::as_text);
    if status == Status::Fail {
        let reason = grading.and_then(|grading| grading.get("reason")?.as_str());
        result.reasons = reason.or(error).map(str::to_owned).into_iter().collect();
    }
    result.scores = scores(row, grading);
    Some(result)
}

/// The named scores, and every assertion.
fn scores(row: &Map<String, Value>, grading: Option<&Value>) -> Vec<NamedScore> {
    let named = row.get("namedScores").and_then(Value::as_object);
    let mut scores: Vec<NamedScore> = named
        .into_iter()
        .flatten()
        .map(|(name, value)| NamedScore {
            weight: grading
                .and_then(|grading| grading.get("namedScoreWeights")?.get(name)?.as_f64())
                .filter(|weight| *weight != 1.0),
            ..NamedScore::new(name.as_str(), value.as_f64())
        })
        .collect();
    let parts = grading.and_then(|grading| grading.get("componentResults")?.as_array());
    for (number, part) in (1..).zip(parts.into_iter().flatten()) {
        let assertion = |key: &str| {
            part.get("assertion")
                .and_then(|assertion| assertion.get(key)?.as_str())
        };
        let kind = assertion("type").unwrap_or("assertion");
        let name = match assertion("metric") {
            Some(metric) => format!("{number}. {kind} ({metric})"),
            None => format!("{number}. {kind}"),
        };
        scores.push(NamedScore {
            passed: part.get("pass").and_then(Value::as_bool),
            decides: part.pointer("/assertion/weight").and_then(Value::as_f64) != Some(0.0),
            reason: part.get("reason").and_then(Value::as_str).map(str::to_owned),
            ..NamedScore::new(name, part.get("score").and_then(Value::as_f64))
        });
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_a_run() {
        let text = r#"{"evalId": "eval-1", "config": {"description": "desk"}, "results": {"version": 3, "timestamp": "2026-08-01T10:00:00Z",
            "results": [
              {"testIdx": 0, "promptIdx": 0, "provider": {"id": "echo", "label": ""}, "success": true, "score": 1, "latencyMs": 12,
               "namedScores": {"tone": 0.5}, "response": {"output": "hi"}, "vars": {"q": "x"}, "failureReason": 0,
               "tokenUsage": {"total": 5, "prompt": 2, "completion": 3},
               "gradingResult": {"pass": true, "score": 1, "componentResults": [{"pass": true, "score": 1, "reason": "ok", "assertion": {"type": "contains", "value": "h"}}]}},
              {"testIdx": 0, "promptIdx": 0, "provider": {"id": "echo"}, "success": false, "score": 0, "error": "Expected x", "failureReason": 1,
               "gradingResult": {"pass": false, "score": 0, "reason": "Expected x"}},
              {"testIdx": 1, "promptIdx": 0, "provider": "echo", "success": false, "score": 0, "error": "API error", "failureReason": 2, "surprise": 1}
            ]}}"#;
        let import = read_promptfoo_results(Named {
            file: "out.json",
            text,
        })
        .unwrap();
        let run = &import.run;
        assert_eq!(
            (run.run_id.as_str(), run.suite_id.as_str(), run.target.as_str()),
            ("eval-1", "desk", "echo")
        );
        let seen: Vec<(&str, u32, Status)> = run
            .results
            .iter()
            .map(|result| (result.case_id.as_str(), result.repeat, result.status))
            .collect();
        assert_eq!(
            seen,
            [
                ("test 1", 0, Status::Pass),
                ("test 1", 1, Status::Fail),
                ("test 2", 0, Status::Error)
            ]
        );
        let names: Vec<&str> = run.results[0]
            .scores
            .iter()
            .map(|score| score.name.as_str())
            .collect();
        assert_eq!(names, ["tone", "1. contains"]);
        assert_eq!(run.results[1].reasons, ["Expected x"]);
        assert_eq!(import.losses[0].place, "results.results[].surprise");
        for (text, expected) in [
            (r#"{"results": {}}"#, "results.results: must be a list"),
            (r#"{"results": {"results": []}}"#, "results.timestamp"),
            (
                r#"{"results": {"timestamp": "2026-08-01T10:00:00Z", "results": []}}"#,
                "results.results: is empty",
            ),
        ] {
            let message = read_promptfoo_results(Named { file: "o.json", text })
                .unwrap_err()
                .to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
