//! The few distribution functions that the tests need, behind one door, so that their accuracy is checked
//! in one place.

use statrs::distribution::{ContinuousCDF, Normal};

/// The standard normal quantile for the two-sided `confidence`, such as 1.96 for 0.95.
pub(crate) fn normal_critical(confidence: f64) -> f64 {
    Normal::standard().inverse_cdf(0.5 + confidence / 2.0)
}
