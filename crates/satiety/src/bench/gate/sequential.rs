//! A gate that ends: after each round of repeats, the candidate is a regression, is not worse by the margin, or
//! another round is run.
//!
//! A round adds one result of every case. The number of rounds is limited beforehand, so that levels for the looks
//! can be spent ([`nominal_levels`]) instead of paying for tests that are valid for ever:
//!
//! - **Regression**: the exact tests of the [gate](super) on the results of complete rounds.
//! - **Pass**: a drop of the pass rate by the margin is rejected. The absence of evidence is not enough.
//! - **Cases**: a case that seems to be broken is repeated alone, until it recovers or has [`CASE_TRIES`]
//!   results. Then it is tested once. Before the suite passes, this includes every case that always passed and has
//!   not passed since. Leaving out repeats of the other cases can only prevent false alarms of
//!   their tests, and the tests of the suite do not see the extra results before their round.
//!
//! Each direction is wrong with probability at most `alpha`, over all looks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cases::{CaseChange, CasePair, ChangeKind, pair_cases};
use super::{GatePolicy, GateReport, GateVerdict, Stage, compare_at};
use crate::bench::run::{BenchmarkResult, BenchmarkRun};
use crate::stats::distribution::{normal_quantile, normal_sf, student_sf};
use crate::stats::{PValue, StatsError, nominal_levels};

/// Smallest number of results after which a case that seems to be broken is tested.
const CASE_TRIES: u32 = 30;
/// P-value up to which a case seems to be broken.
const SUSPECT: f64 = 0.05;
/// Share of the level for the tests of single cases.
const CASE_SHARE: f64 = 1.0 / 3.0;
/// Share of the information that two looks are apart.
const LOOK_DISTANCE: f64 = 0.025;
/// How fast the levels are spent. Passing waits longer, because the variance is estimated.
const REGRESSION_SPENDING: f64 = 1.0;
const PASS_SPENDING: f64 = 2.0;

/// Size of a comparison that is repeated until it is decided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequentialDesign {
    /// Mean number of results of a case in the baseline.
    pub baseline_repeats: f64,
    /// Largest number of rounds.
    pub rounds: u32,
    /// Whether the baseline is repeated too, once the candidate has as many results.
    pub repeats_baseline: bool,
}

impl SequentialDesign {
    /// Information about the difference after a number of rounds, in units of one result's variance.
    fn information(&self, round: u32) -> f64 {
        let round = f64::from(round);
        let baseline = if self.repeats_baseline {
            self.baseline_repeats.max(round)
        } else {
            self.baseline_repeats
        };
        1.0 / (1.0 / baseline + 1.0 / round)
    }

    /// Probability that an unchanged suite passes within all rounds, by the normal approximation. `noise` is the
    /// mean variance of a result, see [`estimate_noise`](crate::bench::estimate_noise).
    pub fn pass_probability(&self, cases: u64, noise: f64, policy: &GatePolicy) -> f64 {
        let error = (noise / (self.information(self.rounds.max(1)) * cases.max(1) as f64)).sqrt();
        if error == 0.0 {
            return 1.0;
        }
        normal_sf(-normal_quantile(policy.alpha) - policy.margin / error)
    }

    /// Smallest number of baseline results of a case with which an unchanged suite passes with probability
    /// `power`, if the candidate is repeated `times` as often.
    pub fn baseline_repeats_needed(
        cases: u64,
        times: u32,
        noise: f64,
        power: f64,
        policy: &GatePolicy,
    ) -> u32 {
        (1..=1_000_u32)
            .find(|&repeats| {
                let design = Self {
                    baseline_repeats: f64::from(repeats),
                    rounds: repeats.saturating_mul(times.max(1)),
                    repeats_baseline: false,
                };
                design.pass_probability(cases, noise, policy) >= power
            })
            .unwrap_or(u32::MAX)
    }
}

/// What a look at a comparison found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateLook {
    /// Number of complete rounds.
    pub round: u32,
    /// Largest number of rounds.
    pub rounds: u32,
    /// Significance level of a regression at this look.
    pub regression_level: f64,
    /// P-value of the hypothesis that the pass rate fell by the margin or more.
    pub drop_p_value: f64,
    /// Significance level at which that hypothesis is rejected at this look.
    pub pass_level: f64,
}

