//! Reads a run of HELM: `per_instance_stats.json`, together with `scenario_state.json` and `run_spec.json` if they
//! exist. Each instance (and perturbation of it) is a case, each train trial a repeat, each metric a named score.

use std::collections::BTreeMap;

use serde_json::Value;

use super::hash::content_hash;
use super::imported_run::{
    ResultOrigin, RunImport, ScoreChoice, decide_by_scores, field_error, run_of_content, whole_count,
};
use super::loss::Losses;
use super::reader::{Named, SuiteError, parse};
use super::run::{BenchmarkResult, NamedScore, Status};

/// Beginnings of statistics that describe a request instead of scoring its answer; they become metrics.
const BOOKKEEPING: [&str; 14] = [
    "num_",
    "finish_reason",
    "training_",
    "inference_",
    "batch_size",
    "logprob",
    "max_prob",
    "log_likelihood",
    "perplexity",
    "bits_per_byte",
    "prompt_truncated",
    "predicted_index",
    "estimated_num_tokens",
    "none_",
];

/// Files of a HELM run directory.
#[derive(Debug, Clone, Copy)]
pub struct HelmFiles<'a> {
    /// `per_instance_stats.json`, which has the metrics of every instance.
    pub stats: Named<'a>,
    /// `scenario_state.json`, which has the requests and answers.
    pub scenario_state: Option<Named<'a>>,
    /// `run_spec.json`, which names the run.
    pub run_spec: Option<Named<'a>>,
}

/// Key of a result: instance, perturbation and train trial.
type Key = (String, Option<String>, u32);

/// Reads a run. Without a choice, the only metric decides, or `exact_match` if all others are variants of it.
pub fn read_helm(
    files: HelmFiles<'_>,
    mut origin: ResultOrigin,
    choice: &ScoreChoice,
) -> Result<RunImport, SuiteError> {
    let file = files.stats.file;
    let stats = parse(files.stats)?;
    let entries = stats
        .as_array()
        .filter(|entries| !entries.is_empty())
        .ok_or_else(|| field_error(file, "top level", "must be a list of instances"))?;
    let mut losses = Losses::default();
    let mut found: BTreeMap<Key, BenchmarkResult> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let key = key(entry, "/instance_id", "/perturbation")
            .ok_or_else(|| field_error(file, &format!("[{index}].instance_id"), "is missing"))?;
        let listed = entry
            .get("stats")
            .and_then(Value::as_array)
            .ok_or_else(|| field_error(file, &format!("[{index}].stats"), "must be a list"))?;
        let result = found.entry(key.clone()).or_insert_with(|| {
            let case_id = match &key.1 {
                Some(perturbation) => format!("{} ({perturbation})", key.0),
                None => key.0.clone(),
            };
            BenchmarkResult::new(case_id, key.2, Status::Pending)
        });
        for stat in listed {
            record(result, stat, &mut losses);
        }
    }
    match files.scenario_state {
        Some(state) => read_state(state, &mut found, &mut origin)?,
        None => losses.push(
            "scenario_state.json",
            "not found: the run has no answers and no model",
        ),
    }
    if let Some(spec) = files.run_spec {
        read_spec(&parse(spec)?, &mut origin);
    }
    let mut results: Vec<BenchmarkResult> = found.into_values().collect();
    let choice = ScoreChoice {
        scorer: choice.scorer.clone().or_else(|| main_metric(&results)),
        ..choice.clone()
    };
    let decision = decide_by_scores(file, &mut results, &choice)?;
    if decision.is_none() {
        losses.push_deciding("stats", "no instance has a metric, so nothing decides");
    }
    Ok(run_of_content(
        "helm",
        &(files.stats.text, origin.target.clone()),
        origin,
        results,
        decision.as_ref(),
        losses,
    ))
}

fn key(entry: &Value, instance: &str, perturbation: &str) -> Option<Key> {
    let id = entry.pointer(instance)?.as_str()?.to_owned();
    let perturbation = entry.pointer(perturbation).and_then(|found| {
        let name = found.get("name").and_then(Value::as_str);
        name.map(str::to_owned)
    });
    let trial = entry.get("train_trial_index").and_then(Value::as_u64);
    let trial = trial.and_then(|trial| u32::try_from(trial).ok());
    Some((id, perturbation, trial.unwrap_or(0)))
}

