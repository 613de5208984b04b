//! Input errors of statistics. Messages name the argument and not the statistic.

use thiserror::Error;

/// Reason why a statistic could not be computed. Valid input never yields NaN and never panics.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum StatsError {
    /// The statistic is undefined for so few values.
    #[error("too few values: {got} (at least {needed} required)")]
    TooFew {
        /// Smallest number of values for which the statistic is defined.
        needed: usize,
        /// Number of values given.
        got: usize,
    },
    /// A value is NaN or infinite.
    #[error("value {index} is {value}, not a finite number")]
    NotFinite {
        /// Position in the slice, from zero.
        index: usize,
        /// Invalid value.
        value: f64,
    },
    /// A value or a setting is outside its range.
    #[error("{what} is {value} (expected {range})")]
    OutOfRange {
        /// Name of the argument.
        what: &'static str,
        /// Rejected value.
        value: f64,
        /// Allowed range in words or interval notation.
        range: &'static str,
    },
    /// Two slices that must have the same length differ.
    #[error("lengths differ: {left} and {right}")]
    LengthMismatch {
        /// Length of the first slice.
        left: usize,
        /// Length of the second slice.
        right: usize,
    },
    /// The statistic divides by a spread that is zero.
    #[error("no variation in {what}")]
    NoVariation {
        /// Name of the constant data.
        what: &'static str,
    },
    /// An iteration did not reach its tolerance.
    #[error("did not converge within {iterations} iterations")]
    NotConverged {
        /// Number of iterations made.
        iterations: usize,
    },
}

/// Result of a statistic.
pub type Result<T> = std::result::Result<T, StatsError>;

/// Larger magnitudes are rejected: the sum of their squares and cubes could overflow an f64.
pub(crate) const LARGEST: f64 = 1e90;

/// Rejects NaN, infinities and magnitudes beyond [`LARGEST`], reporting the first one.
pub(crate) fn check_finite(values: &[f64]) -> Result<()> {
    values
        .iter()
        .enumerate()
        .try_for_each(|(index, &value)| check_number(index, value))
}

/// Rejects NaN, infinities and magnitudes beyond [`LARGEST`].
pub(crate) fn check_number(index: usize, value: f64) -> Result<()> {
    if !value.is_finite() {
        return Err(StatsError::NotFinite { index, value });
    }
    if value.abs() > LARGEST {
        return Err(StatsError::OutOfRange {
            what: "value",
            value,
            range: "±10^90",
        });
    }
    Ok(())
}

/// Rejects fewer than `needed` values, then NaN and infinities.
pub(crate) fn check_sample(values: &[f64], needed: usize) -> Result<()> {
    if values.len() < needed {
        return Err(StatsError::TooFew {
            needed,
            got: values.len(),
        });
    }
    check_finite(values)
}

/// Rejects two samples of different length.
pub(crate) fn check_same_length<A, B>(left: &[A], right: &[B]) -> Result<()> {
    if left.len() == right.len() {
        return Ok(());
    }
    Err(StatsError::LengthMismatch {
        left: left.len(),
        right: right.len(),
    })
}

/// Rejects values not strictly between zero and one (for a confidence, alpha or power).
pub(crate) fn check_open_unit(what: &'static str, value: f64) -> Result<()> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(StatsError::OutOfRange {
        what,
        value,
        range: "(0, 1)",
    })
}

/// Rejects values that are not probabilities.
pub(crate) fn check_probability(what: &'static str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(StatsError::OutOfRange {
        what,
        value,
        range: "[0, 1]",
    })
}
