//! Student's t-test for paired samples and Welch's for independent ones. Both assume roughly normal means;
//! for few or very skewed differences use the permutation test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::descriptive::{mean_of, variance_of};
use super::distribution::{student_critical, student_sf};
use super::error::{Result, StatsError, check_open_unit, check_same_length, check_sample};
use super::hypothesis::Alternative;
use super::interval::Interval;

/// Result of a t-test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TTest {
    /// Mean difference, first minus second.
    pub difference: f64,
    /// Standard error of the difference.
    pub standard_error: f64,
    /// Value of the test statistic.
    pub t: f64,
    /// Degrees of freedom; fractional for Welch's test.
    pub degrees_of_freedom: f64,
    /// Probability of a statistic at least this extreme without a difference.
    pub p_value: f64,
    /// Two-sided confidence interval of the difference.
    pub interval: Interval,
    /// Difference in standard deviations: of the differences when paired, of the averaged variances
    /// otherwise.
    pub effect_size: f64,
}

/// Tests whether the paired differences `treatment − control` have mean zero.
///
/// ```
/// use satiety::stats::{Alternative, paired_t};
/// let test = paired_t(&[0.8, 0.7, 0.9, 0.6], &[0.6, 0.6, 0.7, 0.6], Alternative::TwoSided, 0.95)?;
/// assert!(test.p_value < 0.1 && test.difference > 0.12);
/// # Ok::<(), satiety::stats::StatsError>(())
/// ```
pub fn paired_t(
    treatment: &[f64],
    control: &[f64],
    alternative: Alternative,
    confidence: f64,
) -> Result<TTest> {
    one_sample_t(&differences(treatment, control)?, alternative, confidence)
}

/// Tests whether differences have mean zero.
pub fn one_sample_t(differences: &[f64], alternative: Alternative, confidence: f64) -> Result<TTest> {
    check_sample(differences, 2)?;
    let n = differences.len() as f64;
    let variance = variance_of(differences);
    finish(
        mean_of(differences),
        (variance / n).sqrt(),
        n - 1.0,
        variance.sqrt(),
        "differences",
        alternative,
        confidence,
    )
}

/// Welch's test of two independent samples with unequal variances; `treatment − control`.
pub fn welch_t(
    treatment: &[f64],
    control: &[f64],
    alternative: Alternative,
    confidence: f64,
) -> Result<TTest> {
    check_sample(treatment, 2)?;
    check_sample(control, 2)?;
    let (v1, v2) = (variance_of(treatment), variance_of(control));
    let (n1, n2) = (treatment.len() as f64, control.len() as f64);
    let (s1, s2) = (v1 / n1, v2 / n2);
    // As shares of the total, so that tiny variances do not underflow when squared.
    let share = if s1 + s2 > 0.0 { s1 / (s1 + s2) } else { 0.5 };
    let df = 1.0 / (share * share / (n1 - 1.0) + (1.0 - share) * (1.0 - share) / (n2 - 1.0));
    finish(
        mean_of(treatment) - mean_of(control),
        (s1 + s2).sqrt(),
        df,
        f64::midpoint(v1, v2).sqrt(),
        "both samples",
        alternative,
        confidence,
    )
}

/// Differences `treatment − control` of paired samples.
pub fn differences(treatment: &[f64], control: &[f64]) -> Result<Vec<f64>> {
    check_same_length(treatment, control)?;
    let differences: Vec<f64> = treatment.iter().zip(control).map(|(a, b)| a - b).collect();
    super::error::check_finite(&differences)?;
    Ok(differences)
}

fn finish(
    difference: f64,
    standard_error: f64,
    degrees_of_freedom: f64,
    standard_deviation: f64,
    what: &'static str,
    alternative: Alternative,
    confidence: f64,
) -> Result<TTest> {
    check_open_unit("confidence", confidence)?;
    // Differences that are equal up to rounding do not determine a spread.
    if standard_error <= f64::EPSILON * difference.abs() {
        return Err(StatsError::NoVariation { what });
    }
    let t = difference / standard_error;
    let half_width = student_critical(confidence, degrees_of_freedom) * standard_error;
    Ok(TTest {
        difference,
        standard_error,
        t,
        degrees_of_freedom,
        p_value: alternative.p_value(
            student_sf(-t, degrees_of_freedom),
            student_sf(t, degrees_of_freedom),
        ),
        interval: Interval {
            low: difference - half_width,
            high: difference + half_width,
            confidence,
        },
        effect_size: difference / standard_deviation,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{A, B, assert_close, assert_relative};
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py ttest` (scipy.stats.ttest_rel, ttest_ind).
    #[test]
    fn paired_agrees_with_scipy() {
        let test = paired_t(&A, &B, Alternative::TwoSided, 0.95).unwrap();
        assert_close(test.t, 2.7738602196460294, 1e-12);
        assert_relative(test.p_value, 0.018101592678340616, 1e-12);
        assert_close(test.interval.low, 0.015489471734109993, 1e-12);
        assert_close(test.interval.high, 0.13451052826589005, 1e-12);
        assert_close(test.effect_size, 0.8007444722535147, 1e-12);
        let greater = paired_t(&A, &B, Alternative::Greater, 0.95).unwrap();
        assert_relative(greater.p_value, 0.009050796339170308, 1e-12);
        let less = paired_t(&A, &B, Alternative::Less, 0.95).unwrap();
        assert_relative(less.p_value, 0.9909492036608297, 1e-12);
    }

    #[test]
    fn welch_agrees_with_scipy() {
        let test = welch_t(&A, &B[..7], Alternative::TwoSided, 0.9).unwrap();
        assert_close(test.t, 0.38480543664486955, 1e-12);
        assert_close(test.degrees_of_freedom, 14.293340908792336, 1e-12);
        assert_relative(test.p_value, 0.7060466975863045, 1e-12);
        assert_close(test.interval.low, -0.15642261665339258, 1e-12);
        assert_close(test.interval.high, 0.24404166427244026, 1e-12);
    }

    #[test]
    fn constant_differences_are_rejected() {
        let equal = [0.5, 0.5, 0.5];
        assert_eq!(
            one_sample_t(&equal, Alternative::TwoSided, 0.95),
            Err(StatsError::NoVariation { what: "differences" })
        );
        assert!(one_sample_t(&[0.1 + 0.2, 0.3, 0.3], Alternative::TwoSided, 0.95).is_err());
        assert!(welch_t(&equal, &equal, Alternative::TwoSided, 0.95).is_err());
        assert!(paired_t(&equal, &[0.1, 0.2], Alternative::TwoSided, 0.95).is_err());
        assert!(one_sample_t(&[1.0], Alternative::TwoSided, 0.95).is_err());
        assert!(one_sample_t(&[f64::MAX, f64::NAN], Alternative::TwoSided, 0.95).is_err());
    }

    proptest! {
        #[test]
        fn swapping_the_arms_mirrors(a in prop::collection::vec(-5.0..5.0, 3..20), b in prop::collection::vec(-5.0..5.0, 20)) {
            let b = &b[..a.len()];
            for test in [paired_t, welch_t] {
                let forward = test(&a, b, Alternative::Greater, 0.9).unwrap();
                let backward = test(b, &a, Alternative::Less, 0.9).unwrap();
                assert_close(forward.t, -backward.t, 1e-9);
                assert_close(forward.p_value, backward.p_value, 1e-9);
                let two = test(&a, b, Alternative::TwoSided, 0.9).unwrap();
                prop_assert_eq!(two.p_value < 0.1, !two.interval.contains(0.0));
            }
        }
    }
}
