//! Does a series rise or fall, and how steeply? Least squares, the robust Theil-Sen slope, and the Mann-Kendall
//! test, which is the one to label a trend by: it does not mind bounded, skewed or tied values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::descriptive::{is_constant, mean_of, median, quantile_of_sorted, sum};
use super::distribution::{normal_cdf, normal_critical, normal_sf, student_critical, student_sf};
use super::error::{Result, StatsError, check_finite, check_open_unit, check_same_length, check_sample};
use super::hypothesis::Alternative;
use super::interval::Interval;
use super::rank_tests::doubled_ranks;

/// Up to this many values the Mann-Kendall distribution is enumerated, with ties too.
pub const EXACT_LIMIT: usize = 50;

/// A straight line fitted by least squares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinearFit {
    /// Change of y for one unit of x.
    pub slope: f64,
    /// Value at x = 0.
    pub intercept: f64,
    /// Standard error of the slope.
    pub standard_error: f64,
    /// Student's interval for the slope.
    pub interval: Interval,
    /// Two-sided p of "the slope is zero".
    pub p_value: f64,
    /// Pearson's correlation; absent when y does not vary.
    pub correlation: Option<f64>,
}

/// Fits `y = intercept + slope · x`. Needs three points.
pub fn least_squares(x: &[f64], y: &[f64], confidence: f64) -> Result<LinearFit> {
    check_same_length(x, y)?;
    check_sample(x, 3)?;
    check_sample(y, 3)?;
    check_open_unit("confidence", confidence)?;
    let n = x.len() as f64;
    let (mean_x, mean_y) = (mean_of(x), mean_of(y));
    let products = |a: &[f64], mean_a: f64, b: &[f64], mean_b: f64| {
        sum(&a
            .iter()
            .zip(b)
            .map(|(a, b)| (a - mean_a) * (b - mean_b))
            .collect::<Vec<_>>())
    };
    let sxx = products(x, mean_x, x, mean_x);
    let sxy = products(x, mean_x, y, mean_y);
    let syy = products(y, mean_y, y, mean_y);
    if is_constant(x) || sxx <= 0.0 {
        return Err(StatsError::NoVariation { what: "x" });
    }
    if is_constant(y) {
        // The mean of equal values may be off by a rounding error, which is not a slope.
        let interval = Interval {
            low: 0.0,
            high: 0.0,
            confidence,
        };
        let (intercept, correlation) = (y[0], None);
        return Ok(LinearFit {
            slope: 0.0,
            intercept,
            standard_error: 0.0,
            interval,
            p_value: 1.0,
            correlation,
        });
    }
    let slope = sxy / sxx;
    check_finite(&[slope])?;
    let intercept = mean_y - slope * mean_x;
    let residuals: Vec<f64> = x
        .iter()
        .zip(y)
        .map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2))
        .collect();
    let df = n - 2.0;
    let standard_error = (sum(&residuals) / df / sxx).sqrt();
    let half_width = student_critical(confidence, df) * standard_error;
    let p_value = if standard_error > 0.0 {
        (2.0 * student_sf((slope / standard_error).abs(), df)).min(1.0)
    } else {
        0.0
    };
    Ok(LinearFit {
        slope,
        intercept,
        standard_error,
        interval: Interval {
            low: slope - half_width,
            high: slope + half_width,
            confidence,
        },
        p_value,
        correlation: (syy > 0.0).then(|| (sxy / (sxx.sqrt() * syy.sqrt())).clamp(-1.0, 1.0)),
    })
}

/// The Theil-Sen line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TheilSen {
    /// Median of the slopes between all pairs of points.
    pub slope: f64,
    /// `median(y) − slope · median(x)`.
    pub intercept: f64,
    /// Sen's (1968) interval for the slope.
    pub interval: Interval,
}