/// State of a comparison after a round.
#[derive(Debug, Clone, PartialEq)]
pub struct SequentialVerdict {
    /// Report of the gate; inconclusive if the comparison goes on.
    pub report: GateReport,
    /// Cases that seem to be broken and are to be repeated alone before the next round.
    pub suspects: Vec<String>,
}

/// Regression gate that is asked after each round.
#[derive(Debug, Clone)]
pub struct SequentialGate {
    design: SequentialDesign,
    policy: GatePolicy,
    looks: Vec<Look>,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    round: u32,
    regression: f64,
    pass: f64,
}

impl SequentialGate {
    /// Spends the levels of the policy over the looks of a design.
    ///
    /// # Errors
    /// When the policy or the design is out of range.
    pub fn new(design: SequentialDesign, policy: GatePolicy) -> Result<Self, StatsError> {
        super::check_policy(&policy)?;
        if design.rounds == 0 || !(design.baseline_repeats > 0.0 && design.baseline_repeats.is_finite()) {
            return Err(StatsError::OutOfRange {
                what: "rounds or baseline repeats",
                value: f64::from(design.rounds).min(design.baseline_repeats),
                range: "above 0",
            });
        }
        let all = design.information(design.rounds);
        let (mut rounds, mut fractions, mut previous) = (Vec::new(), Vec::new(), 0.0);
        for round in 1..=design.rounds {
            let fraction = design.information(round) / all;
            if fraction - previous >= LOOK_DISTANCE && fraction <= 1.0 - LOOK_DISTANCE {
                rounds.push(round);
                fractions.push(fraction);
                previous = fraction;
            }
        }
        rounds.push(design.rounds);
        fractions.push(1.0);
        let regression = nominal_levels(&fractions, policy.alpha * (1.0 - CASE_SHARE), REGRESSION_SPENDING)?;
        let pass = nominal_levels(&fractions, policy.alpha, PASS_SPENDING)?;
        let looks = rounds
            .into_iter()
            .zip(regression.into_iter().zip(pass))
            .map(|(round, (regression, pass))| Look {
                round,
                regression,
                pass,
            })
            .collect();
        Ok(Self {
            design,
            policy,
            looks,
        })
    }

    /// Whether the comparison can be decided after this round.
    pub fn looks_after(&self, round: u32) -> bool {
        self.looks.iter().any(|look| look.round == round)
    }

    /// Number of results after which a suspected case is tested.
    pub fn case_tries(&self) -> u32 {
        self.design.rounds.max(CASE_TRIES)
    }

    /// Compares the results after a number of complete rounds. Further results of suspected cases count only in
    /// the tests of these cases.
    ///
    /// # Errors
    /// When a test cannot be computed.
    pub fn look(
        &self,
        baseline: &BenchmarkRun,
        candidate: &BenchmarkRun,
        round: u32,
    ) -> Result<SequentialVerdict, StatsError> {
        let complete = first_repeats(candidate, round);
        let look = self.looks.iter().find(|look| look.round == round);
        let policy = GatePolicy {
            alpha: look.map_or(0.0, |look| look.regression),
            ..self.policy.clone()
        };
        let mut report = compare_at(Stage::Look, baseline, &complete, &policy)?;
        let cases = first_repeats(candidate, self.case_tries());
        let mut suspects = self.test_cases(baseline, &cases, &mut report);
        let paired = pair_cases(&baseline.results, &complete.results);
        let drop_p_value = drop_p_value(&paired.pairs, self.policy.margin);
        if let Some(look) = look {
            let excluded = drop_p_value <= look.pass;
            if excluded && suspects.is_empty() {
                suspects = self.stopped_cases(baseline, &cases);
            }
            self.conclude(&mut report, look, drop_p_value, excluded && suspects.is_empty());
            report.look = Some(GateLook {
                round,
                rounds: self.design.rounds,
                regression_level: look.regression,
                drop_p_value,
                pass_level: look.pass,
            });
        } else if report.verdict == GateVerdict::Pass {
            report.verdict = GateVerdict::Inconclusive;
        }
        Ok(SequentialVerdict { report, suspects })
    }

