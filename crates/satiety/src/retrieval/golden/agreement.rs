//! Inter-annotator agreement: Cohen's kappa with quadratic weights for pairs, and ordinal Krippendorff's
//! alpha for any number of annotators. Intervals are bootstrapped over the judged results.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::random::Draws;
use crate::stats::{AgreementLevel, Interval, krippendorff_alpha, quantiles};

/// Minimum number of resamples with a value for an interval.
const MIN_RESAMPLES: usize = 100;
/// Minimum number of results for an interval.
const MIN_UNITS: usize = 5;

/// A grade given by an annotator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rating {
    /// Ids of the query and the result.
    pub unit: (String, String),
    /// Name of the annotator.
    pub annotator: String,
    /// Grade of the result.
    pub grade: i32,
}

/// Inter-annotator agreement on graded results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Agreement {
    /// Number of results judged by at least two annotators.
    pub results: usize,
    /// Number of grades of these results.
    pub grades: usize,
    /// Krippendorff's alpha: 1 is perfect agreement, 0 is chance; absent if undefined.
    pub alpha: Option<f64>,
    /// Bootstrap interval of alpha over results.
    pub alpha_ci: Option<Interval>,
    /// Pairs of annotators with results in common.
    pub pairs: Vec<AnnotatorPair>,
    /// Results with the largest disagreement.
    pub furthest: Vec<Disagreement>,
    /// Interpretation of the agreement in one sentence.
    pub verdict: String,
}

/// Agreement of two annotators.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AnnotatorPair {
    /// Name of the first annotator.
    pub one: String,
    /// Name of the second annotator.
    pub other: String,
    /// Number of results judged by both.
    pub results: usize,
    /// Share of these results with the same grade, 0 to 1.
    pub same: f64,
    /// Cohen's kappa with quadratic weights; absent if undefined.
    pub kappa: Option<f64>,
    /// Bootstrap interval of kappa over results.
    pub kappa_ci: Option<Interval>,
    /// Mean difference of the grades, second − first annotator.
    pub shift: f64,
}

/// A result with different grades.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Disagreement {
    /// Id of the query.
    pub query_id: String,
    /// Id of the result.
    pub memory_id: String,
    /// Grades by name of the annotator.
    pub grades: BTreeMap<String, i32>,
}

/// Computes the agreement of annotators and lists at most `max_disagreements` disagreements.
pub fn agreement(ratings: &[Rating], resamples: u64, seed: u64, max_disagreements: usize) -> Agreement {
    let mut units: BTreeMap<&(String, String), BTreeMap<&str, i32>> = BTreeMap::new();
    for rating in ratings {
        let by_annotator = units.entry(&rating.unit).or_default();
        by_annotator.insert(&rating.annotator, rating.grade);
    }
    units.retain(|_, by_annotator| by_annotator.len() > 1);
    let grades: Vec<Vec<f64>> = units
        .values()
        .map(|by_annotator| by_annotator.values().map(|grade| f64::from(*grade)).collect())
        .collect();
    let annotators: BTreeSet<&str> = units
        .values()
        .flat_map(|by_annotator| by_annotator.keys().copied())
        .collect();
    let mut pairs = Vec::new();
    for one in &annotators {
        for other in annotators.range::<str, _>((std::ops::Bound::Excluded(*one), std::ops::Bound::Unbounded))
        {
            let common: Vec<(i32, i32)> = units
                .values()
                .filter_map(|by_annotator| Some((*by_annotator.get(one)?, *by_annotator.get(other)?)))
                .collect();
            if !common.is_empty() {
                pairs.push(pair(one, other, &common, resamples, seed));
            }
        }
    }
    let ordinal = |units: &[Vec<f64>]| krippendorff_alpha(units, AgreementLevel::Ordinal);
    let alpha = ordinal(&grades);
    let alpha_ci = interval(&grades, ordinal, resamples, seed);
    let mut apart: Vec<(i32, Disagreement)> = units
        .iter()
        .filter_map(|((query_id, memory_id), by_annotator)| {
            let distance = by_annotator.values().max()? - by_annotator.values().min()?;
            let grades = by_annotator
                .iter()
                .map(|(who, grade)| ((*who).to_owned(), *grade))
                .collect();
            let (query_id, memory_id) = (query_id.clone(), memory_id.clone());
            (distance > 0).then_some((
                distance,
                Disagreement {
                    query_id,
                    memory_id,
                    grades,
                },
            ))
        })
        .collect();
    apart.sort_by_key(|(distance, _)| std::cmp::Reverse(*distance));
    Agreement {
        results: grades.len(),
        grades: grades.iter().map(Vec::len).sum(),
        alpha,
        alpha_ci,
        pairs,
        furthest: apart
            .into_iter()
            .take(max_disagreements)
            .map(|(_, disagreement)| disagreement)
            .collect(),
        verdict: verdict(grades.len(), alpha, alpha_ci),
    }
}

