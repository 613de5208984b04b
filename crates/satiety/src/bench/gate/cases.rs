//! Case-by-case pairing of two runs: comparable, removed, added, edited and undecided cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stratified::Stratum;
use crate::bench::run::{BenchmarkResult, ErrorOwner, Status};
use crate::bench::summary::{by_case, leading};

/// Number of passes among decided repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Number of repeats that passed.
    pub passes: u64,
    /// Number of decided repeats.
    pub tries: u64,
}

impl Tally {
    pub(super) fn rate(self) -> f64 {
        self.passes as f64 / self.tries.max(1) as f64
    }

    pub(super) fn always(self) -> bool {
        self.passes == self.tries
    }

    pub(super) fn never(self) -> bool {
        self.passes == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.passes, self.tries)
    }
}

/// Kind of change of a case between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The case is missing from the candidate run.
    Removed,
    /// The case was decided in the baseline and is now skipped.
    Skipped,
    /// The case passes less often.
    Worse,
    /// The judge score of the case dropped.
    ScoreDrop,
    /// The latency of the case increased.
    Slower,
    /// The case was decided in the baseline and has no decided result now: every repeat failed for a reason
    /// outside the target or awaits a label.
    Lost,
    /// The content of the case changed, so it is excluded from the comparison.
    Edited,
    /// The case is new in the candidate run.
    Added,
    /// The case passes more often.
    Better,
}

/// A case that changed between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseChange {
    /// Id of the changed case.
    pub case_id: String,
    /// Kind of change that was found.
    pub kind: ChangeKind,
    /// Passes in the baseline run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Tally>,
    /// Passes in the candidate run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Tally>,
    /// Unadjusted p-value of the change in this case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// P-value adjusted for testing all cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjusted_p_value: Option<f64>,
    /// Whether this change alone makes the verdict a regression.
    pub decides: bool,
    /// Variant that changed, when a run has several targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Human-readable description of the change.
    pub reason: String,
}

/// A case that was decided in both runs.
pub(super) struct CasePair<'a> {
    pub(super) case_id: &'a str,
    pub(super) baseline: Tally,
    pub(super) candidate: Tally,
    pub(super) deterministic: bool,
    pub(super) before: Vec<&'a BenchmarkResult>,
    pub(super) now: Vec<&'a BenchmarkResult>,
}

impl CasePair<'_> {
    pub(super) fn difference(&self) -> f64 {
        self.candidate.rate() - self.baseline.rate()
    }

    pub(super) fn stratum(&self) -> Stratum {
        Stratum {
            baseline_passes: self.baseline.passes,
            baseline_tries: self.baseline.tries,
            candidate_passes: self.candidate.passes,
            candidate_tries: self.candidate.tries,
        }
    }
}

/// Pairing of two runs, before any statistics.
pub(super) struct Pairing<'a> {
    pub(super) pairs: Vec<CasePair<'a>>,
    pub(super) changes: Vec<CaseChange>,
    pub(super) missing: u64,
    pub(super) missing_because: BTreeMap<String, u64>,
}

fn missing_because(result: &BenchmarkResult) -> Option<&'static str> {
    if result.passed().is_some() {
        return None;
    }
    Some(match (result.status, result.owner()) {
        (Status::Skipped, _) => return None,
        (Status::Pending, _) => "waiting for a label or a judge",
        (_, ErrorOwner::Judge) => "judge errors",
        (_, ErrorOwner::Harness) => "harness errors",
        (_, ErrorOwner::Infra | ErrorOwner::Target) => "infrastructure errors",
    })
}

fn tally(results: &[&BenchmarkResult]) -> Tally {
    let decided: Vec<bool> = results.iter().filter_map(|result| result.passed()).collect();
    Tally {
        passes: decided.iter().filter(|&&passed| passed).count() as u64,
        tries: decided.len() as u64,
    }
}

fn hashes<'a>(results: &[&'a BenchmarkResult]) -> BTreeSet<&'a str> {
    results
        .iter()
        .filter_map(|result| result.case_hash.as_deref())
        .collect()
}

/// Pairs the cases of two runs.
pub(super) fn pair_cases<'a>(before: &'a [BenchmarkResult], now: &'a [BenchmarkResult]) -> Pairing<'a> {
    let (before, mut now) = (by_case(leading(before)), by_case(leading(now)));
    let mut paired = Pairing {
        pairs: Vec::new(),
        changes: Vec::new(),
        missing: 0,
        missing_because: BTreeMap::new(),
    };
    for because in now
        .values()
        .flatten()
        .filter_map(|result| missing_because(result))
    {
        paired.missing += 1;
        *paired.missing_because.entry(because.to_owned()).or_default() += 1;
    }
    for (case_id, before) in before {
        let Some(now) = now.remove(case_id) else {
            paired.note(
                case_id,
                ChangeKind::Removed,
                true,
                format!("{case_id} was removed"),
            );
            continue;
        };
        let (old, new) = (hashes(&before), hashes(&now));
        if !old.is_empty() && !new.is_empty() && old != new {
            paired.note(
                case_id,
                ChangeKind::Edited,
                false,
                format!("{case_id} was edited since the baseline"),
            );
            continue;
        }
        let baseline = tally(&before);
        let pair = CasePair {
            case_id,
            baseline,
            candidate: tally(&now),
            // Repeats that disagree in the baseline contradict the declaration.
            deterministic: now.iter().any(|result| result.deterministic)
                && (baseline.always() || baseline.never()),
            before,
            now,
        };
        paired.add(pair);
    }
    for case_id in now.into_keys() {
        paired.note(case_id, ChangeKind::Added, false, format!("{case_id} is new"));
    }
    paired
}

impl<'a> Pairing<'a> {
    fn note(&mut self, case_id: &str, kind: ChangeKind, decides: bool, reason: String) {
        self.changes.push(CaseChange {
            case_id: case_id.to_owned(),
            kind,
            baseline: None,
            candidate: None,
            p_value: None,
            adjusted_p_value: None,
            decides,
            variant: None,
            reason,
        });
    }

    fn add(&mut self, pair: CasePair<'a>) {
        let case_id = pair.case_id;
        if pair.baseline.tries == 0 {
            // The baseline has no decided result to compare with.
            return;
        }
        if pair.candidate.tries == 0 {
            let skipped = pair.now.iter().all(|result| result.status == Status::Skipped);
            // A case that never passed cannot get worse by being skipped.
            if skipped && !pair.baseline.never() {
                let reason = format!("{case_id} passed {} and is skipped now", pair.baseline);
                self.note(case_id, ChangeKind::Skipped, true, reason);
            } else {
                let reason = format!("{case_id} passed {} and has no result now", pair.baseline);
                self.note(case_id, ChangeKind::Lost, false, reason);
            }
            return;
        }
        if pair.deterministic && pair.baseline.always() && !pair.candidate.always() {
            self.changes.push(CaseChange {
                case_id: case_id.to_owned(),
                kind: ChangeKind::Worse,
                baseline: Some(pair.baseline),
                candidate: Some(pair.candidate),
                p_value: None,
                adjusted_p_value: None,
                decides: true,
                variant: None,
                reason: format!(
                    "{case_id} is declared deterministic and passed {}, now {}",
                    pair.baseline, pair.candidate
                ),
            });
        }
        self.pairs.push(pair);
    }
}
