//! Judge scores and latencies of two runs. A case is *flagged* when it changed by more than the policy
//! allows. A flag *decides* only when the change is significant: over the cases of the suite (sign flips of
//! the cases' mean differences), or within the case (Welch's test over its repeats, with Holm's correction
//! over cases).
//!
//! Latencies are compared on a logarithmic scale, because they vary by factors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GatePolicy;
use super::cases::{CaseChange, CasePair, ChangeKind};
use crate::bench::run::BenchmarkResult;
use crate::bench::summary::answered;
use crate::stats::{Alternative, PValue, StatsError, holm, mean, sign_flip, welch_t};

/// Scores that differ by less are considered equal.
const TOLERANCE: f64 = 1e-9;
/// Number of random sign patterns when there are too many to enumerate; fixed, as is the seed, for
/// reproducible verdicts.
pub(super) const PERMUTATIONS: u64 = 9_999;
pub(super) const SEED: u64 = 20;

/// Comparison of one metric between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricComparison {
    /// Number of cases that have the metric in both runs.
    pub cases: usize,
    /// Mean over cases in the baseline.
    pub baseline: f64,
    /// Mean over cases in the candidate.
    pub candidate: f64,
    /// P-value of the one-sided test over cases that the metric did not get worse; absent when the change is
    /// too small to test.
    pub p_value: Option<f64>,
    /// Share of the false-alarm level assigned to this metric.
    pub level: f64,
    /// Reason why the metric is a regression; absent otherwise.
    pub regression: Option<String>,
    /// Cases that were flagged for this metric.
    pub changes: Vec<CaseChange>,
}

/// Compares judge scores; returns `None` when no case has them in both runs.
pub(super) fn compare_scores(
    pairs: &[CasePair<'_>],
    policy: &GatePolicy,
) -> Result<Option<MetricComparison>, StatsError> {
    let score = |result: &&BenchmarkResult| result.llm_judge_score;
    let rows = rows(pairs, score, score);
    let level = policy.alpha / 5.0;
    let flag = |row: &Row<'_>| row.before - row.now > policy.score_drop + TOLERANCE;
    let describe = |row: &Row<'_>| {
        format!(
            "{}: the judge score fell from {:.2} to {:.2}",
            row.pair.case_id, row.before, row.now
        )
    };
    let Some(mut found) = compare(&rows, level, ChangeKind::ScoreDrop, flag, describe)? else {
        return Ok(None);
    };
    found.test_change(found.baseline - found.candidate > TOLERANCE, &rows, |found, p| {
        format!(
            "the judge score fell from {:.3} to {:.3} on {} cases ({})",
            found.baseline,
            found.candidate,
            found.cases,
            PValue(p)
        )
    })?;
    Ok(Some(found))
}

/// Compares latencies of answered results; returns `None` when no case has them in both runs.
pub(super) fn compare_latency(
    pairs: &[CasePair<'_>],
    policy: &GatePolicy,
) -> Result<Option<MetricComparison>, StatsError> {
    let measured = |result: &&BenchmarkResult| {
        Some(result.latency_ms).filter(|latency| answered(result) && *latency > 0.0 && latency.is_finite())
    };
    // The test uses negative logarithms, so that lower is worse as for scores.
    let rows = rows(pairs, measured, |result| {
        measured(result).map(|latency| -latency.ln())
    });
    let level = policy.alpha / 20.0;
    let slower = |before: f64, now: f64| {
        now > before * (1.0 + policy.latency_increase) && now - before > policy.latency_floor_ms
    };
    let flag = |row: &Row<'_>| slower(row.before, row.now);
    let describe = |row: &Row<'_>| {
        format!(
            "{}: the latency rose from {:.0} ms to {:.0} ms",
            row.pair.case_id, row.before, row.now
        )
    };
    let Some(mut found) = compare(&rows, level, ChangeKind::Slower, flag, describe)? else {
        return Ok(None);
    };
    found.test_change(slower(found.baseline, found.candidate), &rows, |found, p| {
        format!(
            "the latency rose from {:.0} ms to {:.0} ms on {} cases ({})",
            found.baseline,
            found.candidate,
            found.cases,
            PValue(p)
        )
    })?;
    Ok(Some(found))
}