/// Records a statistic as a score, a metric, or a measurement of the request.
fn record(result: &mut BenchmarkResult, stat: &Value, losses: &mut Losses) {
    let Some(name) = stat.pointer("/name/name").and_then(Value::as_str) else {
        losses.push("[].stats[].name", "is missing");
        return;
    };
    let value = stat.get("mean").and_then(Value::as_f64);
    let count = value.and_then(whole_count);
    match name {
        "num_prompt_tokens" => result.tokens_in = count,
        "num_completion_tokens" | "num_output_tokens" => result.tokens_out = count,
        "inference_runtime" => result.latency_ms = value.unwrap_or(0.0) * 1e3,
        _ if BOOKKEEPING.iter().any(|start| name.starts_with(start)) => {
            result.metrics.extend(value.map(|value| (name.to_owned(), value)));
        }
        _ if result.scores.iter().any(|score| score.name == name) => {
            losses.push(
                format!("[].stats[].{name}"),
                "occurs twice for an instance: the first is kept",
            );
        }
        _ => result.scores.push(NamedScore::new(name, value)),
    }
    let tokens = [result.tokens_in, result.tokens_out].into_iter().flatten();
    result.token_cost = tokens.fold(0, u64::saturating_add);
}

/// `exact_match`, if every other metric is a variant of it.
fn main_metric(results: &[BenchmarkResult]) -> Option<String> {
    let mut names = results
        .iter()
        .flat_map(|result| &result.scores)
        .map(|score| score.name.as_str());
    let is_main = names.clone().any(|name| name == "exact_match");
    let are_variants = names.all(|name| {
        name.split('@')
            .next()
            .is_some_and(|name| name.ends_with("exact_match"))
    });
    (is_main && are_variants).then(|| "exact_match".to_owned())
}

/// Adds questions, answers and errors of the requests.
fn read_state(
    file: Named<'_>,
    found: &mut BTreeMap<Key, BenchmarkResult>,
    origin: &mut ResultOrigin,
) -> Result<(), SuiteError> {
    let state = parse(file)?;
    if let Some(model) = state.pointer("/adapter_spec/model").and_then(Value::as_str) {
        model.clone_into(&mut origin.target);
    }
    let requests = state
        .get("request_states")
        .and_then(Value::as_array)
        .ok_or_else(|| field_error(file.file, "request_states", "must be a list"))?;
    for request in requests {
        let Some(result) =
            key(request, "/instance/id", "/instance/perturbation").and_then(|key| found.get_mut(&key))
        else {
            continue;
        };
        let part = |pointer: &str| request.pointer(pointer);
        result.case_hash = Some(content_hash(&(
            part("/instance/input"),
            part("/instance/references"),
        )));
        let answer = part("/result/completions/0/text").and_then(Value::as_str);
        result.actual_output = answer.map(str::to_owned);
        if part("/result/success").and_then(Value::as_bool) == Some(false) {
            let cause = part("/result/error").and_then(Value::as_str);
            result.status = Status::Error;
            result.error = Some(cause.unwrap_or("the request failed").to_owned());
        }
    }
    Ok(())
}

