//! Scorers, metrics and criteria by name. If several of them decide about a result, one may get worse while the others
//! hide it, so each is tested over the cases, with Holm's correction over the names.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GatePolicy;
use super::cases::CasePair;
use super::metrics::{PERMUTATIONS, SEED};
use crate::bench::expected::Direction;
use crate::bench::run::{BenchmarkResult, NamedScore};
use crate::stats::{Alternative, PValue, StatsError, holm, mean, sign_flip};

/// Share of the level for all names together.
const SHARE: f64 = 0.1;

/// Comparison of one deciding scorer, metric or criterion between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreComparison {
    /// Name of the scorer or metric, or text of the criterion.
    pub name: String,
    /// Number of cases that have the score in both runs.
    pub cases: usize,
    /// Mean over cases in the baseline, on the scorer's own scale.
    pub baseline: f64,
    /// Mean over cases in the candidate, on the scorer's own scale.
    pub candidate: f64,
    /// One-sided p-value that the score did not get worse, adjusted for all names.
    pub p_value: f64,
    /// Reason why the score is a regression; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression: Option<String>,
}

/// Values of a score in the cases that have it in both runs.
struct Series<'a> {
    name: &'a str,
    before: Vec<f64>,
    now: Vec<f64>,
    lower_is_better: bool,
    width: f64,
}

/// Compares the deciding scores by name, if there are several. Returns the level that the tests use: none if no name
/// has enough cases for a test.
pub(super) fn compare_named(
    pairs: &[CasePair<'_>],
    policy: &GatePolicy,
) -> Result<(Vec<ScoreComparison>, f64), StatsError> {
    let mut series = series(pairs);
    if series.len() < 2 {
        return Ok((Vec::new(), 0.0));
    }
    let level = policy.alpha * SHARE;
    let names = series.len() as f64;
    // The smallest p-value of n sign flips is 2^-n.
    series.retain(|series| (-(series.now.len() as f64)).exp2() <= level / names);
    if series.is_empty() {
        return Ok((Vec::new(), 0.0));
    }
    let p_values = series
        .iter()
        .map(|series| {
            let sign = if series.lower_is_better { -1.0 } else { 1.0 };
            let changes = series.now.iter().zip(&series.before);
            let differences: Vec<f64> = changes.map(|(now, before)| sign * (now - before)).collect();
            Ok(sign_flip(&differences, Alternative::Less, PERMUTATIONS, SEED)?.p_value)
        })
        .collect::<Result<Vec<f64>, StatsError>>()?;
    let adjusted = holm(&p_values)?;
    let compared = series.iter().zip(adjusted).map(|(series, p)| {
        let (baseline, candidate) = (mean(&series.before)?, mean(&series.now)?);
        let change = if series.lower_is_better {
            candidate - baseline
        } else {
            baseline - candidate
        };
        let is_worse = change > policy.score_drop * series.width && p <= level;
        Ok(ScoreComparison {
            name: series.name.to_owned(),
            cases: series.now.len(),
            baseline,
            candidate,
            p_value: p,
            regression: is_worse.then(|| {
                format!(
                    "`{}` went from {baseline:.2} to {candidate:.2} on {} cases ({}, adjusted for {} scores)",
                    series.name,
                    series.now.len(),
                    PValue(p),
                    p_values.len()
                )
            }),
        })
    });
    Ok((compared.collect::<Result<_, StatsError>>()?, level))
}

/// Collects the deciding scores that have a value in both runs of a case.
fn series<'a>(pairs: &'a [CasePair<'a>]) -> Vec<Series<'a>> {
    let mut found: BTreeMap<&str, Series<'a>> = BTreeMap::new();
    for pair in pairs {
        let (before, now) = (means(&pair.before), means(&pair.now));
        for (name, (value, score)) in now {
            let Some((earlier, _)) = before.get(name) else {
                continue;
            };
            let series = found.entry(name).or_insert_with(|| Series {
                name,
                before: Vec::new(),
                now: Vec::new(),
                lower_is_better: score.direction == Some(Direction::Lower),
                width: score.range.map_or(1.0, |[low, high]| (high - low).abs()),
            });
            series.before.push(*earlier);
            series.now.push(value);
        }
    }
    found.into_values().collect()
}

/// Mean of each deciding score over the repeats of a case.
fn means<'a>(results: &[&'a BenchmarkResult]) -> BTreeMap<&'a str, (f64, &'a NamedScore)> {
    let mut values: BTreeMap<&str, (Vec<f64>, &NamedScore)> = BTreeMap::new();
    for score in results.iter().flat_map(|result| &result.scores) {
        let value = score
            .value
            .or(score.passed.map(|passed| f64::from(u8::from(passed))));
        if let Some(value) = value.filter(|value| score.decides && value.is_finite()) {
            values
                .entry(&score.name)
                .or_insert((Vec::new(), score))
                .0
                .push(value);
        }
    }
    values
        .into_iter()
        .filter_map(|(name, (values, score))| Some((name, (mean(&values).ok()?, score))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::run_of;
    use super::super::{GateVerdict, compare};
    use super::*;
    use crate::bench::run::{BenchmarkRun, Status};

    /// Twelve cases that pass, with two deciding scores.
    fn run(cites: f64, clear: f64, risk: f64) -> BenchmarkRun {
        let results = (0..12).map(|case| {
            let mut result = BenchmarkResult::new(format!("c{case}"), 0, Status::Pass);
            let score = |name: &str, value: f64| NamedScore {
                decides: true,
                ..NamedScore::new(name, Some(value))
            };
            let mut lower = score("risk", risk);
            (lower.direction, lower.range) = (Some(Direction::Lower), Some([1.0, 5.0]));
            result.scores = vec![score("cites", cites), score("clear", clear), lower];
            result
        });
        run_of(results.collect())
    }

    #[test]
    fn a_score_that_falls_behind_others_is_a_regression() {
        let policy = GatePolicy::default();
        let report = compare(&run(0.9, 0.5, 2.0), &run(0.4, 1.0, 2.0), &policy).unwrap();
        assert_eq!(report.verdict, GateVerdict::Regression);
        assert!(
            report.reasons[0].starts_with("`cites` went from 0.90 to 0.40 on 12 cases"),
            "{:?}",
            report.reasons
        );
        assert_eq!(report.scores.len(), 3);
        let report = compare(&run(0.9, 0.5, 2.0), &run(0.9, 0.5, 4.0), &policy).unwrap();
        assert!(
            report.reasons[0].starts_with("`risk` went from 2.00 to 4.00"),
            "{:?}",
            report.reasons
        );
        // Better, and within the tolerance.
        let report = compare(&run(0.9, 0.5, 2.0), &run(0.95, 0.45, 1.0), &policy).unwrap();
        assert_eq!(report.verdict, GateVerdict::Pass);
    }

    #[test]
    fn a_single_score_or_too_few_cases_are_not_tested() {
        let policy = GatePolicy::default();
        let mut before = run(0.9, 0.5, 2.0);
        let mut after = run(0.1, 0.1, 5.0);
        for run in [&mut before, &mut after] {
            run.results.truncate(5);
        }
        let report = compare(&before, &after, &policy).unwrap();
        assert!(report.scores.is_empty());
        let mut before = run(0.9, 0.5, 2.0);
        let mut after = run(0.1, 0.1, 5.0);
        for result in before.results.iter_mut().chain(&mut after.results) {
            result.scores.truncate(1);
        }
        assert!(compare(&before, &after, &policy).unwrap().scores.is_empty());
    }
}
