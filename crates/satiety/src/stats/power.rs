//! Power analysis before a run: power, sample size and smallest detectable difference of paired designs, and
//! the smallest p that a design can reach.

use super::distribution::{noncentral_student_sf, normal_quantile, student_critical};
use super::error::{Result, StatsError, check_open_unit};
use super::hypothesis::Alternative;

/// Upper bound of the pairs that a design may need.
const MOST_PAIRS: u64 = 1_000_000_000;

/// Power of a paired t-test of `pairs` pairs for a mean difference of `effect` standard deviations of the
/// differences.
pub(crate) fn paired_t_power(effect: f64, pairs: u64, alpha: f64, alternative: Alternative) -> Result<f64> {
    check_effect(effect)?;
    check_open_unit("alpha", alpha)?;
    if pairs < 2 {
        return Err(StatsError::TooFew {
            needed: 2,
            got: usize::try_from(pairs).unwrap_or(usize::MAX),
        });
    }
    let df = (pairs - 1) as f64;
    let delta = effect * (pairs as f64).sqrt();
    Ok(match alternative {
        Alternative::TwoSided => {
            let t = student_critical(1.0 - alpha, df);
            noncentral_student_sf(t, df, delta) + noncentral_student_sf(t, df, -delta)
        }
        Alternative::Greater => one_sided_power(alpha, df, delta),
        Alternative::Less => one_sided_power(alpha, df, -delta),
    }
    .min(1.0))
}

/// Smallest number of pairs with which a paired t-test reaches `power`.
pub(crate) fn paired_t_pairs(effect: f64, power: f64, alpha: f64, alternative: Alternative) -> Result<u64> {
    check_open_unit("power", power)?;
    if effect == 0.0 {
        return Err(StatsError::OutOfRange {
            what: "effect",
            value: effect,
            range: "a non-zero value",
        });
    }
    // Doubling, then bisection: power rises with the number of pairs when the effect has the right sign.
    let mut enough = 2;
    while paired_t_power(effect, enough, alpha, alternative)? < power {
        enough *= 2;
        if enough > MOST_PAIRS {
            return Err(StatsError::OutOfRange {
                what: "effect",
                value: effect,
                range: "an effect detectable with 10^9 pairs in the tested direction",
            });
        }
    }
    let mut too_few = enough / 2;
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if paired_t_power(effect, middle, alpha, alternative)? < power {
            too_few = middle;
        } else {
            enough = middle;
        }
    }
    Ok(enough)
}

