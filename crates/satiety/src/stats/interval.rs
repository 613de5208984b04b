//! Confidence intervals for proportions (Wilson) and means, including clustered observations. Bootstrap
//! intervals are in `bootstrap`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::descriptive::{mean_of, variance_of};
use super::distribution::{normal_critical, student_critical};
use super::error::{Result, StatsError, check_open_unit, check_same_length, check_sample};

/// Closed interval with its nominal confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower bound of the interval.
    pub low: f64,
    /// Upper bound of the interval.
    pub high: f64,
    /// Nominal coverage, such as 0.95.
    pub confidence: f64,
}

impl Interval {
    /// Whether `value` lies inside, bounds included.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Distance between the bounds.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// Wilson's (1927) score interval for a proportion: also accurate near 0 and 1, where `p ± z·se` is not.
pub fn wilson(successes: u64, trials: u64, confidence: f64) -> Result<Interval> {
    check_open_unit("confidence", confidence)?;
    if trials == 0 {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    if successes > trials {
        return Err(StatsError::OutOfRange {
            what: "successes",
            value: successes as f64,
            range: "at most the number of trials",
        });
    }
    let n = trials as f64;
    let p = successes as f64 / n;
    let z = normal_critical(confidence);
    let centre = p + z * z / (2.0 * n);
    let spread = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    // Keep a bound that is exactly 0 or 1 free of rounding errors.
    let low = if successes == 0 {
        0.0
    } else {
        ((centre - spread) / scale).max(0.0)
    };
    let high = if successes == trials {
        1.0
    } else {
        ((centre + spread) / scale).min(1.0)
    };
    Ok(Interval {
        low,
        high,
        confidence,
    })
}

/// Mean with its standard error and Student interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeanEstimate {
    /// Mean of the sample.
    pub mean: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
    /// Degrees of freedom of the interval: observations − 1, or clusters − 1.
    pub degrees_of_freedom: f64,
    /// Student's confidence interval of the mean.
    pub interval: Interval,
    /// Variance of the mean relative to that of independent observations; 1 without clusters. Absent when the
    /// observations do not vary.
    pub design_effect: Option<f64>,
}

/// Mean of independent observations with a Student interval.
pub fn mean_interval(values: &[f64], confidence: f64) -> Result<MeanEstimate> {
    check_sample(values, 2)?;
    check_open_unit("confidence", confidence)?;
    let n = values.len() as f64;
    let variance = variance_of(values) / n;
    Ok(estimate(
        mean_of(values),
        variance,
        n - 1.0,
        (variance > 0.0).then_some(1.0),
        confidence,
    ))
}

/// Mean of clustered observations (repeats of a case, questions on one document), with the cluster-robust
/// standard error: `SE² = G/(G−1) · Σ_g (Σ_{i∈g} (x_i − x̄))² / n²`, Student with G − 1 degrees of freedom
/// (Liang and Zeger 1986; the small-sample factor as in Stata and statsmodels).
pub fn clustered_mean_interval(values: &[f64], clusters: &[usize], confidence: f64) -> Result<MeanEstimate> {
    check_sample(values, 2)?;
    check_same_length(values, clusters)?;
    check_open_unit("confidence", confidence)?;
    let n = values.len() as f64;
    let centre = mean_of(values);
    let groups = group_sums(values.iter().map(|value| value - centre), clusters);
    let count = groups.len();
    if count < 2 {
        return Err(StatsError::TooFew {
            needed: 2,
            got: count,
        });
    }
    let g = count as f64;
    let variance = g / (g - 1.0) * groups.iter().map(|(total, _)| total * total).sum::<f64>() / (n * n);
    let independent = variance_of(values) / n;
    let design_effect = (independent > 0.0).then(|| variance / independent);
    Ok(estimate(centre, variance, g - 1.0, design_effect, confidence))
}

/// Sum and size of each cluster, ordered by label.
pub(crate) fn group_sums(values: impl Iterator<Item = f64>, clusters: &[usize]) -> Vec<(f64, usize)> {
    let mut groups: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    for (value, &label) in values.zip(clusters) {
        let group = groups.entry(label).or_default();
        group.0 += value;
        group.1 += 1;
    }
    groups.into_values().collect()
}

fn estimate(
    mean: f64,
    variance: f64,
    degrees_of_freedom: f64,
    design_effect: Option<f64>,
    confidence: f64,
) -> MeanEstimate {
    let standard_error = variance.sqrt();
    let half_width = student_critical(confidence, degrees_of_freedom) * standard_error;
    MeanEstimate {
        mean,
        standard_error,
        degrees_of_freedom,
        interval: Interval {
            low: mean - half_width,
            high: mean + half_width,
            confidence,
        },
        design_effect,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{A, assert_close};
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py interval` (statsmodels).
    #[test]
    fn wilson_agrees_with_statsmodels() {
        for (successes, trials, confidence, low, high) in [
            (0, 10, 0.95, 0.0, 0.2775327998628892),
            (10, 10, 0.95, 0.7224672001371107, 0.9999999999999999),
            (7, 20, 0.95, 0.18119182410108206, 0.5671457233147638),
            (81, 263, 0.99, 0.24013690268760773, 0.38528250231822986),
            (1, 2, 0.5, 0.2847588845819623, 0.7152411154180377),
            (3, 10000, 0.9, 0.0001199006873078855, 0.0007504181895476307),
        ] {
            let interval = wilson(successes, trials, confidence).unwrap();
            assert_close(interval.low, low, 1e-14);
            assert_close(interval.high, high, 1e-14);
        }
    }

    #[test]
    fn mean_agrees_with_scipy() {
        let estimate = mean_interval(&A, 0.9).unwrap();
        assert_close(estimate.standard_error, 0.07544146168662258, 1e-14);
        assert_close(estimate.interval.low, 0.4511824909228185, 1e-13);
        assert_close(estimate.interval.high, 0.722150842410515, 1e-13);
    }

    #[test]
    fn clustered_mean_agrees_with_statsmodels() {
        let clusters = [3, 3, 3, 1, 1, 7, 7, 7, 7, 2, 2, 5];
        let estimate = clustered_mean_interval(&A, &clusters, 0.95).unwrap();
        assert_close(estimate.mean, 0.5866666666666668, 1e-14);
        assert_close(estimate.standard_error, 0.04863689792231998, 1e-13);
        assert_close(estimate.interval.low, 0.4516289894982368, 1e-12);
        assert_close(estimate.interval.high, 0.721704343835097, 1e-12);
    }

    #[test]
    fn invalid_input_is_rejected() {
        assert!(wilson(0, 0, 0.95).is_err());
        assert!(wilson(3, 2, 0.95).is_err());
        assert!(wilson(1, 2, 0.0).is_err());
        assert!(mean_interval(&[1.0], 0.95).is_err());
        assert_eq!(
            clustered_mean_interval(&[1.0, 2.0], &[4, 4], 0.95),
            Err(StatsError::TooFew { needed: 2, got: 1 })
        );
        assert!(clustered_mean_interval(&[1.0, 2.0], &[4], 0.95).is_err());
    }

    proptest! {
        #[test]
        fn wilson_contains_the_proportion_and_mirrors(trials in 1u64..5000, share in 0.0..=1.0f64, confidence in 0.01..0.999f64) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most trials")]
            let successes = (share * trials as f64) as u64;
            let interval = wilson(successes, trials, confidence).unwrap();
            prop_assert!(interval.low >= 0.0 && interval.high <= 1.0);
            prop_assert!(interval.contains(successes as f64 / trials as f64));
            let mirrored = wilson(trials - successes, trials, confidence).unwrap();
            assert_close(mirrored.low, 1.0 - interval.high, 1e-12);
        }

        #[test]
        fn clusters_of_one_match_independent_values(values in prop::collection::vec(-9.0..9.0, 3..30)) {
            let labels: Vec<usize> = (0..values.len()).rev().collect();
            let clustered = clustered_mean_interval(&values, &labels, 0.9).unwrap();
            let plain = mean_interval(&values, 0.9).unwrap();
            assert_close(clustered.standard_error, plain.standard_error, 1e-10);
        }
    }
}
