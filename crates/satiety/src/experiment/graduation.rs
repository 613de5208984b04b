//! Graduation checklist: decides whether a feature may become the default. Each condition of the
//! specification is reported with its metric, its limit and a reason. A failed condition refuses graduation,
//! an undecidable one leaves it open.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Decision, LatencyComparison, Standing};
use crate::retrieval::Verdict;
use crate::stats::PValue;

/// Significance level below which a latency increase is not attributed to chance.
const SLOWER_ALPHA: f64 = 0.01;
/// Significance level below which latency counts as within the limit.
const WITHIN_ALPHA: f64 = 0.05;
/// Share of slower queries from which the 95th percentile is affected.
const SLOWER_SHARE: f64 = 0.05;

/// Limits that a feature must satisfy to graduate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GraduationLimits {
    /// Minimum improvement of the reciprocal rank that justifies graduation.
    pub threshold: f64,
    /// Largest acceptable relative increase of the 95th percentile of latency.
    pub latency_increase: f64,
    /// Latency increases below this number of milliseconds are treated as noise.
    pub latency_floor_ms: f64,
    /// Largest acceptable fraction of shadow runs that fail or time out.
    pub failures: f64,
}

impl Default for GraduationLimits {
    fn default() -> Self {
        Self {
            threshold: 0.03,
            latency_increase: 0.20,
            latency_floor_ms: 1.0,
            failures: 0.05,
        }
    }
}

/// Evidence about a feature.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GraduationEvidence {
    /// State of the sequential test.
    pub standing: Standing,
    /// Measurements of both pipelines on the corpus; absent when not measured yet or without a corpus.
    pub corpus: Option<CorpusEvidence>,
    /// Counts of the shadow runs.
    pub shadow: ShadowCounts,
}

/// Change of one measure on the corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredChange {
    /// Name of the measure.
    pub measure: String,
    /// Value of the control pipeline.
    pub control: f64,
    /// Value of the treatment pipeline.
    pub treatment: f64,
    /// Treatment value minus control value.
    pub difference: f64,
    /// 95 % bootstrap interval of the difference.
    pub interval: Option<super::Bounds>,
    /// P-value of the randomisation test, after Holm's correction.
    pub p_value: f64,
    /// Verdict: `better`, `worse` or `no_evidence`.
    #[schemars(with = "String")]
    pub verdict: Verdict,
}

/// Measurements of both pipelines on the corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusEvidence {
    /// Number of queries with at least one relevant memory.
    pub queries: usize,
    /// Measures, reciprocal rank first: it decides, and the others must not be worse.
    pub measures: Vec<MeasuredChange>,
    /// Fraction of constitutional memories among the first five results of the control; absent without such
    /// memories.
    pub control_surfacing: Option<f64>,
    /// Fraction of constitutional memories among the first five results of the treatment.
    pub treatment_surfacing: Option<f64>,
    /// 95th percentile of the control's latency in milliseconds.
    pub control_p95_ms: f64,
    /// 95th percentile of the treatment's latency in milliseconds.
    pub treatment_p95_ms: f64,
    /// P-value of the slower queries if the treatment is within the limit.
    pub slower_p_value: f64,
    /// Paired comparison of the latency; absent in evidence of earlier versions.
    #[serde(default)]
    pub latency: Option<LatencyComparison>,
}

/// Counts of the shadow runs of a feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShadowCounts {
    /// Number of recorded shadow runs.
    pub runs: u64,
    /// Number of runs that failed or timed out.
    pub failed: u64,
    /// Number of runs that await feedback about their results.
    pub open: u64,
}

/// Result of one graduation condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// The condition is satisfied.
    Pass,
    /// The condition is violated.
    Fail,
    /// The condition cannot be decided yet.
    Undecided,
}

/// One graduation condition with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Name of the condition.
    pub name: String,
    /// Whether the condition is satisfied.
    pub check: Check,
    /// Reason in one sentence.
    pub reason: String,
}

/// Overall verdict of the checklist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraduationVerdict {
    /// The feature may become the default.
    Graduate,
    /// The feature may not become the default.
    Refuse,
    /// No condition is violated, but at least one is undecided.
    Undecided,
}

/// Graduation checklist with all conditions and the verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checklist {
    /// Overall verdict of the checklist.
    pub verdict: GraduationVerdict,
    /// Result of each condition.
    pub checks: Vec<Checked>,
}

/// Checks all graduation conditions.
pub fn check_graduation(evidence: &GraduationEvidence, limits: &GraduationLimits) -> Checklist {
    let corpus = evidence.corpus.as_ref();
    let unmeasured = || {
        (
            Check::Undecided,
            "the pipelines have not been measured on the corpus yet".to_owned(),
        )
    };
    let checks: Vec<Checked> = [
        ("corpus_improvement", corpus.map_or_else(unmeasured, improvement)),
        ("sequential_test", sequential(&evidence.standing)),
        ("minimum_samples", minimum_samples(&evidence.standing)),
        ("graduation_threshold", threshold(&evidence.standing, limits)),
        (
            "constitutional_surfacing",
            corpus.map_or_else(unmeasured, surfacing),
        ),
        (
            "latency_p95",
            corpus.map_or_else(unmeasured, |corpus| latency(corpus, limits)),
        ),
        ("treatment_answers", answers(evidence.shadow, limits)),
    ]
    .into_iter()
    .map(|(name, (check, reason))| Checked {
        name: name.into(),
        check,
        reason,
    })
    .collect();
    let any = |wanted| checks.iter().any(|checked| checked.check == wanted);
    Checklist {
        verdict: if any(Check::Fail) {
            GraduationVerdict::Refuse
        } else if any(Check::Undecided) {
            GraduationVerdict::Undecided
        } else {
            GraduationVerdict::Graduate
        },
        checks,
    }
}

