//! Runs and comparisons as tables for a spreadsheet: a row a result, a row a case.

use std::collections::BTreeMap;

use satiety::bench::{BenchmarkRun, CaseSummary, leading, summarize};
use satiety_engine::bench::ComparedRuns;
use serde::Serialize;

use crate::commands::retrieval::words::csv;

/// A row for every result.
pub(super) fn results<'a>(runs: impl IntoIterator<Item = &'a BenchmarkRun>) -> String {
    let header = [
        "run_id",
        "suite_id",
        "case_id",
        "variant",
        "repeat",
        "status",
        "score",
        "latency_ms",
        "tokens",
        "cost_usd",
        "judge_score",
        "human_label",
        "error_owner",
        "error_kind",
        "why",
    ];
    let rows = runs.into_iter().flat_map(|run| {
        run.results.iter().map(move |result| {
            let why = result.error.clone().unwrap_or_else(|| result.reasons.join("; "));
            vec![
                run.run_id.clone(),
                run.suite_id.clone(),
                result.case_id.clone(),
                result.variant.clone().unwrap_or_default(),
                result.repeat.to_string(),
                word(&result.status),
                number(result.score),
                result.latency_ms.to_string(),
                result.token_cost.to_string(),
                number(result.cost_usd),
                number(result.llm_judge_score),
                result.human_label.clone().unwrap_or_default(),
                result.error_owner.as_ref().map(word).unwrap_or_default(),
                result.error_kind.clone().unwrap_or_default(),
                why,
            ]
        })
    });
    csv(&header, rows)
}

/// A row for every case of either run.
pub(super) fn comparison(compared: &ComparedRuns) -> String {
    let before = summarize(leading(&compared.runs.0.results)).per_case;
    let now = summarize(leading(&compared.runs.1.results)).per_case;
    let mut cases: BTreeMap<&str, (Option<&CaseSummary>, Option<&CaseSummary>)> = BTreeMap::new();
    for case in &before {
        cases.entry(&case.case_id).or_default().0 = Some(case);
    }
    for case in &now {
        cases.entry(&case.case_id).or_default().1 = Some(case);
    }
    let header = [
        "case_id",
        "baseline_passes",
        "baseline_decided",
        "baseline_pass_rate",
        "candidate_passes",
        "candidate_decided",
        "candidate_pass_rate",
        "difference",
        "p_value",
        "adjusted_p_value",
        "decides",
        "change",
    ];
    let rows = cases.into_iter().map(|(id, (before, now))| {
        let changes: Vec<_> = compared
            .report
            .changes
            .iter()
            .filter(|change| change.case_id == id)
            .collect();
        let rate = |case: Option<&CaseSummary>| case.and_then(|case| case.pass_rate);
        let count = |case: Option<&CaseSummary>, of: fn(&CaseSummary) -> u64| {
            case.map_or_else(String::new, |case| of(case).to_string())
        };
        let difference = rate(now).zip(rate(before)).map(|(now, before)| now - before);
        let reasons: Vec<&str> = changes.iter().map(|change| change.reason.as_str()).collect();
        vec![
            id.to_owned(),
            count(before, |case| case.passes),
            count(before, |case| case.decided),
            number(rate(before)),
            count(now, |case| case.passes),
            count(now, |case| case.decided),
            number(rate(now)),
            number(difference),
            number(changes.iter().find_map(|change| change.p_value)),
            number(changes.iter().find_map(|change| change.adjusted_p_value)),
            changes.iter().any(|change| change.decides).to_string(),
            reasons.join("; "),
        ]
    });
    csv(&header, rows)
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// The name of a value of an enum, as it is written.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}
