//! Sign-flip permutation test of paired differences: if both arms are equivalent, each difference could
//! equally have the other sign. No distributional assumption. Exact for few pairs, Monte Carlo with a seed
//! for many. Two-sided tests compare absolute means.

use std::ops::Range;

use rand_chacha::rand_core::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Result, StatsError, check_sample};
use super::hypothesis::Alternative;
use super::random::stream;

/// Up to this many non-zero differences, all sign patterns are counted.
pub(crate) const EXACT_LIMIT: usize = 36;

/// Result of a sign-flip test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignFlip {
    /// Mean of the paired differences.
    pub mean: f64,
    /// Number of differences that are not zero.
    pub used: usize,
    /// Whether all sign patterns were counted.
    pub exact: bool,
    /// Share of sign patterns at least as extreme as the observed one; (c + 1) / (R + 1) for Monte Carlo.
    pub p_value: f64,
}

/// Exact test for at most [`EXACT_LIMIT`] non-zero differences, counting all sign patterns by
/// meet-in-the-middle.
pub(crate) fn sign_flip_exact(differences: &[f64], alternative: Alternative) -> Result<SignFlip> {
    let (values, observed) = prepare(differences)?;
    if values.len() > EXACT_LIMIT {
        return Err(StatsError::OutOfRange {
            what: "number of differences",
            value: values.len() as f64,
            range: "at most 36 for the exact test",
        });
    }
    let tolerance = tolerance(&values);
    let (left, right) = values.split_at(values.len() / 2);
    let (left, right) = (sorted_sums(left), sorted_sums(right));
    let patterns = left.len() as f64 * right.len() as f64;
    let at_least = |threshold: f64| {
        // As the left sum rises, the required right sum falls.
        let mut first = right.len();
        let mut count = 0.0;
        for sum in &left {
            while first > 0 && sum + right[first - 1] >= threshold {
                first -= 1;
            }
            count += (right.len() - first) as f64;
        }
        count / patterns
    };
    // The distribution is symmetric: P(sum ≤ s) = P(sum ≥ −s).
    let p_value = match alternative {
        Alternative::Greater => at_least(observed - tolerance),
        Alternative::Less => at_least(-observed - tolerance),
        Alternative::TwoSided => (2.0 * at_least(observed.abs() - tolerance)).min(1.0),
    };
    Ok(SignFlip {
        mean: observed / differences.len() as f64,
        used: values.len(),
        exact: true,
        p_value,
    })
}

