//! Runs of several systems, such as the providers of a promptfoo configuration: each system is compared with itself
//! in the baseline, at its share of the error level, and the worst verdict counts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GatePolicy, GateReport, GateVerdict, PassComparison, Stage, compare_at};
use crate::bench::run::BenchmarkRun;
use crate::bench::summary::systems;
use crate::stats::StatsError;

/// Verdict about one system of a run with several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantGate {
    /// Name of the variant, such as the provider.
    pub variant: String,
    /// Verdict about this variant alone.
    pub verdict: GateVerdict,
    /// Reasons for its verdict, the deciding ones first.
    pub reasons: Vec<String>,
    /// Pass rates over its comparable cases; absent when no case is comparable.
    pub pass: Option<PassComparison>,
}

/// Restricts a baseline with several systems to the one that a run of a single target repeats. The error lists
/// the systems of the baseline, none of which is the target.
pub fn baseline_of_target(baseline: &BenchmarkRun, target: &str) -> Result<BenchmarkRun, Vec<String>> {
    let names: Vec<String> = systems(baseline).into_iter().map(|(name, _)| name).collect();
    if names.len() > 1 && !names.iter().any(|name| name == target) {
        return Err(names);
    }
    Ok(if names.len() > 1 {
        only(baseline, target)
    } else {
        baseline.clone()
    })
}

/// Run with the results of one system, as if it had been run alone.
fn only(run: &BenchmarkRun, name: &str) -> BenchmarkRun {
    let results = systems(run).into_iter().find(|(system, _)| system == name);
    let results = results.map_or_else(Vec::new, |(_, results)| results.into_iter().cloned().collect());
    BenchmarkRun {
        run_id: run.run_id.clone(),
        suite_id: run.suite_id.clone(),
        suite_hash: run.suite_hash.clone(),
        target: name.to_owned(),
        started_at: run.started_at,
        completed_at: run.completed_at,
        config_snapshot: run.config_snapshot.clone(),
        results,
        summary: None,
    }
}

/// Run in which every system has its own cases, to describe all of them together.
fn pooled(run: &BenchmarkRun, names: &[String]) -> BenchmarkRun {
    let mut all = only(run, "");
    for name in names {
        for mut result in only(run, name).results {
            result.case_id = format!("{} [{name}]", result.case_id);
            result.variant = None;
            all.results.push(result);
        }
    }
    all
}

/// Compares runs of which at least one has several systems; `None` if both have one.
pub(super) fn compare_variants(
    baseline: &BenchmarkRun,
    candidate: &BenchmarkRun,
    policy: &GatePolicy,
) -> Result<Option<GateReport>, StatsError> {
    let names = |run| -> Vec<String> { systems(run).into_iter().map(|(name, _)| name).collect() };
    let (before, now) = (names(baseline), names(candidate));
    if before.len() < 2 && now.len() < 2 {
        return Ok(None);
    }
    let shared: Vec<String> = before.iter().filter(|name| now.contains(name)).cloned().collect();
    let mut report = compare_at(
        Stage::Look,
        &pooled(baseline, &shared),
        &pooled(candidate, &shared),
        policy,
    )?;
    (report.verdict, report.reasons) = (GateVerdict::Pass, Vec::new());
    report.changes.clear();
    report.score = None;
    report.scores.clear();
    if let Some(latency) = &mut report.latency {
        (latency.regression, latency.changes) = (None, Vec::new());
    }
    if shared.is_empty() {
        report.verdict = GateVerdict::Inconclusive;
        report.reasons.push(format!(
            "the runs have no target in common: the baseline has {}, the candidate has {}. Run one of the same \
             targets, or accept a new baseline",
            before.join(", "),
            now.join(", ")
        ));
        return Ok(Some(report));
    }
    let share = GatePolicy {
        alpha: policy.alpha / shared.len() as f64,
        ..policy.clone()
    };
    let mut smallest_p: f64 = 1.0;
    for name in &shared {
        let found = compare_at(Stage::End, &only(baseline, name), &only(candidate, name), &share)?;
        smallest_p = found
            .pass
            .as_ref()
            .map_or(smallest_p, |pass| smallest_p.min(pass.p_value));
        report.changes.extend(found.changes.into_iter().map(|mut change| {
            change.reason = format!("{name}: {}", change.reason);
            change.variant = Some(name.clone());
            change
        }));
        report.variants.push(VariantGate {
            variant: name.clone(),
            verdict: found.verdict,
            reasons: found.reasons,
            pass: found.pass,
        });
    }
    if let Some(pass) = &mut report.pass {
        pass.p_value = (smallest_p * shared.len() as f64).min(1.0);
        pass.level = policy.alpha;
    }
    report.conclude(&before, &now, &shared);
    Ok(Some(report))
}

impl GateReport {
    /// Takes the worst verdict of the variants, with its reasons.
    fn conclude(&mut self, before: &[String], now: &[String], shared: &[String]) {
        let removed: Vec<&str> = missing(before, shared);
        // A run of a single target chooses it; a run of several that lacks one has lost it.
        let is_regression = now.len() > 1 && !removed.is_empty();
        let any = |verdict| self.variants.iter().any(|variant| variant.verdict == verdict);
        self.verdict = if is_regression || any(GateVerdict::Regression) {
            GateVerdict::Regression
        } else if any(GateVerdict::Inconclusive) {
            GateVerdict::Inconclusive
        } else {
            GateVerdict::Pass
        };
        let verdict = self.verdict;
        let deciding = self.variants.iter().filter(|variant| variant.verdict == verdict);
        let mut reasons: Vec<String> = deciding
            .flat_map(|variant| {
                let named = |reason| format!("{}: {reason}", variant.variant);
                variant.reasons.iter().map(named)
            })
            .collect();
        if is_regression {
            reasons.insert(
                0,
                format!("{} is in the baseline and was not run", removed.join(", ")),
            );
        } else if !removed.is_empty() {
            reasons.push(format!("not run and not compared: {}", removed.join(", ")));
        }
        let added = missing(now, shared);
        if !added.is_empty() {
            reasons.push(format!("not in the baseline: {}", added.join(", ")));
        }
        self.reasons = reasons;
    }
}

