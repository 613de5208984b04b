//! Exact tests on counts: sign, McNemar, Fisher. They hold for any sample size, because they enumerate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distribution::{binomial_cdf, binomial_sf_inclusive, hypergeometric_density};
use super::error::{Result, StatsError};
use super::hypothesis::Alternative;

/// The sign test: are `wins` and `losses` equally likely? Ties do not count. Without wins and losses there is
/// no evidence and p is 1.
pub fn sign_test(wins: u64, losses: u64, alternative: Alternative) -> f64 {
    // A sum beyond u64 would need more observations than can exist; saturate rather than wrap.
    let n = wins.saturating_add(losses);
    if n <= 62 {
        // Whole numbers, so that p-values at a threshold are exactly there.
        let share = |count: u64| count as f64 / (1u64 << n) as f64;
        return alternative.p_value(share(subsets_up_to(n, wins)), share(subsets_up_to(n, losses)));
    }
    alternative.p_value(binomial_cdf(wins, n, 0.5), binomial_sf_inclusive(wins, n, 0.5))
}

/// McNemar's exact test on paired pass/fail results: of the pairs that differ, `only_treatment` passed with the
/// treatment alone and `only_control` with the control alone. It is the sign test on those pairs.
///
/// ```
/// use satiety::stats::{Alternative, mcnemar};
/// // Five cases fixed and none broken is not yet significant, whatever the size of the suite.
/// assert_eq!(mcnemar(5, 0, Alternative::TwoSided), 0.0625);
/// ```
pub fn mcnemar(only_treatment: u64, only_control: u64, alternative: Alternative) -> f64 {
    sign_test(only_treatment, only_control, alternative)
}

/// The outcome of Fisher's exact test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FisherTest {
    /// The sample odds ratio; absent when it is 0/0 or infinite.
    pub odds_ratio: Option<f64>,
    /// Probability of a table at least this extreme with the same margins.
    pub p_value: f64,
}

/// Fisher's exact test of a two-by-two table: successes and failures of two independent groups. Two-sided sums
/// all tables that are no more likely than the observed one. Independent groups only: for pairs use [`mcnemar`].
pub fn fisher(treatment: (u64, u64), control: (u64, u64), alternative: Alternative) -> Result<FisherTest> {
    const MOST: u64 = 1 << 40;
    let ((a, b), (c, d)) = (treatment, control);
    if let Some(&cell) = [a, b, c, d].iter().find(|&&cell| cell > MOST) {
        return Err(StatsError::OutOfRange {
            what: "cell",
            value: cell as f64,
            range: "at most 2^40",
        });
    }
    let odds_ratio = (b > 0 && c > 0).then(|| (a as f64 * d as f64) / (b as f64 * c as f64));
    let (marked, plain, drawn) = (a + c, b + d, a + b);
    if marked == 0 || plain == 0 || drawn == 0 || c + d == 0 {
        // A margin is empty: only one table is possible.
        return Ok(FisherTest {
            odds_ratio,
            p_value: 1.0,
        });
    }
    let density = |k: u64| hypergeometric_density(k, marked, plain, drawn);
    let lowest = drawn.saturating_sub(plain);
    let highest = drawn.min(marked);
    let mode = ((marked + 1) as f64 * (drawn + 1) as f64 / (marked + plain + 2) as f64).floor();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the support"
    )]
    let mode = (mode as u64).clamp(lowest, highest);
    // The density falls away from the mode on both sides; always sum the side that falls.
    let upper = |k: u64| {
        if k > mode {
            tail(k..=highest, density)
        } else {
            1.0 - tail((lowest..k).rev(), density)
        }
    };
    let lower = |k: u64| {
        if k < mode {
            tail((lowest..=k).rev(), density)
        } else {
            1.0 - tail(k + 1..=highest, density)
        }
    };
    let p_value = match alternative {
        Alternative::Greater => upper(a),
        Alternative::Less => lower(a),
        Alternative::TwoSided => {
            // Equally likely tables must count in spite of rounding.
            let most = density(a) * (1.0 + 1e-9);
            if density(mode) <= most {
                1.0
            } else {
                let left = last_at_most(lowest, mode, |k| density(k) <= most).map_or(0.0, lower);
                let right = last_at_most(0, highest - mode, |k| density(highest - k) <= most)
                    .map_or(0.0, |k| upper(highest - k));
                left + right
            }
        }
    };
    Ok(FisherTest {
        odds_ratio,
        p_value: p_value.min(1.0),
    })
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

