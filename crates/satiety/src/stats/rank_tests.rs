//! Wilcoxon's signed-rank test: paired differences judged by their ranks, so that one wild value cannot decide.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distribution::{normal_cdf, normal_sf};
use super::error::{Result, check_sample};
use super::hypothesis::Alternative;

/// Up to this many differences the distribution is enumerated, with ties too; above, the normal approximation.
pub const EXACT_LIMIT: usize = 50;

/// What to do with differences that are exactly zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Zeros {
    /// Drop them before ranking (Wilcoxon).
    #[default]
    Drop,
    /// Rank them, then drop their ranks (Pratt 1959): better when many differences are zero.
    Pratt,
}

/// The outcome of the signed-rank test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignedRank {
    /// Sum of the ranks of positive differences.
    pub positive: f64,
    /// Sum of the ranks of negative differences.
    pub negative: f64,
    /// Differences that are not zero.
    pub used: usize,
    /// Whether p was enumerated (`true`) or approximated.
    pub exact: bool,
    /// Probability of rank sums at least this unequal when signs are random. 1 when every difference is zero.
    pub p_value: f64,
    /// Rank-biserial correlation: (positive − negative) / (positive + negative). Absent without differences.
    pub effect_size: Option<f64>,
}

/// Tests whether differences are symmetric around zero.
pub fn signed_rank(differences: &[f64], zeros: Zeros, alternative: Alternative) -> Result<SignedRank> {
    check_sample(differences, 1)?;
    let zero_count = differences.iter().filter(|&&value| value == 0.0).count();
    let used = differences.len() - zero_count;
    if used == 0 {
        return Ok(SignedRank {
            positive: 0.0,
            negative: 0.0,
            used,
            exact: true,
            p_value: 1.0,
            effect_size: None,
        });
    }
    let magnitudes: Vec<f64> = differences
        .iter()
        .copied()
        .filter(|&value| value != 0.0)
        .collect();
    // Pratt's ranks start after those of the zeros, which are the smallest magnitudes.
    let offset = if zeros == Zeros::Pratt { zero_count } else { 0 };
    let (doubled, ties) = doubled_ranks(&magnitudes.iter().map(|value| value.abs()).collect::<Vec<_>>());
    let doubled: Vec<u64> = doubled.into_iter().map(|rank| rank + 2 * offset as u64).collect();
    let total: u64 = doubled.iter().sum();
    let plus: u64 = doubled
        .iter()
        .zip(&magnitudes)
        .filter(|(_, value)| **value > 0.0)
        .map(|(rank, _)| rank)
        .sum();
    // Very many zeros under Pratt make the ranks too large to enumerate.
    let exact = used <= EXACT_LIMIT && total <= 1_000_000;
    let p_value = if exact {
        let (at_most, at_least) = enumerate(&doubled, plus);
        alternative.p_value(at_most, at_least)
    } else {
        let (n, n0) = ((used + offset) as f64, offset as f64);
        let mean = (n * (n + 1.0) - n0 * (n0 + 1.0)) / 4.0;
        let cubic = |n: f64| n * (n + 1.0) * (2.0 * n + 1.0);
        let variance = (cubic(n) - cubic(n0) - ties / 2.0) / 24.0;
        let z = (plus as f64 / 2.0 - mean) / variance.sqrt();
        alternative.p_value(normal_cdf(z), normal_sf(z))
    };
    let positive = plus as f64 / 2.0;
    let negative = (total - plus) as f64 / 2.0;
    Ok(SignedRank {
        positive,
        negative,
        used,
        exact,
        p_value,
        effect_size: Some((positive - negative) / (positive + negative)),
    })
}

/// Twice the average ranks (so that halves are whole), and the tie term `Σ t³ − t`.
pub(crate) fn doubled_ranks(values: &[f64]) -> (Vec<u64>, f64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0; values.len()];
    let mut ties = 0.0;
    let mut start = 0;
    while start < order.len() {
        let value = values[order[start]];
        // total_cmp parts -0.0 from 0.0, equality does not; sorted order keeps them adjacent.
        let end = start
            + order[start..]
                .iter()
                .take_while(|&&index| values[index] == value)
                .count();
        for &index in &order[start..end] {
            ranks[index] = (start + end + 1) as u64;
        }
        let t = (end - start) as f64;
        ties += t * t * t - t;
        start = end;
    }
    (ranks, ties)
}

