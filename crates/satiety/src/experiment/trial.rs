//! The sequential test of a feature: one difference a question, a look after each, a decision that stays.
//!
//! What is tested is the mean of paired differences, treatment − control, of the reciprocal rank of the first relevant
//! result of the same question; it lies between −1 and 1. The default bets against "no difference" (an e-process, valid
//! for any distribution within the bounds and at any time); the alternative is Wald's test for normal differences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{History, Outcome};
use crate::stats::{
    Alternative, BettingSettings, BettingTest, Moments, NormalSprt, Result, SprtDecision, SprtSettings,
    SprtSigma,
};

/// Observations from which Wald's test takes the spread of the differences.
const BURN_IN: u64 = 20;
/// Means that the interval is searched among: steps of 0.01.
const GRID: usize = 200;

/// Which test decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// An anytime-valid e-process for bounded differences.
    #[default]
    Betting,
    /// Wald's sequential probability ratio test for normal differences, with the spread from a burn-in.
    Sprt,
}

impl Method {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Betting => "betting",
            Self::Sprt => "sprt",
        }
    }
}

/// How a trial decides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialSettings {
    /// Which test.
    pub method: Method,
    /// The probability of accepting either pipeline wrongly, whenever one looks.
    pub alpha: f64,
    /// `sprt` alone: the probability of missing the effect.
    pub beta: f64,
    /// `sprt` alone: the effect that it looks for.
    pub effect: f64,
    /// No decision before so many observations.
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

/// What a trial says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Not enough evidence yet.
    Continue,
    /// The feature is better.
    AcceptTreatment,
    /// It is worse, or with `sprt`: it does not have the effect.
    AcceptControl,
}

impl Decision {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::AcceptTreatment => "accept-treatment",
            Self::AcceptControl => "accept-control",
        }
    }
}

/// One question, answered by both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// What the list of the pipeline as it is was worth.
    pub control: Outcome,
    /// What the list with the feature was worth.
    pub treatment: Outcome,
}

/// A running trial; as JSON it can be put away and taken up again anywhere.
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

/// Where a trial stands.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Standing {
    /// The test.
    pub method: Method,
    /// What it says.
    pub decision: Decision,
    /// Questions that were compared.
    pub samples: u64,
    /// No decision before so many.
    pub min_samples: u64,
    /// The evidence as a logarithm, above 0 for the treatment and below for the control. `betting`: the log-wealth of
    /// the better of the two bets, 0 as long as neither has won; `sprt`: the log-likelihood ratio, absent in the burn-in.
    pub log_likelihood_ratio: Option<f64>,
    /// Below this the control is accepted.
    pub lower_bound: f64,
    /// Above this the treatment is.
    pub upper_bound: f64,
    /// `betting`: the two-sided e-value now.
    pub e_value: Option<f64>,
    /// `betting`: the p-value that may be looked at all the time.
    pub p_value: Option<f64>,
    /// The mean difference of the reciprocal rank, treatment − control.
    pub mrr_delta: Option<f64>,
    /// The interval that holds it at all times at once (the betting confidence sequence, whichever test decides).
    pub interval: Option<Bounds>,
    /// Means of both.
    pub control_mrr: Option<f64>,
    /// With the feature.
    pub treatment_mrr: Option<f64>,
    /// The mean difference of the gain.
    pub ndcg_delta: Option<f64>,
    /// The evidence over time, thinned.
    pub history: Vec<f64>,
}

/// An interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// From.
    pub low: f64,
    /// To.
    pub high: f64,
}

impl Trial {
    /// Starts a trial.
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

    /// Takes the next question; says whether it counted. After a decision nothing does any more.
    pub fn observe(&mut self, observation: Observation) -> Result<bool> {
        if self.decision != Decision::Continue {
            return Ok(false);
        }
        let difference = observation.treatment.mrr - observation.control.mrr;
        // The bound is checked first, so that a refused value leaves everything as it was.
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

    /// Half of the money is on either side, so that the two errors together have probability alpha.
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

    /// What the wealth of one bet must reach: two over alpha, because each began with half of the money.
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

    /// What it says so far.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// How many questions counted.
    pub fn samples(&self) -> u64 {
        self.moments.count()
    }

    /// Sums over the questions that counted: of the control, and of the treatment.
    pub fn sums(&self) -> [Outcome; 2] {
        self.sums
    }

    /// Where it stands.
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
