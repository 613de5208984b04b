//! Rank correlation of two orders: Kendall's tau-b and Spearman's rho.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Result, StatsError, check_same_length, check_sample};

/// Counts of pairs by how two rankings order them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Concordance {
    /// Number of pairs in the same order.
    pub concordant: i64,
    /// Number of pairs in opposite order.
    pub discordant: i64,
    /// Number of pairs tied in x alone.
    pub tied_x: i64,
    /// Number of pairs tied in y alone.
    pub tied_y: i64,
}

impl Concordance {
    /// Tau-b; `None` when one ranking is entirely tied.
    pub(crate) fn tau_b(&self) -> Option<f64> {
        let ordered = (self.concordant + self.discordant) as f64;
        let (x, y) = (ordered + self.tied_y as f64, ordered + self.tied_x as f64);
        let tau = (self.concordant - self.discordant) as f64 / x.sqrt() / y.sqrt();
        (x > 0.0 && y > 0.0).then(|| tau.clamp(-1.0, 1.0))
    }
}

/// Counts the pairs in O(n log n) (Knight 1966).
pub(crate) fn concordance(x: &[f64], y: &[f64]) -> Result<Concordance> {
    check_same_length(x, y)?;
    check_sample(x, 2)?;
    check_sample(y, 2)?;
    let mut pairs: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).collect();
    // Adding zero turns -0.0 into 0.0, so that they sort as equal.
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

/// Kendall's tau-b of two samples.
pub fn kendall_tau(x: &[f64], y: &[f64]) -> Result<f64> {
    concordance(x, y)?.tau_b().ok_or(StatsError::NoVariation {
        what: "one of the rankings",
    })
}

/// Spearman's rank correlation: Pearson's correlation of average ranks.
pub fn spearman(x: &[f64], y: &[f64]) -> Result<f64> {
    check_same_length(x, y)?;
    check_sample(x, 2)?;
    check_sample(y, 2)?;
    // Twice the average rank, centred: n + 1 is twice the mean rank.
    let centred = |values: &[f64]| -> Vec<f64> {
        let middle = values.len() as f64 + 1.0;
        doubled_ranks(values)
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

/// Twice the average ranks, so that they are integers.
pub(super) fn doubled_ranks(values: &[f64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let value = values[order[start]];
        // total_cmp distinguishes -0.0 from 0.0, equality does not; sorting keeps them adjacent.
        let end = start
            + order[start..]
                .iter()
                .take_while(|&&index| values[index] == value)
                .count();
        for &index in &order[start..end] {
            ranks[index] = (start + end + 1) as u64;
        }
        start = end;
    }
    ranks
}

/// Merge sort that counts the pairs that were out of order.
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
    fn constant_rankings_are_rejected() {
        assert!(kendall_tau(&[1.0, 1.0], &[1.0, 2.0]).is_err());
        assert!(spearman(&[1.0, 1.0], &[1.0, 2.0]).is_err());
        assert!(kendall_tau(&[1.0], &[1.0]).is_err());
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
    }
}
