//! Bootstrap intervals: percentile and BCa; for means, paired differences, clusters and any statistic of a
//! sample. Resample `i` depends only on the seed and `i`. The module does not use threads: callers may
//! compute disjoint ranges of replicates in parallel and concatenate them, with bit-identical results.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::descriptive::{mean_of, quantile_of_sorted};
use super::distribution::{normal_cdf, normal_quantile};
use super::error::{Result, StatsError, check_finite, check_open_unit, check_same_length, check_sample};
use super::interval::{Interval, group_sums};
use super::random::Draws;
use super::ttest::differences;

/// Method that derives the interval from the replicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BootstrapMethod {
    /// Quantiles of the replicates.
    Percentile,
    /// Bias-corrected and accelerated (Efron 1987): better for skewed statistics.
    #[default]
    Bca,
}

/// Settings of a bootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BootstrapSettings {
    /// Number of resamples.
    pub resamples: u64,
    /// Nominal coverage of the interval, such as 0.95.
    pub confidence: f64,
    /// Method that derives the interval from the replicates.
    pub method: BootstrapMethod,
    /// Seed of all resamples; record it with the result.
    pub seed: u64,
}

impl Default for BootstrapSettings {
    fn default() -> Self {
        Self {
            resamples: 1000,
            confidence: 0.95,
            method: BootstrapMethod::default(),
            seed: 0,
        }
    }
}

/// Estimate with its bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BootstrapEstimate {
    /// Statistic of the original sample.
    pub estimate: f64,
    /// Standard deviation of the replicates.
    pub standard_error: f64,
    /// Bootstrap confidence interval of the estimate.
    pub interval: Interval,
}

/// Bootstraps the mean of independent values.
///
/// ```
/// use satiety::stats::{BootstrapSettings, bootstrap_mean};
/// let found = bootstrap_mean(&[0.1, 0.4, 0.3, 0.9, 0.5], &BootstrapSettings::default())?;
/// assert!(found.interval.contains(found.estimate));
/// # Ok::<(), satiety::stats::StatsError>(())
/// ```
pub fn bootstrap_mean(values: &[f64], settings: &BootstrapSettings) -> Result<BootstrapEstimate> {
    let replicates = mean_replicates(values, settings.seed, 0..settings.resamples)?;
    let acceleration = mean_acceleration(values);
    from_replicates(&replicates, mean_of(values), acceleration, settings)
}

/// Bootstraps the mean of `treatment − control`, resampling pairs.
pub fn bootstrap_paired_mean(
    treatment: &[f64],
    control: &[f64],
    settings: &BootstrapSettings,
) -> Result<BootstrapEstimate> {
    bootstrap_mean(&differences(treatment, control)?, settings)
}

/// Bootstraps the mean over all values, resampling whole clusters; the acceleration leaves out one cluster at
/// a time.
pub fn bootstrap_clustered_mean(
    values: &[f64],
    clusters: &[usize],
    settings: &BootstrapSettings,
) -> Result<BootstrapEstimate> {
    let groups = cluster_groups(values, clusters)?;
    let replicates = clustered_mean_replicates(values, clusters, settings.seed, 0..settings.resamples)?;
    let (total, count) = groups
        .iter()
        .fold((0.0, 0), |(t, c), (sum, size)| (t + sum, c + size));
    let jackknife: Vec<f64> = groups
        .iter()
        .map(|(sum, size)| (total - sum) / (count - size) as f64)
        .collect();
    from_replicates(
        &replicates,
        total / count as f64,
        jackknife_acceleration(&jackknife),
        settings,
    )
}

/// Replicates of the mean for the given resample numbers.
pub(crate) fn mean_replicates(values: &[f64], seed: u64, resamples: Range<u64>) -> Result<Vec<f64>> {
    check_sample(values, 1)?;
    check_range(&resamples)?;
    let bound = draw_bound(values.len())?;
    let n = values.len() as f64;
    Ok(resamples
        .map(|resample| {
            let mut draws = Draws::new(seed, resample, bound);
            // Four partial sums, so that additions do not depend on each other.
            let mut totals = [0.0; 4];
            for _ in 0..bound / 4 {
                let (first, second) = (draws.pair(), draws.pair());
                totals[0] += values[first[0]];
                totals[1] += values[first[1]];
                totals[2] += values[second[0]];
                totals[3] += values[second[1]];
            }
            let rest = [draws.pair(), draws.pair()].concat();
            for &i in &rest[..values.len() % 4] {
                totals[0] += values[i];
            }
            (totals[0] + totals[1] + totals[2] + totals[3]) / n
        })
        .collect())
}

