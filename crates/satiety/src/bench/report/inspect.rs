//! A run as an evaluation log of Inspect (`.json`), which `inspect view` and `read_eval_log` open.

use serde_json::{Map, Value, json};

use crate::bench::run::{BenchmarkResult, BenchmarkRun, NamedScore, Status};
use crate::bench::summary::score_summaries;

/// Scorer with the verdict of each result.
const VERDICT: &str = "passed";

/// Formats a run as a log. Each result is a sample, with its verdict as the score `passed` and every named score
/// under its own name. Runs do not have the text of their cases, so the input of a sample is the id of its case;
/// the variant is part of the id if there are several.
pub fn inspect_eval_log(run: &BenchmarkRun) -> Value {
    let mut variants: Vec<Option<&str>> = run
        .results
        .iter()
        .map(|result| result.variant.as_deref())
        .collect();
    variants.sort_unstable();
    variants.dedup();
    let has_variants = variants.len() > 1;
    let samples: Vec<Value> = run
        .results
        .iter()
        .map(|result| sample(run, result, has_variants))
        .collect();
    let epochs = run
        .results
        .iter()
        .map(|result| result.repeat + 1)
        .max()
        .unwrap_or(1);
    let ids: std::collections::BTreeSet<&str> = samples
        .iter()
        .filter_map(|sample| sample.get("id").and_then(Value::as_str))
        .collect();
    let started = run.started_at.to_string();
    let ended = run
        .completed_at
        .map_or_else(|| started.clone(), |time| time.to_string());
    json!({
        "version": 2,
        "status": if run.completed_at.is_some() { "success" } else { "cancelled" },
        "eval": {
            "eval_id": run.run_id,
            "run_id": run.run_id,
            "created": started,
            "task": run.suite_id,
            "task_id": run.suite_id,
            "dataset": {"name": run.suite_id, "samples": ids.len(), "sample_ids": ids},
            "model": if run.target.is_empty() { "unknown" } else { &run.target },
            "config": {"epochs": epochs},
            "headline_metric": {"scorer": VERDICT},
            "metadata": {"satiety": run.config_snapshot},
        },
        "plan": {"name": "plan", "steps": []},
        "results": {
            "total_samples": samples.len(),
            "completed_samples": run.results.iter().filter(|result| result.decided().is_some()).count(),
            "scores": scores(run),
        },
        "stats": {"started_at": started, "completed_at": ended, "model_usage": {}},
        "samples": samples,
    })
}

/// Mean of each scorer, the verdict first.
fn scores(run: &BenchmarkRun) -> Vec<Value> {
    let entry = |name: &str, mean: Option<f64>, scored: u64| {
        let metrics: Map<String, Value> = mean
            .map(|mean| ("mean".to_owned(), json!({"name": "mean", "value": mean})))
            .into_iter()
            .collect();
        json!({"name": name, "scorer": name, "scored_samples": scored, "metrics": metrics})
    };
    let verdicts: Vec<BenchmarkResult> = run
        .results
        .iter()
        .map(|result| BenchmarkResult {
            scores: vec![NamedScore::new(VERDICT, verdict(result))],
            ..BenchmarkResult::new(result.case_id.as_str(), result.repeat, result.status)
        })
        .collect();
    let own = run.results.iter().map(|result| {
        let mut result = result.clone();
        result.scores.retain(|score| score.name != VERDICT);
        result
    });
    let own: Vec<BenchmarkResult> = own.collect();
    let summaries = score_summaries(&verdicts)
        .into_iter()
        .chain(score_summaries(&own));
    summaries
        .map(|summary| entry(&summary.name, summary.mean, summary.scored))
        .collect()
}

fn verdict(result: &BenchmarkResult) -> Option<f64> {
    match result.status {
        Status::Pass => Some(1.0),
        Status::Fail => Some(0.0),
        _ => None,
    }
}

