//! Every constant of the loop, with the specification's values where it gives them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::assess::Assessor;
use super::budget::Budget;
use super::literal;

/// What is wrong with settings.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum SettingsError {
    /// A number outside its range.
    #[error("{name} must be {range}, not {value}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it is.
        value: f64,
    },
    /// The first rounds are more than all rounds.
    #[error("the minimum of {min} rounds is above the maximum of {max}")]
    MinAboveMax {
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
    },
    /// A research without a question.
    #[error("the task is empty")]
    NoTask,
}

/// From where on down results are no longer new enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopThreshold {
    /// A score from 0 to 10, compared after rounding, as the specification does.
    Score(u8),
    /// A share from 0 to 1, compared as it is.
    Share(f64),
}

impl StopThreshold {
    /// Whether a share of new claims is too small.
    pub(crate) fn is_above(self, share: f64) -> bool {
        match self {
            Self::Score(score) => literal::score_of(share) < score,
            Self::Share(bound) => share < bound,
        }
    }

    /// The bound as a share.
    pub(crate) fn as_share(self) -> f64 {
        match self {
            Self::Score(score) => f64::from(score) / 10.0,
            Self::Share(share) => share,
        }
    }
}

/// When to stop after a round that was accepted, because the next one is not expected to pay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LookAhead {
    /// The first round after which it may stop.
    pub from_round: u32,
    /// Stops when the round's yield (new and on the task, over the best round's) is below this.
    pub yield_below: f64,
}

/// How the gate decides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateSettings {
    /// Who says how new results are.
    pub assessor: Assessor,
    /// Rounds that are never gated.
    pub min_rounds: u32,
    /// The hard cap.
    pub max_rounds: u32,
    /// Below this, results are no longer new.
    pub threshold: StopThreshold,
    /// The chance that a round below the threshold passes all the same.
    pub epsilon: f64,
    /// Where chance comes from; recorded with every run.
    pub seed: u64,
    /// Stopping without paying for a round that would be rejected; absent in the specification.
    pub look_ahead: Option<LookAhead>,
    /// `auto` asks a model when the share is this near to the threshold.
    pub grey_zone: f64,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            assessor: Assessor::Claims,
            min_rounds: 2,
            max_rounds: 5,
            threshold: StopThreshold::Score(3),
            epsilon: 0.15,
            seed: 0,
            look_ahead: Some(LookAhead {
                from_round: 3,
                yield_below: 0.25,
            }),
            grey_zone: 0.1,
        }
    }
}

impl GateSettings {
    /// The specification to the letter.
    pub fn literal() -> Self {
        Self {
            assessor: Assessor::Seed,
            look_ahead: None,
            ..Self::default()
        }
    }

    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), SettingsError> {
        let range = |name, value: f64, top: f64, range| {
            if (0.0..=top).contains(&value) {
                Ok(())
            } else {
                Err(SettingsError::OutOfRange { name, range, value })
            }
        };
        range("epsilon", self.epsilon, 1.0, "between 0 and 1")?;
        range("the grey zone", self.grey_zone, 1.0, "between 0 and 1")?;
        let (bound, top, words) = match self.threshold {
            StopThreshold::Score(score) => (f64::from(score), 10.0, "between 0 and 10"),
            StopThreshold::Share(share) => (share, 1.0, "between 0 and 1"),
        };
        range("the threshold", bound, top, words)?;
        if let Some(ahead) = self.look_ahead {
            range("the look-ahead yield", ahead.yield_below, 1.0, "between 0 and 1")?;
        }
        if self.max_rounds == 0 {
            return Err(SettingsError::OutOfRange {
                name: "the maximum of rounds",
                range: "at least 1",
                value: 0.0,
            });
        }
        if self.min_rounds > self.max_rounds {
            return Err(SettingsError::MinAboveMax {
                min: self.min_rounds,
                max: self.max_rounds,
            });
        }
        Ok(())
    }
}

/// How the whole loop works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResearchSettings {
    /// The gate.
    pub gate: GateSettings,
    /// Results asked for in each search.
    pub results_per_search: u32,
    /// The longest summary.
    pub summary_chars: usize,
    /// Pages to read whole at the end; 0 for none.
    pub enrich_pages: u32,
    /// A page is not read when more than this share of its snippet was known before its round.
    pub enrich_overlap: f64,
    /// What may be spent.
    pub budget: Budget,
    /// Sentences in the report for each question.
    pub sentences_per_question: usize,
}

impl Default for ResearchSettings {
    fn default() -> Self {
        Self {
            gate: GateSettings::default(),
            results_per_search: 20,
            summary_chars: literal::SUMMARY_CHARS,
            enrich_pages: 0,
            enrich_overlap: literal::ENRICH_OVERLAP,
            budget: Budget::default(),
            sentences_per_question: 6,
        }
    }
}

impl ResearchSettings {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.gate.check()?;
        if !(0.0..=1.0).contains(&self.enrich_overlap) {
            return Err(SettingsError::OutOfRange {
                name: "the overlap for reading pages",
                range: "between 0 and 1",
                value: self.enrich_overlap,
            });
        }
        if self.results_per_search == 0 || self.results_per_search > 200 {
            return Err(SettingsError::OutOfRange {
                name: "results per search",
                range: "between 1 and 200",
                value: f64::from(self.results_per_search),
            });
        }
        self.budget.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specifications_constants() {
        let gate = GateSettings::default();
        assert_eq!(
            (gate.min_rounds, gate.max_rounds, gate.threshold),
            (2, 5, StopThreshold::Score(3))
        );
        assert!((gate.epsilon - 0.15).abs() < 1e-12);
        let settings = ResearchSettings::default();
        assert_eq!(settings.summary_chars, 1500);
        assert!((settings.enrich_overlap - 0.6).abs() < 1e-12);
        assert!(settings.check().is_ok());
        assert!(GateSettings::literal().look_ahead.is_none());
    }

    #[test]
    fn a_score_is_compared_after_rounding_and_a_share_before() {
        // 0.25 rounds to 2 (half to even), 0.26 to 3.
        assert!(StopThreshold::Score(3).is_above(0.25));
        assert!(!StopThreshold::Score(3).is_above(0.26));
        assert!(StopThreshold::Share(0.3).is_above(0.26));
        assert!(!StopThreshold::Share(0.3).is_above(0.3));
    }

    #[test]
    fn nonsense_is_refused_with_its_value() {
        let bad = |change: fn(&mut GateSettings)| {
            let mut gate = GateSettings::default();
            change(&mut gate);
            gate.check().unwrap_err().to_string()
        };
        assert_eq!(
            bad(|gate| gate.epsilon = 1.5),
            "epsilon must be between 0 and 1, not 1.5"
        );
        assert_eq!(
            bad(|gate| gate.epsilon = f64::NAN),
            "epsilon must be between 0 and 1, not NaN"
        );
        assert_eq!(
            bad(|gate| gate.threshold = StopThreshold::Score(11)),
            "the threshold must be between 0 and 10, not 11"
        );
        assert_eq!(
            bad(|gate| gate.min_rounds = 9),
            "the minimum of 9 rounds is above the maximum of 5"
        );
        assert!(bad(|gate| gate.max_rounds = 0).contains("at least 1"));
    }
}
