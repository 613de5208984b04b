//! May a feature become the default? Each condition of the specification with its figure, its limit and a sentence; one
//! that fails refuses, one that cannot be told leaves it open.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Decision, Standing};
use crate::retrieval::Verdict;

/// From here on slower times are no chance.
const SLOWER: f64 = 0.01;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GraduationLimits {
    /// The improvement of the reciprocal rank from which on it is worth having.
    pub threshold: f64,
    /// By which share the 95th percentile of the time may rise.
    pub latency_increase: f64,
    /// A rise of fewer milliseconds is noise.
    pub latency_floor_ms: f64,
    /// Which share of shadow runs may fail or run out of time.
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

/// What is known about a feature.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GraduationEvidence {
    /// The sequential test.
    pub standing: Standing,
    /// Both pipelines on the corpus, side by side; absent while nobody measured it or there is no corpus.
    pub corpus: Option<CorpusEvidence>,
    /// How shadow runs went.
    pub shadow: ShadowCounts,
}

/// A measure on the corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredChange {
    /// Which.
    pub measure: String,
    /// As it is.
    pub control: f64,
    /// With the feature.
    pub treatment: f64,
    /// Treatment − control.
    pub difference: f64,
    /// Its 95 % bootstrap interval.
    pub interval: Option<super::Bounds>,
    /// The randomisation test, after Holm.
    pub p_value: f64,
    /// `better`, `worse` or `no_evidence`.
    #[schemars(with = "String")]
    pub verdict: Verdict,
}

/// Both pipelines on the corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusEvidence {
    /// Queries with something relevant to find.
    pub queries: usize,
    /// The reciprocal rank first: it decides; the others must not be worse.
    pub measures: Vec<MeasuredChange>,
    /// The share of constitutional memories among the first five, as it is; absent without such memories.
    pub control_surfacing: Option<f64>,
    /// With the feature.
    pub treatment_surfacing: Option<f64>,
    /// The 95th percentile of the time, as it is, in milliseconds.
    pub control_p95_ms: f64,
    /// With the feature.
    pub treatment_p95_ms: f64,
    /// How likely such times are if it is no slower.
    pub slower_p_value: f64,
}

/// How shadow runs went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShadowCounts {
    /// Runs that were recorded.
    pub runs: u64,
    /// Of these: failed or out of time.
    pub failed: u64,
    /// Of these: waiting to be told what the lists were worth.
    pub open: u64,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// It does.
    Pass,
    /// It does not.
    Fail,
    /// It cannot be told yet.
    Undecided,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Which.
    pub name: String,
    /// Whether it holds.
    pub check: Check,
    /// Why, in a sentence.
    pub reason: String,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraduationVerdict {
    /// It may become the default.
    Graduate,
    /// It may not.
    Refuse,
    /// Nothing speaks against it, but something is not known yet.
    Undecided,
}

/// All conditions, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checklist {
    /// What follows.
    pub verdict: GraduationVerdict,
    /// One by one.
    pub checks: Vec<Checked>,
}

/// Goes through the conditions.
pub fn check_graduation(evidence: &GraduationEvidence, limits: &GraduationLimits) -> Checklist {
    let corpus = evidence.corpus.as_ref();
    let unmeasured = || {
        (
            Check::Undecided,
            "both pipelines were not measured on the corpus yet".to_owned(),
        )
    };
    let checks: Vec<Checked> = [
        ("corpus_improvement", corpus.map_or_else(unmeasured, improvement)),
        ("sequential_test", sequential(&evidence.standing)),
        ("minimum_samples", samples(&evidence.standing)),
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
    let any = |wanted| checks.iter().any(|one| one.check == wanted);
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
            "the corpus has no query with something relevant to find".into(),
        );
    };
    if let Some(worse) = corpus.measures.iter().find(|one| one.verdict == Verdict::Worse) {
        return (
            Check::Fail,
            format!("{} is worse: {}", worse.measure, change(worse)),
        );
    }
    let check = match first.verdict {
        Verdict::Better => Check::Pass,
        Verdict::Worse => Check::Fail,
        Verdict::NoEvidence => Check::Undecided,
    };
    let more = match check {
        Check::Undecided => "; that may be chance",
        Check::Pass | Check::Fail => "",
    };
    (
        check,
        format!(
            "{} on {} queries: {}{more}",
            first.measure,
            corpus.queries,
            change(first)
        ),
    )
}

fn change(one: &MeasuredChange) -> String {
    format!(
        "{:.3} → {:.3} ({:+.3}, p = {:.4})",
        one.control, one.treatment, one.difference, one.p_value
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
        Decision::AcceptTreatment => (Check::Pass, format!("the treatment is accepted: {test}")),
        Decision::AcceptControl => (Check::Fail, format!("the control is accepted: {test}")),
        Decision::Continue => (Check::Undecided, format!("not decided: {test}")),
    }
}

fn samples(standing: &Standing) -> (Check, String) {
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
        return (Check::Undecided, "no query was compared yet".into());
    };
    let reason = format!(
        "the reciprocal rank changed by {delta:+.3}, and {:+.3} is asked for",
        limits.threshold
    );
    // Only a decided trial will not move any more.
    let check = match standing.decision {
        Decision::Continue => Check::Undecided,
        _ if delta >= limits.threshold => Check::Pass,
        _ => Check::Fail,
    };
    let excluded = standing
        .interval
        .is_some_and(|interval| interval.high < limits.threshold);
    let more = if excluded {
        "; so much can be excluded, so that more queries will not help"
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
                "{:.1} % of constitutional memories among the first five, {:.1} % before",
                percent(treatment),
                percent(control)
            );
            (check, reason)
        }
        _ => (Check::Pass, "there are no constitutional memories to lose".into()),
    }
}

fn latency(corpus: &CorpusEvidence, limits: &GraduationLimits) -> (Check, String) {
    let (control, treatment) = (corpus.control_p95_ms, corpus.treatment_p95_ms);
    let fine = treatment < control * (1.0 + limits.latency_increase)
        || treatment - control < limits.latency_floor_ms;
    let reason = format!(
        "p95 {control:.2} ms → {treatment:.2} ms ({:+.1} %), and {:+.0} % is the limit",
        100.0 * (treatment / control.max(1e-9) - 1.0),
        100.0 * limits.latency_increase
    );
    // One busy moment of the machine makes a 95th percentile; only what is beyond chance speaks against it.
    if fine {
        (Check::Pass, reason)
    } else if corpus.slower_p_value <= SLOWER {
        (Check::Fail, reason)
    } else {
        (
            Check::Undecided,
            format!(
                "{reason}; that may be the machine (p = {:.2}), measure again",
                corpus.slower_p_value
            ),
        )
    }
}

fn answers(shadow: ShadowCounts, limits: &GraduationLimits) -> (Check, String) {
    let reason = format!(
        "{} of {} shadow runs failed or ran out of time",
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
