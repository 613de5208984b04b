//! Descriptive statistics of a sample: mean, variance, quantiles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Result, check_number, check_probability, check_sample};

/// Running count, mean and variance (Welford 1962), mergeable (Chan et al. 1983).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Moments {
    count: u64,
    mean: f64,
    sum_of_squares: f64,
}

impl Moments {
    /// Creates an empty accumulator.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value. Rejects NaN and infinities without changing the state.
    pub fn push(&mut self, value: f64) -> Result<()> {
        check_number(usize::try_from(self.count).unwrap_or(usize::MAX), value)?;
        self.count += 1;
        let from_old = value - self.mean;
        self.mean += from_old / self.count as f64;
        self.sum_of_squares += from_old * (value - self.mean);
        Ok(())
    }

    /// Number of values added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean; `None` before the first value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Sample variance (divisor n − 1); `None` before the second value.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.sum_of_squares / (self.count - 1) as f64).max(0.0))
    }

    /// Sample standard deviation; `None` before the second value.
    pub fn standard_deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }
}

/// Pairwise sum: the rounding error grows with the logarithm of the length.
pub fn sum(values: &[f64]) -> f64 {
    const BLOCK: usize = 64;
    if values.len() <= BLOCK {
        return values.iter().sum();
    }
    let (left, right) = values.split_at(values.len() / 2);
    sum(left) + sum(right)
}

/// Arithmetic mean.
pub fn mean(values: &[f64]) -> Result<f64> {
    check_sample(values, 1)?;
    Ok(mean_of(values))
}

/// Sample variance, divisor n − 1.
pub fn variance(values: &[f64]) -> Result<f64> {
    check_sample(values, 2)?;
    Ok(variance_of(values))
}

/// Sample standard deviation, divisor n − 1.
pub fn standard_deviation(values: &[f64]) -> Result<f64> {
    Ok(variance(values)?.sqrt())
}

/// Quantile by linear interpolation between order statistics, numpy's default (Hyndman and Fan's type 7).
pub fn quantile(values: &[f64], p: f64) -> Result<f64> {
    check_sample(values, 1)?;
    check_probability("quantile", p)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok(quantile_of_sorted(&sorted, p))
}

/// Several quantiles of one sample, which is sorted once.
pub fn quantiles(values: &[f64], probabilities: &[f64]) -> Result<Vec<f64>> {
    check_sample(values, 1)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    probabilities
        .iter()
        .map(|&p| check_probability("quantile", p).map(|()| quantile_of_sorted(&sorted, p)))
        .collect()
}

/// Median, the quantile at 0.5.
pub fn median(values: &[f64]) -> Result<f64> {
    quantile(values, 0.5)
}

/// Mean of finite values; the slice must not be empty.
pub(crate) fn mean_of(values: &[f64]) -> f64 {
    sum(values) / values.len() as f64
}

/// Two-pass variance of at least two finite values; exactly zero when they are all equal, although their mean
/// may have a rounding error.
pub(crate) fn variance_of(values: &[f64]) -> f64 {
    if is_constant(values) {
        return 0.0;
    }
    let centre = mean_of(values);
    let squares: Vec<f64> = values
        .iter()
        .map(|value| (value - centre) * (value - centre))
        .collect();
    sum(&squares) / (values.len() - 1) as f64
}

pub(crate) fn is_constant(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// Quantile of a sorted, non-empty sample.
pub(crate) fn quantile_of_sorted(sorted: &[f64], p: f64) -> f64 {
    let position = p * (sorted.len() - 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and len - 1"
    )]
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let fraction = position - below as f64;
    let (low, high) = (sorted[below], sorted[above]);
    // numpy's two-sided form: exact at both ends and monotone.
    if fraction < 0.5 {
        low + (high - low) * fraction
    } else {
        high - (high - low) * (1.0 - fraction)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::error::StatsError;
    use super::super::testing::{A, assert_close};
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py descriptive` (numpy).
    #[test]
    fn agrees_with_numpy() {
        assert_close(mean(&A).unwrap(), 0.5866666666666668, 1e-14);
        assert_close(variance(&A).unwrap(), 0.06829696969696969, 1e-14);
        assert_close(standard_deviation(&A).unwrap(), 0.2613368892769823, 1e-14);
        assert_close(median(&A).unwrap(), 0.585, 1e-14);
        let expected = [
            0.13,
            0.21250000000000002,
            0.4375,
            0.4889,
            0.78,
            0.9504999999999999,
            1.0,
        ];
        for (actual, expected) in quantiles(&A, &[0.0, 0.05, 0.25, 0.33, 0.75, 0.95, 1.0])
            .unwrap()
            .into_iter()
            .zip(expected)
        {
            assert_close(actual, expected, 1e-14);
        }
    }

    #[test]
    fn large_offsets_do_not_cancel() {
        let values: Vec<f64> = A.iter().map(|value| value + 1e9).collect();
        assert_close(variance(&values).unwrap(), 0.06829696969696969, 1e-7);
        let mut moments = Moments::new();
        for &value in &values {
            moments.push(value).unwrap();
        }
        assert_close(moments.variance().unwrap(), 0.06829696969696969, 1e-6);
    }

    #[test]
    fn missing_moments_are_none() {
        assert_eq!(mean(&[]), Err(StatsError::TooFew { needed: 1, got: 0 }));
        assert_eq!(variance(&[1.0]), Err(StatsError::TooFew { needed: 2, got: 1 }));
        assert!(matches!(
            mean(&[1.0, f64::NAN]),
            Err(StatsError::NotFinite { index: 1, .. })
        ));
        assert!(quantile(&[1.0], 1.5).is_err());
        assert!(quantile(&[1.0], f64::NAN).is_err());
        let mut moments = Moments::new();
        assert_eq!((moments.mean(), moments.variance()), (None, None));
        assert!(moments.push(f64::INFINITY).is_err());
        moments.push(2.0).unwrap();
        assert_eq!((moments.mean(), moments.variance()), (Some(2.0), None));
    }

    #[test]
    fn huge_values_are_rejected() {
        assert!(matches!(
            mean(&[f64::MAX, 1.0]),
            Err(StatsError::OutOfRange { .. })
        ));
        assert!(mean(&[1e90, -1e90]).is_ok());
    }

    proptest! {
        #[test]
        fn quantiles_rise_within_the_range(values in prop::collection::vec(-1e3..1e3, 1..40), p in 0.0..=1.0f64, q in 0.0..=1.0f64) {
            let found = quantiles(&values, &[0.0, p.min(q), p.max(q), 1.0]).unwrap();
            prop_assert!(found.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }
}
