//! Beta-binomial: what pass/fail counts say about a rate, and the probability that one rate exceeds another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distribution::{beta_cdf, beta_quantile, beta_regularized, ln_beta};
use super::error::{Result, StatsError, check_open_unit, check_probability};
use super::interval::Interval;

/// A beta distribution over a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BetaPosterior {
    /// Prior weight of successes plus successes seen.
    pub alpha: f64,
    /// Prior weight of failures plus failures seen.
    pub beta: f64,
}

impl BetaPosterior {
    /// A distribution with the given parameters, which must be positive.
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

    /// The posterior from Jeffreys' prior, Beta(½, ½).
    pub fn jeffreys(successes: u64, failures: u64) -> Result<Self> {
        Self::new(successes as f64 + 0.5, failures as f64 + 0.5)
    }

    /// The posterior from the uniform prior, Beta(1, 1).
    pub fn uniform(successes: u64, failures: u64) -> Result<Self> {
        Self::new(successes as f64 + 1.0, failures as f64 + 1.0)
    }

    /// The expected rate.
    pub fn mean(&self) -> f64 {
        self.alpha / (self.alpha + self.beta)
    }

    /// P(rate < `rate`).
    pub fn probability_below(&self, rate: f64) -> Result<f64> {
        check_probability("rate", rate)?;
        Ok(beta_cdf(rate, self.alpha, self.beta))
    }

    /// The central interval that holds the rate with probability `confidence`.
    pub fn credible_interval(&self, confidence: f64) -> Result<Interval> {
        check_open_unit("confidence", confidence)?;
        let tail = (1.0 - confidence) / 2.0;
        Ok(Interval {
            low: beta_quantile(tail, self.alpha, self.beta),
            // The mirror image keeps the digits of a bound near one.
            high: 1.0 - beta_quantile(tail, self.beta, self.alpha),
            confidence,
        })
    }
}

/// P(treatment's rate > control's rate) for independent posteriors: `∫ f_T(x) F_C(x) dx`, by the trapezoidal rule
/// in logit(x), where the integrand decays at both ends and the rule converges geometrically.
///
/// ```
/// use satiety::stats::{BetaPosterior, probability_greater};
/// let (treatment, control) = (BetaPosterior::uniform(18, 2)?, BetaPosterior::uniform(12, 8)?);
/// assert!((probability_greater(&treatment, &control) - 0.983).abs() < 0.001);
/// # Ok::<(), satiety::stats::StatsError>(())
/// ```
#[expect(clippy::many_single_char_names, reason = "the names of the formula")]
pub fn probability_greater(treatment: &BetaPosterior, control: &BetaPosterior) -> f64 {
    const STEPS: i32 = 1200;
    let BetaPosterior { alpha: a, beta: b } = *treatment;
    let ln_norm = ln_beta(a, b);
    // ln of the density of u = logit(x): a ln x + b ln(1 − x) − ln B.
    let ln_density = |u: f64| -a * ln_one_plus_exp(-u) - b * ln_one_plus_exp(u) - ln_norm;
    let mode = (a / b).ln();
    let top = ln_density(mode);
    let edge = |sign: f64| {
        let mut reach = 1.0 / (a * b / (a + b)).sqrt();
        while ln_density(mode + sign * reach) > top - 40.0 {
            reach *= 1.25;
        }
        mode + sign * reach
    };
    let (low, high) = (edge(-1.0), edge(1.0));
    let step = (high - low) / f64::from(STEPS);
    let (mut weighted, mut total) = (0.0, 0.0);
    for i in 0..=STEPS {
        let u = low + step * f64::from(i);
        let density = (ln_density(u) - top).exp();
        let (x, y) = (1.0 / (1.0 + (-u).exp()), 1.0 / (1.0 + u.exp()));
        weighted += density * beta_regularized(control.alpha, control.beta, x, y);
        total += density;
    }
    weighted / total
}

fn ln_one_plus_exp(u: f64) -> f64 {
    if u > 0.0 {
        u + (-u).exp().ln_1p()
    } else {
        u.exp().ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::assert_close;
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py bayes` (scipy.stats.beta; mpmath quadrature).
    #[test]
    fn posterior_agrees_with_scipy() {
        let posterior = BetaPosterior::jeffreys(7, 2).unwrap();
        let interval = posterior.credible_interval(0.95).unwrap();
        assert_close(interval.low, 0.45617556688065247, 1e-12);
        assert_close(interval.high, 0.9506980770234059, 1e-12);
        assert_close(
            posterior.probability_below(0.6).unwrap(),
            0.13703667195405242,
            1e-13,
        );
        assert_close(posterior.mean(), 0.75, 1e-15);
    }

    #[test]
    fn probability_greater_agrees_with_quadrature() {
        for (a, b, c, d, expected) in [
            (19.0, 3.0, 13.0, 9.0, 0.9837673038892556),
            (1.0, 1.0, 1.0, 1.0, 0.5),
            (0.5, 0.5, 3.5, 1.5, 0.3558987610420086),
            (101.5, 900.5, 81.5, 920.5, 0.94010929492203),
            (5001.0, 5001.0, 4951.0, 5051.0, 0.7602412423674422),
            (2.5, 40.5, 30.5, 1.5, 2.5220114382124526e-18),
        ] {
            let (treatment, control) = (
                BetaPosterior::new(a, b).unwrap(),
                BetaPosterior::new(c, d).unwrap(),
            );
            assert_close(probability_greater(&treatment, &control), expected, 1e-11);
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(BetaPosterior::new(0.0, 1.0).is_err());
        assert!(BetaPosterior::new(1.0, f64::NAN).is_err());
        let posterior = BetaPosterior::uniform(0, 0).unwrap();
        assert!(posterior.probability_below(1.5).is_err());
        assert!(posterior.credible_interval(0.0).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn one_of_them_is_greater(a in 0u64..200, b in 0u64..200, c in 0u64..200, d in 0u64..200) {
            let (left, right) = (BetaPosterior::jeffreys(a, b).unwrap(), BetaPosterior::jeffreys(c, d).unwrap());
            let p = probability_greater(&left, &right);
            prop_assert!((0.0..=1.0 + 1e-12).contains(&p));
            assert_close(p + probability_greater(&right, &left), 1.0, 1e-9);
            assert_close(probability_greater(&left, &left), 0.5, 1e-9);
        }
    }
}
