//! Two runs case by case: what can be compared, what is gone, new, edited or without evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stratified::Stratum;
use crate::bench::run::{BenchmarkResult, ErrorOwner, Status};
use crate::bench::summary::{by_case, leading};

/// Passes among tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Passed.
    pub passes: u64,
    /// Of so many.
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

/// How a case is not as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is gone.
    Removed,
    /// It was decided before and is skipped now.
    Skipped,
    /// It passes less often.
    Worse,
    /// Its judge score dropped.
    ScoreDrop,
    /// It takes longer.
    Slower,
    /// It was decided before; now somebody other than the target broke every time, or labels are awaited.
    Lost,
    /// Its content changed; it says nothing about the system.
    Edited,
    /// It is new.
    Added,
    /// It passes more often.
    Better,
}

/// A case that is not as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseChange {
    /// The case.
    pub case_id: String,
    /// How it changed.
    pub kind: ChangeKind,
    /// Passes before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Tally>,
    /// Passes now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Tally>,
    /// How probable so large a change of this case is by chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// How probable it is anywhere among all cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjusted_p_value: Option<f64>,
    /// Whether this alone makes a regression.
    pub decides: bool,
    /// In words.
    pub reason: String,
}

/// A case that both runs decided.
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

/// Everything about two runs that needs no statistics.
pub(super) struct Paired<'a> {
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
pub(super) fn pair_up<'a>(before: &'a [BenchmarkResult], now: &'a [BenchmarkResult]) -> Paired<'a> {
    let (before, mut now) = (by_case(leading(before)), by_case(leading(now)));
    let mut paired = Paired {
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
            // A baseline whose repeats disagree belies the declaration.
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

impl<'a> Paired<'a> {
    fn note(&mut self, case_id: &str, kind: ChangeKind, decides: bool, reason: String) {
        self.changes.push(CaseChange {
            case_id: case_id.to_owned(),
            kind,
            baseline: None,
            candidate: None,
            p_value: None,
            adjusted_p_value: None,
            decides,
            reason,
        });
    }

    fn add(&mut self, pair: CasePair<'a>) {
        let case_id = pair.case_id;
        if pair.baseline.tries == 0 {
            // Nothing was known about it before either.
            return;
        }
        if pair.candidate.tries == 0 {
            let skipped = pair.now.iter().all(|result| result.status == Status::Skipped);
            // A case that never passed and is skipped now is no worse.
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
                reason: format!(
                    "{case_id} is declared deterministic, passed {} and now {}",
                    pair.baseline, pair.candidate
                ),
            });
        }
        self.pairs.push(pair);
    }
}