/// Sums densities that fall from the first on, until they stop mattering.
fn tail(range: impl Iterator<Item = u64>, density: impl Fn(u64) -> f64) -> f64 {
    let mut total = 0.0;
    for k in range {
        let term = density(k);
        total += term;
        if term < total * 1e-18 {
            break;
        }
    }
    total
}

/// The largest `k` in `low..=high` for which a condition holds that holds up to some point and then no more.
fn last_at_most(low: u64, high: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if !holds(low) {
        return None;
    }
    let (mut inside, mut outside) = (low, high + 1);
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if holds(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    Some(inside)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{assert_close, assert_relative};
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py exact` (statsmodels mcnemar, scipy binomtest, fisher_exact).
    #[test]
    fn mcnemar_agrees_with_statsmodels() {
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
            assert_relative(mcnemar(wins, losses, Alternative::TwoSided), two_sided, 1e-12);
            assert_relative(mcnemar(wins, losses, Alternative::Greater), greater, 1e-12);
            assert_relative(mcnemar(wins, losses, Alternative::Less), less, 1e-12);
        }
        assert_eq!(mcnemar(0, 0, Alternative::TwoSided), 1.0);
    }

    #[test]
    fn fisher_agrees_with_scipy() {
        for (a, b, c, d, two_sided, greater, less) in [
            (
                8,
                2,
                1,
                5,
                0.034965034965034975,
                0.024475524475524483,
                0.9991258741258742,
            ),
            (
                3,
                7,
                6,
                4,
                0.3698499642772088,
                0.9651107406525363,
                0.1849249821386044,
            ),
            (0, 10, 5, 5, 0.032507739938080496, 1.0, 0.016253869969040248),
            (12, 5, 12, 5, 1.0, 0.6460073482320423, 0.6460073482320423),
            (
                90,
                10,
                70,
                30,
                0.0006504107076034208,
                0.0003252053538017104,
                0.9999227971381831,
            ),
            (
                500,
                300,
                420,
                380,
                6.371411722215655e-05,
                3.1857058611078275e-05,
                0.9999793459280467,
            ),
            (
                1,
                9,
                11,
                3,
                0.0027594561852200836,
                0.9999663480953022,
                0.0013797280926100418,
            ),
        ] {
            let p = |alternative| fisher((a, b), (c, d), alternative).unwrap().p_value;
            assert_relative(p(Alternative::TwoSided), two_sided, 1e-10);
            assert_relative(p(Alternative::Greater), greater, 1e-10);
            assert_relative(p(Alternative::Less), less, 1e-10);
        }
    }

    #[test]
    fn empty_margins_are_no_evidence() {
        for ((a, b), (c, d)) in [((0, 0), (3, 4)), ((3, 0), (4, 0)), ((0, 0), (0, 0))] {
            let test = fisher((a, b), (c, d), Alternative::TwoSided).unwrap();
            assert_eq!((test.p_value, test.odds_ratio), (1.0, None));
        }
        assert!(fisher((u64::MAX, 1), (1, 1), Alternative::TwoSided).is_err());
    }

    #[test]
    fn a_sum_beyond_the_integers_does_not_wrap() {
        let p = sign_test(u64::MAX, u64::MAX, Alternative::Greater);
        assert!((0.0..=1.0).contains(&p));
    }

    proptest! {
        #[test]
        fn swapping_mirrors(a in 0u64..60, b in 0u64..60, c in 0u64..60, d in 0u64..60) {
            assert_close(mcnemar(a, b, Alternative::Greater), mcnemar(b, a, Alternative::Less), 1e-12);
            assert_close(mcnemar(a, b, Alternative::TwoSided), mcnemar(b, a, Alternative::TwoSided), 1e-12);
            let p = |x, y, alternative| fisher(x, y, alternative).unwrap().p_value;
            let forward = p((a, b), (c, d), Alternative::TwoSided);
            prop_assert!((0.0..=1.0).contains(&forward));
            assert_close(forward, p((c, d), (a, b), Alternative::TwoSided), 1e-11);
            assert_close(p((a, b), (c, d), Alternative::Greater), p((c, d), (a, b), Alternative::Less), 1e-11);
        }
    }
}
