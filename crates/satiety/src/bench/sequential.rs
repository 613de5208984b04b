//! Sequential test that stops repeats as soon as the result is clear. Pairs of results (the same case and
//! repeat, baseline and candidate, or variant and control) arrive in any order that does not depend on the
//! results. The test may be evaluated after each pair, because the evidence is an e-value: if every case
//! passes equally often in both, a pair that differs is a fair coin flip, whichever case it comes from, and
//! betting on such flips ever reaches a gain of 1/alpha with probability at most alpha.
//!
//! By contrast, evaluating a 5 % t-test after each of 20 rounds raises its error rate to about 26 %.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::stats::{Alternative, discordant_evidence};

/// Planned size and error level of a sequential test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequentialSettings {
    /// Probability of a wrong decision, between 0 and 1.
    pub alpha: f64,
    /// Number of cases in the suite.
    pub cases: u64,
    /// Maximum number of repeats per case.
    pub max_repeats: u64,
    /// Calls per pair: one when the baseline exists already, two when both are run.
    pub calls_per_pair: u64,
    /// Stop also when a difference of this size or larger is excluded in both directions.
    pub futility_margin: Option<f64>,
}

/// Direction of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The candidate is better than the baseline.
    Better,
    /// The candidate is worse than the baseline.
    Worse,
}

/// State of a sequential test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// More pairs are needed to decide.
    Continue,
    /// A difference in this direction is significant.
    Decided(Side),
    /// A relevant difference is excluded.
    NoDifference,
    /// All planned pairs were observed without a decision.
    Exhausted,
}

/// Reason why a pair or settings are rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SequentialError {
    /// The same pair was observed twice.
    #[error("case `{case}` repeat {repeat} was already observed")]
    Twice {
        /// Id of the case.
        case: String,
        /// Number of the repeat, from 0.
        repeat: u32,
    },
    /// The settings do not define a valid test.
    #[error("{0}")]
    Settings(&'static str),
}

/// A running sequential test. A decision is final.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sequential {
    settings: SequentialSettings,
    seen: BTreeSet<(String, u32)>,
    wins: u64,
    losses: u64,
    progress: Progress,
}

impl Sequential {
    /// Starts a test; fails for invalid settings.
    pub fn new(settings: SequentialSettings) -> Result<Self, SequentialError> {
        if !(settings.alpha > 0.0 && settings.alpha < 1.0) {
            return Err(SequentialError::Settings("alpha must be between 0 and 1"));
        }
        if settings.cases == 0 || settings.max_repeats == 0 {
            return Err(SequentialError::Settings(
                "at least one case and one repeat are required",
            ));
        }
        if settings
            .futility_margin
            .is_some_and(|margin| !(margin > 0.0 && margin < 1.0))
        {
            return Err(SequentialError::Settings(
                "futility margin must be between 0 and 1",
            ));
        }
        Ok(Self {
            settings,
            seen: BTreeSet::new(),
            wins: 0,
            losses: 0,
            progress: Progress::Continue,
        })
    }

    /// Adds the next pair. Pairs that arrive after the decision are counted but do not change it.
    pub fn observe(
        &mut self,
        case: &str,
        repeat: u32,
        baseline_pass: bool,
        candidate_pass: bool,
    ) -> Result<Progress, SequentialError> {
        if !self.seen.insert((case.to_owned(), repeat)) {
            return Err(SequentialError::Twice {
                case: case.to_owned(),
                repeat,
            });
        }
        if self.progress != Progress::Continue {
            return Ok(self.progress);
        }
        match (baseline_pass, candidate_pass) {
            (false, true) => self.wins += 1,
            (true, false) => self.losses += 1,
            _ => {}
        }
        self.progress = if discordant_evidence(self.wins, self.losses, Alternative::TwoSided)
            .rejects(self.settings.alpha)
        {
            Progress::Decided(if self.wins > self.losses {
                Side::Better
            } else {
                Side::Worse
            })
        } else if self.is_futile() {
            Progress::NoDifference
        } else if self.pairs() >= self.planned() {
            Progress::Exhausted
        } else {
            Progress::Continue
        };
        Ok(self.progress)
    }

    /// Robbins' normal mixture: the sum of n differences, each within ±1 and so 1-sub-Gaussian about its own
    /// mean, stays within `sqrt((n + ρ) ln((n + ρ) / (ρ α²)))` of the sum of their means at all times with
    /// probability 1 − α. It holds for means that differ from case to case. ρ is tuned to the planned end.
    fn is_futile(&self) -> bool {
        let Some(margin) = self.settings.futility_margin else {
            return false;
        };
        let n = self.pairs() as f64;
        let rho = self.planned() as f64 / 8.0;
        let alpha = self.settings.alpha;
        let radius = ((n + rho) * ((n + rho) / (rho * alpha * alpha)).ln()).sqrt() / n;
        self.difference().abs() + radius < margin
    }

