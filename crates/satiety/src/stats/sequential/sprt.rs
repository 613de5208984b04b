//! Wald's sequential probability ratio test for the mean of normal differences: "no effect" against "an
//! effect of δ". Decisions are final.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::descriptive::Moments;
use crate::stats::error::{Result, StatsError, check_open_unit};

/// Source of the standard deviation of the differences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SprtSigma {
    /// Standard deviation known in advance.
    Known(f64),
    /// Estimated from the first observations (at least five) and then fixed; the boundaries are widened to
    /// account for the uncertainty of the estimate.
    BurnIn(u64),
}

/// Hypotheses and error rates of the test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SprtSettings {
    /// Effect δ of the alternative hypothesis; its sign selects the direction.
    pub effect: f64,
    /// Maximum probability of accepting an effect that does not exist.
    pub alpha: f64,
    /// Maximum probability of missing an effect of δ.
    pub beta: f64,
    /// Source of the standard deviation of the differences.
    pub sigma: SprtSigma,
    /// Minimum number of observations before a decision.
    pub minimum_samples: u64,
}

/// Decision of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SprtDecision {
    /// Not enough evidence yet.
    Continue,
    /// The effect of δ exists.
    AcceptEffect,
    /// The effect of δ does not exist.
    AcceptNull,
}

/// State of a sequential probability ratio test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NormalSprt {
    settings: SprtSettings,
    moments: Moments,
    sigma: Option<f64>,
    decision: SprtDecision,
}

impl NormalSprt {
    /// Starts a test.
    pub fn new(settings: SprtSettings) -> Result<Self> {
        check_open_unit("alpha", settings.alpha)?;
        check_open_unit("beta", settings.beta)?;
        if settings.alpha + settings.beta >= 1.0 {
            return Err(StatsError::OutOfRange {
                what: "alpha + beta",
                value: settings.alpha + settings.beta,
                range: "(0, 1)",
            });
        }
        if !(1e-90..=1e90).contains(&settings.effect.abs()) {
            return Err(StatsError::OutOfRange {
                what: "effect",
                value: settings.effect,
                range: "of magnitude 10^-90 to 10^90",
            });
        }
        let sigma = match settings.sigma {
            SprtSigma::Known(sigma) if (1e-90..=1e90).contains(&sigma) => Some(sigma),
            SprtSigma::Known(value) => {
                return Err(StatsError::OutOfRange {
                    what: "sigma",
                    value,
                    range: "10^-90 to 10^90",
                });
            }
            SprtSigma::BurnIn(count) if count >= 5 => None,
            SprtSigma::BurnIn(count) => {
                return Err(StatsError::OutOfRange {
                    what: "burn-in",
                    value: count as f64,
                    range: "at least 5",
                });
            }
        };
        Ok(Self {
            settings,
            moments: Moments::new(),
            sigma,
            decision: SprtDecision::Continue,
        })
    }

    /// Adds the next difference. A decision is final.
    pub fn observe(&mut self, difference: f64) -> Result<SprtDecision> {
        if self.decision != SprtDecision::Continue {
            return Ok(self.decision);
        }
        self.moments.push(difference)?;
        if let (None, SprtSigma::BurnIn(count)) = (self.sigma, self.settings.sigma)
            && self.moments.count() >= count
        {
            // Constant differences (identical arms so far) extend the burn-in.
            self.sigma = self.moments.standard_deviation().filter(|&sigma| sigma > 1e-90);
        }
        if self.moments.count() >= self.settings.minimum_samples
            && let Some(ratio) = self.ln_likelihood_ratio()
        {
            let (lower, upper) = self.boundaries();
            if ratio >= upper {
                self.decision = SprtDecision::AcceptEffect;
            } else if ratio <= lower {
                self.decision = SprtDecision::AcceptNull;
            }
        }
        Ok(self.decision)
    }

    /// Decision so far.
    pub fn decision(&self) -> SprtDecision {
        self.decision
    }

    /// Number of observations so far.
    pub fn samples(&self) -> u64 {
        self.moments.count()
    }

    /// Standard deviation in use; `None` during burn-in.
    pub fn sigma(&self) -> Option<f64> {
        self.sigma
    }

    /// `Σ (δ/σ²)(x − δ/2)`; `None` during burn-in.
    pub fn ln_likelihood_ratio(&self) -> Option<f64> {
        let sigma = self.sigma?;
        let delta = self.settings.effect;
        let n = self.moments.count() as f64;
        Some(delta / sigma * n * ((self.moments.mean().unwrap_or(0.0) - delta / 2.0) / sigma))
    }

