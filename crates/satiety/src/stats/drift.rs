//! Detects a rising mean of a stream with the Page-Hinkley test (Page 1954; Hinkley 1971): sums how far
//! values lie above their running mean, and raises an alarm when the sum exceeds its minimum by more than a
//! threshold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Result, StatsError, check_finite};

/// State of the Page-Hinkley test for a stream of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageHinkley {
    tolerance: f64,
    threshold: f64,
    minimum: u64,
    observations: u64,
    mean: f64,
    sum: f64,
    lowest: f64,
}

impl PageHinkley {
    /// Creates a test. Rises of the mean below `tolerance` are ignored; `threshold` trades false alarms for
    /// delay; there is no alarm before `minimum` values.
    pub fn new(tolerance: f64, threshold: f64, minimum: u64) -> Result<Self> {
        check_finite(&[tolerance, threshold])?;
        if threshold <= 0.0 {
            return Err(StatsError::OutOfRange {
                what: "threshold",
                value: threshold,
                range: "(0, ∞)",
            });
        }
        Ok(Self {
            tolerance,
            threshold,
            minimum,
            observations: 0,
            mean: 0.0,
            sum: 0.0,
            lowest: 0.0,
        })
    }

    /// Adds a value and returns whether the mean has risen. The test restarts after an alarm.
    pub fn observe(&mut self, value: f64) -> Result<bool> {
        check_finite(&[value])?;
        self.observations += 1;
        self.mean += (value - self.mean) / self.observations as f64;
        self.sum += value - self.mean - self.tolerance;
        self.lowest = self.lowest.min(self.sum);
        let alarm = self.observations >= self.minimum && self.sum - self.lowest > self.threshold;
        if alarm {
            *self = Self::new(self.tolerance, self.threshold, self.minimum)?;
        }
        Ok(alarm)
    }

    /// Distance of the sum from its minimum, which is compared with the threshold.
    pub fn distance(&self) -> f64 {
        self.sum - self.lowest
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::{stream, uniform};
    use super::super::testing::assert_close;
    use super::*;

    // By hand: means 1, 1.5, 2, 2.75; sums −0.1, 0.3, 1.2, 3.35; lowest −0.1.
    #[test]
    fn follows_the_recursion() {
        let mut test = PageHinkley::new(0.1, 3.0, 1).unwrap();
        let mut distances = Vec::new();
        for value in [1.0, 2.0, 3.0] {
            assert!(!test.observe(value).unwrap());
            distances.push(test.distance());
        }
        assert_close(distances[0], 0.0, 1e-12);
        assert_close(distances[1], 0.4, 1e-12);
        assert_close(distances[2], 1.3, 1e-12);
        assert!(test.observe(5.0).unwrap(), "3.45 is above 3");
        assert_close(test.distance(), 0.0, 1e-12);
    }

    #[test]
    fn a_steady_stream_raises_no_alarm_and_a_rise_does() {
        let mut random = stream(7, 0);
        let mut test = PageHinkley::new(0.05, 25.0, 100).unwrap();
        let mut draw = |rate: f64| f64::from(u8::from(uniform(&mut random) < rate));
        for _ in 0..5000 {
            assert!(!test.observe(draw(0.2)).unwrap());
        }
        let delay = (0..1000).find(|_| test.observe(draw(0.6)).unwrap());
        assert!(delay.is_some_and(|delay| delay < 200), "{delay:?}");
    }

    #[test]
    fn invalid_settings_are_rejected() {
        assert!(PageHinkley::new(0.0, 0.0, 1).is_err());
        assert!(PageHinkley::new(f64::NAN, 1.0, 1).is_err());
        assert!(PageHinkley::new(0.0, 1.0, 1).unwrap().observe(f64::NAN).is_err());
    }
}
