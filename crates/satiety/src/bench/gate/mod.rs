//! Regression gate: compares a candidate run with the accepted baseline and returns pass, regression or
//! inconclusive, with all reasons.
//!
//! # Why not "any case that passed and now fails"
//!
//! A system that passes each of 100 cases with probability 95 % shows such a flip in 99 of 100 *unchanged*
//! re-runs, and a gate with that many false alarms gets disabled. The gate therefore tests results that
//! involve chance, and decides the others directly.
//!
//! # Deterministic checks
//!
//! These changes are regressions without a statistical test:
//!
//! - a case that was removed, or that was decided in the baseline and is now skipped;
//! - a worse result of a case declared `deterministic`;
//! - a case of the regression tier that does not always pass, regardless of the baseline.
//!
//! # Statistical tests
//!
//! All tests together raise a false alarm with probability at most `alpha`, whatever the pass rates of the
//! cases are:
//!
//! - **Suite** ([`stratified`]): an exact test that no case passes less often than before, given each case's
//!   passes in both runs. With one repeat it is `McNemar`'s test; with more it uses all repeats.
//! - **Cases**: Fisher's test per case, adjusted by the exact distribution of the smallest p-value. At most a
//!   tenth of the level is reserved for these tests; the part they cannot use (their p-values are coarse)
//!   returns to the suite test.
//! - **Judge scores**, **latency** ([`metrics`]) and **deciding scores by name**, with small shares of the level, when
//!   both runs have them.
//!
//! A case that changes from always to never passing is a regression from 4 repeats on in an otherwise stable
//! suite (p = 1/70; two such cases from 2 repeats on). In a suite where all other cases are flaky, it is one
//! from 6 repeats on (p = 1/924), provided that few other cases vary as much. With fewer repeats the change
//! cannot be distinguished from chance, and both a pass and a regression would be unjustified. The verdict is
//! then *inconclusive* and names the cases to repeat or to declare deterministic.
//!
//! # Several targets
//!
//! A run with several variants, such as the providers of a promptfoo configuration, is compared variant by variant,
//! each at its share of the level. The worst verdict counts.
//!
//! # Inconclusive
//!
//! - such a case exists;
//! - the candidate is worse on average, and a true drop of `margin` cannot be excluded;
//! - too many results are missing because a judge, the harness or infrastructure failed, or labels are
//!   pending;
//! - no case can be compared.
//!
//! Errors and timeouts owned by the *target* are not missing data: they count as not passed, here and in pass
//! rates. A changed case (its content hash differs) says nothing about the system; it is listed and excluded.

mod cases;
pub mod metrics;
mod scores;
mod sequential;
#[cfg(test)]
mod simulation_tests;
pub mod stratified;
#[cfg(test)]
mod tests;
mod variants;

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Interval, PValue, StatsError, mean_interval};

use super::run::{BenchmarkRun, Status};
use super::summary::{by_case, leading};
pub use cases::{CaseChange, ChangeKind, Tally};
use cases::{CasePair, pair_cases};
use metrics::{MetricComparison, compare_latency, compare_scores};
pub use scores::ScoreComparison;
use scores::compare_named;
pub use sequential::{GateLook, SequentialDesign, SequentialGate, SequentialVerdict};
use stratified::{Stratum, case_tests, suite_p_value};
use variants::compare_variants;
pub use variants::{VariantGate, baseline_of_target};

/// Error level and thresholds of a gate comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GatePolicy {
    /// Probability of a false alarm for an unchanged system. The default lies slightly below 0.05, so that
    /// the observed rate over a thousand re-runs stays below 0.05 too.
    pub alpha: f64,
    /// Largest drop of the pass rate that may go undetected, as a fraction between 0 and 1.
    pub margin: f64,
    /// Judge scores that drop by more than this are flagged.
    pub score_drop: f64,
    /// Relative latency increase above which a case is flagged, together with `latency_floor_ms`.
    pub latency_increase: f64,
    /// Absolute latency increase in milliseconds above which a case is flagged, together with
    /// `latency_increase`.
    pub latency_floor_ms: f64,
    /// Whether latencies of another machine or sandbox are compared too, as for a target that waits for a hosted
    /// model. Set for one comparison, not part of a stored policy.
    #[serde(skip)]
    pub latency_across_machines: bool,
    /// Largest acceptable fraction of missing results.
    pub max_missing: f64,
}