/// Interprets alpha with Krippendorff's thresholds (2004, page 241): 0.8 is reliable, 0.667 allows tentative
/// conclusions.
fn verdict(results: usize, alpha: Option<f64>, ci: Option<Interval>) -> String {
    match (alpha, ci) {
        (None, _) if results == 0 => "no result was judged by two annotators".into(),
        (None, _) => "all grades are equal, so agreement is undefined".into(),
        (Some(_), None) => "too few results to estimate reliability".into(),
        (Some(_), Some(ci)) if ci.low >= 0.8 => "grades are reliable".into(),
        (Some(_), Some(ci)) if ci.low >= 0.667 => "grades allow tentative conclusions".into(),
        (Some(_), Some(ci)) if ci.high < 0.667 => {
            "grades depend on the annotator: agree on the scale using the results below, then judge again"
                .into()
        }
        (Some(_), Some(_)) => {
            "inconclusive: the interval is too wide; have two annotators judge more results".into()
        }
    }
}

fn pair(one: &str, other: &str, common: &[(i32, i32)], resamples: u64, seed: u64) -> AnnotatorPair {
    let count = common.len() as f64;
    let same = common.iter().filter(|(a, b)| a == b).count();
    let shift: i64 = common.iter().map(|(a, b)| i64::from(b - a)).sum();
    AnnotatorPair {
        one: one.into(),
        other: other.into(),
        results: common.len(),
        same: same as f64 / count,
        kappa: weighted_kappa(common),
        kappa_ci: interval(common, weighted_kappa, resamples, seed),
        shift: shift as f64 / count,
    }
}

