//! Reads the samples that lm-evaluation-harness writes (`samples_TASK_TIME.jsonl`) as a run. Each document is a
//! case; each of its metrics is a named score, with the filter in the name if there are several.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::hash::content_hash;
use super::imported_run::{ResultOrigin, RunImport, ScoreChoice, decide_by_scores, run_of_content};
use super::loss::Losses;
use super::reader::SuiteError;
use super::run::{BenchmarkResult, NamedScore, Status};

/// Keys of a sample that a result has in another form.
const KEYS: [&str; 13] = [
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
    "doc_hash",
    "prompt_hash",
    "target_hash",
    "task_name",
    "repeat",
];

/// Whether a text has the samples of lm-evaluation-harness, one JSON object per line.
pub fn is_lm_eval_samples(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let sample: Option<Map<String, Value>> = first.and_then(|line| serde_json::from_str(line).ok());
    sample.is_some_and(|sample| sample.contains_key("doc_id") && sample.contains_key("resps"))
}

/// Reads the samples of a task.
pub fn read_lm_eval_samples(
    file: &str,
    text: &str,
    origin: ResultOrigin,
    choice: &ScoreChoice,
) -> Result<RunImport, SuiteError> {
    let mut losses = Losses::default();
    let mut documents: BTreeMap<u64, Vec<Map<String, Value>>> = BTreeMap::new();
    for (number, line) in (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let sample: Map<String, Value> = serde_json::from_str(line).map_err(|error| SuiteError::Syntax {
            file: file.to_owned(),
            reason: format!("line {number}: {error}"),
        })?;
        let Some(id) = sample.get("doc_id").and_then(Value::as_u64) else {
            return Err(SuiteError::Field {
                file: file.to_owned(),
                field: format!("line {number}: doc_id"),
                reason: "is missing or not a number".to_owned(),
            });
        };
        documents.entry(id).or_default().push(sample);
    }
    let has_filters = documents.values().any(|samples| samples.len() > 1);
    let mut results: Vec<BenchmarkResult> = documents
        .iter()
        .map(|(id, samples)| {
            let first = samples.first();
            let field = |key: &str| first.and_then(|sample| sample.get(key));
            let mut result = BenchmarkResult::new(id.to_string(), 0, Status::Pending);
            result.case_hash = Some(content_hash(&(field("doc"), field("target"))));
            result.actual_output = field("filtered_resps").map(super::compare_values::as_text);
            result.scores = samples
                .iter()
                .flat_map(|sample| scores(sample, has_filters, &mut losses))
                .collect();
            result
        })
        .collect();
    let decision = decide_by_scores(file, &mut results, choice)?;
    if decision.is_none() {
        losses.push_deciding("metrics", "no sample has a numeric metric, so nothing decides");
    }
    Ok(run_of_content(
        "lm-eval",
        &text,
        origin,
        results,
        decision.as_ref(),
        losses,
    ))
}

/// Metrics of a sample: those that it lists, or all other keys with numbers in older files.
fn scores(sample: &Map<String, Value>, has_filters: bool, losses: &mut Losses) -> Vec<NamedScore> {
    let listed = sample.get("metrics").and_then(Value::as_array);
    let filter = sample
        .get("filter")
        .and_then(Value::as_str)
        .filter(|_| has_filters);
    let mut scores = Vec::new();
    for (key, value) in sample.iter().filter(|(key, _)| !KEYS.contains(&key.as_str())) {
        let is_metric = listed.map_or_else(
            || value.is_number() || value.is_boolean(),
            |listed| listed.iter().any(|name| name.as_str() == Some(key)),
        );
        if !is_metric {
            losses.push(key.as_str(), "not imported");
            continue;
        }
        let number = value
            .as_f64()
            .or_else(|| value.as_bool().map(|right| f64::from(u8::from(right))));
        let name = filter.map_or_else(|| key.clone(), |filter| format!("{key},{filter}"));
        scores.push(NamedScore::new(name, number));
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn read(text: &str, scorer: Option<&str>) -> Result<RunImport, String> {
        let origin = ResultOrigin {
            suite_id: "arc".to_owned(),
            target: "m".to_owned(),
            recorded_at: Timestamp::UNIX_EPOCH,
        };
        let choice = ScoreChoice {
            scorer: scorer.map(str::to_owned),
            ..ScoreChoice::default()
        };
        read_lm_eval_samples("samples_arc.jsonl", text, origin, &choice).map_err(|error| error.to_string())
    }

    #[test]
    fn documents_are_cases_and_metrics_are_scores() {
        let text = r#"
            {"doc_id": 1, "doc": {"q": "b"}, "target": "x", "resps": [["y"]], "filtered_resps": ["y"], "metrics": ["acc", "acc_norm"], "acc": 0.0, "acc_norm": 1.0, "extra": [1]}
            {"doc_id": 0, "doc": {"q": "a"}, "target": "x", "resps": [["x"]], "filtered_resps": ["x"], "metrics": ["acc", "acc_norm"], "acc": 1.0, "acc_norm": 1.0}
        "#;
        assert!(is_lm_eval_samples(text));
        assert!(
            read(text, None)
                .unwrap_err()
                .contains("expected one of: acc (0 to 1), acc_norm (1 to 1)")
        );
        let import = read(text, Some("acc")).unwrap();
        let seen: Vec<(&str, Status)> = import
            .run
            .results
            .iter()
            .map(|result| (result.case_id.as_str(), result.status))
            .collect();
        assert_eq!(seen, [("0", Status::Pass), ("1", Status::Fail)]);
        assert_eq!(import.losses[0].place, "extra");
    }

    #[test]
    fn filters_are_part_of_the_name() {
        let text = r#"{"doc_id": 0, "resps": [], "filter": "strict-match", "exact_match": 0.0}
            {"doc_id": 0, "resps": [], "filter": "flexible-extract", "exact_match": 1.0}"#;
        let import = read(text, Some("exact_match,flexible-extract")).unwrap();
        assert_eq!(import.run.results.len(), 1);
        assert_eq!(import.run.results[0].status, Status::Pass);
        for (text, expected) in [
            ("{", "line 1: EOF"),
            (r#"{"resps": []}"#, "line 1: doc_id: is missing"),
        ] {
            assert!(read(text, None).unwrap_err().contains(expected), "{text}");
        }
    }
}
