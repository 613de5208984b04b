//! Is the candidate worse than the accepted baseline? Pass, regression or inconclusive, with every reason.
//!
//! # Why not "any case that passed and now fails"
//!
//! A system that passes each of 100 cases 95 times in 100 shows such a flip in 99 of 100 *unchanged* re-runs. A gate
//! that always cries is switched off. So chance is accounted for wherever there is chance, and nowhere else.
//!
//! # What is no chance, and decides at once
//!
//! - a case that is gone, or is skipped now and was decided before;
//! - a worse result of a case that was declared `deterministic`;
//! - a case of the regression tier that does not always pass, whatever the baseline did.
//!
//! # What may be chance
//!
//! All tests together raise a false alarm with probability at most `alpha`, whatever the pass rates of the cases are:
//!
//! - **The suite** ([`stratified`]): the exact test that no case passes less often than before, given each case's
//!   passes of both runs. It is `McNemar`'s test with one repeat and uses all repeats when there are more.
//! - **The cases**: Fisher's test of each, adjusted by the exact distribution of the smallest p-value. At most a tenth
//!   of the level is set aside for it; what the cases cannot spend (their p-values are coarse) goes back to the suite.
//! - **Judge scores** and **latency** ([`figures`]), with small shares of the level, where there are any.
//!
//! What follows for a case that goes from always passing to never passing: in a suite that is otherwise stable it is a
//! regression from 4 repeats on (p = 1/70; 2 such cases from 2 repeats on). In a suite where everything else is flaky it
//! is one from 6 repeats on (p = 1/924), if few other cases wander about as far. With fewer repeats nobody can tell it from chance, and it
//! would be as wrong to pass it as to call it a regression: the verdict is *inconclusive*, and says which cases to
//! repeat or to declare deterministic.
//!
//! # Inconclusive
//!
//! - such a case;
//! - the candidate did worse on average, and a true drop of `margin` cannot be excluded;
//! - too many results are missing because a judge, the harness or infrastructure broke, or nobody has labelled them;
//! - there is nothing to compare.
//!
//! Errors and timeouts that the *target* owns are no missing data: they count as not passed, here and in pass rates. A changed case (its content hash differs) says nothing about
//! the system; it is listed and left out.

mod cases;
pub mod metrics;
#[cfg(test)]
mod simulation_tests;
pub mod stratified;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Interval, StatsError, mean_interval};

use super::run::{BenchmarkRun, Status};
use super::summary::{by_case, leading};
pub use cases::{CaseChange, ChangeKind, Tally};
use cases::{CasePair, pair_up};
use metrics::{FigureComparison, compare_latency, compare_scores};
use stratified::{Stratum, case_tests, suite_p_value};

/// What a comparison may cost and what it looks at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GatePolicy {
    /// The probability of a false alarm for an unchanged system; a little below one in twenty by default, so that a
    /// thousand re-runs stay below it too.
    pub alpha: f64,
    /// The largest drop of the pass rate that may stay unnoticed.
    pub margin: f64,
    /// A judge score that drops by more is worth flagging.
    pub score_drop: f64,
    /// A latency that rises by a larger share...
    pub latency_increase: f64,
    /// ... and by more milliseconds is worth flagging.
    pub latency_floor_ms: f64,
    /// The largest share of results that may be missing.
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
            max_missing: 0.1,
        }
    }
}

/// What the gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// Nothing speaks against the candidate.
    Pass,
    /// It is worse.
    Regression,
    /// It cannot be said.
    Inconclusive,
}