/// Replicates of the mean for the given resample numbers, resampling whole clusters.
pub(crate) fn clustered_mean_replicates(
    values: &[f64],
    clusters: &[usize],
    seed: u64,
    resamples: Range<u64>,
) -> Result<Vec<f64>> {
    let groups = cluster_groups(values, clusters)?;
    check_range(&resamples)?;
    let bound = draw_bound(groups.len())?;
    Ok(resamples
        .map(|resample| {
            let mut draws = Draws::new(seed, resample, bound);
            let (mut total, mut count) = (0.0, 0);
            for i in std::iter::repeat_with(|| draws.pair())
                .flatten()
                .take(groups.len())
            {
                let (sum, size) = groups[i];
                total += sum;
                count += size;
            }
            total / count as f64
        })
        .collect())
}

/// Replicates of any statistic for the given resample numbers.
pub(crate) fn replicates(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    seed: u64,
    resamples: Range<u64>,
) -> Result<Vec<f64>> {
    check_sample(values, 1)?;
    check_range(&resamples)?;
    let bound = draw_bound(values.len())?;
    let mut drawn = vec![0.0; values.len()];
    resamples
        .map(|resample| {
            let mut draws = Draws::new(seed, resample, bound);
            for slots in drawn.chunks_mut(2) {
                for (slot, i) in slots.iter_mut().zip(draws.pair()) {
                    *slot = values[i];
                }
            }
            let value = statistic(&drawn);
            if value.is_finite() {
                Ok(value)
            } else {
                Err(StatsError::NotFinite {
                    index: usize::try_from(resample).unwrap_or(usize::MAX),
                    value,
                })
            }
        })
        .collect()
}

/// Quantiles of the replicates, by linear interpolation.
pub(crate) fn percentile_interval(replicates: &[f64], confidence: f64) -> Result<Interval> {
    check_open_unit("confidence", confidence)?;
    let sorted = sort(replicates.to_vec())?;
    let tail = (1.0 - confidence) / 2.0;
    Ok(read_off(&sorted, tail, 1.0 - tail, confidence))
}

/// Efron's BCa interval from replicates, the observed statistic and the acceleration
/// ([`jackknife_acceleration`], or [`mean_acceleration`] in closed form). When all replicates lie on one side
/// of the observed value, the correction is undefined and the percentile interval is returned.
pub(crate) fn bca_interval(
    replicates: &[f64],
    observed: f64,
    acceleration: f64,
    confidence: f64,
) -> Result<Interval> {
    check_open_unit("confidence", confidence)?;
    check_finite(&[observed, acceleration])?;
    let sorted = sort(replicates.to_vec())?;
    let less = sorted.partition_point(|&value| value < observed);
    let at_most = sorted.partition_point(|&value| value <= observed);
    let share = (less + at_most) as f64 / (2 * sorted.len()) as f64;
    let tail = (1.0 - confidence) / 2.0;
    if share <= 0.0 || share >= 1.0 {
        return Ok(read_off(&sorted, tail, 1.0 - tail, confidence));
    }
    let z0 = normal_quantile(share);
    let adjusted = |z: f64| {
        let shifted = z0 + z;
        let stretch = 1.0 - acceleration * shifted;
        // Beyond the pole the adjusted level is at its limit.
        if stretch <= 0.0 {
            f64::from(shifted > 0.0)
        } else {
            normal_cdf(z0 + shifted / stretch)
        }
    };
    let z = normal_quantile(tail);
    Ok(read_off(&sorted, adjusted(z), adjusted(-z), confidence))
}

/// Acceleration from leave-one-out values: `Σd³ / (6 (Σd²)^{3/2})`, `d` = mean − value. Zero when they do not
/// vary.
pub(crate) fn jackknife_acceleration(leave_one_out: &[f64]) -> f64 {
    if leave_one_out.is_empty() {
        return 0.0;
    }
    let centre = mean_of(leave_one_out);
    let largest = leave_one_out
        .iter()
        .fold(0.0_f64, |most, value| most.max((centre - value).abs()));
    if largest == 0.0 {
        return 0.0;
    }
    // In units of the largest deviation, so that the cubes of small ones do not underflow.
    let (squares, cubes) = leave_one_out.iter().fold((0.0, 0.0), |(squares, cubes), value| {
        let d = (centre - value) / largest;
        (squares + d * d, cubes + d * d * d)
    });
    cubes / (6.0 * squares * f64::sqrt(squares))
}

/// Acceleration of a mean in closed form: leaving out `x` moves the mean by `(x̄ − x) / (n − 1)`.
pub(crate) fn mean_acceleration(values: &[f64]) -> f64 {
    -jackknife_acceleration(values)
}

fn from_replicates(
    replicates: &[f64],
    estimate: f64,
    acceleration: f64,
    settings: &BootstrapSettings,
) -> Result<BootstrapEstimate> {
    check_sample(replicates, 2)?;
    check_finite(&[estimate])?;
    let standard_error = super::descriptive::variance_of(replicates).sqrt();
    let interval = match settings.method {
        BootstrapMethod::Percentile => percentile_interval(replicates, settings.confidence)?,
        BootstrapMethod::Bca => bca_interval(replicates, estimate, acceleration, settings.confidence)?,
    };
    Ok(BootstrapEstimate {
        estimate,
        standard_error,
        interval,
    })
}