    /// Lower and upper boundary of the log-likelihood ratio. With a known σ they are Wald's `ln(β/(1−α))` and
    /// `ln((1−β)/α)`. With σ estimated on ν degrees of freedom, crossing `h` under the null has probability
    /// at most `E[exp(−h σ̂²/σ²)] = (1 + 2h/ν)^{−ν/2}`, so `h = ν/2 (α^{−2/ν} − 1)`, and the same with β
    /// below.
    pub fn boundaries(&self) -> (f64, f64) {
        let SprtSettings {
            alpha, beta, sigma, ..
        } = self.settings;
        match sigma {
            SprtSigma::Known(_) => ((beta / (1.0 - alpha)).ln(), ((1.0 - beta) / alpha).ln()),
            SprtSigma::BurnIn(count) => {
                let nu = (count - 1) as f64;
                let bound = |error: f64| nu / 2.0 * (error.powf(-2.0 / nu) - 1.0);
                (-bound(beta), bound(alpha))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::assert_close;

    fn settings(sigma: SprtSigma) -> SprtSettings {
        SprtSettings {
            effect: 0.05,
            alpha: 0.05,
            beta: 0.2,
            sigma,
            minimum_samples: 0,
        }
    }

    // By hand: (0.05/0.0225) · ((0.1 − 0.025) + (−0.05 − 0.025) + (0.2 − 0.025)) = 2.2222 · 0.175
    #[test]
    fn the_ratio_divides_by_the_variance() {
        let mut test = NormalSprt::new(settings(SprtSigma::Known(0.15))).unwrap();
        for x in [0.1, -0.05, 0.2] {
            test.observe(x).unwrap();
        }
        assert_close(test.ln_likelihood_ratio().unwrap(), 0.05 / 0.0225 * 0.175, 1e-14);
        let (lower, upper) = test.boundaries();
        assert_close(lower, (0.2f64 / 0.95).ln(), 1e-15);
        assert_close(upper, 16f64.ln(), 1e-15);
    }

    #[test]
    fn decisions_absorb() {
        let mut test = NormalSprt::new(settings(SprtSigma::Known(0.15))).unwrap();
        while test.observe(0.3).unwrap() == SprtDecision::Continue {}
        let samples = test.samples();
        for _ in 0..1000 {
            assert_eq!(test.observe(-5.0).unwrap(), SprtDecision::AcceptEffect);
        }
        assert_eq!(test.samples(), samples);
        let mut test = NormalSprt::new(settings(SprtSigma::Known(0.15))).unwrap();
        while test.observe(-0.1).unwrap() == SprtDecision::Continue {}
        assert_eq!(test.decision(), SprtDecision::AcceptNull);
    }

    #[test]
    fn nothing_is_decided_early() {
        let mut test = NormalSprt::new(SprtSettings {
            minimum_samples: 40,
            ..settings(SprtSigma::Known(0.15))
        })
        .unwrap();
        for _ in 0..39 {
            assert_eq!(test.observe(1.0).unwrap(), SprtDecision::Continue);
        }
        assert_eq!(test.observe(1.0).unwrap(), SprtDecision::AcceptEffect);
        let mut test = NormalSprt::new(settings(SprtSigma::BurnIn(10))).unwrap();
        for _ in 0..50 {
            // Identical arms: no spread, no decision.
            assert_eq!(test.observe(0.0).unwrap(), SprtDecision::Continue);
        }
        assert_eq!(test.sigma(), None);
    }

    #[test]
    fn long_burn_in_approaches_certainty() {
        let boundary = |count| {
            NormalSprt::new(settings(SprtSigma::BurnIn(count)))
                .unwrap()
                .boundaries()
                .1
        };
        assert!(boundary(10) > boundary(30) && boundary(30) > 20f64.ln());
        assert_close(boundary(100_000), 20f64.ln(), 1e-4);
    }

    #[test]
    fn a_negative_effect_tests_for_harm() {
        let mut test = NormalSprt::new(SprtSettings {
            effect: -0.05,
            ..settings(SprtSigma::Known(0.15))
        })
        .unwrap();
        while test.observe(-0.3).unwrap() == SprtDecision::Continue {}
        assert_eq!(test.decision(), SprtDecision::AcceptEffect);
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let ok = settings(SprtSigma::Known(0.1));
        assert!(NormalSprt::new(SprtSettings { effect: 0.0, ..ok }).is_err());
        assert!(
            NormalSprt::new(SprtSettings {
                alpha: 0.6,
                beta: 0.5,
                ..ok
            })
            .is_err()
        );
        assert!(NormalSprt::new(settings(SprtSigma::Known(0.0))).is_err());
        assert!(NormalSprt::new(settings(SprtSigma::BurnIn(4))).is_err());
        let mut test = NormalSprt::new(ok).unwrap();
        assert!(test.observe(f64::NAN).is_err());
        assert_eq!(test.samples(), 0);
    }
}