/// Two runs, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    /// What follows.
    pub verdict: GateVerdict,
    /// Why: what decided comes first.
    pub reasons: Vec<String>,
    /// The run that was accepted.
    pub baseline_run: String,
    /// The run that is judged.
    pub candidate_run: String,
    /// Pass rates over the cases that can be compared; absent when there are none.
    pub pass: Option<PassComparison>,
    /// Judge scores, where both runs have them.
    pub score: Option<FigureComparison>,
    /// Latencies.
    pub latency: Option<FigureComparison>,
    /// Every case that is not as it was, what decides first.
    pub changes: Vec<CaseChange>,
    /// Candidate results that are missing because somebody other than the target broke, or wait for a label.
    pub missing: u64,
    /// Why they are missing → how many.
    pub missing_because: std::collections::BTreeMap<String, u64>,
}

/// Pass rates of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassComparison {
    /// Cases that both runs decided.
    pub cases: usize,
    /// Mean of the cases' pass rates before.
    pub baseline: f64,
    /// Now.
    pub candidate: f64,
    /// Candidate − baseline.
    pub difference: f64,
    /// Its 90 % interval over cases (95 % to either side); absent below two cases.
    pub interval: Option<Interval>,
    /// The exact one-sided test that nothing got worse.
    pub p_value: f64,
    /// What it was compared with.
    pub level: f64,
    /// Cases that pass less often.
    pub worse: usize,
    /// Cases that pass more often.
    pub better: usize,
}

/// Compares a run with the baseline.
pub fn compare(
    baseline: &BenchmarkRun,
    candidate: &BenchmarkRun,
    policy: &GatePolicy,
) -> Result<GateReport, StatsError> {
    for (what, value) in [("alpha", policy.alpha), ("margin", policy.margin)] {
        if !(value > 0.0 && value < 1.0) {
            return Err(StatsError::OutOfRange {
                what,
                value,
                range: "(0, 1)",
            });
        }
    }
    let paired = pair_up(&baseline.results, &candidate.results);
    let mut changes = paired.changes;
    let mut reasons = Verdicts::default();
    for change in changes.iter().filter(|change| change.decides) {
        reasons.regression.push(change.reason.clone());
    }
    regression_tier(candidate, &mut reasons);

    let score = compare_scores(&paired.pairs, policy)?;
    let latency = compare_latency(&paired.pairs, policy)?;
    // Each further question takes its share, so that all together keep to alpha.
    let taken: f64 = [&score, &latency]
        .into_iter()
        .flatten()
        .map(|figure| figure.level)
        .sum();
    let pass = compare_passes(
        &paired.pairs,
        policy,
        policy.alpha - taken,
        &mut changes,
        &mut reasons,
    )?;
    for figure in [&score, &latency].into_iter().flatten() {
        reasons.regression.extend(figure.regression.clone());
        changes.extend(figure.changes.iter().cloned());
    }
    let share = paired.missing as f64 / (candidate.results.len().max(1)) as f64;
    if share > policy.max_missing {
        let owners: Vec<String> = paired
            .missing_because
            .iter()
            .map(|(owner, count)| format!("{count} {owner}"))
            .collect();
        reasons.inconclusive.push(format!(
            "{} of {} results are missing ({}): run them again",
            paired.missing,
            candidate.results.len(),
            owners.join(", ")
        ));
    }
    if pass.is_none() {
        reasons
            .inconclusive
            .push("no case was decided in both runs, so there is nothing to compare".to_owned());
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
        latency,
        changes,
        missing: paired.missing,
        missing_because: paired.missing_because,
    })
}

/// Cases of the regression tier must always pass: a failure decides, and one that was not decided leaves it open.
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

/// What speaks for which verdict.
#[derive(Default)]
struct Verdicts {
    regression: Vec<String>,
    inconclusive: Vec<String>,
}

