//! How far annotators agree beyond chance: Cohen's kappa for two, weighted by the square of the distance between grades,
//! and Krippendorff's alpha for any number, with grades as an order. Intervals come from resampling what was judged.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::random::Draws;
use crate::stats::{AgreementLevel, Interval, krippendorff_alpha, quantiles};

/// Below so many resamples with a value, an interval would be chance.
const FEWEST_RESAMPLES: usize = 100;
/// Below so many results, resampling says nothing.
const FEWEST_UNITS: usize = 5;

/// A grade that somebody gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rating {
    /// What was judged: a query and a result.
    pub unit: (String, String),
    /// Who.
    pub annotator: String,
    /// The grade.
    pub grade: i32,
}

/// How far annotators agree.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Agreement {
    /// Results that at least two judged.
    pub results: usize,
    /// Grades of those.
    pub grades: usize,
    /// Krippendorff's alpha: 1 is perfect, 0 what chance gives; absent when it cannot be told.
    pub alpha: Option<f64>,
    /// Its interval, resampling results.
    pub alpha_ci: Option<Interval>,
    /// Each two who judged results in common.
    pub pairs: Vec<AnnotatorPair>,
    /// Where they are furthest apart: query, result, and who gave which grade.
    pub furthest: Vec<Disagreement>,
    /// What it says in words.
    pub verdict: String,
}

/// Two annotators.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AnnotatorPair {
    /// The one.
    pub one: String,
    /// The other.
    pub other: String,
    /// Results that both judged.
    pub results: usize,
    /// The share to which they gave the same grade.
    pub same: f64,
    /// Cohen's kappa, weighted by the square of the distance; absent when it cannot be told.
    pub kappa: Option<f64>,
    /// Its interval, resampling results.
    pub kappa_ci: Option<Interval>,
    /// How much higher the other's grades are, on average.
    pub shift: f64,
}

/// A result about which annotators are apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Disagreement {
    /// The query.
    pub query_id: String,
    /// The result.
    pub memory_id: String,
    /// Who gave which grade.
    pub grades: BTreeMap<String, i32>,
}

/// How far annotators agree; `shown` is how many disagreements to list.
pub fn agreement(ratings: &[Rating], resamples: u64, seed: u64, shown: usize) -> Agreement {
    let mut units: BTreeMap<&(String, String), BTreeMap<&str, i32>> = BTreeMap::new();
    for rating in ratings {
        let said = units.entry(&rating.unit).or_default();
        said.insert(&rating.annotator, rating.grade);
    }
    units.retain(|_, said| said.len() > 1);
    let grades: Vec<Vec<f64>> = units
        .values()
        .map(|said| said.values().map(|grade| f64::from(*grade)).collect())
        .collect();
    let annotators: BTreeSet<&str> = units.values().flat_map(|said| said.keys().copied()).collect();
    let mut pairs = Vec::new();
    for one in &annotators {
        for other in annotators.range::<str, _>((std::ops::Bound::Excluded(*one), std::ops::Bound::Unbounded))
        {
            let common: Vec<(i32, i32)> = units
                .values()
                .filter_map(|said| Some((*said.get(one)?, *said.get(other)?)))
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
        .filter_map(|((query_id, memory_id), said)| {
            let distance = said.values().max()? - said.values().min()?;
            let grades = said
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
        furthest: apart.into_iter().take(shown).map(|(_, one)| one).collect(),
        verdict: verdict(grades.len(), alpha, alpha_ci),
    }
}

/// Krippendorff's own borders (2004, page 241): .8 to rely on, .667 for tentative conclusions.
fn verdict(results: usize, alpha: Option<f64>, ci: Option<Interval>) -> String {
    match (alpha, ci) {
        (None, _) if results == 0 => "no result was judged by two people".into(),
        (None, _) => {
            "all grades are the same, so that agreement cannot be told from having one answer only".into()
        }
        (Some(_), None) => "too few results to say how far this can be trusted".into(),
        (Some(_), Some(ci)) if ci.low >= 0.8 => "grades can be relied on".into(),
        (Some(_), Some(ci)) if ci.low >= 0.667 => "good enough for tentative conclusions".into(),
        (Some(_), Some(ci)) if ci.high < 0.667 => {
            "grades depend on who gave them: agree on what they mean, with the results below, and judge again"
                .into()
        }
        (Some(_), Some(_)) => "the interval is too wide to say: judge more results twice".into(),
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

/// Cohen's (1968) weighted kappa, with the square of the distance between grades as the weight. Absent when both gave one
/// and the same grade throughout, or there is nothing.
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

/// A percentile interval by resampling units. Resamples in which the statistic cannot be told are left out.
fn interval<T: Clone>(
    units: &[T],
    statistic: impl Fn(&[T]) -> Option<f64>,
    resamples: u64,
    seed: u64,
) -> Option<Interval> {
    let bound = u32::try_from(units.len()).ok()?;
    if units.len() < FEWEST_UNITS {
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
    if values.len() < FEWEST_RESAMPLES {
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

    // sklearn 1.9.1: `cohen_kappa_score(ONE, OTHER, labels=[0, 1, 2, 3], weights="quadratic")`; in the second case grade 2
    // is never given, which must not move the others together.
    #[test]
    fn kappa_is_that_of_sklearn() {
        let pairs: Vec<(i32, i32)> = ONE.into_iter().zip(OTHER).collect();
        close(weighted_kappa(&pairs), 0.8587570621468926);
        let pairs: Vec<(i32, i32)> = [0, 0, 3, 3, 0, 3, 0]
            .into_iter()
            .zip([0, 3, 3, 3, 0, 0, 1])
            .collect();
        close(weighted_kappa(&pairs), 0.35121951219512193);
    }

    fn ratings(rows: &[(&str, &[i32])]) -> Vec<Rating> {
        let of = |(annotator, grades): &(&str, &[i32])| {
            let annotator = (*annotator).to_owned();
            let rating = move |(at, grade): (usize, &i32)| Rating {
                unit: ("q".into(), format!("m{at:02}")),
                annotator: annotator.clone(),
                grade: *grade,
            };
            grades.iter().enumerate().map(rating).collect::<Vec<_>>()
        };
        rows.iter().flat_map(of).collect()
    }

    #[test]
    fn agreement_of_a_corpus_with_pairs_intervals_and_what_to_talk_about() {
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
    fn what_cannot_be_told_is_absent_with_a_reason() {
        let found = agreement(&ratings(&[("ann", &ONE)]), 1000, 0, 5);
        assert_eq!((found.results, found.alpha), (0, None));
        assert!(found.verdict.contains("two people"), "{}", found.verdict);
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
        fn perfect_is_one_order_of_people_does_not_matter_and_nothing_is_above_one(
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
