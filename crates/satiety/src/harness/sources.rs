//! Collects the saturation signals from runs, accepted baselines, gate verdicts and auditors' verdicts.
//!
//! A signal without evidence is absent, never zero. Nothing here reads a store.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::signals::SignalMetrics;
use crate::bench::gate::GateVerdict;
use crate::bench::run::BenchmarkRun;
use crate::bench::suite::{BenchmarkCase, BenchmarkSuite, Source};
use crate::bench::summary::by_case;
use crate::stats::mean;

/// Pass rate above which a benchmark has reached the ceiling.
pub(crate) const CEILING: f64 = 0.95;

/// Verdict of one auditor on one cycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditVerdict {
    /// Id of the cycle, or of anything else that was audited together.
    pub cycle_id: String,
    /// Name of the auditor.
    pub auditor: String,
    /// Whether the auditor accepts the cycle.
    pub accepts: bool,
    /// Reason given by the auditor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Agreement among auditors over recent cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditorAgreement {
    /// Number of cycles with at least two auditors.
    pub cycles: u64,
    /// Number of cycles in which all auditors agreed.
    pub unanimous: u64,
    /// Number of cycles in which all auditors accepted; unanimous rejection is not a sign of saturation.
    pub accepting: u64,
}

/// Evidence from which the signals are derived.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// Suites, each with its newest run.
    pub runs: &'a [(&'a BenchmarkSuite, &'a BenchmarkRun)],
    /// Accepted baselines of all suites, in order of acceptance.
    pub baselines: &'a [&'a BenchmarkRun],
    /// Gate verdicts on recent proposals.
    pub gates: &'a [GateVerdict],
    /// Auditors' verdicts on recent cycles.
    pub audits: &'a [AuditVerdict],
}

/// Derives the five signals, as far as there is evidence.
pub fn collect(evidence: &Evidence<'_>) -> SignalMetrics {
    let agreement = auditor_agreement(evidence.audits);
    SignalMetrics {
        benchmark_ceiling_rate: ceiling_rate(evidence.runs.iter().map(|(_, run)| *run), CEILING),
        regression_pass_rate: regression_pass_rate(evidence.runs),
        improvement_delta: newest_delta(evidence.baselines),
        proposal_pass_rate: proposal_pass_rate(evidence.gates),
        auditor_unanimous_rate: agreement.rate(),
    }
}

/// Share of suites whose pass rate is above the ceiling; suites without a decided case do not count.
pub(crate) fn ceiling_rate<'a>(
    runs: impl IntoIterator<Item = &'a BenchmarkRun>,
    ceiling: f64,
) -> Option<f64> {
    let hits: Vec<f64> = runs
        .into_iter()
        .filter_map(|run| mean(&rates(run).into_values().collect::<Vec<_>>()).ok())
        .map(|rate| f64::from(u8::from(rate > ceiling)))
        .collect();
    mean(&hits).ok()
}

/// Share of regression tests that pass in every decided repeat.
pub fn regression_pass_rate(runs: &[(&BenchmarkSuite, &BenchmarkRun)]) -> Option<f64> {
    let passes: Vec<f64> = runs
        .iter()
        .flat_map(|(suite, run)| {
            let tests = regression_cases(suite);
            rates(run)
                .into_iter()
                .filter(move |(id, _)| tests.contains(id))
                .map(|(_, rate)| f64::from(u8::from(rate == 1.0)))
        })
        .collect();
    mean(&passes).ok()
}

/// Whether a case is a regression test: tagged, derived from a failure, or in a suite whose tier is
/// `regression`.
pub fn is_regression(suite: &BenchmarkSuite, case: &BenchmarkCase) -> bool {
    let is_regression_tier =
        |word: Option<&serde_json::Value>| word.and_then(|word| word.as_str()) == Some("regression");
    is_regression_tier(suite.metadata.get("tier"))
        || is_regression_tier(case.metadata.get("tier"))
        || case.source == Source::Regression
        || case.tags.iter().any(|tag| tag == "regression")
}

/// Returns the ids of the regression tests of a suite.
pub fn regression_cases(suite: &BenchmarkSuite) -> BTreeSet<&str> {
    suite
        .cases
        .iter()
        .filter(|case| is_regression(suite, case))
        .map(|case| case.case_id.as_str())
        .collect()
}

/// Gain of the newest accepted baseline; `None` if its suite had no earlier one.
fn newest_delta(baselines: &[&BenchmarkRun]) -> Option<f64> {
    let (newest, earlier) = baselines.split_last()?;
    let before = earlier.iter().rev().find(|run| run.suite_id == newest.suite_id)?;
    delta(before, newest)
}

fn delta(before: &BenchmarkRun, after: &BenchmarkRun) -> Option<f64> {
    let (old_hashes, new_hashes) = (hashes(before), hashes(after));
    let old = rates(before);
    let gains: Vec<f64> = rates(after)
        .into_iter()
        .filter(|(id, _)| match (old_hashes.get(id), new_hashes.get(id)) {
            (Some(old), Some(new)) => old == new,
            _ => true,
        })
        .filter_map(|(id, rate)| Some(rate - old.get(id)?))
        .collect();
    mean(&gains).ok()
}

/// Share of proposals that passed the gate; inconclusive verdicts do not count.
pub fn proposal_pass_rate(gates: &[GateVerdict]) -> Option<f64> {
    let passes: Vec<f64> = gates
        .iter()
        .filter(|verdict| **verdict != GateVerdict::Inconclusive)
        .map(|verdict| f64::from(u8::from(*verdict == GateVerdict::Pass)))
        .collect();
    mean(&passes).ok()
}

