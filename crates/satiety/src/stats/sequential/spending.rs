//! Levels for a test that is looked at a few times: error spending (Lan and `DeMets`, 1983) with the power family of
//! Kim and `DeMets` (1987), solved by the recursive integration of Armitage, `McPherson` and Rowe (1969).
//!
//! With a known last look this needs far fewer observations than a test that is valid for ever.

use crate::stats::distribution::{normal_quantile, normal_sf};
use crate::stats::{Result, StatsError};

/// Intervals of the integration grid; even, for Simpson's rule.
const INTERVALS: u32 = 400;
/// Lower end of the grid in standard deviations.
const REACH: f64 = 8.0;

/// Nominal one-sided levels, one for each look: under the null hypothesis, a p-value falls to the level of any
/// look or below with probability `alpha` in total.
///
/// `fractions` are the information available at each look as fractions of that at the last one, ascending, the
/// last one being 1. A fraction `t` of the information may spend `alpha · t^rho`: with `rho = 1` early looks
/// decide often, with `rho = 3` nearly all of the level is kept for the end. The statistics are assumed to be
/// jointly normal with independent increments.
///
/// # Errors
/// When `alpha`, `rho` or a fraction is out of range.
pub fn nominal_levels(fractions: &[f64], alpha: f64, rho: f64) -> Result<Vec<f64>> {
    let out_of_range = |what, value, range| StatsError::OutOfRange { what, value, range };
    if !(alpha > 0.0 && alpha < 1.0) {
        return Err(out_of_range("alpha", alpha, "(0, 1)"));
    }
    if !(rho > 0.0 && rho.is_finite()) {
        return Err(out_of_range("rho", rho, "above 0"));
    }
    let mut before = 0.0;
    for &fraction in fractions {
        if !(fraction > before && fraction <= 1.0) {
            return Err(out_of_range("fraction", fraction, "ascending, in (0, 1]"));
        }
        before = fraction;
    }
    let mut levels = Vec::with_capacity(fractions.len());
    // Where the sum of the increments may be without having crossed a boundary yet, with integration weights.
    let mut reached = vec![(0.0, 1.0)];
    let (mut spent, mut previous) = (0.0, 0.0);
    for &fraction in fractions {
        let due = alpha * fraction.powf(rho) - spent;
        let step = (fraction - previous).sqrt();
        let deviation = fraction.sqrt();
        let crossing = |boundary: f64| -> f64 {
            let tail = |(at, weight): &(f64, f64)| weight * normal_sf((boundary - at) / step);
            reached.iter().map(tail).sum()
        };
        // Without earlier looks the boundary would be the quantile; earlier looks can only lower or raise it by a
        // few deviations.
        let start = deviation * -normal_quantile(due.clamp(1e-300, 0.5));
        let (mut low, mut high) = (start - REACH * deviation, start + deviation);
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if crossing(middle) > due {
                low = middle;
            } else {
                high = middle;
            }
        }
        levels.push(normal_sf(high / deviation));
        reached = spread(&reached, step, -REACH * deviation, high);
        spent += due;
        previous = fraction;
    }
    Ok(levels)
}

/// The next sum below the boundary `high`, on a grid with Simpson's weights.
fn spread(reached: &[(f64, f64)], step: f64, low: f64, high: f64) -> Vec<(f64, f64)> {
    let width = (high - low) / f64::from(INTERVALS);
    let scale = 1.0 / (step * std::f64::consts::TAU.sqrt());
    (0..=INTERVALS)
        .map(|index| {
            let at = low + width * f64::from(index);
            let density: f64 = reached
                .iter()
                .map(|(from, weight)| {
                    let distance = (at - from) / step;
                    weight * scale * (-0.5 * distance * distance).exp()
                })
                .sum();
            let weight = match index {
                0 | INTERVALS => 1.0,
                odd if odd % 2 == 1 => 4.0,
                _ => 2.0,
            };
            (at, density * weight * width / 3.0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference: boundaries found with `scipy.stats.multivariate_normal.cdf` and `scipy.optimize.brentq`.
    #[test]
    fn levels_agree_with_the_multivariate_normal_distribution() {
        for (fractions, alpha, rho, expected) in [
            (
                vec![0.3, 0.7, 1.0],
                0.04,
                1.5,
                vec![0.006_572_67, 0.019_364_71, 0.028_235_52],
            ),
            (
                vec![0.2, 0.4, 0.6, 0.8, 1.0],
                0.025,
                1.0,
                vec![0.005, 0.006_351_85, 0.007_958_24, 0.009_663_97, 0.011_437_56],
            ),
            (
                vec![0.5, 0.52, 1.0],
                0.05,
                2.0,
                vec![0.0125, 0.009_392_73, 0.044_079_92],
            ),
        ] {
            let found = nominal_levels(&fractions, alpha, rho).unwrap();
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 2e-6, "{found} {expected}");
            }
        }
        assert_eq!(nominal_levels(&[1.0], 0.05, 1.0).unwrap().len(), 1);
        assert!((nominal_levels(&[1.0], 0.05, 1.0).unwrap()[0] - 0.05).abs() < 1e-12);
    }

    #[test]
    fn invalid_designs_are_rejected() {
        for (fractions, alpha, rho) in [
            (vec![0.5, 0.5], 0.05, 1.0),
            (vec![0.5, 1.1], 0.05, 1.0),
            (vec![f64::NAN], 0.05, 1.0),
            (vec![1.0], 0.0, 1.0),
            (vec![1.0], 0.05, 0.0),
        ] {
            assert!(nominal_levels(&fractions, alpha, rho).is_err());
        }
    }
}
