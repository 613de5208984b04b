//! How alike are two orders? Kendall's tau-b, Spearman's rho, rank-biased overlap for lists of which the top
//! matters most, and Jaccard for what they have in common at all.

use std::collections::HashSet;
use std::hash::Hash;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Result, StatsError, check_open_unit, check_same_length, check_sample};
use super::rank_tests::doubled_ranks;

/// Pairs counted by how two rankings order them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Concordance {
    /// Pairs in the same order.
    pub concordant: i64,
    /// Pairs in opposite order.
    pub discordant: i64,
    /// Pairs tied in x alone.
    pub tied_x: i64,
    /// Pairs tied in y alone.
    pub tied_y: i64,
}

impl Concordance {
    /// Tau-b, absent when one ranking is entirely tied.
    pub fn tau_b(&self) -> Option<f64> {
        let ordered = (self.concordant + self.discordant) as f64;
        let (x, y) = (ordered + self.tied_y as f64, ordered + self.tied_x as f64);
        let tau = (self.concordant - self.discordant) as f64 / x.sqrt() / y.sqrt();
        (x > 0.0 && y > 0.0).then(|| tau.clamp(-1.0, 1.0))
    }
}

/// Counts the pairs in O(n log n) (Knight 1966).
pub fn concordance(x: &[f64], y: &[f64]) -> Result<Concordance> {
    check_same_length(x, y)?;
    check_sample(x, 2)?;
    check_sample(y, 2)?;
    let mut pairs: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).collect();
    // Adding zero makes -0.0 and 0.0 one value for the order too.
    for pair in &mut pairs {
        *pair = (pair.0 + 0.0, pair.1 + 0.0);
    }
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let pairs_in = |group: usize| {
        let size = group.cast_signed() as i64;
        size * (size - 1) / 2
    };
    let in_x: i64 = pairs
        .chunk_by(|a, b| a.0 == b.0)
        .map(|group| pairs_in(group.len()))
        .sum();
    let in_both: i64 = pairs
        .chunk_by(|a, b| a == b)
        .map(|group| pairs_in(group.len()))
        .sum();
    let mut ordered: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    let mut buffer = ordered.clone();
    let discordant = inversions(&mut ordered, &mut buffer);
    let in_y: i64 = ordered
        .chunk_by(|a, b| a == b)
        .map(|group| pairs_in(group.len()))
        .sum();
    let concordant = pairs_in(x.len()) - in_x - in_y + in_both - discordant;
    Ok(Concordance {
        concordant,
        discordant,
        tied_x: in_x - in_both,
        tied_y: in_y - in_both,
    })
}

/// Kendall's tau-b.
pub fn kendall_tau(x: &[f64], y: &[f64]) -> Result<f64> {
    concordance(x, y)?.tau_b().ok_or(StatsError::NoVariation {
        what: "one of the rankings",
    })
}

/// Spearman's rank correlation: Pearson's on average ranks.
pub fn spearman(x: &[f64], y: &[f64]) -> Result<f64> {
    check_same_length(x, y)?;
    check_sample(x, 2)?;
    check_sample(y, 2)?;
    // Twice the average rank, centred: n + 1 is twice the mean rank.
    let centred = |values: &[f64]| -> Vec<f64> {
        let middle = values.len() as f64 + 1.0;
        doubled_ranks(values)
            .0
            .into_iter()
            .map(|rank| rank as f64 - middle)
            .collect()
    };
    let (x, y) = (centred(x), centred(y));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (xx, yy) = (product(&x, &x), product(&y, &y));
    if xx <= 0.0 || yy <= 0.0 {
        return Err(StatsError::NoVariation {
            what: "one of the rankings",
        });
    }
    Ok((product(&x, &y) / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0))
}

/// Rank-biased overlap of two rankings (Webber, Moffat and Zobel 2010).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankBiasedOverlap {
    /// What is certain from the ranks seen (their eq. 11).
    pub minimum: f64,
    /// What the unseen ranks could still add (eq. 30).
    pub residual: f64,
    /// The point estimate that extends the agreement seen (eq. 32).
    pub extrapolated: f64,
}