/// Cohen's weighted kappa (1968) with quadratic weights. `None` if both annotators always gave the same
/// single grade, or without pairs.
pub fn weighted_kappa(pairs: &[(i32, i32)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let distance = |a: i32, b: i32| f64::from(a - b).powi(2);
    let observed: f64 = pairs.iter().map(|(a, b)| distance(*a, *b)).sum::<f64>() / n;
    let count = |grades: &mut dyn Iterator<Item = i32>| {
        let mut counts: BTreeMap<i32, f64> = BTreeMap::new();
        for grade in grades {
            *counts.entry(grade).or_default() += 1.0;
        }
        counts
    };
    let ones = count(&mut pairs.iter().map(|(a, _)| *a));
    let others = count(&mut pairs.iter().map(|(_, b)| *b));
    let mut expected = 0.0;
    for (a, times) in &ones {
        for (b, other_times) in &others {
            expected += distance(*a, *b) * times * other_times / (n * n);
        }
    }
    (expected > 0.0).then(|| 1.0 - observed / expected)
}

/// Percentile bootstrap interval over units. Resamples with an undefined statistic are skipped.
fn interval<T: Clone>(
    units: &[T],
    statistic: impl Fn(&[T]) -> Option<f64>,
    resamples: u64,
    seed: u64,
) -> Option<Interval> {
    let bound = u32::try_from(units.len()).ok()?;
    if units.len() < MIN_UNITS {
        return None;
    }
    let mut values = Vec::new();
    for resample in 0..resamples {
        let mut draws = Draws::new(seed, resample, bound);
        let mut drawn: Vec<T> = Vec::with_capacity(units.len() + 1);
        while drawn.len() < units.len() {
            drawn.extend(draws.pair().iter().filter_map(|at| units.get(*at).cloned()));
        }
        drawn.truncate(units.len());
        values.extend(statistic(&drawn));
    }
    if values.len() < MIN_RESAMPLES {
        return None;
    }
    let ends = quantiles(&values, &[0.025, 0.975]).ok()?;
    Some(Interval {
        low: *ends.first()?,
        high: *ends.last()?,
        confidence: 0.95,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: [i32; 15] = [0, 1, 2, 3, 3, 2, 1, 0, 0, 2, 3, 1, 1, 0, 2];
    const OTHER: [i32; 15] = [0, 1, 2, 3, 2, 2, 0, 0, 1, 3, 3, 1, 2, 0, 2];

    fn close(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    // sklearn 1.9.1: `cohen_kappa_score(ONE, OTHER, labels=[0, 1, 2, 3], weights="quadratic")`; in the second
    // case grade 2 does not occur, which must not change the distances between the others.
    #[test]
    fn kappa_matches_sklearn() {
        let pairs: Vec<(i32, i32)> = ONE.into_iter().zip(OTHER).collect();
        close(weighted_kappa(&pairs), 0.8587570621468926);
        let pairs: Vec<(i32, i32)> = [0, 0, 3, 3, 0, 3, 0]
            .into_iter()
            .zip([0, 3, 3, 3, 0, 0, 1])
            .collect();
        close(weighted_kappa(&pairs), 0.35121951219512193);
    }

    fn ratings(rows: &[(&str, &[i32])]) -> Vec<Rating> {
        let row = |(annotator, grades): &(&str, &[i32])| {
            let annotator = (*annotator).to_owned();
            let rating = move |(at, grade): (usize, &i32)| Rating {
                unit: ("q".into(), format!("m{at:02}")),
                annotator: annotator.clone(),
                grade: *grade,
            };
            grades.iter().enumerate().map(rating).collect::<Vec<_>>()
        };
        rows.iter().flat_map(row).collect()
    }

    #[test]
    fn agreement_of_a_corpus_with_pairs_intervals_and_disagreements() {
        let found = agreement(
            &ratings(&[("ann", &ONE), ("bo", &OTHER), ("cy", &[3])]),
            1000,
            7,
            2,
        );
        assert_eq!((found.results, found.grades, found.pairs.len()), (15, 31, 3));
        let ci = found.alpha_ci.unwrap();
        assert!(ci.low < found.alpha.unwrap() && found.alpha.unwrap() < ci.high && ci.high <= 1.0);
        let [pair, ..] = &found.pairs[..] else { panic!() };
        assert_eq!(
            (pair.one.as_str(), pair.other.as_str(), pair.results),
            ("ann", "bo", 15)
        );
        assert!((pair.same - 10.0 / 15.0).abs() < 1e-12 && (pair.shift - 1.0 / 15.0).abs() < 1e-12);
        assert_eq!(found.furthest.len(), 2);
        assert_eq!(found.furthest[0].memory_id, "m00");
        assert_eq!(found.furthest[0].grades["cy"], 3);
        assert_eq!(
            agreement(
                &ratings(&[("ann", &ONE), ("bo", &OTHER), ("cy", &[3])]),
                1000,
                7,
                2
            ),
            found
        );
    }

    #[test]
    fn undefined_statistics_are_absent_with_a_reason() {
        let found = agreement(&ratings(&[("ann", &ONE)]), 1000, 0, 5);
        assert_eq!((found.results, found.alpha), (0, None));
        assert!(found.verdict.contains("two annotators"), "{}", found.verdict);
        let found = agreement(&ratings(&[("ann", &[1; 9]), ("bo", &[1; 9])]), 1000, 0, 5);
        assert_eq!(
            (found.alpha, found.pairs[0].kappa, found.pairs[0].same),
            (None, None, 1.0)
        );
        let found = agreement(&ratings(&[("ann", &[1, 2]), ("bo", &[1, 2])]), 1000, 0, 5);
        assert_eq!((found.alpha, found.alpha_ci), (Some(1.0), None));
    }

    proptest! {
        #[test]
        fn agreement_is_symmetric_and_at_most_one(
            pairs in proptest::collection::vec((0..4_i32, 0..4_i32), 2..40),
        ) {
            let same: Vec<(i32, i32)> = pairs.iter().map(|(a, _)| (*a, *a)).collect();
            if let Some(kappa) = weighted_kappa(&same) {
                prop_assert!((kappa - 1.0).abs() < 1e-12);
            }
            let turned: Vec<(i32, i32)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let (one, other) = (weighted_kappa(&pairs), weighted_kappa(&turned));
            prop_assert_eq!(one.is_some(), other.is_some());
            if let (Some(one), Some(other)) = (one, other) {
                prop_assert!((one - other).abs() < 1e-9 && one <= 1.0 + 1e-12);
            }
            let units: Vec<Vec<f64>> = pairs.iter().map(|(a, b)| vec![f64::from(*a), f64::from(*b)]).collect();
            prop_assert!(krippendorff_alpha(&units, AgreementLevel::Ordinal).is_none_or(|alpha| alpha <= 1.0 + 1e-12));
        }
    }
}