fn missing<'a>(names: &'a [String], shared: &[String]) -> Vec<&'a str> {
    let absent = names.iter().filter(|name| !shared.contains(name));
    absent.map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::gate::{ChangeKind, compare};
    use crate::bench::run::{BenchmarkResult, Status};

    /// A run of systems, each with the number of its 20 cases that pass all of five repeats.
    fn run(systems: &[(&str, usize)]) -> BenchmarkRun {
        let mut run = BenchmarkRun {
            run_id: "run".into(),
            suite_id: "suite".into(),
            suite_hash: None,
            target: systems.first().map_or(String::new(), |(name, _)| (*name).into()),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: std::collections::BTreeMap::new(),
            results: Vec::new(),
            summary: None,
        };
        for (name, passing) in systems {
            for case in 0..20 {
                for repeat in 0..5 {
                    let status = if case < *passing {
                        Status::Pass
                    } else {
                        Status::Fail
                    };
                    let mut result = BenchmarkResult::new(format!("case {case}"), repeat, status);
                    result.variant = (systems.len() > 1).then(|| (*name).to_owned());
                    run.results.push(result);
                }
            }
        }
        run
    }

    fn judge(before: &[(&str, usize)], now: &[(&str, usize)]) -> GateReport {
        compare(&run(before), &run(now), &GatePolicy::default()).unwrap()
    }

    #[test]
    fn a_regression_of_the_last_system_is_found_and_named() {
        let report = judge(
            &[("a", 20), ("b", 20), ("c", 20)],
            &[("a", 20), ("b", 20), ("c", 14)],
        );
        assert_eq!(report.verdict, GateVerdict::Regression);
        assert!(
            report.reasons.iter().all(|reason| reason.starts_with("c: ")),
            "{:?}",
            report.reasons
        );
        let verdicts: Vec<GateVerdict> = report.variants.iter().map(|variant| variant.verdict).collect();
        assert_eq!(
            verdicts,
            [GateVerdict::Pass, GateVerdict::Pass, GateVerdict::Regression]
        );
        let worse = report
            .changes
            .iter()
            .find(|change| change.kind == ChangeKind::Worse)
            .unwrap();
        assert_eq!(worse.variant.as_deref(), Some("c"));
        assert_eq!(worse.case_id, "case 14");
        let pass = report.pass.unwrap();
        assert_eq!((pass.cases, pass.baseline), (60, 1.0));
        assert!((pass.candidate - 0.9).abs() < 1e-12);
    }

    #[test]
    fn unchanged_systems_pass_whatever_their_rates() {
        let report = judge(&[("a", 20), ("b", 3)], &[("a", 20), ("b", 3)]);
        assert_eq!(report.verdict, GateVerdict::Pass);
        assert_eq!(report.reasons.len(), 2, "{:?}", report.reasons);
    }

    #[test]
    fn a_run_of_one_target_is_compared_with_the_same_one() {
        let both = [("a", 5), ("b", 20)];
        let report = judge(&both, &[("b", 20)]);
        assert_eq!(report.verdict, GateVerdict::Pass, "{:?}", report.reasons);
        assert_eq!(report.pass.unwrap().baseline, 1.0);
        assert!(
            report
                .reasons
                .iter()
                .any(|reason| reason.contains("not compared: a"))
        );
        assert_eq!(judge(&both, &[("b", 10)]).verdict, GateVerdict::Regression);
        // The other way: a second target was added.
        let report = judge(&[("b", 20)], &both);
        assert_eq!(report.verdict, GateVerdict::Pass);
        assert!(
            report
                .reasons
                .iter()
                .any(|reason| reason.contains("not in the baseline: a"))
        );
    }

    #[test]
    fn a_lost_system_is_a_regression_and_a_foreign_one_is_inconclusive() {
        let report = judge(&[("a", 20), ("b", 20), ("c", 20)], &[("a", 20), ("b", 20)]);
        assert_eq!(report.verdict, GateVerdict::Regression);
        assert!(report.reasons[0].contains("c is in the baseline and was not run"));
        let report = judge(&[("a", 20), ("b", 20)], &[("d", 20)]);
        assert_eq!(report.verdict, GateVerdict::Inconclusive);
        assert!(
            report.reasons[0].contains("no target in common"),
            "{:?}",
            report.reasons
        );
    }

    #[test]
    fn baselines_are_restricted_to_the_target() {
        let both = run(&[("a", 5), ("b", 20)]);
        let own = baseline_of_target(&both, "b").unwrap();
        assert_eq!(own.results.len(), 100);
        assert!(own.results.iter().all(|result| result.status == Status::Pass));
        assert_eq!(baseline_of_target(&both, "x").unwrap_err(), ["a", "b"]);
        assert_eq!(
            baseline_of_target(&run(&[("a", 5)]), "x").unwrap().results.len(),
            100
        );
    }
}