/// Compares two rankings without repeats, best first, possibly of different length or content. `p` in (0, 1) is
/// the persistence: the first ten ranks carry 86 % of the weight at p = 0.9. Two empty rankings cannot be
/// compared.
pub fn rank_biased_overlap<T: Eq + Hash>(left: &[T], right: &[T], p: f64) -> Result<RankBiasedOverlap> {
    check_open_unit("p", p)?;
    let (short, long) = if left.len() <= right.len() {
        (left, right)
    } else {
        (right, left)
    };
    check_distinct(short)?;
    check_distinct(long)?;
    let (s, l) = (short.len(), long.len());
    if l == 0 {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    let overlap = overlaps(short, long);
    let at = |depth: usize| overlap[depth] as f64;
    let power = |exponent: usize| p.powf(exponent as f64);
    let x_s = at(s);
    let x_l = at(l);
    // eq. 32
    let seen: f64 = (1..=l).map(|d| at(d) / d as f64 * power(d)).sum();
    // With an empty list there is no agreement to extend.
    let agreement = if s > 0 { x_s / s as f64 } else { 0.0 };
    let extended: f64 = (s + 1..=l)
        .map(|d| agreement * (d - s) as f64 / d as f64 * power(d))
        .sum();
    let extrapolated = (1.0 - p) / p * (seen + extended) + ((x_l - x_s) / l as f64 + agreement) * power(l);
    // eq. 11 at the depth of the longer list, where the shorter adds nothing more.
    let minimum = (1.0 - p) / p
        * ((1..=l).map(|d| (at(d) - x_l) / d as f64 * power(d)).sum::<f64>() - x_l * (-p).ln_1p());
    // eq. 30: f is the depth at which everything unseen would agree.
    let f = l + s - overlap[l];
    let sum_to = |from: usize, to: usize| (from..=to).map(|d| power(d) / d as f64).sum::<f64>();
    let residual = power(s) + power(l)
        - power(f)
        - (1.0 - p) / p
            * (s as f64 * sum_to(s + 1, f)
                + l as f64 * sum_to(l + 1, f)
                + x_l * (-(-p).ln_1p() - sum_to(1, f)));
    let unit = |value: f64| value.clamp(0.0, 1.0);
    Ok(RankBiasedOverlap {
        minimum: unit(minimum),
        residual: unit(residual),
        extrapolated: unit(extrapolated),
    })
}

/// Shared elements divided by all elements, counting repeats once. Two empty sets cannot be compared.
pub fn jaccard<T: Eq + Hash>(left: &[T], right: &[T]) -> Result<f64> {
    let (left, right): (HashSet<&T>, HashSet<&T>) = (left.iter().collect(), right.iter().collect());
    let shared = left.intersection(&right).count();
    let all = left.len() + right.len() - shared;
    if all == 0 {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    Ok(shared as f64 / all as f64)
}

/// Size of the overlap of the two lists cut at each depth, from zero to the length of the longer.
fn overlaps<T: Eq + Hash>(short: &[T], long: &[T]) -> Vec<usize> {
    let mut seen: HashSet<&T> = HashSet::with_capacity(short.len() + long.len());
    let mut counts = vec![0];
    let mut shared = 0;
    for depth in 0..long.len() {
        for item in [short.get(depth), long.get(depth)].into_iter().flatten() {
            shared += usize::from(!seen.insert(item));
        }
        counts.push(shared);
    }
    counts
}

fn check_distinct<T: Eq + Hash>(items: &[T]) -> Result<()> {
    let mut seen = HashSet::with_capacity(items.len());
    match items.iter().position(|item| !seen.insert(item)) {
        Some(index) => Err(StatsError::Duplicate { index }),
        None => Ok(()),
    }
}

/// Sorts by merging and counts the pairs that were out of order.
fn inversions(values: &mut [f64], buffer: &mut [f64]) -> i64 {
    let n = values.len();
    if n < 2 {
        return 0;
    }
    let middle = n / 2;
    let mut count = inversions(&mut values[..middle], &mut buffer[..middle])
        + inversions(&mut values[middle..], &mut buffer[middle..]);
    buffer.copy_from_slice(values);
    let (left, right) = buffer.split_at(middle);
    let (mut i, mut j) = (0, 0);
    for slot in values.iter_mut() {
        if j >= right.len() || (i < left.len() && left[i] <= right[j]) {
            *slot = left[i];
            i += 1;
        } else {
            *slot = right[j];
            j += 1;
            count += (left.len() - i).cast_signed() as i64;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{A, B, assert_close};
    use super::*;

    const TIED_X: [f64; 9] = [1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0, 5.0, 0.0];
    const TIED_Y: [f64; 9] = [2.0, 1.0, 3.0, 3.0, 3.0, 1.0, 5.0, 4.0, -0.0];

    // Oracle: `python perf/peers/stats_oracle.py rank_correlation` (scipy kendalltau, spearmanr).
    #[test]
    fn correlations_agree_with_scipy() {
        assert_close(kendall_tau(&A, &B).unwrap(), 0.8787878787878787, 1e-14);
        assert_close(kendall_tau(&TIED_X, &TIED_Y).unwrap(), 0.6562499999999999, 1e-14);
        assert_close(spearman(&A, &B).unwrap(), 0.965034965034965, 1e-14);
        assert_close(spearman(&TIED_X, &TIED_Y).unwrap(), 0.7782608695652176, 1e-14);
    }

    // Oracle: the same command; `rbo` from PyPI for the extrapolation, the infinite sums of the paper cut at
    // depth 20,000 for minimum and residual.
    #[test]
    fn overlap_agrees_with_the_paper() {
        for (left, right, p, minimum, residual, extrapolated) in [
            (
                "abcdefg",
                "acbdgfe",
                0.9,
                0.6991755167731466,
                0.23286098322685342,
                0.9320364999999999,
            ),
            (
                "abcd",
                "bxaydzc",
                0.8,
                0.40559791243410037,
                0.19322875423256636,
                0.5235382857142858,
            ),
            ("abc", "xyz", 0.9, 0.0, 0.679428, 0.0),
            (
                "abcde",
                "abcde",
                0.95,
                0.47630007747034875,
                0.5236999225296513,
                1.0,
            ),
            (
                "fa",
                "abcdef",
                0.98,
                0.09507630907815567,
                0.8603255916151776,
                0.6406534661333333,
            ),
        ] {
            let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
            let found = rank_biased_overlap(&left, &right, p).unwrap();
            assert_close(found.minimum, minimum, 1e-11);
            assert_close(found.residual, residual, 1e-11);
            assert_close(found.extrapolated, extrapolated, 1e-11);
        }
    }

    #[test]
    fn what_cannot_be_compared() {
        assert!(kendall_tau(&[1.0, 1.0], &[1.0, 2.0]).is_err());
        assert!(spearman(&[1.0, 1.0], &[1.0, 2.0]).is_err());
        assert!(kendall_tau(&[1.0], &[1.0]).is_err());
        assert_eq!(
            rank_biased_overlap(&[1, 2, 1], &[3], 0.9),
            Err(StatsError::Duplicate { index: 2 })
        );
        assert!(rank_biased_overlap::<u8>(&[], &[], 0.9).is_err());
        assert!(jaccard::<u8>(&[], &[]).is_err());
        assert_close(jaccard(&[1, 2, 2], &[2, 3]).unwrap(), 1.0 / 3.0, 1e-15);
        assert_close(
            rank_biased_overlap(&[], &[3], 0.9).unwrap().extrapolated,
            0.0,
            0.0,
        );
    }

    proptest! {
        #[test]
        fn tau_counts_every_pair(values in prop::collection::vec((-4i32..4, -4i32..4), 2..40)) {
            let x: Vec<f64> = values.iter().map(|v| f64::from(v.0)).collect();
            let y: Vec<f64> = values.iter().map(|v| f64::from(v.1)).collect();
            let found = concordance(&x, &y).unwrap();
            let (mut concordant, mut discordant, mut tied_x, mut tied_y) = (0, 0, 0, 0);
            for i in 0..x.len() {
                for j in 0..i {
                    let (dx, dy) = (values[i].0 - values[j].0, values[i].1 - values[j].1);
                    match (dx.signum() * dy.signum(), dx == 0, dy == 0) {
                        (1, _, _) => concordant += 1,
                        (-1, _, _) => discordant += 1,
                        (_, true, false) => tied_x += 1,
                        (_, false, true) => tied_y += 1,
                        _ => {}
                    }
                }
            }
            prop_assert_eq!(found, Concordance { concordant, discordant, tied_x, tied_y });
        }

        #[test]
        fn a_ranking_agrees_with_itself(length in 1u32..30, p in 0.05..0.98f64) {
            let items: Vec<u32> = (0..length).collect();
            let same = rank_biased_overlap(&items, &items, p).unwrap();
            assert_close(same.extrapolated, 1.0, 1e-10);
            assert_close(same.minimum + same.residual, 1.0, 1e-10);
            let other: Vec<u32> = (100..100 + length).collect();
            assert_close(rank_biased_overlap(&items, &other, p).unwrap().extrapolated, 0.0, 1e-12);
        }

        #[test]
        fn overlap_is_symmetric_and_bounded(left in prop::collection::vec(0u8..20, 0..15), right in prop::collection::vec(0u8..20, 1..15), p in 0.05..0.98f64) {
            let distinct = |items: Vec<u8>| {
                let mut seen = HashSet::new();
                items.into_iter().filter(|item| seen.insert(*item)).collect::<Vec<_>>()
            };
            let (left, right) = (distinct(left), distinct(right));
            let forward = rank_biased_overlap(&left, &right, p).unwrap();
            prop_assert_eq!(forward, rank_biased_overlap(&right, &left, p).unwrap());
            prop_assert!(forward.minimum <= forward.extrapolated + 1e-9);
            prop_assert!(forward.extrapolated <= forward.minimum + forward.residual + 1e-9);
        }
    }
}
