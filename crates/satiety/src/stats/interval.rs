//! Intervals that say how far an estimate can be trusted.

use serde::{Deserialize, Serialize};

/// A closed interval with the confidence that it was built for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// The nominal coverage, such as 0.95.
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