impl Default for GatePolicy {
    fn default() -> Self {
        Self {
            alpha: 0.04,
            margin: 0.10,
            score_drop: 0.1,
            latency_increase: 0.5,
            latency_floor_ms: 50.0,
            latency_across_machines: false,
            max_missing: 0.1,
        }
    }
}

/// Verdict of the regression gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// No evidence that the candidate is worse.
    Pass,
    /// The candidate is worse than the baseline.
    Regression,
    /// The data do not allow a decision.
    Inconclusive,
}

/// Result of comparing a candidate run with its baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    /// Overall verdict of the gate.
    pub verdict: GateVerdict,
    /// Reasons for the verdict, the deciding ones first.
    pub reasons: Vec<String>,
    /// Id of the accepted baseline run.
    pub baseline_run: String,
    /// Id of the candidate run under test.
    pub candidate_run: String,
    /// Pass rates over comparable cases; absent when no case is comparable.
    pub pass: Option<PassComparison>,
    /// Judge scores, when both runs have them.
    pub score: Option<MetricComparison>,
    /// Deciding scorers and criteria by name, when there are several with enough cases for a test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreComparison>,
    /// Latencies in milliseconds, when both runs measured them.
    pub latency: Option<MetricComparison>,
    /// Every case that changed, deciding changes first.
    pub changes: Vec<CaseChange>,
    /// Number of candidate results that are missing because a component other than the target failed, or that
    /// await a label.
    pub missing: u64,
    /// Number of missing results by cause.
    pub missing_because: std::collections::BTreeMap<String, u64>,
    /// Look at which the verdict was reached, when the gate is asked after each round of repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look: Option<GateLook>,
    /// Verdict about each variant, when a run has several targets: the worst one counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantGate>,
}

/// Comparison of the pass rates of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassComparison {
    /// Number of cases decided in both runs.
    pub cases: usize,
    /// Mean pass rate over cases in the baseline.
    pub baseline: f64,
    /// Mean pass rate over cases in the candidate.
    pub candidate: f64,
    /// Candidate pass rate minus baseline pass rate.
    pub difference: f64,
    /// 90 % confidence interval of the difference over cases (95 % one-sided); absent with fewer than two
    /// cases.
    pub interval: Option<Interval>,
    /// P-value of the exact one-sided test that no case got worse.
    pub p_value: f64,
    /// Significance level that the p-value was compared with.
    pub level: f64,
    /// Number of cases that pass less often.
    pub worse: usize,
    /// Number of cases that pass more often.
    pub better: usize,
}

/// Compares a candidate run with the baseline run.
pub fn compare(
    baseline: &BenchmarkRun,
    candidate: &BenchmarkRun,
    policy: &GatePolicy,
) -> Result<GateReport, StatsError> {
    check_policy(policy)?;
    if let Some(report) = compare_variants(baseline, candidate, policy)? {
        return Ok(report);
    }
    compare_at(Stage::End, baseline, candidate, policy)
}

/// When runs are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Once, after all results.
    End,
    /// After a round: single cases and the margin are tested by the caller.
    Look,
}

fn check_policy(policy: &GatePolicy) -> Result<(), StatsError> {
    for (what, value) in [("alpha", policy.alpha), ("margin", policy.margin)] {
        if !(value > 0.0 && value < 1.0) {
            return Err(StatsError::OutOfRange {
                what,
                value,
                range: "(0, 1)",
            });
        }
    }
    Ok(())
}