fn improvement(corpus: &CorpusEvidence) -> (Check, String) {
    let Some(first) = corpus.measures.first() else {
        return (
            Check::Undecided,
            "the corpus has no query with relevant memories".into(),
        );
    };
    if let Some(worse) = corpus
        .measures
        .iter()
        .find(|measured| measured.verdict == Verdict::Worse)
    {
        return (
            Check::Fail,
            format!("{} is worse: {}", worse.measure, describe_change(worse)),
        );
    }
    let check = match first.verdict {
        Verdict::Better => Check::Pass,
        Verdict::Worse => Check::Fail,
        Verdict::NoEvidence => Check::Undecided,
    };
    let more = match check {
        Check::Undecided => "; not significant",
        Check::Pass | Check::Fail => "",
    };
    (
        check,
        format!(
            "{} on {} queries: {}{more}",
            first.measure,
            corpus.queries,
            describe_change(first)
        ),
    )
}

fn describe_change(measured: &MeasuredChange) -> String {
    format!(
        "{:.3} → {:.3} ({:+.3}, {})",
        measured.control,
        measured.treatment,
        measured.difference,
        PValue(measured.p_value)
    )
}

fn sequential(standing: &Standing) -> (Check, String) {
    let test = match standing.log_likelihood_ratio {
        Some(evidence) => format!(
            "evidence {evidence:+.2} between {:.2} and {:+.2}",
            standing.lower_bound, standing.upper_bound
        ),
        None => "burn-in".to_owned(),
    };
    match standing.decision {
        Decision::AcceptTreatment => (Check::Pass, format!("treatment accepted: {test}")),
        Decision::AcceptControl => (Check::Fail, format!("control accepted: {test}")),
        Decision::Continue => (Check::Undecided, format!("undecided: {test}")),
    }
}

fn minimum_samples(standing: &Standing) -> (Check, String) {
    let check = if standing.samples >= standing.min_samples {
        Check::Pass
    } else {
        Check::Undecided
    };
    (
        check,
        format!(
            "{} of {} queries compared",
            standing.samples, standing.min_samples
        ),
    )
}

fn threshold(standing: &Standing, limits: &GraduationLimits) -> (Check, String) {
    let Some(delta) = standing.mrr_delta else {
        return (Check::Undecided, "no query has been compared yet".into());
    };
    let reason = format!(
        "reciprocal rank changed by {delta:+.3}, required {:+.3}",
        limits.threshold
    );
    // Only a decided trial no longer changes.
    let check = match standing.decision {
        Decision::Continue => Check::Undecided,
        _ if delta >= limits.threshold => Check::Pass,
        _ => Check::Fail,
    };
    let excluded = standing
        .interval
        .is_some_and(|interval| interval.high < limits.threshold);
    let more = if excluded {
        "; the required improvement is excluded, so more queries will not help"
    } else {
        ""
    };
    (check, format!("{reason}{more}"))
}

fn surfacing(corpus: &CorpusEvidence) -> (Check, String) {
    match (corpus.control_surfacing, corpus.treatment_surfacing) {
        (Some(control), Some(treatment)) => {
            let check = if treatment >= control - 1e-9 {
                Check::Pass
            } else {
                Check::Fail
            };
            let percent = |share: f64| 100.0 * share;
            let reason = format!(
                "{:.1} % of constitutional memories among the first five results, {:.1} % in the control",
                percent(treatment),
                percent(control)
            );
            (check, reason)
        }
        _ => (Check::Pass, "no constitutional memories exist".into()),
    }
}

fn latency(corpus: &CorpusEvidence, limits: &GraduationLimits) -> (Check, String) {
    match &corpus.latency {
        Some(compared) => check_latency(compared, limits),
        None => (
            Check::Undecided,
            "latency was measured by an earlier version, measure again".into(),
        ),
    }
}

/// Checks a paired comparison of latency.
pub(super) fn check_latency(compared: &LatencyComparison, limits: &GraduationLimits) -> (Check, String) {
    let LatencyComparison {
        queries,
        repetitions,
        slower_queries,
        ..
    } = *compared;
    let reason = format!(
        "p95 {:.2} ms → {:.2} ms, median {:+.1} %; {slower_queries} of {queries} queries exceed {:+.0} % in all {repetitions} repetitions",
        compared.control_p95_ms,
        compared.treatment_p95_ms,
        100.0 * compared.median_increase,
        100.0 * limits.latency_increase
    );
    let affects_p95 = slower_queries as f64 >= SLOWER_SHARE * queries as f64 && slower_queries > 0;
    if affects_p95 && compared.slower_p_value <= SLOWER_ALPHA {
        (
            Check::Fail,
            format!("{reason} ({})", PValue(compared.slower_p_value)),
        )
    } else if !affects_p95 && compared.within_p_value <= WITHIN_ALPHA {
        (Check::Pass, reason)
    } else {
        (
            Check::Undecided,
            format!("{reason}; not enough evidence, measure again on more queries"),
        )
    }
}

fn answers(shadow: ShadowCounts, limits: &GraduationLimits) -> (Check, String) {
    let reason = format!(
        "{} of {} shadow runs failed or timed out",
        shadow.failed, shadow.runs
    );
    let check = match shadow.runs {
        0 => Check::Undecided,
        runs if shadow.failed as f64 <= limits.failures * runs as f64 => Check::Pass,
        _ => Check::Fail,
    };
    (check, reason)
}

#[cfg(test)]
#[path = "graduation_tests.rs"]
mod tests;
