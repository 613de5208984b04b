//! Bounded history of a value over time: when it is full, every second point is dropped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of points; even, so that halving keeps a regular step.
const MAX_POINTS: usize = 64;

/// A thinned history of a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Every `step`-th value is kept.
    step: u64,
    /// Number of values received so far.
    seen: u64,
    /// Points that were kept, oldest first.
    points: Vec<f64>,
    /// Latest value, kept or not.
    last: Option<f64>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            step: 1,
            seen: 0,
            points: Vec::new(),
            last: None,
        }
    }
}

impl History {
    /// Adds the next value.
    pub fn push(&mut self, value: f64) {
        self.last = Some(value);
        self.seen += 1;
        if !self.seen.is_multiple_of(self.step) {
            return;
        }
        self.points.push(value);
        if self.points.len() >= MAX_POINTS {
            // Keep the second of each pair, whose number the doubled step divides.
            self.points = self.points.chunks_exact(2).map(|pair| pair[1]).collect();
            self.step *= 2;
        }
    }

    /// Returns the kept points, oldest first, followed by the latest value.
    pub fn points(&self) -> Vec<f64> {
        let mut points = self.points.clone();
        if !self.seen.is_multiple_of(self.step) {
            points.extend(self.last);
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_history_keeps_a_regular_step_and_the_latest_value() {
        let mut history = History::default();
        for value in 1..=1000 {
            history.push(f64::from(value));
            let points = history.points();
            assert!(
                points.len() <= MAX_POINTS && points.last() == Some(&f64::from(value)),
                "{value}"
            );
        }
        let points = history.points();
        // 1000 values, thinned four times: every 16th, and the last.
        assert_eq!((points[0], points[1], points.len()), (16.0, 32.0, 63));
        let json = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<History>(&json).unwrap(), history);
    }
}
