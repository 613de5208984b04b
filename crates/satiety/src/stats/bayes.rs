//! Beta-binomial model: posterior of a rate given pass/fail counts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distribution::beta_quantile;
use super::error::{Result, StatsError, check_open_unit};
use super::interval::Interval;

/// Beta distribution of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BetaPosterior {
    /// Prior weight of successes plus observed successes.
    pub alpha: f64,
    /// Prior weight of failures plus observed failures.
    pub beta: f64,
}

impl BetaPosterior {
    /// Creates a distribution with the given parameters, which must be positive.
    pub fn new(alpha: f64, beta: f64) -> Result<Self> {
        for (what, value) in [("alpha", alpha), ("beta", beta)] {
            if !(1e-3..=1e12).contains(&value) {
                return Err(StatsError::OutOfRange {
                    what,
                    value,
                    range: "[0.001, 10^12]",
                });
            }
        }
        Ok(Self { alpha, beta })
    }

    /// Posterior with a uniform prior, Beta(1, 1).
    pub fn uniform(successes: u64, failures: u64) -> Result<Self> {
        Self::new(successes as f64 + 1.0, failures as f64 + 1.0)
    }

    /// Expected rate.
    pub fn mean(&self) -> f64 {
        self.alpha / (self.alpha + self.beta)
    }

    /// Central interval that contains the rate with probability `confidence`.
    pub fn credible_interval(&self, confidence: f64) -> Result<Interval> {
        check_open_unit("confidence", confidence)?;
        let tail = (1.0 - confidence) / 2.0;
        Ok(Interval {
            low: beta_quantile(tail, self.alpha, self.beta),
            // The mirrored quantile keeps the precision of a bound near one.
            high: 1.0 - beta_quantile(tail, self.beta, self.alpha),
            confidence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::assert_close;
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py bayes` (scipy.stats.beta; mpmath quadrature).
    #[test]
    fn posterior_agrees_with_scipy() {
        let posterior = BetaPosterior::new(7.5, 2.5).unwrap();
        let interval = posterior.credible_interval(0.95).unwrap();
        assert_close(interval.low, 0.45617556688065247, 1e-12);
        assert_close(interval.high, 0.9506980770234059, 1e-12);
        assert_close(posterior.mean(), 0.75, 1e-15);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        assert!(BetaPosterior::new(0.0, 1.0).is_err());
        assert!(BetaPosterior::new(1.0, f64::NAN).is_err());
        let posterior = BetaPosterior::uniform(0, 0).unwrap();
        assert!(posterior.credible_interval(0.0).is_err());
    }
}