fn sort(mut replicates: Vec<f64>) -> Result<Vec<f64>> {
    check_sample(&replicates, 1)?;
    replicates.sort_unstable_by(f64::total_cmp);
    Ok(replicates)
}

fn read_off(sorted: &[f64], low: f64, high: f64, confidence: f64) -> Interval {
    Interval {
        low: quantile_of_sorted(sorted, low),
        high: quantile_of_sorted(sorted, high),
        confidence,
    }
}

fn cluster_groups(values: &[f64], clusters: &[usize]) -> Result<Vec<(f64, usize)>> {
    check_sample(values, 1)?;
    check_same_length(values, clusters)?;
    let groups = group_sums(values.iter().copied(), clusters);
    if groups.len() < 2 {
        return Err(StatsError::TooFew {
            needed: 2,
            got: groups.len(),
        });
    }
    Ok(groups)
}

/// Rejects ranges whose replicates would not fit into memory.
fn check_range(resamples: &Range<u64>) -> Result<()> {
    let count = resamples.end.saturating_sub(resamples.start);
    if count <= 100_000_000 {
        return Ok(());
    }
    Err(StatsError::OutOfRange {
        what: "number of resamples",
        value: count as f64,
        range: "at most 10^8 at once",
    })
}

fn draw_bound(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| StatsError::OutOfRange {
        what: "number of values",
        value: count as f64,
        range: "below 2^32",
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{A, B, assert_close};
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py bootstrap`: a scipy.stats.bootstrap of 99 resamples of a skewed
    // sample, its distribution and both of its intervals.
    const SKEWED: [f64; 9] = [0.1, 0.2, 0.2, 0.3, 0.4, 0.6, 0.9, 1.7, 3.1];
    const SCIPY_REPLICATES: &str = "\
        0.6222222222222222 0.7222222222222222 1.0333333333333334 0.8666666666666667 1.1222222222222222 \
        0.6444444444444445 0.8888888888888888 1.1333333333333335 0.36666666666666664 0.6444444444444445 \
        0.6000000000000001 0.8222222222222223 0.4111111111111111 0.7111111111111111 0.7222222222222222 \
        0.8333333333333334 0.7444444444444445 0.7666666666666667 1.2666666666666666 0.35555555555555557 \
        0.7777777777777777 0.8777777777777778 0.34444444444444444 1.4222222222222223 0.8999999999999999 \
        1.0222222222222221 0.6777777777777777 1.1111111111111112 1.0333333333333334 0.9444444444444444 \
        1.0333333333333332 0.8555555555555556 0.6555555555555556 0.9777777777777779 0.3777777777777778 \
        0.4555555555555555 0.7111111111111111 0.2555555555555556 0.8222222222222223 0.5777777777777778 \
        0.6777777777777777 0.9333333333333333 0.3666666666666667 0.4555555555555555 0.7333333333333334 \
        1.3888888888888888 0.48888888888888893 0.8999999999999999 0.5111111111111112 0.41111111111111115 \
        0.7444444444444444 0.4555555555555556 1.3333333333333333 1.0777777777777777 0.6777777777777777 \
        0.9000000000000001 1.2666666666666666 0.5111111111111112 0.7777777777777779 0.7222222222222222 \
        0.2777777777777778 0.5666666666666668 1.5222222222222224 0.788888888888889 1.0222222222222221 \
        0.8222222222222222 1.111111111111111 0.5444444444444445 0.7888888888888889 1.1111111111111112 \
        0.4222222222222222 1.6666666666666667 0.8444444444444444 0.8777777777777778 0.43333333333333335 \
        0.8333333333333334 0.9666666666666668 0.7444444444444445 0.4222222222222223 0.4222222222222222 0.8 \
        0.8888888888888888 0.5888888888888889 0.8999999999999999 0.4444444444444444 0.9666666666666666 \
        0.6222222222222222 1.1666666666666667 1.5777777777777777 0.9333333333333331 0.7111111111111111 \
        1.0666666666666667 1.1555555555555554 0.47777777777777775 0.6555555555555556 1.1444444444444444 \
        0.7999999999999999 0.5333333333333334 0.922222222222222";

    fn scipy_replicates() -> Vec<f64> {
        SCIPY_REPLICATES
            .split_whitespace()
            .map(|number| number.parse().unwrap())
            .collect()
    }

    #[test]
    fn intervals_agree_with_scipy() {
        let interval = percentile_interval(&scipy_replicates(), 0.9).unwrap();
        assert_close(interval.low, 0.3666666666666667, 1e-13);
        assert_close(interval.high, 1.3388888888888886, 1e-13);
        let observed = mean_of(&SKEWED);
        let interval = bca_interval(&scipy_replicates(), observed, mean_acceleration(&SKEWED), 0.9).unwrap();
        assert_close(interval.low, 0.4474271305975497, 1e-12);
        assert_close(interval.high, 1.589391831066367, 1e-12);
    }

    #[test]
    fn the_closed_form_matches_the_jackknife() {
        let total: f64 = SKEWED.iter().sum();
        let leave_one_out: Vec<f64> = SKEWED.iter().map(|x| (total - x) / 8.0).collect();
        assert_close(
            mean_acceleration(&SKEWED),
            jackknife_acceleration(&leave_one_out),
            1e-14,
        );
        assert!(mean_acceleration(&SKEWED) > 0.0);
    }

    #[test]
    fn splitting_the_work_is_bit_identical() {
        let whole = mean_replicates(&A, 5, 0..100).unwrap();
        let parts = [0..1, 1..37, 37..100]
            .map(|range| mean_replicates(&A, 5, range).unwrap())
            .concat();
        assert_eq!(whole, parts);
        for (a, b) in whole.iter().zip(replicates(&A, mean_of, 5, 0..100).unwrap()) {
            assert_close(*a, b, 1e-14);
        }
        assert_ne!(whole, mean_replicates(&A, 6, 0..100).unwrap());
    }

    #[test]
    fn pairs_stay_together() {
        let settings = BootstrapSettings {
            resamples: 2000,
            seed: 11,
            ..Default::default()
        };
        let paired = bootstrap_paired_mean(&A, &B, &settings).unwrap();
        let student =
            super::super::ttest::paired_t(&A, &B, super::super::hypothesis::Alternative::TwoSided, 0.95)
                .unwrap();
        assert_close(paired.estimate, student.difference, 1e-14);
        // The bootstrap's standard error lacks the factor √(n/(n−1)).
        assert!((paired.standard_error / student.standard_error - (11.0f64 / 12.0).sqrt()).abs() < 0.05);
    }

    #[test]
    fn clusters_widen_the_interval() {
        let values: Vec<f64> = (0..60)
            .map(|i| f64::from(i / 10) + f64::from(i % 10) / 100.0)
            .collect();
        let clusters: Vec<usize> = (0..60).map(|i| i / 10).collect();
        let settings = BootstrapSettings {
            seed: 3,
            ..Default::default()
        };
        let clustered = bootstrap_clustered_mean(&values, &clusters, &settings).unwrap();
        let plain = bootstrap_mean(&values, &settings).unwrap();
        assert_close(clustered.estimate, plain.estimate, 1e-12);
        assert!(clustered.interval.width() > 2.0 * plain.interval.width());
        assert!(bootstrap_clustered_mean(&values, &[0; 60], &settings).is_err());
        assert!(bootstrap_clustered_mean(&[1.0, 2.0], &[0, 1], &settings).is_ok());
    }

    #[test]
    fn invalid_input_is_rejected() {
        let settings = BootstrapSettings::default();
        assert!(bootstrap_mean(&[], &settings).is_err());
        assert!(bca_interval(&A, f64::NAN, 0.0, 0.9).is_err());
        let endless = BootstrapSettings {
            resamples: u64::MAX,
            ..settings
        };
        assert!(bootstrap_mean(&A, &endless).is_err());
        assert!(bootstrap_clustered_mean(&A, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], &endless).is_err());
        assert!(
            bootstrap_mean(
                &A,
                &BootstrapSettings {
                    resamples: 1,
                    ..settings
                }
            )
            .is_err()
        );
        assert!(
            bootstrap_mean(
                &A,
                &BootstrapSettings {
                    confidence: 1.0,
                    ..settings
                }
            )
            .is_err()
        );
        let same = bootstrap_mean(&[2.0, 2.0], &settings).unwrap();
        assert_eq!((same.interval.low, same.interval.high), (2.0, 2.0));
    }

    proptest! {
        #[test]
        fn shifting_shifts(values in prop::collection::vec(-9.0..9.0, 2..20), shift in -5.0..5.0f64) {
            let settings = BootstrapSettings { resamples: 50, ..Default::default() };
            let here = bootstrap_mean(&values, &settings).unwrap();
            let there: Vec<f64> = values.iter().map(|value| value + shift).collect();
            let there = bootstrap_mean(&there, &BootstrapSettings { method: BootstrapMethod::Percentile, ..settings }).unwrap();
            let here_percentile = bootstrap_mean(&values, &BootstrapSettings { method: BootstrapMethod::Percentile, ..settings }).unwrap();
            assert_close(there.interval.low, here_percentile.interval.low + shift, 1e-9);
            prop_assert!(here.interval.low <= here.interval.high);
        }
    }
}
