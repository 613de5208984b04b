//! Settings of the research loop, with the specification's values as defaults where it gives them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::assess::Assessor;
use super::budget::Budget;
use super::literal;

/// Invalid research settings.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum SettingsError {
    /// A value is outside its range.
    #[error("{name} must be {range}, not {value}")]
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// Allowed range in words.
        range: &'static str,
        /// Rejected value.
        value: f64,
    },
    /// The minimum number of rounds exceeds the maximum.
    #[error("minimum of {min} rounds exceeds the maximum of {max}")]
    MinAboveMax {
        /// Configured minimum.
        min: u32,
        /// Configured maximum.
        max: u32,
    },
    /// The task has no text.
    #[error("task is empty")]
    NoTask,
}

/// Threshold below which results are no longer new enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopThreshold {
    /// Score from 0 to 10, compared after rounding, as in the specification.
    Score(u8),
    /// Share from 0 to 1, compared without rounding.
    Share(f64),
}

impl StopThreshold {
    /// Whether a share of new content is below the threshold.
    pub(crate) fn is_above(self, share: f64) -> bool {
        match self {
            Self::Score(score) => literal::score_of(share) < score,
            Self::Share(bound) => share < bound,
        }
    }

    /// Threshold as a share.
    pub(crate) fn as_share(self) -> f64 {
        match self {
            Self::Score(score) => f64::from(score) / 10.0,
            Self::Share(share) => share,
        }
    }
}

/// Rule that stops after an accepted round when the next one is not expected to pay off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LookAhead {
    /// First round after which the rule applies.
    pub from_round: u32,
    /// Yield (new and relevant content relative to the best round) below which to stop, from 0 to 1.
    pub yield_below: f64,
}

/// Rule that decides when the search stops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopRule {
    /// Stop when results are no longer new, or when another round is not expected to pay off.
    #[default]
    Novelty,
    /// Stop when the estimate of what is missed is at most `max_missed`.
    Missed,
    /// Search `max_rounds` times.
    Fixed,
}

/// Settings of the saturation gate. Each has a default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GateSettings {
    /// Rule that decides when the search stops.
    pub stop: StopRule,
    /// Share of the relevant results of ten searches that rule `missed` accepts to miss, from 0 to 1.
    pub max_missed: f64,
    /// Assessor that scores how new results are.
    pub assessor: Assessor,
    /// Number of first rounds that are never gated.
    pub min_rounds: u32,
    /// Maximum number of rounds.
    pub max_rounds: u32,
    /// Threshold below which results are no longer new.
    pub threshold: StopThreshold,
    /// Probability that a round below the threshold is kept anyway, from 0 to 1.
    pub epsilon: f64,
    /// Seed of the random draws; recorded with every run.
    pub seed: u64,
    /// Look-ahead rule that avoids paying for a round that would be rejected; absent in the specification.
    pub look_ahead: Option<LookAhead>,
    /// Distance from the threshold within which `auto` asks a model.
    pub grey_zone: f64,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            stop: StopRule::Novelty,
            max_missed: 0.1,
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
    /// Settings that follow the specification exactly.
    pub fn literal() -> Self {
        Self {
            assessor: Assessor::Seed,
            look_ahead: None,
            ..Self::default()
        }
    }

    /// Validates the settings.
    pub fn check(&self) -> Result<(), SettingsError> {
        let range = |name, value: f64, top: f64, range| {
            if (0.0..=top).contains(&value) {
                Ok(())
            } else {
                Err(SettingsError::OutOfRange { name, range, value })
            }
        };
        range("epsilon", self.epsilon, 1.0, "between 0 and 1")?;
        range("maximum missed share", self.max_missed, 1.0, "between 0 and 1")?;
        range("grey zone", self.grey_zone, 1.0, "between 0 and 1")?;
        let (bound, top, words) = match self.threshold {
            StopThreshold::Score(score) => (f64::from(score), 10.0, "between 0 and 10"),
            StopThreshold::Share(share) => (share, 1.0, "between 0 and 1"),
        };
        range("threshold", bound, top, words)?;
        if let Some(ahead) = self.look_ahead {
            range("look-ahead yield", ahead.yield_below, 1.0, "between 0 and 1")?;
        }
        if self.max_rounds == 0 {
            return Err(SettingsError::OutOfRange {
                name: "maximum number of rounds",
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

/// Settings of the whole research loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResearchSettings {
    /// Settings of the saturation gate.
    pub gate: GateSettings,
    /// Number of results requested per search.
    pub results_per_search: u32,
    /// Maximum length of the summary in characters.
    pub summary_chars: usize,
    /// Number of pages to read in full at the end; 0 disables reading.
    pub enrich_pages: u32,
    /// A page is not read when more than this share of its snippet was known before its round.
    pub enrich_overlap: f64,
    /// Limits of time, tokens and money.
    pub budget: Budget,
    /// Maximum number of quoted sentences per question.
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
    /// Validates the settings.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.gate.check()?;
        if !(0.0..=1.0).contains(&self.enrich_overlap) {
            return Err(SettingsError::OutOfRange {
                name: "page overlap",
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
    fn defaults_match_the_specification() {
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
    fn invalid_values_are_reported() {
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
            bad(|gate| gate.max_missed = -0.1),
            "maximum missed share must be between 0 and 1, not -0.1"
        );
        assert_eq!(
            bad(|gate| gate.epsilon = f64::NAN),
            "epsilon must be between 0 and 1, not NaN"
        );
        assert_eq!(
            bad(|gate| gate.threshold = StopThreshold::Score(11)),
            "threshold must be between 0 and 10, not 11"
        );
        assert_eq!(
            bad(|gate| gate.min_rounds = 9),
            "minimum of 9 rounds exceeds the maximum of 5"
        );
        assert!(bad(|gate| gate.max_rounds = 0).contains("at least 1"));
    }
}