/// Computes the agreement among auditors. Cycles with one auditor do not count; the last verdict of an
/// auditor wins.
pub(crate) fn auditor_agreement(audits: &[AuditVerdict]) -> AuditorAgreement {
    let mut cycles: BTreeMap<&str, BTreeMap<&str, bool>> = BTreeMap::new();
    for audit in audits {
        cycles
            .entry(&audit.cycle_id)
            .or_default()
            .insert(&audit.auditor, audit.accepts);
    }
    let mut agreement = AuditorAgreement::default();
    for verdicts in cycles.values().filter(|verdicts| verdicts.len() >= 2) {
        agreement.cycles += 1;
        let accepting = verdicts.values().filter(|accepts| **accepts).count();
        agreement.accepting += u64::from(accepting == verdicts.len());
        agreement.unanimous += u64::from(accepting == verdicts.len() || accepting == 0);
    }
    agreement
}

impl AuditorAgreement {
    /// Share of cycles in which all auditors agreed; `None` without any cycle.
    pub fn rate(&self) -> Option<f64> {
        (self.cycles > 0).then(|| self.unanimous as f64 / self.cycles as f64)
    }
}

/// Pass rates of the decided cases.
fn rates(run: &BenchmarkRun) -> BTreeMap<&str, f64> {
    by_case(&run.results)
        .into_iter()
        .filter_map(|(id, results)| {
            let decided: Vec<f64> = results
                .iter()
                .filter_map(|result| result.passed())
                .map(|passed| f64::from(u8::from(passed)))
                .collect();
            Some((id, mean(&decided).ok()?))
        })
        .collect()
}

fn hashes(run: &BenchmarkRun) -> BTreeMap<&str, &str> {
    run.results
        .iter()
        .filter_map(|result| Some((result.case_id.as_str(), result.case_hash.as_deref()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::bench::expected::{BenchmarkExpected, Mode};
    use crate::bench::run::{BenchmarkResult, Status};

    fn run(suite: &str, cases: &[(&str, &str, &[bool])]) -> BenchmarkRun {
        BenchmarkRun {
            run_id: "run".into(),
            suite_id: suite.into(),
            suite_hash: None,
            target: String::new(),
            started_at: Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: BTreeMap::new(),
            results: cases
                .iter()
                .flat_map(|(id, hash, passes)| {
                    (0..).zip(*passes).map(move |(repeat, passed)| {
                        let status = if *passed { Status::Pass } else { Status::Fail };
                        let mut result = BenchmarkResult::new(*id, repeat, status);
                        result.case_hash = Some((*hash).to_owned());
                        result
                    })
                })
                .collect(),
            summary: None,
        }
    }

    fn suite(id: &str, cases: &[(&str, &[&str])]) -> BenchmarkSuite {
        let mut suite = BenchmarkSuite::new(id);
        suite.cases = cases
            .iter()
            .map(|(id, tags)| {
                let mut case = BenchmarkCase::new(*id, *id, BenchmarkExpected::with_value(Mode::Exact, "x"));
                case.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
                case
            })
            .collect();
        suite
    }

    #[test]
    fn signals_from_recorded_evidence() {
        let (first, second) = (
            suite("a", &[("x", &["regression"]), ("y", &[])]),
            suite("b", &[("z", &["regression"])]),
        );
        let perfect = run("a", &[("x", "1", &[true, true]), ("y", "1", &[true])]);
        // Half of z's repeats: below the ceiling, and no passing regression test.
        let flaky = run("b", &[("z", "1", &[true, false])]);
        let earlier = run("a", &[("x", "1", &[true, false]), ("y", "0", &[false])]);
        let audit = |cycle: &str, auditor: &str, accepts| AuditVerdict {
            cycle_id: cycle.into(),
            auditor: auditor.into(),
            accepts,
            note: String::new(),
        };
        let metrics = collect(&Evidence {
            runs: &[(&first, &perfect), (&second, &flaky)],
            baselines: &[&earlier, &flaky, &perfect],
            gates: &[
                GateVerdict::Pass,
                GateVerdict::Regression,
                GateVerdict::Inconclusive,
                GateVerdict::Pass,
            ],
            audits: &[
                audit("1", "p", true),
                audit("1", "q", true),
                audit("2", "p", false),
                audit("2", "q", false),
                audit("3", "p", true),
                audit("3", "q", false),
                audit("4", "p", true),
            ],
        });
        assert_eq!(metrics.benchmark_ceiling_rate, Some(0.5));
        assert_eq!(metrics.regression_pass_rate, Some(0.5));
        // y was edited: only x counts, from one half to one.
        assert_eq!(metrics.improvement_delta, Some(0.5));
        assert!((metrics.proposal_pass_rate.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert!((metrics.auditor_unanimous_rate.unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn missing_evidence_is_absent_not_zero() {
        assert_eq!(collect(&Evidence::default()), SignalMetrics::default());
        let one = [AuditVerdict {
            cycle_id: "1".into(),
            auditor: "p".into(),
            accepts: true,
            note: String::new(),
        }];
        assert_eq!(auditor_agreement(&one).rate(), None);
        assert_eq!(proposal_pass_rate(&[GateVerdict::Inconclusive]), None);
    }

    #[test]
    fn unanimous_rejection_differs_from_unanimous_acceptance() {
        let audit = |auditor: &str, accepts| AuditVerdict {
            cycle_id: "1".into(),
            auditor: auditor.into(),
            accepts,
            note: String::new(),
        };
        let rejecting = auditor_agreement(&[audit("p", false), audit("q", false)]);
        assert_eq!((rejecting.unanimous, rejecting.accepting), (1, 0));
        // The last verdict of an auditor counts.
        let changed = auditor_agreement(&[audit("p", true), audit("q", false), audit("p", false)]);
        assert_eq!((changed.unanimous, changed.cycles), (1, 1));
    }
}