    /// Turns the absence of a regression into a pass, if a drop is excluded, or into an open question.
    fn conclude(&self, report: &mut GateReport, look: &Look, p: f64, excluded: bool) {
        if report.verdict != GateVerdict::Pass {
            return;
        }
        let margin = 100.0 * self.policy.margin;
        let after = format!("after {} of {} rounds", look.round, self.design.rounds);
        let difference = report.pass.as_ref().map_or(0.0, |pass| 100.0 * pass.difference);
        if excluded {
            report.reasons.insert(
                0,
                format!(
                    "a drop of {margin:.0} points is excluded {after} (change {difference:+.1} points, {}, level {:.4})",
                    PValue(p),
                    look.pass
                ),
            );
        } else {
            report.verdict = GateVerdict::Inconclusive;
            report.reasons = vec![format!(
                "a drop of {margin:.0} points is neither shown nor excluded {after} (change {difference:+.1} points, {})",
                PValue(p)
            )];
        }
    }

    /// Cases that always passed and have not passed since. Each has to pass once before the suite does.
    fn stopped_cases(&self, baseline: &BenchmarkRun, candidate: &BenchmarkRun) -> Vec<String> {
        pair_cases(&baseline.results, &candidate.results)
            .pairs
            .iter()
            .filter(|pair| !pair.deterministic && has_stopped(pair))
            .filter(|pair| pair.candidate.tries < u64::from(self.case_tries()))
            .map(|pair| pair.case_id.to_owned())
            .collect()
    }

