//! Similarity thresholds as fractions: a bound such as 0.8 has no exact floating-point value, and a filter
//! that rounds it the wrong way silently loses pairs that are exactly on it.

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

/// Similarity bound in (0, 1], exact to six decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(into = "f64")]
pub struct Threshold {
    millionths: u32,
}

/// Error of a value that is not a valid threshold.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("similarity threshold must be above 0 and at most 1, not {0}")]
pub struct ThresholdError(pub f64);

impl Threshold {
    const ONE: u32 = 1_000_000;

    /// Rounds `value` to six decimals.
    pub fn new(value: f64) -> Result<Self, ThresholdError> {
        let scaled = (value * f64::from(Self::ONE)).round();
        if scaled >= 1.0 && scaled <= f64::from(Self::ONE) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 1 and a million"
            )]
            let millionths = scaled as u32;
            Ok(Self { millionths })
        } else {
            Err(ThresholdError(value))
        }
    }

    /// Threshold as a floating-point number.
    pub fn value(self) -> f64 {
        f64::from(self.millionths) / f64::from(Self::ONE)
    }

    /// Whether `part` of `whole` is at least this share; always false when `whole` is zero.
    pub fn is_reached_by(self, part: u32, whole: u32) -> bool {
        whole > 0 && u64::from(part) * u64::from(Self::ONE) >= u64::from(self.millionths) * u64::from(whole)
    }

    pub(super) fn fraction(self) -> (u64, u64) {
        (u64::from(self.millionths), u64::from(Self::ONE))
    }
}

impl From<Threshold> for f64 {
    fn from(threshold: Threshold) -> Self {
        threshold.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_exactly_on_the_bound_reaches_it() {
        let threshold = |value: f64| Threshold::new(value).unwrap();
        assert!(threshold(0.6).is_reached_by(3, 5));
        assert!(
            threshold(0.8).is_reached_by(28, 35),
            "0.8 as f64 is above 4/5 and would lose this pair"
        );
        assert!(threshold(0.55).is_reached_by(55, 100));
        assert!(!threshold(0.55).is_reached_by(54, 100));
        assert!(threshold(1.0).is_reached_by(7, 7));
        assert!(!threshold(1.0).is_reached_by(0, 0));
    }

    #[test]
    fn invalid_values_are_reported() {
        for value in [0.0, -0.1, 1.000001, f64::NAN, f64::INFINITY] {
            assert!(Threshold::new(value).is_err(), "{value}");
        }
        assert_eq!(
            Threshold::new(1.5).unwrap_err().to_string(),
            "similarity threshold must be above 0 and at most 1, not 1.5"
        );
    }
}