/// The name of a run has its model: `mmlu:subject=anatomy,model=openai_gpt-4o`. Runs of two models are runs of
/// one suite.
fn read_spec(spec: &Value, origin: &mut ResultOrigin) {
    let Some(name) = spec.get("name").and_then(Value::as_str) else {
        return;
    };
    let (scenario, arguments) = name.split_once(':').unwrap_or((name, ""));
    let kept: Vec<&str> = arguments
        .split(',')
        .filter(|argument| !argument.is_empty() && !argument.starts_with("model="))
        .collect();
    origin.suite_id = if kept.is_empty() {
        scenario.to_owned()
    } else {
        format!("{scenario}:{}", kept.join(","))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = r#"{"adapter_spec": {"model": "openai/gpt-4o"}, "request_states": [
        {"instance": {"id": "id1", "input": {"text": "q"}}, "train_trial_index": 0, "result": {"success": true, "completions": [{"text": " B"}]}},
        {"instance": {"id": "id2", "input": {"text": "r"}}, "train_trial_index": 0, "result": {"success": false, "error": "rate limit", "completions": []}}]}"#;
    const SPEC: &str = r#"{"name": "mmlu:subject=anatomy,model=openai_gpt-4o,data_augmentation=canonical"}"#;

    fn stats(metrics: &[&str]) -> String {
        let entry = |id: &str, more: &str, value: f64| {
            let stats: Vec<String> = metrics
                .iter()
                .map(|name| format!("{{\"name\": {{\"name\": \"{name}\", \"split\": \"test\"}}, \"count\": 1, \"sum\": {value}, \"mean\": {value}}}"))
                .collect();
            format!(
                "{{\"instance_id\": \"{id}\"{more}, \"train_trial_index\": 0, \"stats\": [{}, {{\"name\": {{\"name\": \"num_prompt_tokens\"}}, \"mean\": 9.0}}, {{\"name\": {{\"name\": \"inference_runtime\"}}, \"mean\": 0.5}}]}}",
                stats.join(", ")
            )
        };
        format!(
            "[{}, {}, {}]",
            entry("id1", "", 1.0),
            entry("id2", "", 0.0),
            entry("id1", ", \"perturbation\": {\"name\": \"typos\"}", 0.0)
        )
    }

    fn read(text: &str, with_state: bool, scorer: Option<&str>) -> Result<RunImport, String> {
        let named = |file, text| Named { file, text };
        let files = HelmFiles {
            stats: named("per_instance_stats.json", text),
            scenario_state: with_state.then_some(named("scenario_state.json", STATE)),
            run_spec: with_state.then_some(named("run_spec.json", SPEC)),
        };
        let origin = ResultOrigin {
            suite_id: "run".to_owned(),
            target: "run".to_owned(),
            recorded_at: jiff::Timestamp::UNIX_EPOCH,
        };
        let choice = ScoreChoice {
            scorer: scorer.map(str::to_owned),
            ..ScoreChoice::default()
        };
        read_helm(files, origin, &choice).map_err(|error| error.to_string())
    }

    #[test]
    fn instances_are_cases_and_metrics_are_scores() {
        let import = read(&stats(&["quasi_exact_match", "exact_match"]), true, None).unwrap();
        let seen: Vec<(&str, Status)> = import
            .run
            .results
            .iter()
            .map(|result| (result.case_id.as_str(), result.status))
            .collect();
        assert_eq!(
            seen,
            [
                ("id1", Status::Pass),
                ("id1 (typos)", Status::Fail),
                ("id2", Status::Error)
            ]
        );
        assert_eq!(
            import.run.suite_id,
            "mmlu:subject=anatomy,data_augmentation=canonical"
        );
        assert_eq!(import.run.target, "openai/gpt-4o");
        let first = &import.run.results[0];
        assert_eq!((first.tokens_in, first.latency_ms), (Some(9), 500.0));
        assert_eq!(first.actual_output.as_deref(), Some(" B"));
        let deciding: Vec<&str> = import
            .scores
            .iter()
            .filter(|score| score.decides)
            .map(|score| score.name.as_str())
            .collect();
        assert_eq!(deciding, ["exact_match"]);
    }

    #[test]
    fn other_metrics_need_a_choice() {
        let text = stats(&["f1_score", "exact_match"]);
        let error = read(&text, false, None).unwrap_err();
        assert!(
            error.contains("expected one of: f1_score (0 to 1), exact_match (0 to 1)"),
            "{error}"
        );
        let import = read(&text, false, Some("f1_score")).unwrap();
        assert_eq!(import.losses[0].place, "scenario_state.json");
        for (text, expected) in [
            ("[]", "top level: must be a list"),
            ("[{}]", "[0].instance_id: is missing"),
            ("[{\"instance_id\": \"a\"}]", "[0].stats: must be a list"),
        ] {
            assert!(read(text, false, None).unwrap_err().contains(expected), "{text}");
        }
    }
}
