//! The `benchmark.json` report for the Agent Skills viewer: every run with its pass rate under `result`, a
//! summary for each configuration, and the differences as signed strings. The viewer shows zeros for any
//! other key names.

use serde_json::{Map, Value, json};

use crate::bench::run::{BenchmarkResult, BenchmarkRun, Status};
use crate::bench::skill::{WITH_SKILL, WITHOUT_SKILL};
use crate::bench::summary::answered;
use crate::stats::{mean, standard_deviation};

/// Formats a run with the variants `with_skill` and `without_skill`; results of other variants are omitted.
pub fn skill_benchmark(run: &BenchmarkRun, skill_path: &str, model: Option<&str>) -> Value {
    let of = |configuration: &str| -> Vec<&BenchmarkResult> {
        run.results
            .iter()
            .filter(|result| result.variant.as_deref() == Some(configuration))
            .filter(|result| result.status != Status::Skipped)
            .collect()
    };
    let configurations = [(WITH_SKILL, of(WITH_SKILL)), (WITHOUT_SKILL, of(WITHOUT_SKILL))];
    let mut ids: Vec<&str> = Vec::new();
    for result in configurations.iter().flat_map(|(_, results)| results) {
        if !ids.contains(&result.case_id.as_str()) {
            ids.push(&result.case_id);
        }
    }
    let runs: Vec<Value> = configurations
        .iter()
        .flat_map(|(configuration, results)| results.iter().map(|result| run_entry(result, configuration)))
        .collect();
    let mut summary: Map<String, Value> = configurations
        .iter()
        .map(|(configuration, results)| ((*configuration).to_owned(), configuration_summary(results)))
        .collect();
    let difference = |metric: fn(&BenchmarkResult) -> Option<f64>, decimals: usize| {
        let [with, without] = configurations.each_ref().map(|(_, results)| {
            mean(
                &results
                    .iter()
                    .filter_map(|result| metric(result))
                    .collect::<Vec<_>>(),
            )
            .unwrap_or(0.0)
        });
        format!("{:+.decimals$}", with - without)
    };
    summary.insert(
        "delta".to_owned(),
        json!({
            "pass_rate": difference(pass_rate, 2),
            "time_seconds": difference(seconds, 1),
            "tokens": difference(tokens, 0),
        }),
    );
    let repeats = run
        .results
        .iter()
        .map(|result| result.repeat + 1)
        .max()
        .unwrap_or(0);
    json!({
        "metadata": {
            "skill_name": run.suite_id,
            "skill_path": skill_path,
            "executor_model": model,
            "timestamp": run.started_at.to_string(),
            "evals_run": ids,
            "runs_per_configuration": repeats,
        },
        "runs": runs,
        "run_summary": summary,
        "notes": [],
    })
}

/// Fraction of criteria that were met. A result without a score counts as its status; errors are excluded.
fn pass_rate(result: &BenchmarkResult) -> Option<f64> {
    result.decided()?;
    result
        .llm_judge_score
        .or(result.score)
        .or_else(|| result.decided().map(|passed| f64::from(u8::from(passed))))
}

fn seconds(result: &BenchmarkResult) -> Option<f64> {
    answered(result).then_some(result.latency_ms / 1e3)
}

fn tokens(result: &BenchmarkResult) -> Option<f64> {
    answered(result).then_some(result.token_cost as f64)
}

fn run_entry(result: &BenchmarkResult, configuration: &str) -> Value {
    let is_error = result.decided().is_none();
    let expectations: Vec<Value> = if result.scores.is_empty() {
        // A check without criteria is one expectation.
        let passed = result.decided().map(|passed| (passed, result.reasons.join("; ")));
        passed
            .map(|(passed, evidence)| {
                json!({"text": "meets the expectation of the case", "passed": passed, "evidence": evidence})
            })
            .into_iter()
            .collect()
    } else {
        let decided = result.scores.iter().filter(|score| score.passed.is_some());
        decided
            .map(|score| {
                json!({"text": score.name, "passed": score.passed, "evidence": score.reason.as_deref().unwrap_or_default()})
            })
            .collect()
    };
    let passed = expectations
        .iter()
        .filter(|expectation| expectation.get("passed") == Some(&Value::Bool(true)))
        .count();
    json!({
        "eval_id": result.case_id,
        "eval_name": result.case_id,
        "configuration": configuration,
        "run_number": result.repeat + 1,
        "result": {
            // The viewer requires a number; an error is recognized by `errors`.
            "pass_rate": pass_rate(result).unwrap_or(0.0),
            "passed": passed,
            "failed": expectations.len() - passed,
            "total": expectations.len(),
            "time_seconds": result.latency_ms / 1e3,
            "tokens": result.token_cost,
            "errors": u8::from(is_error),
        },
        "expectations": expectations,
        "notes": result.error.iter().collect::<Vec<_>>(),
    })
}