impl Verdicts {
    fn finish(self, pass: Option<&PassComparison>, changes: &[CaseChange]) -> (GateVerdict, Vec<String>) {
        // What is decided is no longer open: reasons to doubt would only take the point off it.
        if !self.regression.is_empty() {
            return (GateVerdict::Regression, self.regression);
        }
        if !self.inconclusive.is_empty() {
            return (GateVerdict::Inconclusive, self.inconclusive);
        }
        let mut reasons = Vec::new();
        if let Some(pass) = pass {
            reasons.push(if pass.worse == 0 {
                format!("no case of {} passes less often than before", pass.cases)
            } else {
                format!(
                    "{} of {} cases passed less often and {} more often, which chance explains (p = {:.3})",
                    pass.worse, pass.cases, pass.better, pass.p_value
                )
            });
        }
        let edited = changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Edited)
            .count();
        if edited > 0 {
            reasons.push(format!(
                "{edited} cases were edited since and say nothing about the system"
            ));
        }
        (GateVerdict::Pass, reasons)
    }
}

fn compare_passes(
    pairs: &[CasePair<'_>],
    policy: &GatePolicy,
    alpha: f64,
    changes: &mut Vec<CaseChange>,
    verdicts: &mut Verdicts,
) -> Result<Option<PassComparison>, StatsError> {
    if pairs.is_empty() {
        return Ok(None);
    }
    // Declared certainty leaves no room for chance: those cases were decided by themselves.
    let strata: Vec<Stratum> = pairs
        .iter()
        .filter(|pair| !pair.deterministic)
        .map(CasePair::stratum)
        .collect();
    let tests = case_tests(&strata, alpha / 10.0);
    let level = alpha - tests.spent;
    let p_value = suite_p_value(&strata);
    let differences: Vec<f64> = pairs.iter().map(CasePair::difference).collect();
    let n = pairs.len() as f64;
    // A rate cannot change by more than all of it.
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
            "the pass rate fell from {:.1} % to {:.1} % on {} cases (p {}, level {level:.4})",
            100.0 * comparison.baseline,
            100.0 * comparison.candidate,
            comparison.cases,
            if p_value < 0.0001 {
                "< 0.0001".to_owned()
            } else {
                format!("= {p_value:.4}")
            }
        ));
    }
    let mut untold = Vec::new();
    let uncertain = pairs.iter().filter(|pair| !pair.deterministic);
    for ((pair, p), adjusted) in uncertain.zip(&tests.p_values).zip(&tests.adjusted) {
        let difference = pair.difference();
        if difference == 0.0 {
            continue;
        }
        let decides = difference < 0.0 && *adjusted <= alpha / 10.0;
        let kind = if difference < 0.0 {
            ChangeKind::Worse
        } else {
            ChangeKind::Better
        };
        let mut reason = format!(
            "{} passed {} and now {}",
            pair.case_id, pair.baseline, pair.candidate
        );
        if kind == ChangeKind::Worse {
            // Writing to a string cannot fail.
            let _ = write!(reason, " (p = {p:.4}, {adjusted:.4} among all cases)");
        }
        if decides {
            verdicts.regression.push(reason.clone());
        } else if pair.baseline.always() && pair.candidate.never() {
            untold.push(pair);
        }
        changes.push(CaseChange {
            case_id: pair.case_id.to_owned(),
            kind,
            baseline: Some(pair.baseline),
            candidate: Some(pair.candidate),
            p_value: Some(*p),
            adjusted_p_value: Some(*adjusted),
            decides,
            reason,
        });
    }
    if let Some(first) = untold.first() {
        let ids: Vec<&str> = untold.iter().take(5).map(|pair| pair.case_id).collect();
        let more = if untold.len() > 5 {
            format!(" and {} more", untold.len() - 5)
        } else {
            String::new()
        };
        verdicts.inconclusive.push(format!(
            "{} always passed and never does now ({} results each cannot tell that from chance): {}{more}. Repeat with \
             at least {} runs, or declare such cases deterministic",
            if untold.len() == 1 { "one case".to_owned() } else { format!("{} cases", untold.len()) },
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
            "the pass rate changed by {:+.1} points; a true drop of {:.0} points cannot be excluded (it may be {:.1}): \
             more repeats or cases are needed",
            100.0 * comparison.difference,
            100.0 * policy.margin,
            100.0 * interval.low
        ));
    }
    Ok(Some(comparison))
}