fn sample(run: &BenchmarkRun, result: &BenchmarkResult, has_variants: bool) -> Value {
    let id = match &result.variant {
        Some(variant) if has_variants => format!("{} / {variant}", result.case_id),
        _ => result.case_id.clone(),
    };
    let answer = result.actual_output.as_deref().unwrap_or_default();
    let mut scores = Map::new();
    if let Some(value) = verdict(result) {
        let explanation = (!result.reasons.is_empty()).then(|| result.reasons.join("\n"));
        let score = json!({"value": value, "answer": result.actual_output, "explanation": explanation});
        scores.insert(VERDICT.to_owned(), score);
    }
    for score in result.scores.iter().filter(|score| score.name != VERDICT) {
        // A value that is absent is a NaN in Inspect, which JSON cannot represent.
        let Some(value) = score
            .value
            .map(Value::from)
            .or(score.label.clone().map(Value::from))
        else {
            continue;
        };
        scores.insert(
            score.name.clone(),
            json!({"value": value, "explanation": score.reason}),
        );
    }
    let message = json!({"role": "assistant", "content": answer});
    let usage = json!({
        "input_tokens": result.tokens_in.unwrap_or(0),
        "output_tokens": result.tokens_out.unwrap_or(0),
        "total_tokens": result.token_cost,
    });
    let model = if run.target.is_empty() {
        "unknown"
    } else {
        &run.target
    };
    let mut sample = json!({
        "id": id,
        "epoch": result.repeat + 1,
        "input": result.case_id,
        "target": "",
        "messages": [{"role": "user", "content": result.case_id}, message],
        "output": {"model": model, "choices": [{"message": message, "stop_reason": "stop"}], "usage": usage},
        "scores": scores,
        "metadata": {"status": result.status, "case_hash": result.case_hash, "variant": result.variant},
        "total_time": result.latency_ms / 1e3,
        "working_time": result.latency_ms / 1e3,
        "model_usage": {model: usage},
    });
    let failure = match result.status {
        Status::Error => Some((
            "error",
            result.error.clone().unwrap_or_else(|| "error".to_owned()),
        )),
        Status::Timeout => Some(("limit", String::new())),
        _ => None,
    };
    if let (Some((key, message)), Some(fields)) = (failure, sample.as_object_mut()) {
        let value = if key == "limit" {
            let seconds = result.deadline_ms.map_or(result.latency_ms, |ms| ms as f64) / 1e3;
            json!({"type": "time", "limit": seconds})
        } else {
            json!({"message": message, "traceback": "", "traceback_ansi": ""})
        };
        fields.insert(key.to_owned(), value);
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{ScoreChoice, read_inspect_log};

    #[test]
    fn the_log_is_read_back_with_the_same_verdicts_and_scores() {
        let mut first = BenchmarkResult::new("a", 0, Status::Pass);
        first.scores = vec![
            NamedScore::new("quality", Some(7.0)),
            NamedScore::new("none", None),
        ];
        first.actual_output = Some("hi".into());
        first.latency_ms = 1500.0;
        let mut failed = BenchmarkResult::new("b", 0, Status::Error);
        failed.error = Some("exit code 1".into());
        let run = BenchmarkRun {
            run_id: "r".into(),
            suite_id: "desk".into(),
            suite_hash: None,
            target: "model".into(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: Some(jiff::Timestamp::UNIX_EPOCH),
            config_snapshot: std::collections::BTreeMap::new(),
            results: vec![
                first,
                BenchmarkResult::new("a", 1, Status::Fail),
                failed,
                BenchmarkResult::new("c", 0, Status::Timeout),
                BenchmarkResult::new("d", 0, Status::Skipped),
            ],
            summary: None,
        };
        let text = inspect_eval_log(&run).to_string();
        let import = read_inspect_log("log.json", &text, &ScoreChoice::default()).unwrap();
        let seen: Vec<(&str, u32, Status)> = import
            .run
            .results
            .iter()
            .map(|result| (result.case_id.as_str(), result.repeat, result.status))
            .collect();
        assert_eq!(
            seen,
            [
                ("a", 0, Status::Pass),
                ("a", 1, Status::Fail),
                ("b", 0, Status::Error),
                ("c", 0, Status::Timeout),
                ("d", 0, Status::Skipped),
            ]
        );
        assert_eq!(
            (import.run.run_id.as_str(), import.run.suite_id.as_str()),
            ("r", "desk")
        );
        assert_eq!(import.run.results[0].latency_ms, 1500.0);
        assert_eq!(import.run.results[0].metric("quality"), Some(7.0));
        let decides: Vec<&str> = import
            .scores
            .iter()
            .filter(|score| score.decides)
            .map(|score| score.name.as_str())
            .collect();
        assert_eq!(decides, [VERDICT]);
        assert!(
            import.losses.iter().all(|loss| !loss.decides),
            "{:?}",
            import.losses
        );
    }
}