fn configuration_summary(results: &[&BenchmarkResult]) -> Value {
    let statistics = |metric: fn(&BenchmarkResult) -> Option<f64>| {
        let values: Vec<f64> = results.iter().filter_map(|result| metric(result)).collect();
        json!({
            "mean": mean(&values).unwrap_or(0.0),
            "stddev": standard_deviation(&values).unwrap_or(0.0),
            "min": values.iter().copied().reduce(f64::min).unwrap_or(0.0),
            "max": values.iter().copied().reduce(f64::max).unwrap_or(0.0),
        })
    };
    json!({"pass_rate": statistics(pass_rate), "time_seconds": statistics(seconds), "tokens": statistics(tokens)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_the_keys_of_the_viewer() {
        let result = |variant: &str, repeat, score: f64| {
            let status = if score == 1.0 { Status::Pass } else { Status::Fail };
            let mut result = BenchmarkResult::new("table", repeat, status);
            result.variant = Some(variant.to_owned());
            result.llm_judge_score = Some(score);
            result.latency_ms = if variant == WITH_SKILL { 3000.0 } else { 1500.0 };
            result.token_cost = 100;
            result
        };
        let run = BenchmarkRun {
            run_id: "r".into(),
            suite_id: "pdf".into(),
            suite_hash: None,
            target: "pdf".into(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: std::collections::BTreeMap::new(),
            results: vec![
                result(WITH_SKILL, 0, 1.0),
                result(WITH_SKILL, 1, 1.0),
                result(WITHOUT_SKILL, 0, 0.5),
                result(WITHOUT_SKILL, 1, 0.5),
                result("old_skill", 0, 0.0),
            ],
            summary: None,
        };
        let found = skill_benchmark(&run, "skills/pdf", Some("model"));
        assert_eq!(found["runs"].as_array().unwrap().len(), 4);
        assert_eq!(found["runs"][0]["result"]["pass_rate"], 1.0);
        assert_eq!(found["run_summary"]["without_skill"]["pass_rate"]["mean"], 0.5);
        assert_eq!(
            found["run_summary"]["delta"],
            json!({"pass_rate": "+0.50", "time_seconds": "+1.5", "tokens": "+0"})
        );
        assert_eq!(found["metadata"]["runs_per_configuration"], 2);
        assert_eq!(found["metadata"]["evals_run"], json!(["table"]));
    }

    #[test]
    fn criteria_are_expectations_with_evidence_and_errors_are_errors() {
        use crate::bench::run::NamedScore;
        let mut judged = BenchmarkResult::new("table", 0, Status::Fail);
        judged.variant = Some(WITH_SKILL.to_owned());
        judged.llm_judge_score = Some(0.5);
        judged.scores = vec![
            NamedScore {
                passed: Some(true),
                ..NamedScore::new("has a title", Some(1.0))
            },
            NamedScore {
                passed: Some(false),
                reason: Some("the table is missing".to_owned()),
                ..NamedScore::new("has a table", Some(0.0))
            },
        ];
        let mut failed = BenchmarkResult::new("other", 0, Status::Error);
        failed.variant = Some(WITH_SKILL.to_owned());
        failed.error = Some("exit code 1".to_owned());
        let run = BenchmarkRun {
            run_id: "r".into(),
            suite_id: "pdf".into(),
            suite_hash: None,
            target: "exec:agent".into(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: std::collections::BTreeMap::new(),
            results: vec![judged, failed],
            summary: None,
        };
        let found = skill_benchmark(&run, "skills/pdf", None);
        assert_eq!(found["metadata"]["skill_name"], "pdf");
        assert_eq!(
            found["runs"][0]["expectations"][1],
            json!({"text": "has a table", "passed": false, "evidence": "the table is missing"})
        );
        assert_eq!(found["runs"][0]["result"]["total"], 2);
        assert_eq!(
            (
                &found["runs"][1]["result"]["errors"],
                &found["runs"][1]["notes"][0]
            ),
            (&json!(1), &json!("exit code 1"))
        );
        assert_eq!(found["runs"][1]["expectations"], json!([]));
        assert_eq!(found["run_summary"]["with_skill"]["pass_rate"]["mean"], 0.5);
    }
}