impl MetricComparison {
    /// Tests the change over cases, if it is large enough to matter.
    fn test_change(
        &mut self,
        large: bool,
        rows: &[Row<'_>],
        describe: impl Fn(&Self, f64) -> String,
    ) -> Result<(), StatsError> {
        if !large {
            return Ok(());
        }
        let differences: Vec<f64> = rows
            .iter()
            .map(|row| Ok(mean(&row.tested_now)? - mean(&row.tested_before)?))
            .collect::<Result<_, StatsError>>()?;
        let p = sign_flip(&differences, Alternative::Less, PERMUTATIONS, SEED)?.p_value;
        self.p_value = Some(p);
        // The other half of the level is reserved for individual cases.
        if p <= self.level / 2.0 {
            self.regression = Some(describe(self, p));
        }
        Ok(())
    }
}

/// One case: the means to report, and the values to test (lower is worse).
struct Row<'a> {
    pair: &'a CasePair<'a>,
    before: f64,
    now: f64,
    tested_before: Vec<f64>,
    tested_now: Vec<f64>,
}

fn rows<'a>(
    pairs: &'a [CasePair<'a>],
    reported: impl Fn(&&BenchmarkResult) -> Option<f64>,
    tested: impl Fn(&&BenchmarkResult) -> Option<f64>,
) -> Vec<Row<'a>> {
    let mean_of =
        |results: &[&BenchmarkResult]| mean(&results.iter().filter_map(&reported).collect::<Vec<_>>()).ok();
    pairs
        .iter()
        .filter_map(|pair| {
            Some(Row {
                pair,
                before: mean_of(&pair.before)?,
                now: mean_of(&pair.now)?,
                tested_before: pair.before.iter().filter_map(&tested).collect(),
                tested_now: pair.now.iter().filter_map(&tested).collect(),
            })
        })
        .collect()
}

fn compare(
    rows: &[Row<'_>],
    level: f64,
    kind: ChangeKind,
    flag: impl Fn(&Row<'_>) -> bool,
    describe: impl Fn(&Row<'_>) -> String,
) -> Result<Option<MetricComparison>, StatsError> {
    if rows.is_empty() {
        return Ok(None);
    }
    // Welch's test is undefined for repeats without variance; such a case cannot confirm its flag.
    let p_values: Vec<f64> = rows
        .iter()
        .map(|row| {
            welch_t(&row.tested_now, &row.tested_before, Alternative::Less, 0.95)
                .map_or(1.0, |test| test.p_value)
        })
        .collect();
    let adjusted = holm(&p_values)?;
    let mut regression = None;
    let mut changes = Vec::new();
    for ((row, p), adjusted) in rows.iter().zip(p_values).zip(adjusted) {
        if !flag(row) {
            continue;
        }
        let certain = row.pair.deterministic && kind == ChangeKind::ScoreDrop;
        let decides = certain || adjusted <= level / 2.0;
        let reason = describe(row);
        if decides {
            regression.get_or_insert(reason.clone());
        }
        changes.push(CaseChange {
            case_id: row.pair.case_id.to_owned(),
            kind,
            baseline: None,
            candidate: None,
            p_value: Some(p),
            adjusted_p_value: Some(adjusted),
            decides,
            variant: None,
            reason,
        });
    }
    let n = rows.len() as f64;
    Ok(Some(MetricComparison {
        cases: rows.len(),
        baseline: rows.iter().map(|row| row.before).sum::<f64>() / n,
        candidate: rows.iter().map(|row| row.now).sum::<f64>() / n,
        p_value: None,
        level,
        regression,
        changes,
    }))
}
