//! Isotonic regression: the non-decreasing step function that best fits outcomes, by pooling adjacent
//! violators (Ayer et al. 1955). It turns scores that rank well into calibrated probabilities.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Result, StatsError, check_finite, check_same_length};

/// Non-decreasing mapping: linear between its knots, constant outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Isotonic {
    /// Positions of the knots, strictly increasing.
    pub x: Vec<f64>,
    /// Values at the knots, non-decreasing.
    pub y: Vec<f64>,
}

impl Isotonic {
    /// Returns the mapped value of `x`.
    pub fn predict(&self, x: f64) -> f64 {
        let after = self.x.partition_point(|knot| *knot <= x);
        let (Some(&first), Some(&last)) = (self.y.first(), self.y.last()) else {
            return x;
        };
        if after == 0 {
            return first;
        }
        // `after` is between 1 and the number of knots; `x` and `y` have the same length.
        match (self.x.get(after), self.y.get(after)) {
            (Some(&right), Some(&above)) => {
                let (left, below) = (self.x[after - 1], self.y[after - 1]);
                below + (above - below) * (x - left) / (right - left)
            }
            _ => last,
        }
    }
}

/// Fits by weighted least squares: minimizes `Σ wᵢ (yᵢ − f(xᵢ))²` over all non-decreasing `f`. Equal
/// positions are averaged first, as in scikit-learn.
pub(crate) fn isotonic(x: &[f64], y: &[f64], weights: &[f64]) -> Result<Isotonic> {
    check_same_length(x, y)?;
    check_same_length(x, weights)?;
    check_finite(x)?;
    check_finite(y)?;
    check_finite(weights)?;
    if let Some(&value) = weights.iter().find(|weight| **weight <= 0.0) {
        return Err(StatsError::OutOfRange {
            what: "weight",
            value,
            range: "(0, ∞)",
        });
    }
    if x.is_empty() {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|&a, &b| x[a].total_cmp(&x[b]));
    // Blocks of pooled observations: weight, weighted sum, first and last position.
    let mut unique: Vec<(f64, f64, f64, f64)> = Vec::new();
    for i in order {
        match unique.last_mut() {
            Some(block) if block.3 == x[i] => {
                block.0 += weights[i];
                block.1 += weights[i] * y[i];
            }
            _ => unique.push((weights[i], weights[i] * y[i], x[i], x[i])),
        }
    }
    let mut blocks: Vec<(f64, f64, f64, f64)> = Vec::new();
    for mut block in unique {
        while let Some(&(weight, sum, first, _)) = blocks.last() {
            if sum / weight < block.1 / block.0 {
                break;
            }
            blocks.pop();
            block = (block.0 + weight, block.1 + sum, first, block.3);
        }
        blocks.push(block);
    }
    let mut fitted = Isotonic {
        x: Vec::new(),
        y: Vec::new(),
    };
    for (weight, sum, first, last) in blocks {
        let value = sum / weight;
        fitted.x.push(first);
        fitted.y.push(value);
        if last > first {
            fitted.x.push(last);
            fitted.y.push(value);
        }
    }
    Ok(fitted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::assert_close;
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py isotonic` (scikit-learn).
    #[test]
    fn agrees_with_scikit_learn() {
        let x = [0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0];
        let y = [0.1, 0.5, 0.2, 0.4, 0.35, 0.9, 0.8];
        let w = [1.0, 2.0, 1.0, 3.0, 1.0, 2.0, 2.0];
        let fitted = isotonic(&x, &y, &w).unwrap();
        let expected = [
            0.1,
            0.24642857142857147,
            0.3928571428571429,
            0.3928571428571429,
            0.48428571428571443,
            0.85,
            0.85,
        ];
        for (at, expected) in [-1.0, 0.5, 1.5, 2.5, 3.2, 4.5, 9.0].into_iter().zip(expected) {
            assert_close(fitted.predict(at), expected, 1e-12);
        }
    }

    #[test]
    fn invalid_input_is_rejected() {
        assert!(isotonic(&[], &[], &[]).is_err());
        assert!(isotonic(&[1.0], &[1.0], &[0.0]).is_err());
        assert!(isotonic(&[f64::NAN], &[1.0], &[1.0]).is_err());
        assert!(isotonic(&[1.0], &[1.0, 2.0], &[1.0]).is_err());
    }

    proptest! {
        #[test]
        fn fit_is_monotone_and_keeps_the_mean(rows in prop::collection::vec((0u8..20, any::<bool>(), 1u8..5), 1..60)) {
            let x: Vec<f64> = rows.iter().map(|row| f64::from(row.0)).collect();
            let y: Vec<f64> = rows.iter().map(|row| f64::from(u8::from(row.1))).collect();
            let w: Vec<f64> = rows.iter().map(|row| f64::from(row.2)).collect();
            let fitted = isotonic(&x, &y, &w).unwrap();
            prop_assert!(fitted.y.windows(2).all(|pair| pair[0] <= pair[1] + 1e-12));
            let mapped: f64 = x.iter().zip(&w).map(|(x, w)| w * fitted.predict(*x)).sum();
            let observed: f64 = y.iter().zip(&w).map(|(y, w)| w * y).sum();
            prop_assert!((mapped - observed).abs() < 1e-9);
        }
    }
}
