//! Sign test, exact for any sample size. On discordant pairs it is McNemar's exact test.

use super::distribution::{binomial_cdf, binomial_sf_inclusive};
use super::hypothesis::Alternative;

/// Sign test: are `wins` and `losses` equally likely? Ties are ignored. Without wins and losses p is 1.
pub fn sign_test(wins: u64, losses: u64, alternative: Alternative) -> f64 {
    // A sum beyond u64 would need more observations than can exist; saturate instead of wrapping.
    let n = wins.saturating_add(losses);
    if n <= 62 {
        // Integer counts, so that p-values at a threshold are exact.
        let share = |count: u64| count as f64 / (1u64 << n) as f64;
        return alternative.p_value(share(subsets_up_to(n, wins)), share(subsets_up_to(n, losses)));
    }
    alternative.p_value(binomial_cdf(wins, n, 0.5), binomial_sf_inclusive(wins, n, 0.5))
}

/// `Σ_{i ≤ k} C(n, i)` for n up to 62.
fn subsets_up_to(n: u64, k: u64) -> u64 {
    let mut total: u64 = 1;
    let mut term: u128 = 1;
    for i in 0..k.min(n) {
        term = term * u128::from(n - i) / u128::from(i + 1);
        total += u64::try_from(term).unwrap_or(u64::MAX);
    }
    total
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{assert_close, assert_relative};
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py exact` (statsmodels mcnemar, scipy binomtest, fisher_exact).
    #[test]
    fn sign_test_agrees_with_statsmodels() {
        for (wins, losses, two_sided, greater, less) in [
            (5, 0, 0.0625, 0.03125, 1.0),
            (10, 3, 0.09228515625, 0.046142578125, 0.98876953125),
            (0, 1, 1.0, 1.0, 0.5),
            (7, 7, 1.0, 0.604736328125, 0.604736328125),
            (
                40,
                20,
                0.01348929373119186,
                0.00674464686559593,
                0.9968911986703367,
            ),
            (
                400,
                301,
                0.00020969830899799665,
                0.00010484915449899832,
                0.9999225091181925,
            ),
        ] {
            assert_relative(sign_test(wins, losses, Alternative::TwoSided), two_sided, 1e-12);
            assert_relative(sign_test(wins, losses, Alternative::Greater), greater, 1e-12);
            assert_relative(sign_test(wins, losses, Alternative::Less), less, 1e-12);
        }
        assert_eq!(sign_test(0, 0, Alternative::TwoSided), 1.0);
    }

    #[test]
    fn a_sum_beyond_the_integers_does_not_wrap() {
        let p = sign_test(u64::MAX, u64::MAX, Alternative::Greater);
        assert!((0.0..=1.0).contains(&p));
    }

    proptest! {
        #[test]
        fn swapping_mirrors(a in 0u64..60, b in 0u64..60) {
            assert_close(sign_test(a, b, Alternative::Greater), sign_test(b, a, Alternative::Less), 1e-12);
            assert_close(sign_test(a, b, Alternative::TwoSided), sign_test(b, a, Alternative::TwoSided), 1e-12);
        }
    }
}