fn compare_at(
    stage: Stage,
    baseline: &BenchmarkRun,
    candidate: &BenchmarkRun,
    policy: &GatePolicy,
) -> Result<GateReport, StatsError> {
    let paired = pair_cases(&baseline.results, &candidate.results);
    let mut changes = paired.changes;
    let mut reasons = Verdicts::default();
    for change in changes.iter().filter(|change| change.decides) {
        reasons.regression.push(change.reason.clone());
    }
    regression_tier(candidate, &mut reasons);

    let score = compare_scores(&paired.pairs, policy)?;
    let latency = compare_latency(&paired.pairs, policy)?;
    // Each additional test takes its share of the level, so that all together stay within alpha.
    let spent_elsewhere: f64 = [&score, &latency]
        .into_iter()
        .flatten()
        .map(|metric| metric.level)
        .sum();
    let (scores, names_level) = compare_named(&paired.pairs, policy)?;
    let spent_elsewhere = spent_elsewhere + names_level;
    let pass = compare_passes(
        stage,
        &paired.pairs,
        policy,
        policy.alpha - spent_elsewhere,
        &mut changes,
        &mut reasons,
    )?;
    for metric in [&score, &latency].into_iter().flatten() {
        reasons.regression.extend(metric.regression.clone());
        changes.extend(metric.changes.iter().cloned());
    }
    reasons
        .regression
        .extend(scores.iter().filter_map(|score| score.regression.clone()));
    let share = paired.missing as f64 / (candidate.results.len().max(1)) as f64;
    if share > policy.max_missing {
        let owners: Vec<String> = paired
            .missing_because
            .iter()
            .map(|(owner, count)| format!("{count} {owner}"))
            .collect();
        reasons.inconclusive.push(format!(
            "{} of {} results are missing ({}): rerun them",
            paired.missing,
            candidate.results.len(),
            owners.join(", ")
        ));
    }
    if pass.is_none() {
        reasons
            .inconclusive
            .push("no case was decided in both runs, so no comparison is possible".to_owned());
    }
    let (verdict, reasons) = reasons.finish(pass.as_ref(), &changes);
    changes.sort_by(|a, b| {
        (!a.decides, a.kind, &a.case_id, &a.reason).cmp(&(!b.decides, b.kind, &b.case_id, &b.reason))
    });
    Ok(GateReport {
        verdict,
        reasons,
        baseline_run: baseline.run_id.clone(),
        candidate_run: candidate.run_id.clone(),
        pass,
        score,
        scores,
        latency,
        changes,
        missing: paired.missing,
        missing_because: paired.missing_because,
        look: None,
        variants: Vec::new(),
    })
}

/// Cases of the regression tier must always pass: a failure is a regression, an undecided result is
/// inconclusive.
fn regression_tier(candidate: &BenchmarkRun, verdicts: &mut Verdicts) {
    for (case_id, results) in by_case(leading(&candidate.results)) {
        let tier = results.iter().filter(|result| result.regression);
        let (mut failed, mut open, mut all) = (0_usize, 0_usize, 0_usize);
        for result in tier {
            all += 1;
            match result.passed() {
                Some(true) => {}
                Some(false) => failed += 1,
                None => open += usize::from(result.status != Status::Skipped),
            }
        }
        if failed > 0 {
            verdicts.regression.push(format!(
                "{case_id} is in the regression tier and failed {failed} of {all}"
            ));
        } else if open > 0 {
            verdicts.inconclusive.push(format!(
                "{case_id} is in the regression tier, and {open} of {all} results are undecided"
            ));
        }
    }
}

/// Reasons collected for each verdict.
#[derive(Default)]
struct Verdicts {
    regression: Vec<String>,
    inconclusive: Vec<String>,
}

impl Verdicts {
    fn finish(self, pass: Option<&PassComparison>, changes: &[CaseChange]) -> (GateVerdict, Vec<String>) {
        // Once the verdict is a regression, reasons for doubt would only distract from it.
        if !self.regression.is_empty() {
            return (GateVerdict::Regression, self.regression);
        }
        if !self.inconclusive.is_empty() {
            return (GateVerdict::Inconclusive, self.inconclusive);
        }
        let mut reasons = Vec::new();
        if let Some(pass) = pass {
            reasons.push(if pass.worse == 0 {
                format!("none of {} cases passes less often than before", pass.cases)
            } else {
                format!(
                    "{} of {} cases passed less often and {} more often, consistent with chance ({})",
                    pass.worse,
                    pass.cases,
                    pass.better,
                    PValue(pass.p_value)
                )
            });
        }
        let edited = changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Edited)
            .count();
        if edited > 0 {
            reasons.push(format!(
                "{edited} cases were edited since the baseline and are excluded"
            ));
        }
        (GateVerdict::Pass, reasons)
    }
}

