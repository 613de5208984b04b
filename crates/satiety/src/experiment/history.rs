//! A value over time in little room: of a long history every second point goes when there are too many.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Points that are kept at most; an even number, so that halving keeps a regular step.
const MOST: usize = 64;

/// A thinned history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// A point is kept every so many values.
    step: u64,
    /// Values that came so far.
    seen: u64,
    /// What was kept, oldest first.
    points: Vec<f64>,
    /// The latest value, kept or not.
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
    /// Takes the next value.
    pub fn push(&mut self, value: f64) {
        self.last = Some(value);
        self.seen += 1;
        if !self.seen.is_multiple_of(self.step) {
            return;
        }
        self.points.push(value);
        if self.points.len() >= MOST {
            // The second of each pair stays: it is the one whose number the doubled step divides.
            self.points = self.points.chunks_exact(2).map(|pair| pair[1]).collect();
            self.step *= 2;
        }
    }

    /// What is known of it, oldest first, the latest value at the end.
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
    fn a_long_history_keeps_a_regular_step_and_its_end() {
        let mut history = History::default();
        for value in 1..=1000 {
            history.push(f64::from(value));
            let points = history.points();
            assert!(
                points.len() <= MOST && points.last() == Some(&f64::from(value)),
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