/// P(sum ≤ observed) and P(sum ≥ observed) when each rank joins the sum with probability one half.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the caller bounds the total by a million"
)]
fn enumerate(ranks: &[u64], observed: u64) -> (f64, f64) {
    let observed = observed as usize;
    let mut probability = vec![0.0; ranks.iter().sum::<u64>() as usize + 1];
    probability[0] = 1.0;
    let mut reach = 0;
    for &rank in ranks {
        let rank = rank as usize;
        for sum in (0..=reach).rev() {
            let half = probability[sum] / 2.0;
            probability[sum] = half;
            probability[sum + rank] += half;
        }
        reach += rank;
    }
    (
        probability[..=observed].iter().sum(),
        probability[observed..].iter().rev().sum(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{A, B, assert_close, assert_relative};
    use super::super::ttest::differences;
    use super::*;

    fn untied() -> Vec<f64> {
        vec![1.5, -0.4, 2.2, 0.9, -1.1, 3.0, 0.2, 1.8, -0.7]
    }

    fn long() -> Vec<f64> {
        (0..80).map(|i| f64::from((i * 37) % 41 - 17) / 4.0).collect()
    }

    // Oracle: `python perf/peers/stats_oracle.py rank_tests` (scipy.stats.wilcoxon; with ties or zeros its
    // exact permutation method).
    #[test]
    fn exact_agrees_with_scipy() {
        for (alternative, expected) in [
            (Alternative::TwoSided, 0.1640625),
            (Alternative::Greater, 0.08203125),
            (Alternative::Less, 0.935546875),
        ] {
            let test = signed_rank(&untied(), Zeros::Drop, alternative).unwrap();
            assert!(test.exact);
            assert_relative(test.p_value, expected, 1e-13);
        }
        let test = signed_rank(&untied(), Zeros::Drop, Alternative::TwoSided).unwrap();
        assert_close(test.positive.min(test.negative), 10.0, 0.0);
    }

    #[test]
    fn ties_and_zeros_are_enumerated_too() {
        // Rounded, so that equal differences are equal.
        let d: Vec<f64> = differences(&A, &B)
            .unwrap()
            .iter()
            .map(|value| (value * 100.0).round())
            .collect();
        let test = signed_rank(&d, Zeros::Drop, Alternative::TwoSided).unwrap();
        assert_relative(test.p_value, 0.0185546875, 1e-12);
        let test = signed_rank(&d, Zeros::Pratt, Alternative::Greater).unwrap();
        assert_relative(test.p_value, 0.0126953125, 1e-12);
    }

    #[test]
    fn normal_approximation_agrees_with_scipy() {
        for (zeros, alternative, expected) in [
            (Zeros::Drop, Alternative::TwoSided, 0.01759978129027824),
            (Zeros::Pratt, Alternative::TwoSided, 0.018614240050170393),
            (Zeros::Drop, Alternative::Greater, 0.00879989064513912),
        ] {
            let test = signed_rank(&long(), zeros, alternative).unwrap();
            assert!(!test.exact);
            assert_relative(test.p_value, expected, 1e-12);
        }
    }

    #[test]
    fn a_million_zeros_do_not_fill_the_memory() {
        let mut values = vec![0.0; 1_000_000];
        values.extend([1.0, 2.0, 3.0]);
        let test = signed_rank(&values, Zeros::Pratt, Alternative::TwoSided).unwrap();
        assert!(!test.exact && test.p_value > 0.05);
        assert!(
            signed_rank(&values, Zeros::Drop, Alternative::TwoSided)
                .unwrap()
                .exact
        );
    }

    #[test]
    fn nothing_but_zeros_is_no_evidence() {
        let test = signed_rank(&[0.0, 0.0], Zeros::Pratt, Alternative::TwoSided).unwrap();
        assert_eq!((test.p_value, test.effect_size), (1.0, None));
        assert!(signed_rank(&[], Zeros::Drop, Alternative::TwoSided).is_err());
        assert!(signed_rank(&[f64::NAN], Zeros::Drop, Alternative::TwoSided).is_err());
    }

    proptest! {
        #[test]
        fn negating_mirrors(values in prop::collection::vec(-6i32..7, 1..70), pratt: bool) {
            let zeros = if pratt { Zeros::Pratt } else { Zeros::Drop };
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let negated: Vec<f64> = values.iter().map(|value| -value).collect();
            let test = signed_rank(&values, zeros, Alternative::Greater).unwrap();
            let mirror = signed_rank(&negated, zeros, Alternative::Less).unwrap();
            prop_assert!((0.0..=1.0).contains(&test.p_value));
            assert_close(test.p_value, mirror.p_value, 1e-12);
        }

        #[test]
        fn only_ranks_matter(values in prop::collection::vec(-3.0..3.0, 1..30)) {
            let stretched: Vec<f64> = values.iter().map(|value: &f64| value * value.abs() * 8.0).collect();
            let test = signed_rank(&values, Zeros::Drop, Alternative::TwoSided).unwrap();
            let other = signed_rank(&stretched, Zeros::Drop, Alternative::TwoSided).unwrap();
            prop_assert_eq!(test.p_value, other.p_value);
        }
    }
}
