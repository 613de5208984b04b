//! Success over repeated tries: unbiased pass@k (at least one of k succeeds) and pass^k (all k succeed), from
//! n tries of which c succeeded.

use super::error::{Result, StatsError};

/// Bounds the number of factors of the product, which is up to half of this.
const MOST_TRIES: u64 = 10_000_000;

/// Probability that at least one of `k` tries succeeds: `1 − C(n−c, k) / C(n, k)` (Chen et al. 2021).
pub fn pass_at_k(tries: u64, successes: u64, k: u64) -> Result<f64> {
    check(tries, successes, k)?;
    Ok(1.0 - probability_all_marked(tries, tries - successes, k))
}

/// Probability that all of `k` tries succeed: `C(c, k) / C(n, k)` (Yao et al. 2024, τ-bench).
pub fn pass_hat_k(tries: u64, successes: u64, k: u64) -> Result<f64> {
    check(tries, successes, k)?;
    Ok(probability_all_marked(tries, successes, k))
}

/// Probability that `k` items drawn from `n` without replacement are all among `marked`.
fn probability_all_marked(n: u64, marked: u64, k: u64) -> f64 {
    if k > marked {
        return 0.0;
    }
    // C(m, k) / C(n, k) is the same product with k or n - m factors; use the shorter.
    let rest = n - marked;
    let (factors, gap) = if k <= rest { (k, rest) } else { (rest, k) };
    (0..factors).map(|i| 1.0 - gap as f64 / (n - i) as f64).product()
}

fn check(tries: u64, successes: u64, k: u64) -> Result<()> {
    if successes > tries {
        return Err(StatsError::OutOfRange {
            what: "successes",
            value: successes as f64,
            range: "at most the number of tries",
        });
    }
    if tries > MOST_TRIES {
        return Err(StatsError::OutOfRange {
            what: "tries",
            value: tries as f64,
            range: "at most 10^7",
        });
    }
    if k == 0 {
        return Err(StatsError::OutOfRange {
            what: "k",
            value: 0.0,
            range: "at least 1",
        });
    }
    if k > tries {
        return Err(StatsError::TooFew {
            needed: usize::try_from(k).unwrap_or(usize::MAX),
            got: usize::try_from(tries).unwrap_or(usize::MAX),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::assert_close;
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py passk` (exact fractions with math.comb).
    #[test]
    fn agrees_with_the_binomials() {
        for (tries, successes, k, at, hat) in [
            (10, 3, 1, 0.3, 0.3),
            (10, 3, 5, 0.9166666666666666, 0.0),
            (20, 19, 8, 1.0, 0.6),
            (5, 0, 3, 0.0, 0.0),
            (5, 5, 5, 1.0, 1.0),
            (200, 20, 100, 0.9999996678312922, 0.0),
            (8, 6, 3, 1.0, 0.35714285714285715),
        ] {
            assert_close(pass_at_k(tries, successes, k).unwrap(), at, 1e-13);
            assert_close(pass_hat_k(tries, successes, k).unwrap(), hat, 1e-13);
        }
    }

    #[test]
    fn more_tries_than_were_made_cannot_be_estimated() {
        assert_eq!(pass_at_k(3, 1, 5), Err(StatsError::TooFew { needed: 5, got: 3 }));
        assert!(pass_at_k(3, 4, 1).is_err());
        assert!(pass_hat_k(3, 1, 0).is_err());
        assert!(pass_hat_k(u64::MAX, 1, 1).is_err());
    }

    proptest! {
        #[test]
        fn bounds_and_order(tries in 1u64..60, share in 0.0..=1.0f64, k in 1u64..60) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most tries")]
            let successes = (share * tries as f64) as u64;
            let k = k.min(tries);
            let (at, hat) = (pass_at_k(tries, successes, k).unwrap(), pass_hat_k(tries, successes, k).unwrap());
            let rate = successes as f64 / tries as f64;
            prop_assert!((0.0..=1.0).contains(&at) && (0.0..=1.0).contains(&hat));
            prop_assert!(hat <= rate + 1e-12 && rate <= at + 1e-12);
            // One fails if not all others succeed.
            assert_close(at, 1.0 - pass_hat_k(tries, tries - successes, k).unwrap(), 1e-12);
        }
    }
}