    /// Tests the suspected cases that have all their results, and returns the other ones.
    fn test_cases(
        &self,
        baseline: &BenchmarkRun,
        candidate: &BenchmarkRun,
        report: &mut GateReport,
    ) -> Vec<String> {
        let pairs = pair_cases(&baseline.results, &candidate.results).pairs;
        let tested = pairs.iter().filter(|pair| !pair.deterministic).count();
        let level = self.policy.alpha * CASE_SHARE / tested.max(1) as f64;
        let (mut suspects, mut broken, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for pair in pairs.iter().filter(|pair| !pair.deterministic) {
            let p = pair.stratum().p_value();
            let finished = pair.candidate.tries >= u64::from(self.case_tries());
            if pair.difference() >= 0.0 || (p > SUSPECT && !(finished && has_stopped(pair))) {
                continue;
            }
            if !finished {
                suspects.push(pair.case_id.to_owned());
            } else if p <= level {
                broken.push(format!(
                    "{} passed {}, now {} ({}, level {level:.4})",
                    pair.case_id,
                    pair.baseline,
                    pair.candidate,
                    PValue(p)
                ));
                mark(report, pair, p);
            } else if pair.candidate.never() {
                open.push(format!(
                    "{} passed {} and {} now, too few results of the baseline to rule out chance: record it with more \
                     repeats, or declare the case deterministic",
                    pair.case_id, pair.baseline, pair.candidate
                ));
            }
        }
        if !broken.is_empty() {
            if report.verdict != GateVerdict::Regression {
                report.reasons.clear();
            }
            report.verdict = GateVerdict::Regression;
            report.reasons.extend(broken);
        } else if !open.is_empty() && report.verdict != GateVerdict::Regression {
            if report.verdict == GateVerdict::Pass {
                report.reasons.clear();
            }
            report.verdict = GateVerdict::Inconclusive;
            report.reasons.extend(open);
        }
        suspects
    }
}

/// Whether a case always passed in the baseline and never does now.
fn has_stopped(pair: &CasePair<'_>) -> bool {
    pair.baseline.always() && pair.candidate.never()
}

/// Marks the change of a case as deciding.
fn mark(report: &mut GateReport, pair: &CasePair<'_>, p: f64) {
    let reason = format!(
        "{} passed {}, now {} ({})",
        pair.case_id,
        pair.baseline,
        pair.candidate,
        PValue(p)
    );
    report
        .changes
        .retain(|change| change.case_id != pair.case_id || change.kind != ChangeKind::Worse);
    report.changes.insert(
        0,
        CaseChange {
            case_id: pair.case_id.to_owned(),
            kind: ChangeKind::Worse,
            baseline: Some(pair.baseline),
            candidate: Some(pair.candidate),
            p_value: Some(p),
            adjusted_p_value: None,
            decides: true,
            variant: None,
            reason,
        },
    );
}

/// The run with the first repeats of each case only.
fn first_repeats(run: &BenchmarkRun, repeats: u32) -> BenchmarkRun {
    let first = |result: &&BenchmarkResult| result.repeat < repeats;
    BenchmarkRun {
        results: run.results.iter().filter(first).cloned().collect(),
        summary: None,
        ..run.clone()
    }
}

/// P-value of the hypothesis that the mean pass rate over cases fell by `margin` or more.
///
/// The variance of the mean difference is the larger one of two estimates: from the spread of the cases'
/// differences, and from the results of each case if its rate fell by `margin`. The second one keeps a suite
/// without any failure from having no variance.
fn drop_p_value(pairs: &[CasePair<'_>], margin: f64) -> f64 {
    if pairs.is_empty() {
        return 1.0;
    }
    let cases = pairs.len() as f64;
    let differences: Vec<f64> = pairs.iter().map(CasePair::difference).collect();
    let mean = differences.iter().sum::<f64>() / cases;
    let spread: f64 = differences
        .iter()
        .map(|difference| (difference - mean).powi(2))
        .sum();
    let between = if pairs.len() > 1 {
        spread / (cases - 1.0) / cases
    } else {
        0.0
    };
    let chance = pairs.iter().filter(|pair| !pair.deterministic);
    let within = chance
        .clone()
        .map(|pair| null_variance(pair, margin))
        .sum::<f64>()
        / (cases * cases);
    let results: u64 = chance
        .map(|pair| pair.baseline.tries + pair.candidate.tries)
        .sum();
    let freedom = (results as f64 - 2.0 * cases).max(cases - 1.0).max(1.0);
    let variance = between.max(within);
    if variance == 0.0 {
        return if mean > -margin { 0.0 } else { 1.0 };
    }
    student_sf((mean + margin) / variance.sqrt(), freedom)
}

/// Variance of a case's difference if its rate fell by `margin` from one run to the other.
fn null_variance(pair: &CasePair<'_>, margin: f64) -> f64 {
    let (before, now) = (pair.baseline.tries as f64, pair.candidate.tries as f64);
    let pooled = (pair.baseline.passes + pair.candidate.passes) as f64 / (before + now);
    let candidate = (pooled - margin / 2.0).clamp(0.0, 1.0 - margin);
    let baseline = candidate + margin;
    // The rate is estimated from the same results, which makes its variance look smaller than it is.
    let correction = (before + now) / (before + now - 1.0).max(1.0);
    let variance = |rate: f64| rate * (1.0 - rate);
    (correction * variance(baseline) / before) + (correction * variance(candidate) / now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::gate::simulation_tests::{results, uniform};
    use crate::bench::gate::tests::run_of;
    use crate::bench::run::Status;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    fn design(baseline_repeats: f64, rounds: u32) -> SequentialDesign {
        SequentialDesign {
            baseline_repeats,
            rounds,
            repeats_baseline: false,
        }
    }

    fn gate(repeats: u32, rounds: u32) -> SequentialGate {
        SequentialGate::new(design(f64::from(repeats), rounds), GatePolicy::default()).unwrap()
    }

    /// Verdict and number of rounds; suspected cases get all their results at once.
    fn decide(rates: &[f64], now: &[f64], repeats: u32, seed: u64) -> (GateVerdict, u32) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let gate = gate(repeats, 4 * repeats);
        let mut history = |rates: &[f64], repeats| {
            let mut history = results(rates, repeats, &mut random);
            for result in &mut history {
                result.latency_ms = 0.0;
            }
            history
        };
        let baseline = run_of(history(rates, repeats));
        let all = history(now, gate.case_tries());
        for round in 1..=4 * repeats {
            let mut open: Vec<String> = Vec::new();
            loop {
                let seen =
                    |result: &&BenchmarkResult| result.repeat < round || open.contains(&result.case_id);
                let candidate = run_of(all.iter().filter(seen).cloned().collect());
                let found = gate.look(&baseline, &candidate, round).unwrap();
                if found.report.verdict != GateVerdict::Inconclusive {
                    return (found.report.verdict, round);
                }
                if found.suspects.is_empty() {
                    break;
                }
                open.extend(found.suspects);
            }
        }
        (GateVerdict::Inconclusive, 4 * repeats)
    }

    /// Number of histories of 40 with each verdict: regression, pass.
    fn verdicts(cases: usize, repeats: u32, drop: f64) -> (usize, usize) {
        let found: Vec<GateVerdict> = (0..40)
            .map(|seed| {
                let mut random = ChaCha8Rng::seed_from_u64(1_000 + seed);
                let rates: Vec<f64> = (0..cases).map(|_| 0.7 + 0.3 * uniform(&mut random)).collect();
                let now: Vec<f64> = rates.iter().map(|rate| rate - drop).collect();
                decide(&rates, &now, repeats, seed).0
            })
            .collect();
        let count = |verdict| found.iter().filter(|found| **found == verdict).count();
        (count(GateVerdict::Regression), count(GateVerdict::Pass))
    }

    /// At true rates of 5 %, more than 7 of 40 have probability .001.
    #[test]
    fn both_directions_are_rarely_wrong_and_mostly_decided() {
        let (regression, pass) = verdicts(50, 5, 0.0);
        assert!(regression <= 7 && pass >= 33, "unchanged: {regression} {pass}");
        let (regression, pass) = verdicts(50, 5, 0.1);
        assert!(
            pass <= 7 && regression >= 28,
            "10 points less: {regression} {pass}"
        );
    }

    #[test]
    fn a_dead_case_among_flaky_ones_is_found_by_repeating_it() {
        let rates = vec![0.8; 20];
        let mut now = rates.clone();
        now[0] = 0.0;
        let found = (0..40)
            .filter(|&seed| decide(&rates, &now, 5, seed).0 == GateVerdict::Regression)
            .count();
        // At a true rate of 60 %, fewer than 16 of 40 have probability .003.
        assert!(found >= 16, "{found} of 40");
    }

    #[test]
    fn a_case_that_stopped_passing_prevents_a_pass() {
        let results = |broken: bool, repeats: u32| {
            (0..40_u32)
                .flat_map(|case| (0..repeats).map(move |repeat| (case, repeat)))
                .map(|(case, repeat)| {
                    let status = if broken && case == 0 {
                        Status::Fail
                    } else {
                        Status::Pass
                    };
                    BenchmarkResult::new(format!("c{case}"), repeat, status)
                })
                .collect()
        };
        let gate = gate(1, 4);
        let baseline = run_of(results(false, 1));
        let found = gate.look(&baseline, &run_of(results(true, 4)), 4).unwrap();
        assert_eq!(
            (found.report.verdict, found.suspects.as_slice()),
            (GateVerdict::Inconclusive, ["c0".to_owned()].as_slice())
        );
        // One result of the baseline is never enough to call it a regression.
        let found = gate.look(&baseline, &run_of(results(true, 30)), 4).unwrap();
        assert_eq!(found.report.verdict, GateVerdict::Inconclusive);
        assert!(
            found.suspects.is_empty() && found.report.reasons[0].contains("c0"),
            "{:?}",
            found.report.reasons
        );
        let found = gate.look(&baseline, &run_of(results(false, 4)), 4).unwrap();
        assert_eq!(found.report.verdict, GateVerdict::Pass);
        assert!(found.report.reasons[0].starts_with("a drop of 10 points is excluded after 4 of 4 rounds"));
    }

    #[test]
    fn larger_baselines_decide_more_often() {
        let policy = GatePolicy::default();
        let small = design(5.0, 20).pass_probability(20, 0.16, &policy);
        let large = design(12.0, 48).pass_probability(20, 0.16, &policy);
        assert!(small < 0.75 && large > 0.9, "{small} {large}");
        let needed = SequentialDesign::baseline_repeats_needed(20, 4, 0.16, 0.95, &policy);
        assert!(design(f64::from(needed), 4 * needed).pass_probability(20, 0.16, &policy) >= 0.95);
        assert!(design(f64::from(needed - 1), 4 * (needed - 1)).pass_probability(20, 0.16, &policy) < 0.95);
        assert_eq!(design(1.0, 1).pass_probability(10, 0.0, &policy), 1.0);
    }

    #[test]
    fn impossible_designs_are_rejected() {
        for wrong in [design(0.0, 4), design(f64::NAN, 4), design(5.0, 0)] {
            assert!(SequentialGate::new(wrong, GatePolicy::default()).is_err());
        }
    }
}