/// Smallest effect (in standard deviations of the differences) that `pairs` pairs detect with `power`.
pub(crate) fn paired_t_detectable(
    pairs: u64,
    power: f64,
    alpha: f64,
    alternative: Alternative,
) -> Result<f64> {
    check_open_unit("power", power)?;
    let sign = if alternative == Alternative::Less {
        -1.0
    } else {
        1.0
    };
    // Without an effect the power is alpha: only a higher power needs an effect.
    if paired_t_power(0.0, pairs, alpha, alternative)? >= power {
        return Ok(0.0);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while paired_t_power(sign * high, pairs, alpha, alternative)? < power {
        low = high;
        high *= 2.0;
        if high > 1e9 {
            return Err(StatsError::NotConverged { iterations: 30 });
        }
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if paired_t_power(sign * middle, pairs, alpha, alternative)? < power {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(sign * high)
}

/// Smallest p that a sign-flip, signed-rank or sign test of this many (non-zero, untied) differences can
/// reach, when all differences have the same sign. Also applies to McNemar's test with as many discordant
/// pairs.
pub fn smallest_p(differences: u64, alternative: Alternative) -> f64 {
    let one_sided = (-(differences as f64)).exp2();
    if alternative == Alternative::TwoSided {
        (2.0 * one_sided).min(1.0)
    } else {
        one_sided
    }
}

/// Number of differences that a sign-flip, signed-rank or sign test needs to reach p ≤ `alpha` at all.
pub(crate) fn differences_needed(alpha: f64, alternative: Alternative) -> Result<u64> {
    check_open_unit("alpha", alpha)?;
    let mut needed = 1;
    while smallest_p(needed, alternative) > alpha {
        needed += 1;
    }
    Ok(needed)
}

/// Number of independent observations equivalent to `observations` in clusters of average size
/// `cluster_size`: `n / (1 + (m − 1) ρ)` with the intra-class correlation ρ (Kish 1965).
pub(crate) fn effective_sample_size(observations: f64, cluster_size: f64, correlation: f64) -> Result<f64> {
    if !(observations >= 0.0 && observations.is_finite()) {
        return Err(StatsError::OutOfRange {
            what: "observations",
            value: observations,
            range: "[0, ∞)",
        });
    }
    if !(cluster_size >= 1.0 && cluster_size.is_finite()) {
        return Err(StatsError::OutOfRange {
            what: "cluster size",
            value: cluster_size,
            range: "[1, ∞)",
        });
    }
    super::error::check_probability("correlation", correlation)?;
    Ok(observations / (1.0 + (cluster_size - 1.0) * correlation))
}

/// Smallest mean difference that `pairs` normal differences with `standard_deviation` detect with `power`:
/// `(z_{1−α} + z_{power}) · sd / √n`, the textbook formula, without the small-sample correction of the
/// t-distribution.
pub(crate) fn normal_detectable(
    standard_deviation: f64,
    pairs: f64,
    power: f64,
    alpha: f64,
    alternative: Alternative,
) -> Result<f64> {
    check_open_unit("alpha", alpha)?;
    check_open_unit("power", power)?;
    if !(standard_deviation >= 0.0 && standard_deviation.is_finite()) {
        return Err(StatsError::OutOfRange {
            what: "standard deviation",
            value: standard_deviation,
            range: "[0, ∞)",
        });
    }
    if !(pairs >= 1.0 && pairs.is_finite()) {
        return Err(StatsError::OutOfRange {
            what: "pairs",
            value: pairs,
            range: "[1, ∞)",
        });
    }
    let tail = if alternative == Alternative::TwoSided {
        alpha / 2.0
    } else {
        alpha
    };
    Ok(((normal_quantile(1.0 - tail) + normal_quantile(power)) * standard_deviation / pairs.sqrt()).max(0.0))
}

fn one_sided_power(alpha: f64, df: f64, delta: f64) -> f64 {
    // Above one half the critical value is negative; mirror it.
    let t = if alpha <= 0.5 {
        student_critical(1.0 - 2.0 * alpha, df)
    } else {
        -student_critical(2.0 * alpha - 1.0, df)
    };
    noncentral_student_sf(t, df, delta)
}

fn check_effect(effect: f64) -> Result<()> {
    if effect.is_finite() && effect.abs() <= 1e9 {
        return Ok(());
    }
    Err(StatsError::OutOfRange {
        what: "effect",
        value: effect,
        range: "[-10^9, 10^9]",
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{assert_close, assert_relative};
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py power` (statsmodels TTestPower).
    #[test]
    fn paired_t_agrees_with_statsmodels() {
        for (effect, pairs, alpha, two_sided, greater) in [
            (0.5, 20, 0.05, 0.5645044184390203, 0.6951493382443411),
            (0.2, 100, 0.05, 0.508264806621038, 0.6336177553523548),
            (
                0.3333333333333333,
                73,
                0.05,
                0.8022989433830339,
                0.880247068064328,
            ),
            (1.0, 5, 0.05, 0.4013899173717948, 0.5797373588621886),
            (0.1, 10, 0.01, 0.012651496247490889, 0.02001316471492265),
            (0.8, 15, 0.001, 0.22290445965377398, 0.3076365352609294),
        ] {
            let two = paired_t_power(effect, pairs, alpha, Alternative::TwoSided).unwrap();
            assert_relative(two, two_sided, 1e-11);
            let one = paired_t_power(effect, pairs, alpha, Alternative::Greater).unwrap();
            assert_relative(one, greater, 1e-11);
        }
    }

    #[test]
    fn pairs_and_detectable_effect_agree_with_statsmodels() {
        for (effect, power, pairs) in [
            (0.5, 0.8, 34),
            (0.3333333333333333, 0.8, 73),
            (0.6666666666666666, 0.8, 20),
            (0.2, 0.9, 265),
            (0.05, 0.8, 3142),
        ] {
            assert_eq!(
                paired_t_pairs(effect, power, 0.05, Alternative::TwoSided).unwrap(),
                pairs
            );
        }
        for (pairs, power, effect) in [
            (15, 0.8, 0.7780225697856631),
            (50, 0.8, 0.40418300213604247),
            (280, 0.9, 0.1943879049394764),
        ] {
            let found = paired_t_detectable(pairs, power, 0.05, Alternative::TwoSided).unwrap();
            assert_close(found, effect, 1e-11);
        }
    }

    // Oracle: the double sum over outcomes, same command.
    #[test]
    fn floors() {
        assert_close(smallest_p(5, Alternative::TwoSided), 0.0625, 0.0);
        assert_close(smallest_p(0, Alternative::TwoSided), 1.0, 0.0);
        assert_eq!(differences_needed(0.05, Alternative::TwoSided), Ok(6));
        assert_eq!(differences_needed(0.05, Alternative::Greater), Ok(5));
        assert_close(effective_sample_size(100.0, 5.0, 0.25).unwrap(), 50.0, 1e-12);
        // (1.959963985 + 0.841621234) · 0.3 / 10
        assert_close(
            normal_detectable(0.3, 100.0, 0.8, 0.05, Alternative::TwoSided).unwrap(),
            0.08404755654338905,
            1e-12,
        );
        // (1.644853627 + 0.841621234) · 0.3 / 10
        assert_close(
            normal_detectable(0.3, 100.0, 0.8, 0.05, Alternative::Greater).unwrap(),
            0.0745942458157316,
            1e-12,
        );
    }

    #[test]
    fn invalid_designs_are_rejected() {
        assert!(paired_t_power(0.5, 1, 0.05, Alternative::TwoSided).is_err());
        assert!(paired_t_power(f64::NAN, 9, 0.05, Alternative::TwoSided).is_err());
        assert!(paired_t_pairs(0.0, 0.8, 0.05, Alternative::TwoSided).is_err());
        assert!(paired_t_pairs(-0.5, 0.8, 0.05, Alternative::Greater).is_err());
        assert!(effective_sample_size(10.0, 0.5, 0.1).is_err());
        assert!(differences_needed(0.0, Alternative::TwoSided).is_err());
        assert_eq!(effective_sample_size(0.0, 1.0, 0.0), Ok(0.0));
        assert!(effective_sample_size(-1.0, 1.0, 0.0).is_err());
        assert!(normal_detectable(-0.1, 10.0, 0.8, 0.05, Alternative::TwoSided).is_err());
        assert!(normal_detectable(0.1, 0.5, 0.8, 0.05, Alternative::TwoSided).is_err());
        assert_eq!(
            normal_detectable(0.0, 1.0, 0.8, 0.05, Alternative::TwoSided),
            Ok(0.0)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn power_rises_with_effect_and_pairs(effect in 0.01..2.0f64, more in 0.01..1.0f64, pairs in 2u64..200, alpha in 0.001..0.5f64) {
            let power = |effect, pairs| paired_t_power(effect, pairs, alpha, Alternative::TwoSided).unwrap();
            prop_assert!(power(effect, pairs) <= power(effect + more, pairs) + 1e-12);
            prop_assert!(power(effect, pairs) <= power(effect, pairs + 5) + 1e-12);
            prop_assert!(power(effect, pairs) >= alpha - 1e-12);
            assert_close(power(effect, pairs), power(-effect, pairs), 1e-12);
        }
    }
}
