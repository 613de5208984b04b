//! What can be wrong with the input of a statistic. Nothing here knows which statistic was asked for;
//! the messages name the argument instead.

use thiserror::Error;

/// Why a statistic could not be computed. A valid input never yields NaN and never panics.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum StatsError {
    /// The statistic is undefined for so little data.
    #[error("too few values: needs at least {needed}, has {got}")]
    TooFew {
        /// The smallest number of values for which the statistic is defined.
        needed: usize,
        /// How many there were.
        got: usize,
    },
    /// A value is NaN or infinite.
    #[error("value {index} is {value}, not a finite number")]
    NotFinite {
        /// Position in the slice, from zero.
        index: usize,
        /// The offending value.
        value: f64,
    },
    /// A value or a setting lies outside the range for which the statistic is defined.
    #[error("{what} is {value}, outside {range}")]
    OutOfRange {
        /// The argument's name.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The permitted range in words or interval notation.
        range: &'static str,
    },
    /// Slices that belong together have different lengths.
    #[error("lengths differ: {left} and {right}")]
    LengthMismatch {
        /// Length of the first slice.
        left: usize,
        /// Length of the second slice.
        right: usize,
    },
    /// The statistic divides by a spread, and there is none.
    #[error("no variation in {what}")]
    NoVariation {
        /// What does not vary.
        what: &'static str,
    },
    /// An iteration did not reach its tolerance.
    #[error("did not converge within {iterations} iterations")]
    NotConverged {
        /// How many steps were taken.
        iterations: usize,
    },
}

/// The result of a statistic.
pub type Result<T> = std::result::Result<T, StatsError>;

/// Larger magnitudes are refused: their squares and cubes, summed, would leave the range of an f64.
pub(crate) const LARGEST: f64 = 1e90;

/// Refuses NaN, infinities and magnitudes beyond [`LARGEST`], naming the first one.
pub(crate) fn check_finite(values: &[f64]) -> Result<()> {
    values
        .iter()
        .enumerate()
        .try_for_each(|(index, &value)| check_number(index, value))
}

/// Refuses NaN, infinities and magnitudes beyond [`LARGEST`].
pub(crate) fn check_number(index: usize, value: f64) -> Result<()> {
    if !value.is_finite() {
        return Err(StatsError::NotFinite { index, value });
    }
    if value.abs() > LARGEST {
        return Err(StatsError::OutOfRange {
            what: "a value",
            value,
            range: "±10^90",
        });
    }
    Ok(())
}

/// Refuses fewer than `needed` values, then NaN and infinities.
pub(crate) fn check_sample(values: &[f64], needed: usize) -> Result<()> {
    if values.len() < needed {
        return Err(StatsError::TooFew {
            needed,
            got: values.len(),
        });
    }
    check_finite(values)
}

/// Refuses two samples of different length.
pub(crate) fn check_same_length<A, B>(left: &[A], right: &[B]) -> Result<()> {
    if left.len() == right.len() {
        return Ok(());
    }
    Err(StatsError::LengthMismatch {
        left: left.len(),
        right: right.len(),
    })
}

/// Refuses anything but a number strictly between zero and one (a confidence, an alpha, a power).
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

/// Refuses anything but a probability.
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