/// Monte Carlo test with `resamples` random sign patterns. Resample `i` uses stream `i` of `seed`, so the
/// result does not depend on how the work is split: see [`sign_flip_exceedances`].
pub(crate) fn sign_flip_monte_carlo(
    differences: &[f64],
    alternative: Alternative,
    resamples: u64,
    seed: u64,
) -> Result<SignFlip> {
    let (values, observed) = prepare(differences)?;
    if resamples == 0 {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    let exceedances = sign_flip_exceedances(differences, alternative, seed, 0..resamples)?;
    Ok(SignFlip {
        mean: observed / differences.len() as f64,
        used: values.len(),
        exact: false,
        p_value: monte_carlo_p_value(exceedances, resamples),
    })
}

/// Exact test if possible, otherwise Monte Carlo.
pub fn sign_flip(
    differences: &[f64],
    alternative: Alternative,
    resamples: u64,
    seed: u64,
) -> Result<SignFlip> {
    let used = differences.iter().filter(|&&value| value != 0.0).count();
    if used <= EXACT_LIMIT {
        return sign_flip_exact(differences, alternative);
    }
    sign_flip_monte_carlo(differences, alternative, resamples, seed)
}

/// Counts the random sign patterns with the given numbers that are at least as extreme as the observed one.
/// Sum the counts of disjoint ranges, computed on any number of threads, then apply [`monte_carlo_p_value`].
pub(crate) fn sign_flip_exceedances(
    differences: &[f64],
    alternative: Alternative,
    seed: u64,
    resamples: Range<u64>,
) -> Result<u64> {
    let (values, observed) = prepare(differences)?;
    let tolerance = tolerance(&values);
    let mut count = 0;
    for resample in resamples {
        let mut random = stream(seed, resample);
        let mut flipped = 0.0;
        for block in values.chunks(64) {
            let mut bits = random.next_u64();
            for &value in block {
                // The lowest bit becomes the sign bit.
                flipped += f64::from_bits(value.to_bits() ^ (bits << 63));
                bits >>= 1;
            }
        }
        count += u64::from(match alternative {
            Alternative::Greater => flipped >= observed - tolerance,
            Alternative::Less => flipped <= observed + tolerance,
            Alternative::TwoSided => flipped.abs() >= observed.abs() - tolerance,
        });
    }
    Ok(count)
}

/// `(c + 1) / (R + 1)`: the observed pattern is one of the possible ones, so p is never zero (Phipson and
/// Smyth 2010).
pub(crate) fn monte_carlo_p_value(exceedances: u64, resamples: u64) -> f64 {
    ((exceedances as f64 + 1.0) / (resamples as f64 + 1.0)).min(1.0)
}

/// Non-zero differences and their sum.
fn prepare(differences: &[f64]) -> Result<(Vec<f64>, f64)> {
    check_sample(differences, 1)?;
    let values: Vec<f64> = differences
        .iter()
        .copied()
        .filter(|&value| value != 0.0)
        .collect();
    let observed = values.iter().sum();
    Ok((values, observed))
}

/// Mathematically equal sums may differ in the last digits; the tolerance makes them count as equal.
fn tolerance(values: &[f64]) -> f64 {
    1e-12 * values.iter().map(|value| value.abs()).sum::<f64>()
}

fn sorted_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for &value in values {
        sums = sums.iter().flat_map(|sum| [sum - value, sum + value]).collect();
    }
    sums.sort_by(f64::total_cmp);
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{A, B, assert_close, assert_relative};
    use super::super::ttest::differences;
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py permutation` (scipy.stats.permutation_test, exact).
    #[test]
    fn exact_agrees_with_scipy() {
        let d = differences(&A, &B).unwrap();
        for (alternative, expected) in [
            (Alternative::TwoSided, 0.0244140625),
            (Alternative::Greater, 0.01220703125),
            (Alternative::Less, 0.98974609375),
        ] {
            assert_relative(sign_flip_exact(&d, alternative).unwrap().p_value, expected, 1e-13);
        }
    }

    #[test]
    fn five_pairs_cannot_go_below_one_sixteenth() {
        let test = sign_flip(&[0.3, 0.1, 0.4, 0.1, 0.5], Alternative::TwoSided, 1000, 1).unwrap();
        assert!(test.exact);
        assert_close(test.p_value, 0.0625, 0.0);
    }

    #[test]
    fn monte_carlo_is_close_to_exact() {
        let d = differences(&A, &B).unwrap();
        let exact = sign_flip_exact(&d, Alternative::Greater).unwrap().p_value;
        let drawn = sign_flip_monte_carlo(&d, Alternative::Greater, 20_000, 7)
            .unwrap()
            .p_value;
        // Four standard errors.
        assert!(
            (drawn - exact).abs() < 4.0 * (exact / 20_000.0).sqrt(),
            "{drawn} {exact}"
        );
    }

    #[test]
    fn splitting_the_work_changes_nothing() {
        let d: Vec<f64> = (0..100).map(|i| f64::from(i % 7) - 2.7).collect();
        let count = |range| sign_flip_exceedances(&d, Alternative::TwoSided, 3, range).unwrap();
        assert_eq!(count(0..400), count(0..13) + count(13..250) + count(250..400));
    }

    #[test]
    fn identical_arms_have_p_one() {
        let test = sign_flip(&[0.0, 0.0, 0.0], Alternative::TwoSided, 100, 1).unwrap();
        assert_eq!((test.p_value, test.used), (1.0, 0));
        assert!(sign_flip(&[], Alternative::TwoSided, 100, 1).is_err());
        assert!(sign_flip_exact(&[1.0; 37], Alternative::TwoSided).is_err());
        assert!(sign_flip_monte_carlo(&[1.0], Alternative::TwoSided, 0, 1).is_err());
        assert!(
            sign_flip(&[1.0; 99], Alternative::TwoSided, 99, 1)
                .unwrap()
                .p_value
                >= 0.01
        );
    }

    proptest! {
        #[test]
        fn counting_agrees_with_enumeration(values in prop::collection::vec(-4i32..5, 1..9)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let observed: f64 = values.iter().sum();
            let patterns = 1u32 << values.len();
            let sum_of = |pattern: u32| -> f64 {
                values.iter().enumerate().map(|(i, v)| if pattern >> i & 1 == 1 { -v } else { *v }).sum()
            };
            let greater = (0..patterns).filter(|&p| sum_of(p) >= observed).count() as f64 / f64::from(patterns);
            let both = (0..patterns).filter(|&p| sum_of(p).abs() >= observed.abs()).count() as f64 / f64::from(patterns);
            assert_close(sign_flip_exact(&values, Alternative::Greater).unwrap().p_value, greater, 1e-14);
            assert_close(sign_flip_exact(&values, Alternative::TwoSided).unwrap().p_value, both, 1e-14);
        }
    }
}
