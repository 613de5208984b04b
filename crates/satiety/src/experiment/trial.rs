//! Sequential test of a feature: one paired difference per query, evaluated after each, with a final
//! decision.
//!
//! The test is about the mean of paired differences, treatment − control, of the reciprocal rank of the first
//! relevant result for the same query; it lies between −1 and 1. The default bets against "no difference" (an
//! e-process, valid for any bounded distribution and at any stopping time); the alternative is Wald's test
//! for normal differences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{History, Outcome};
use crate::stats::{
    Alternative, BettingSettings, BettingTest, Moments, NormalSprt, Result, SprtDecision, SprtSettings,
    SprtSigma,
};

/// Number of observations from which Wald's test estimates the standard deviation of the differences.
const BURN_IN: u64 = 20;
/// Number of candidate means for the interval: steps of 0.01.
const GRID: usize = 200;

/// Sequential test that decides a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Anytime-valid e-process for bounded differences.
    #[default]
    Betting,
    /// Wald's sequential probability ratio test for normal differences, with the standard deviation from a
    /// burn-in.
    Sprt,
}

impl Method {
    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Betting => "betting",
            Self::Sprt => "sprt",
        }
    }
}

/// Error levels and minimum size of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialSettings {
    /// Sequential test to use.
    pub method: Method,
    /// Probability of wrongly accepting either pipeline at any time.
    pub alpha: f64,
    /// Only for `sprt`: probability of missing the effect.
    pub beta: f64,
    /// Only for `sprt`: size of the effect to detect.
    pub effect: f64,
    /// Minimum number of observations before a decision.
    pub min_samples: u64,
}

impl Default for TrialSettings {
    fn default() -> Self {
        Self {
            method: Method::Betting,
            alpha: 0.05,
            beta: 0.2,
            effect: 0.05,
            min_samples: 100,
        }
    }
}

/// Decision of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "TrialDecision")]
pub enum Decision {
    /// The evidence does not suffice yet.
    Continue,
    /// The feature is better than the control.
    AcceptTreatment,
    /// The feature is worse than the control or, with `sprt`, lacks the effect.
    AcceptControl,
}

impl Decision {
    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::AcceptTreatment => "accept-treatment",
            Self::AcceptControl => "accept-control",
        }
    }
}

/// Outcomes of one query in both arms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Outcome of the control pipeline.
    pub control: Outcome,
    /// Outcome of the treatment pipeline.
    pub treatment: Outcome,
}

/// A running trial; serialize it to JSON to store and resume it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    settings: TrialSettings,
    betting: BettingTest,
    sprt: Option<NormalSprt>,
    moments: Moments,
    sums: [Outcome; 2],
    decision: Decision,
    history: History,
}

/// Current state of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Standing {
    /// Sequential test that is used.
    pub method: Method,
    /// Decision of the trial so far.
    pub decision: Decision,
    /// Number of compared queries.
    pub samples: u64,
    /// Minimum number of compared queries before a decision.
    pub min_samples: u64,
    /// Logarithm of the evidence, positive for the treatment and negative for the control. `betting`:
    /// log-wealth of the better of the two bets, 0 as long as neither has won; `sprt`: log-likelihood ratio,
    /// absent during the burn-in.
    pub log_likelihood_ratio: Option<f64>,
    /// Evidence below this bound accepts the control.
    pub lower_bound: f64,
    /// Evidence above this bound accepts the treatment.
    pub upper_bound: f64,
    /// `betting`: current two-sided e-value.
    pub e_value: Option<f64>,
    /// `betting`: p-value that is valid at any time.
    pub p_value: Option<f64>,
    /// Mean difference of the reciprocal rank, treatment − control.
    pub mrr_delta: Option<f64>,
    /// Confidence sequence of the mean difference, valid at all times simultaneously (from betting, for
    /// either test).
    pub interval: Option<Bounds>,
    /// Mean reciprocal rank of the control.
    pub control_mrr: Option<f64>,
    /// Mean reciprocal rank of the treatment.
    pub treatment_mrr: Option<f64>,
    /// Mean difference of the nDCG, treatment − control.
    pub ndcg_delta: Option<f64>,
    /// Thinned history of the evidence.
    pub history: Vec<f64>,
}

/// Bounds of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Lower bound of the interval.
    pub low: f64,
    /// Upper bound of the interval.
    pub high: f64,
}