    /// Current state of the test.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Number of pairs observed so far.
    pub fn pairs(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Mean difference of the pass rates so far, candidate − baseline.
    pub fn difference(&self) -> f64 {
        (self.wins as f64 - self.losses as f64) / self.pairs().max(1) as f64
    }

    /// Current e-value; the test decides when it reaches 1/alpha.
    pub fn e_value(&self) -> f64 {
        discordant_evidence(self.wins, self.losses, Alternative::TwoSided).e_value()
    }

    /// Planned calls that are no longer needed.
    pub fn calls_saved(&self) -> u64 {
        if self.progress == Progress::Continue {
            return 0;
        }
        self.planned().saturating_sub(self.pairs()) * self.settings.calls_per_pair
    }

    fn planned(&self) -> u64 {
        self.settings.cases.saturating_mul(self.settings.max_repeats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    fn settings(cases: u64, max_repeats: u64) -> SequentialSettings {
        SequentialSettings {
            alpha: 0.05,
            cases,
            max_repeats,
            calls_per_pair: 1,
            futility_margin: None,
        }
    }

    fn simulate(seed: u64, cases: u32, repeats: u32, gain: f64, futility: Option<f64>) -> Sequential {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let rates: Vec<f64> = (0..cases).map(|_| 0.4 + 0.4 * uniform()).collect();
        let mut test = Sequential::new(SequentialSettings {
            futility_margin: futility,
            ..settings(u64::from(cases), u64::from(repeats))
        })
        .unwrap();
        for repeat in 0..repeats {
            for (case, rate) in rates.iter().enumerate() {
                let (before, now) = (uniform() < *rate, uniform() < rate + gain);
                if test.observe(&case.to_string(), repeat, before, now).unwrap() != Progress::Continue {
                    return test;
                }
            }
        }
        test
    }

    #[test]
    fn seven_wins_in_a_row_decide() {
        let mut test = Sequential::new(settings(20, 1)).unwrap();
        // 2^7 C(14, 7) / 4^7 = 26.8, after six 14.4.
        for case in 0..7 {
            assert_eq!(test.progress(), Progress::Continue);
            test.observe(&case.to_string(), 0, false, true).unwrap();
        }
        assert_eq!(test.progress(), Progress::Decided(Side::Better));
        assert_eq!((test.calls_saved(), test.wins, test.losses), (13, 7, 0));
        // A late pair changes nothing; a duplicate is rejected.
        assert_eq!(
            test.observe("19", 0, true, false).unwrap(),
            Progress::Decided(Side::Better)
        );
        assert_eq!((test.calls_saved(), test.wins, test.losses), (12, 7, 0));
        assert!(test.observe("3", 0, true, true).is_err());
        let json = serde_json::to_string(&test).unwrap();
        assert_eq!(serde_json::from_str::<Sequential>(&json).unwrap(), test);
    }

    #[test]
    fn an_unchanged_system_is_rarely_called_changed() {
        let wrong = (0..200)
            .filter(|&seed| matches!(simulate(seed, 30, 10, 0.0, None).progress(), Progress::Decided(_)))
            .count();
        // Five per cent of 200 and three standard deviations.
        assert!(wrong <= 19, "{wrong} of 200");
        assert_eq!(simulate(1, 3, 2, 0.0, None).progress(), Progress::Exhausted);
    }

    #[test]
    fn a_large_change_is_detected_early() {
        let found: Vec<Sequential> = (0..50).map(|seed| simulate(seed, 50, 20, 0.2, None)).collect();
        let right = found
            .iter()
            .filter(|test| test.progress() == Progress::Decided(Side::Better))
            .count();
        let saved: u64 = found.iter().map(Sequential::calls_saved).sum::<u64>() / 50;
        assert_eq!(right, 50);
        assert!(saved > 700, "{saved} of 1,000 calls saved");
    }

    #[test]
    fn futility_ends_the_test() {
        let test = simulate(3, 100, 40, 0.0, Some(0.1));
        assert_eq!(test.progress(), Progress::NoDifference);
        assert!(test.calls_saved() > 0);
        assert_eq!(
            simulate(3, 100, 40, 0.2, Some(0.1)).progress(),
            Progress::Decided(Side::Better)
        );
    }

    #[test]
    fn invalid_settings_are_rejected() {
        for wrong in [
            SequentialSettings {
                alpha: 0.0,
                ..settings(1, 1)
            },
            settings(0, 1),
            SequentialSettings {
                futility_margin: Some(1.5),
                ..settings(1, 1)
            },
        ] {
            assert!(Sequential::new(wrong).is_err());
        }
    }
}