fn compare_passes(
    stage: Stage,
    pairs: &[CasePair<'_>],
    policy: &GatePolicy,
    alpha: f64,
    changes: &mut Vec<CaseChange>,
    verdicts: &mut Verdicts,
) -> Result<Option<PassComparison>, StatsError> {
    if pairs.is_empty() {
        return Ok(None);
    }
    // Deterministic cases involve no chance and were decided above.
    let strata: Vec<Stratum> = pairs
        .iter()
        .filter(|pair| !pair.deterministic)
        .map(CasePair::stratum)
        .collect();
    let case_level = match stage {
        Stage::End => alpha / 10.0,
        Stage::Look => 0.0,
    };
    let tests = case_tests(&strata, case_level);
    let level = alpha - tests.spent;
    let p_value = suite_p_value(&strata);
    let differences: Vec<f64> = pairs.iter().map(CasePair::difference).collect();
    let n = pairs.len() as f64;
    // A rate cannot change by more than 1.
    let interval = mean_interval(&differences, 0.9).ok().map(|estimate| Interval {
        low: estimate.interval.low.max(-1.0),
        high: estimate.interval.high.min(1.0),
        ..estimate.interval
    });
    let comparison = PassComparison {
        cases: pairs.len(),
        baseline: pairs.iter().map(|pair| pair.baseline.rate()).sum::<f64>() / n,
        candidate: pairs.iter().map(|pair| pair.candidate.rate()).sum::<f64>() / n,
        difference: crate::stats::mean(&differences)?,
        interval,
        p_value,
        level,
        worse: differences.iter().filter(|&&difference| difference < 0.0).count(),
        better: differences.iter().filter(|&&difference| difference > 0.0).count(),
    };
    if p_value <= level {
        verdicts.regression.push(format!(
            "the pass rate fell from {:.1} % to {:.1} % on {} cases ({}, level {level:.4})",
            100.0 * comparison.baseline,
            100.0 * comparison.candidate,
            comparison.cases,
            PValue(p_value)
        ));
    }
    let mut undecided = Vec::new();
    let uncertain = pairs.iter().filter(|pair| !pair.deterministic);
    for ((pair, p), adjusted) in uncertain.zip(&tests.p_values).zip(&tests.adjusted) {
        let difference = pair.difference();
        if difference == 0.0 {
            continue;
        }
        let decides = difference < 0.0 && *adjusted <= case_level;
        let kind = if difference < 0.0 {
            ChangeKind::Worse
        } else {
            ChangeKind::Better
        };
        let mut reason = format!(
            "{} passed {}, now {}",
            pair.case_id, pair.baseline, pair.candidate
        );
        if kind == ChangeKind::Worse {
            // Writing to a string cannot fail.
            let _ = write!(
                reason,
                " ({}, adjusted for all cases {})",
                PValue(*p),
                PValue(*adjusted)
            );
        }
        if decides {
            verdicts.regression.push(reason.clone());
        } else if pair.baseline.always() && pair.candidate.never() {
            undecided.push(pair);
        }
        changes.push(CaseChange {
            case_id: pair.case_id.to_owned(),
            kind,
            baseline: Some(pair.baseline),
            candidate: Some(pair.candidate),
            p_value: Some(*p),
            adjusted_p_value: Some(*adjusted),
            decides,
            variant: None,
            reason,
        });
    }
    if stage == Stage::Look {
        return Ok(Some(comparison));
    }
    if let Some(first) = undecided.first() {
        let ids: Vec<&str> = undecided.iter().take(5).map(|pair| pair.case_id).collect();
        let more = if undecided.len() > 5 {
            format!(" and {} more", undecided.len() - 5)
        } else {
            String::new()
        };
        verdicts.inconclusive.push(format!(
            "{} went from always to never passing ({} repeats are too few to rule out chance): {}{more}. Repeat with \
             at least {} runs, or declare these cases deterministic",
            if undecided.len() == 1 { "1 case".to_owned() } else { format!("{} cases", undecided.len()) },
            first.candidate.tries,
            ids.join(", "),
            (first.candidate.tries + 2).max(5),
        ));
    }
    if let Some(interval) = interval
        && comparison.difference < 0.0
        && interval.low < -policy.margin
    {
        verdicts.inconclusive.push(format!(
            "the pass rate changed by {:+.1} points; a true drop of {:.0} points cannot be excluded (lower bound {:+.1}): \
             more repeats or cases are needed",
            100.0 * comparison.difference,
            100.0 * policy.margin,
            100.0 * interval.low
        ));
    }
    Ok(Some(comparison))
}
