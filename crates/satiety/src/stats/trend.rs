//! Linear trend of a series, fitted by least squares.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::descriptive::{is_constant, mean_of, sum};
use super::distribution::{student_critical, student_sf};
use super::error::{Result, StatsError, check_finite, check_open_unit, check_same_length, check_sample};
use super::interval::Interval;

/// Straight line fitted by least squares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinearFit {
    /// Change of y per unit of x.
    pub slope: f64,
    /// Value of y at x = 0.
    pub intercept: f64,
    /// Standard error of the slope.
    pub standard_error: f64,
    /// Student's confidence interval of the slope.
    pub interval: Interval,
    /// Two-sided p-value of a zero slope.
    pub p_value: f64,
    /// Pearson's correlation; absent when y does not vary.
    pub correlation: Option<f64>,
}

/// Fits `y = intercept + slope · x` to at least three points.
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
        // The mean of equal values may have a rounding error, which is not a slope.
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

    // Oracle without ties: scipy.stats.kendalltau(range(n), x, method="exact"). With ties: all orders counted.
    // Oracle: pymannkendall.original_test.
    #[test]
    fn a_flat_series_has_no_trend() {
        let flat = [0.4; 6];
        assert!(least_squares(&flat, &flat, 0.95).is_err());
        let level = least_squares(&[1.0, 2.0, 3.0], &[5.0; 3], 0.95).unwrap();
        assert_eq!((level.slope, level.p_value, level.correlation), (0.0, 1.0, None));
    }

    proptest! {
        #[test]
        fn a_line_is_found(slope in -3.0..3.0f64, level in -3.0..3.0f64, n in 3i32..20) {
            let x: Vec<f64> = (0..n).map(f64::from).collect();
            let y: Vec<f64> = x.iter().map(|x| level + slope * x).collect();
            assert_close(least_squares(&x, &y, 0.9).unwrap().slope, slope, 1e-10);
        }
    }
}