/// The median of pairwise slopes: a third of the points may be wild. Quadratic in time and memory; refuses more
/// than 5,000 points.
pub fn theil_sen(x: &[f64], y: &[f64], confidence: f64) -> Result<TheilSen> {
    check_same_length(x, y)?;
    check_sample(x, 2)?;
    check_sample(y, 2)?;
    check_open_unit("confidence", confidence)?;
    if x.len() > 5000 {
        return Err(StatsError::OutOfRange {
            what: "points",
            value: x.len() as f64,
            range: "at most 5000",
        });
    }
    let mut slopes = Vec::with_capacity(x.len() * (x.len() - 1) / 2);
    for i in 0..x.len() {
        for j in 0..i {
            let run = x[i] - x[j];
            if run != 0.0 {
                slopes.push((y[i] - y[j]) / run);
            }
        }
    }
    if slopes.is_empty() {
        return Err(StatsError::NoVariation { what: "x" });
    }
    check_finite(&slopes)?;
    slopes.sort_unstable_by(f64::total_cmp);
    let slope = quantile_of_sorted(&slopes, 0.5);
    let n = x.len() as f64;
    let tied = |values: &[f64]| {
        tie_sizes(values)
            .into_iter()
            .map(|t| t * (t - 1.0) * (2.0 * t + 5.0))
            .sum::<f64>()
    };
    let variance = (n * (n - 1.0) * (2.0 * n + 5.0) - tied(x) - tied(y)).max(0.0) / 18.0;
    let reach = normal_critical(confidence) * variance.sqrt();
    let count = slopes.len() as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the slopes"
    )]
    let at = |rank: f64| slopes[rank.clamp(0.0, count - 1.0) as usize];
    let interval = Interval {
        low: at((0.5 * (count - reach)).round_ties_even() - 1.0),
        high: at((0.5 * (count + reach)).round_ties_even()),
        confidence,
    };
    Ok(TheilSen {
        slope,
        intercept: median(y)? - slope * median(x)?,
        interval,
    })
}

/// The outcome of the Mann-Kendall test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MannKendall {
    /// Pairs that rise minus pairs that fall.
    pub s: i64,
    /// Variance of `s` without a trend, corrected for ties.
    pub variance: f64,
    /// Kendall's tau-b with time. Absent when all values are equal.
    pub tau: Option<f64>,
    /// Whether p was enumerated (`true`) or approximated.
    pub exact: bool,
    /// Probability of an `s` at least this extreme in random order. 1 when all values are equal.
    pub p_value: f64,
}

/// Tests a series, in order of time, for a monotone trend (Mann 1945, Kendall 1975). `Greater` asks for a rise.
/// Exact up to [`EXACT_LIMIT`] values, above with the normal approximation and continuity correction.
///
/// ```
/// use satiety::stats::{Alternative, mann_kendall};
/// // Three values can never show a fall at 5 %; four can.
/// assert!(mann_kendall(&[3.0, 2.0, 1.0], Alternative::Less)?.p_value > 0.16);
/// assert!(mann_kendall(&[4.0, 3.0, 2.0, 1.0], Alternative::Less)?.p_value < 0.05);
/// # Ok::<(), satiety::stats::StatsError>(())
/// ```
pub fn mann_kendall(values: &[f64], alternative: Alternative) -> Result<MannKendall> {
    check_sample(values, 2)?;
    let n = values.len();
    let time: Vec<f64> = (0..n).map(|i| i as f64).collect();
    let counts = super::rank_correlation::concordance(&time, values)?;
    let s = counts.concordant - counts.discordant;
    let ties = tie_sizes(values);
    let size = n as f64;
    let variance = (size * (size - 1.0) * (2.0 * size + 5.0)
        - ties.iter().map(|t| t * (t - 1.0) * (2.0 * t + 5.0)).sum::<f64>())
        / 18.0;
    let exact = n <= EXACT_LIMIT;
    let p_value = if counts.concordant + counts.discordant == 0 {
        1.0
    } else if exact {
        let (at_most, at_least) = enumerate(&ties, counts.discordant);
        // Few inversions mean a rise.
        alternative.p_value(at_least, at_most)
    } else {
        let z = |s: i64| s as f64 / variance.sqrt();
        alternative.p_value(normal_cdf(z(s + 1)), normal_sf(z(s - 1)))
    };
    Ok(MannKendall {
        s,
        variance,
        tau: counts.tau_b(),
        exact,
        p_value,
    })
}

