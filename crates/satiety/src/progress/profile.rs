//! Thresholds of the progress judge, as TOML.

use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const DEFAULT: &str = include_str!("profiles/default.toml");

/// All numbers that affect how a run is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressProfile {
    /// Name of the profile, as shown in reports.
    pub name: String,
    /// Purpose of the profile in one line.
    pub description: String,
    /// When steps count as similar.
    pub similarity: SimilarityLimits,
    /// Weights of the findings in nats.
    pub evidence: EvidenceWeights,
    /// Levels at which the judge acts.
    pub decision: DecisionLimits,
}

/// When steps count as similar.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimilarityLimits {
    /// Number of earlier steps that a step is compared with, from 1 to 64.
    pub window: usize,
    /// Minimum Jaccard similarity of near repeats, above 0 and at most 1.
    pub near: f64,
    /// Minimum cosine similarity of argument texts that mean the same, above 0 and at most 1.
    pub meaning: f64,
    /// Longest cycle that is looked for, from 2 to 12 steps.
    pub longest_cycle: usize,
    /// A retry after this many seconds is a backoff.
    pub backoff_seconds: f64,
}

/// Weights of the findings in nats, and factors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceWeights {
    /// The same action with the same outcome.
    pub exact_repeat: f64,
    /// A similar action with a similar outcome.
    pub near_repeat: f64,
    /// Added to a repeat that continues a cycle.
    pub cycle: f64,
    /// Another action that fails with the same error.
    pub same_error: f64,
    /// Another action that brings the same result.
    pub stagnation: f64,
    /// A similar edit that changes something else.
    pub revision: f64,
    /// An edit that takes back an earlier one.
    pub undo: f64,
    /// Reading the same content again after a long time.
    pub reread: f64,
    /// A step in a long series without a new file, query or result.
    pub no_new_target: f64,
    /// Growing cost without new results.
    pub cost_growth: f64,
    /// Asking a person the same thing again.
    pub repeated_question: f64,
    /// Writing the same text again.
    pub repeated_text: f64,
    /// Factor for a command that is run again after an edit.
    pub after_edit: f64,
    /// Factor for a retry after a backoff.
    pub after_backoff: f64,
    /// Subtracted for a step that brings something new.
    pub new_result: f64,
    /// Subtracted in addition for a new edit that succeeds.
    pub new_edit: f64,
}

/// Levels at which the judge acts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionLimits {
    /// Level from which the agent is nudged.
    pub nudge: f64,
    /// Level from which the agent is stopped; above `nudge`.
    pub stop: f64,
    /// Highest level; at least `stop`.
    pub ceiling: f64,
    /// Prior probability that a step is part of a loop, between 0 and 1.
    pub prior_stuck: f64,
    /// Factor from levels to nats for the confidence.
    pub nats_per_level: f64,
}

/// Reasons why a progress profile is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProgressProfileError {
    /// The text is not a valid profile.
    #[error("cannot read the progress profile: {0}")]
    Syntax(String),
    /// A value is out of range.
    #[error("cannot use the progress profile: {field} must be {expected}")]
    Range {
        /// Name of the field, such as `decision.stop`.
        field: &'static str,
        /// Description of the range.
        expected: &'static str,
    },
}

impl ProgressProfile {
    /// The built-in profile.
    pub fn built_in() -> Arc<Self> {
        #[expect(clippy::expect_used, reason = "the file is compiled in, and a test parses it")]
        static PROFILE: LazyLock<Arc<ProgressProfile>> =
            LazyLock::new(|| Arc::new(ProgressProfile::parse("").expect("profiles/default.toml is valid")));
        Arc::clone(&PROFILE)
    }

    /// Parses a profile; keys that are absent keep the value of the built-in profile.
    pub fn parse(text: &str) -> Result<Self, ProgressProfileError> {
        let syntax = |error: toml::de::Error| ProgressProfileError::Syntax(error.to_string());
        let mut table: toml::Table = toml::from_str(DEFAULT).map_err(syntax)?;
        let given: toml::Table = toml::from_str(text).map_err(syntax)?;
        for (key, value) in given {
            match (table.get_mut(&key), value) {
                (Some(toml::Value::Table(defaults)), toml::Value::Table(given)) => defaults.extend(given),
                (_, value) => {
                    table.insert(key, value);
                }
            }
        }
        let profile: Self = table.try_into().map_err(syntax)?;
        profile.check()?;
        Ok(profile)
    }

    /// Checks that all values are in range.
    pub fn check(&self) -> Result<(), ProgressProfileError> {
        let require = |valid: bool, field: &'static str, expected: &'static str| {
            if valid {
                Ok(())
            } else {
                Err(ProgressProfileError::Range { field, expected })
            }
        };
        let fraction = |value: f64| value > 0.0 && value <= 1.0;
        let similarity = &self.similarity;
        require(
            (1..=64).contains(&similarity.window),
            "similarity.window",
            "from 1 to 64",
        )?;
        require(
            fraction(similarity.near),
            "similarity.near",
            "above 0 and at most 1",
        )?;
        require(
            fraction(similarity.meaning),
            "similarity.meaning",
            "above 0 and at most 1",
        )?;
        require(
            (2..=12).contains(&similarity.longest_cycle),
            "similarity.longest_cycle",
            "from 2 to 12",
        )?;
        require(
            similarity.backoff_seconds >= 0.0,
            "similarity.backoff_seconds",
            "at least 0",
        )?;
        let decision = &self.decision;
        require(decision.nudge > 0.0, "decision.nudge", "above 0")?;
        require(
            decision.stop >= decision.nudge,
            "decision.stop",
            "at least `decision.nudge`",
        )?;
        require(
            decision.ceiling >= decision.stop,
            "decision.ceiling",
            "at least `decision.stop`",
        )?;
        require(
            decision.prior_stuck > 0.0 && decision.prior_stuck < 1.0,
            "decision.prior_stuck",
            "between 0 and 1",
        )?;
        require(
            decision.nats_per_level > 0.0,
            "decision.nats_per_level",
            "above 0",
        )?;
        let weights = &self.evidence;
        let all = [
            weights.exact_repeat,
            weights.near_repeat,
            weights.cycle,
            weights.same_error,
            weights.stagnation,
            weights.revision,
            weights.undo,
            weights.reread,
            weights.no_new_target,
            weights.cost_growth,
            weights.repeated_question,
            weights.repeated_text,
            weights.after_edit,
            weights.after_backoff,
            weights.new_result,
            weights.new_edit,
        ];
        require(
            all.iter().all(|weight| (0.0..=100.0).contains(weight)),
            "evidence",
            "from 0 to 100 in every key",
        )
    }
}