impl Trial {
    /// Starts a trial; fails for invalid settings.
    pub fn new(settings: TrialSettings) -> Result<Self> {
        let betting = BettingTest::new(BettingSettings {
            alpha: settings.alpha,
            grid: GRID,
            ..BettingSettings::default()
        })?;
        let sprt = match settings.method {
            Method::Betting => None,
            Method::Sprt => Some(NormalSprt::new(SprtSettings {
                effect: settings.effect,
                alpha: settings.alpha,
                beta: settings.beta,
                sigma: SprtSigma::BurnIn(BURN_IN),
                minimum_samples: settings.min_samples,
            })?),
        };
        Ok(Self {
            settings,
            betting,
            sprt,
            moments: Moments::new(),
            sums: [Outcome { mrr: 0.0, ndcg: 0.0 }; 2],
            decision: Decision::Continue,
            history: History::default(),
        })
    }

    /// Adds the next query and returns whether it counted. After a decision, further queries are ignored.
    pub fn observe(&mut self, observation: Observation) -> Result<bool> {
        if self.decision != Decision::Continue {
            return Ok(false);
        }
        let difference = observation.treatment.mrr - observation.control.mrr;
        // The value is checked first, so that a rejected one leaves the state unchanged.
        self.betting.observe(difference)?;
        self.moments.push(difference)?;
        for (sum, outcome) in self
            .sums
            .iter_mut()
            .zip([observation.control, observation.treatment])
        {
            sum.mrr += outcome.mrr;
            sum.ndcg += outcome.ndcg;
        }
        self.decision = match &mut self.sprt {
            Some(sprt) => match sprt.observe(difference)? {
                SprtDecision::Continue => Decision::Continue,
                SprtDecision::AcceptEffect => Decision::AcceptTreatment,
                SprtDecision::AcceptNull => Decision::AcceptControl,
            },
            None => self.by_betting(),
        };
        if let Some(evidence) = self.log_likelihood_ratio() {
            self.history.push(evidence);
        }
        Ok(true)
    }

    /// Each bet starts with half of the stake, so that both errors together have probability alpha.
    fn by_betting(&self) -> Decision {
        let shown = |alternative| {
            self.betting.samples() >= self.settings.min_samples
                && self.betting.evidence(alternative).ln_e >= self.bound()
        };
        if shown(Alternative::Greater) {
            Decision::AcceptTreatment
        } else if shown(Alternative::Less) {
            Decision::AcceptControl
        } else {
            Decision::Continue
        }
    }

    /// Wealth at which a bet decides: two over alpha, because each starts with half of the stake.
    fn bound(&self) -> f64 {
        (2.0 / self.settings.alpha).ln()
    }

    fn log_likelihood_ratio(&self) -> Option<f64> {
        if let Some(sprt) = &self.sprt {
            return sprt.ln_likelihood_ratio();
        }
        let above = self.betting.evidence(Alternative::Greater).ln_e;
        let below = self.betting.evidence(Alternative::Less).ln_e;
        Some(if above >= below {
            above.max(0.0)
        } else {
            -below.max(0.0)
        })
    }

    /// Returns the decision so far.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Number of queries that counted.
    pub fn samples(&self) -> u64 {
        self.moments.count()
    }

    /// Sums of the outcomes that counted: of the control, and of the treatment.
    pub fn sums(&self) -> [Outcome; 2] {
        self.sums
    }

    /// Current state of the trial.
    pub fn standing(&self) -> Standing {
        let count = self.samples() as f64;
        let mean = |sum: f64| (count > 0.0).then(|| sum / count);
        let [control, treatment] = self.sums;
        let (lower_bound, upper_bound) = match &self.sprt {
            Some(sprt) => sprt.boundaries(),
            None => (-self.bound(), self.bound()),
        };
        let betting = self.sprt.is_none();
        let interval = self.betting.interval();
        Standing {
            method: self.settings.method,
            decision: self.decision,
            samples: self.samples(),
            min_samples: self.settings.min_samples,
            log_likelihood_ratio: self.log_likelihood_ratio(),
            lower_bound,
            upper_bound,
            e_value: betting.then(|| self.betting.evidence(Alternative::TwoSided).e_value()),
            p_value: betting.then(|| self.betting.strongest_evidence(Alternative::TwoSided).p_value()),
            mrr_delta: self.moments.mean(),
            interval: (count > 0.0).then_some(Bounds {
                low: interval.low,
                high: interval.high,
            }),
            control_mrr: mean(control.mrr),
            treatment_mrr: mean(treatment.mrr),
            ndcg_delta: mean(treatment.ndcg - control.ndcg),
            history: self.history.points(),
        }
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