/// Sizes of the groups of equal values.
pub(crate) fn tie_sizes(values: &[f64]) -> Vec<f64> {
    let mut ranks = doubled_ranks(values).0;
    ranks.sort_unstable();
    ranks
        .chunk_by(|a, b| a == b)
        .map(|group| group.len() as f64)
        .collect()
}

/// P(inversions ≤ k) and P(inversions ≥ k) over all orders of a multiset: the inversions between one group and
/// all earlier groups follow the Mann-Whitney distribution, independently group by group.
fn enumerate(ties: &[f64], inversions: i64) -> (f64, f64) {
    let mut distribution = vec![1.0];
    let mut before = 0;
    for &t in ties {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a group's size"
        )]
        let size = t as usize;
        let step = mann_whitney(before, size);
        let mut next = vec![0.0; distribution.len() + step.len() - 1];
        for (i, p) in distribution.iter().enumerate() {
            for (j, q) in step.iter().enumerate() {
                next[i + j] += p * q;
            }
        }
        distribution = next;
        before += size;
    }
    let k = usize::try_from(inversions)
        .unwrap_or(0)
        .min(distribution.len() - 1);
    (
        distribution[..=k].iter().sum(),
        distribution[k..].iter().rev().sum(),
    )
}

/// The distribution of the number of pairs in the wrong order when `n` values are mixed with `m` at random.
fn mann_whitney(m: usize, n: usize) -> Vec<f64> {
    // rows[j] is the distribution for (i, j): the last element is one of the i with probability i / (i + j), and
    // then it exceeds all j others.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        for j in 1..=n {
            let mut next = vec![0.0; i * j + 1];
            let share = i as f64 / (i + j) as f64;
            for (u, p) in rows[j].iter().enumerate() {
                next[u + j] += share * p;
            }
            for (u, p) in rows[j - 1].iter().enumerate() {
                next[u] += (1.0 - share) * p;
            }
            rows[j] = next;
        }
    }
    rows.swap_remove(n)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{A, B, assert_close, assert_relative};
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py trend` (scipy linregress and theilslopes).
    #[test]
    fn least_squares_agrees_with_scipy() {
        let fit = least_squares(&A, &B, 0.95).unwrap();
        assert_close(fit.slope, 0.74443162658621, 1e-13);
        assert_close(fit.intercept, 0.07493344573609012, 1e-13);
        assert_close(fit.standard_error, 0.07945724375827731, 1e-13);
        assert_relative(fit.p_value, 2.8793321060857243e-06, 1e-11);
        assert_close(fit.correlation.unwrap(), 0.947484491688256, 1e-13);
        assert_close(fit.interval.low, 0.5673898546966485, 1e-12);
    }

    #[test]
    fn theil_sen_agrees_with_scipy() {
        let x: Vec<f64> = (0..12).map(f64::from).collect();
        for (y, slope, intercept, low, high) in [
            (
                A,
                -0.009444444444444453,
                0.6369444444444444,
                -0.06625,
                0.056666666666666664,
            ),
            (
                B,
                -0.01875000000000001,
                0.5431250000000001,
                -0.062,
                0.02666666666666666,
            ),
        ] {
            let line = theil_sen(&x, &y, 0.95).unwrap();
            assert_close(line.slope, slope, 1e-13);
            assert_close(line.intercept, intercept, 1e-13);
            assert_close(line.interval.low, low, 1e-13);
            assert_close(line.interval.high, high, 1e-13);
        }
    }

    // Oracle without ties: scipy.stats.kendalltau(range(n), x, method="exact"). With ties: all orders counted.
    #[test]
    fn exact_mann_kendall() {
        for (values, s, two_sided, greater) in [
            (
                &[5.0, 3.0, 4.0, 1.0, 2.0][..],
                -6,
                0.23333333333333334,
                0.9583333333333333,
            ),
            (
                &[1.0, 2.0, 3.0, 4.0][..],
                6,
                0.08333333333333333,
                0.041666666666666664,
            ),
            (
                &[9.0, 7.0, 8.0, 6.0, 5.0, 3.0, 4.0, 2.0, 1.0][..],
                -32,
                0.00024250440917107584,
                0.9999751984126983,
            ),
            (
                &[
                    0.81, 0.34, 0.55, 1.0, 0.62, 0.13, 0.77, 0.5, 0.91, 0.28, 0.66, 0.47,
                ][..],
                -8,
                0.6383612539081289,
                0.7273976496111912,
            ),
            (
                &[1.0, 1.0, 2.0, 3.0, 3.0][..],
                8,
                0.06666666666666667,
                0.03333333333333333,
            ),
            (
                &[3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 0.0][..],
                -17,
                0.004761904761904762,
                1.0,
            ),
            (
                &[0.0, 1.0, 0.0, 1.0, 1.0, 2.0, 2.0][..],
                14,
                0.02857142857142857,
                0.014285714285714285,
            ),
        ] {
            let test = mann_kendall(values, Alternative::TwoSided).unwrap();
            assert_eq!((test.s, test.exact), (s, true));
            assert_relative(test.p_value, two_sided, 1e-12);
            assert_relative(
                mann_kendall(values, Alternative::Greater).unwrap().p_value,
                greater,
                1e-12,
            );
        }
    }

    // Oracle: pymannkendall.original_test.
    #[test]
    fn long_mann_kendall() {
        let values: Vec<f64> = (0..80).map(|i| f64::from((i * 37) % 41 + i / 3)).collect();
        let test = mann_kendall(&values, Alternative::TwoSided).unwrap();
        assert!(!test.exact);
        assert_eq!(test.s, 1094);
        assert_close(test.variance, 57896.666666666664, 1e-13);
        assert_relative(test.p_value, 5.559528506043112e-06, 1e-9);
    }

    #[test]
    fn a_flat_series_has_no_trend() {
        let flat = [0.4; 6];
        let test = mann_kendall(&flat, Alternative::TwoSided).unwrap();
        assert_eq!((test.p_value, test.s, test.tau), (1.0, 0, None));
        assert!(mann_kendall(&[1.0], Alternative::TwoSided).is_err());
        assert!(theil_sen(&flat, &flat, 0.95).is_err());
        assert!(least_squares(&flat, &flat, 0.95).is_err());
        let level = least_squares(&[1.0, 2.0, 3.0], &[5.0; 3], 0.95).unwrap();
        assert_eq!((level.slope, level.p_value, level.correlation), (0.0, 1.0, None));
    }

    #[test]
    fn three_rounds_prove_nothing() {
        let p = |n: i32| {
            let values: Vec<f64> = (0..n).map(|i| f64::from(-i)).collect();
            mann_kendall(&values, Alternative::Less).unwrap().p_value
        };
        assert_close(p(3), 1.0 / 6.0, 1e-15);
        assert_close(p(4), 1.0 / 24.0, 1e-15);
    }

    proptest! {
        #[test]
        fn reversing_mirrors(values in prop::collection::vec(-5i32..5, 2..70)) {
            let forward: Vec<f64> = values.into_iter().map(f64::from).collect();
            let backward: Vec<f64> = forward.iter().rev().copied().collect();
            let rise = mann_kendall(&forward, Alternative::Greater).unwrap();
            let fall = mann_kendall(&backward, Alternative::Less).unwrap();
            prop_assert_eq!(rise.s, -fall.s);
            prop_assert!((0.0..=1.0).contains(&rise.p_value));
            assert_close(rise.p_value, fall.p_value, 1e-11);
        }

        #[test]
        fn a_line_is_found(slope in -3.0..3.0f64, level in -3.0..3.0f64, n in 3i32..20) {
            let x: Vec<f64> = (0..n).map(f64::from).collect();
            let y: Vec<f64> = x.iter().map(|x| level + slope * x).collect();
            assert_close(least_squares(&x, &y, 0.9).unwrap().slope, slope, 1e-10);
            assert_close(theil_sen(&x, &y, 0.9).unwrap().slope, slope, 1e-10);
        }
    }
}
