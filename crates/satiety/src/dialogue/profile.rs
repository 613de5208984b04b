//! Profiles: all thresholds, word lists and rule choices of the dialogue scorer, as TOML.
//!
//! Two profiles are built in (`profiles/default.toml`, `profiles/spec.toml`). A custom profile may set only
//! some keys; `extends` names the built-in profile that provides the others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::{Table, Value};

use crate::text::Tokenization;

const DEFAULT: &str = include_str!("profiles/default.toml");
const SPEC: &str = include_str!("profiles/spec.toml");

/// Suffix of keys that append to a list instead of replacing it.
const APPEND_SUFFIX: &str = "_also";

/// All settings that affect how a conversation is scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name of the profile, as shown in reports.
    pub name: String,
    /// Purpose of the profile in one line.
    pub description: String,
    /// Rules that decide whether a claim is new.
    pub novelty: NoveltyRules,
    /// Weights and thresholds of action readiness.
    pub readiness: ReadinessRules,
    /// Rules that turn novelty and readiness into a signal.
    pub decision: DecisionRules,
    /// Rules that decide whether a question is open, answered or deferred.
    pub questions: QuestionRules,
    /// Rules that decide whether an action is specific or vague.
    pub actions: ActionRules,
    /// Rules that detect blockers in questions, actions and claims.
    pub blockers: BlockerRules,
    /// Rules that detect the stance of a claim on an earlier one.
    pub agreement: AgreementRules,
    /// Thresholds of the warnings about failure modes.
    pub warnings: WarningRules,
    /// Rules that stop reviews by their yield.
    pub review: ReviewRules,
}

/// Thresholds of the three matching levels and of the novelty classification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoveltyRules {
    /// L1: how claims are split into words, `words` or `whitespace`.
    pub tokenization: Tokenization,
    /// L1: minimum Jaccard similarity of a restatement, above 0 and at most 1.
    pub jaccard_threshold: f64,
    /// L2: minimum cosine similarity of a restatement, above 0 and at most 1.
    pub semantic_threshold: f64,
    /// L2: minimum cosine similarity at which a new claim is reported as a possible restatement.
    pub possible_restatement: f64,
    /// Whether a match also requires the same numbers, negation and names.
    pub guard: bool,
    /// Whether claims are also compared with others of the same round.
    pub compare_within_round: bool,
    /// Novelty rates below this are LOW; must be below `high`.
    pub low: f64,
    /// Novelty rates above this are HIGH.
    pub high: f64,
}

/// Weights, scores and thresholds of action readiness (seed section 3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadinessRules {
    /// Weight of the next actions; the three weights must sum to 1.
    pub actions_weight: f64,
    /// Weight of the open questions.
    pub questions_weight: f64,
    /// Weight of the absence of blockers.
    pub blockers_weight: f64,
    /// Minimum score of MEDIUM readiness.
    pub medium: f64,
    /// Minimum score of HIGH readiness.
    pub high: f64,
    /// Action score without next actions.
    pub actions_none: f64,
    /// Action score with only vague actions.
    pub actions_vague: f64,
    /// Action score with a specific action.
    pub actions_specific: f64,
    /// Action score with several specific actions and an owner.
    pub actions_owned: f64,
    /// Question score without open questions.
    pub questions_none: f64,
    /// Question score with fewer open questions than in the previous round.
    pub questions_fewer: f64,
    /// Question score with as many open questions as in the previous round.
    pub questions_same: f64,
    /// Question score with more open questions than in the previous round.
    pub questions_more: f64,
    /// Question score with open questions in the first round.
    pub questions_first: f64,
}

/// The decision rule and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRules {
    /// Rule that decides when novelty is exhausted.
    pub rule: Rule,
    /// Consecutive rounds of low novelty after which novelty counts as LOW, at least 1.
    pub k: u32,
    /// Consecutive low rounds after which to ESCALATE unless readiness was HIGH in one of them (seed 4.2.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate_after: Option<u32>,
    /// Whether a converged conversation with nothing to execute is STOP instead of SHIP.
    pub stop_signal: bool,
    /// Whether SHIP with open questions requires a specific action; without one the signal is ESCALATE.
    pub ship_needs_action: bool,
    /// Rule `course`: maximum novelty, as a share of the peak, at which a finished plan ships.
    pub settled_novelty: f64,
    /// Rule `course`: minimum number of consecutive repeated claims before one quiet round can end the
    /// conversation.
    pub minimum_repeats: u32,
    /// CUSUM: share of new claims in a productive conversation (`p0`), between 0 and 1.
    pub cusum_living: f64,
    /// CUSUM: share of new claims in an exhausted conversation (`p1`), below `cusum_living`.
    pub cusum_exhausted: f64,
    /// CUSUM: alarm threshold (`h`).
    pub cusum_alarm: f64,
}

/// Decision rules that a profile can select.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Rule of the seed: novelty is LOW after `k` consecutive low rounds; the matrix then selects the signal.
    KConsecutive,
    /// Novelty is LOW when the claim-level CUSUM raises an alarm; the matrix then selects the signal.
    Cusum,
    /// Uses the history of the conversation: a finished plan ships when novelty tapers off, a quiet round
    /// that raises nothing new ends the conversation, one that raises a question or action is a pause, and
    /// the CUSUM ends long tails.
    Course,
}

/// Rules that decide whether a question is open, answered or deferred.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionRules {
    /// Minimum cosine similarity of a claim or decision that answers a question no longer listed.
    pub answer_similarity: f64,
    /// Minimum cosine similarity of a decision that answers a question still listed.
    pub decision_similarity: f64,
    /// Minimum share of the question's words in an answer, used without vectors.
    pub answer_overlap: f64,
    /// Entries that mean that there is no question, such as "none".
    pub nothing: Vec<String>,
    /// Prefixes of answered or deferred questions, such as "resolved".
    pub closed_prefixes: Vec<String>,
    /// First words of questions among the claims.
    pub interrogatives: Vec<String>,
    /// Prefixes of claims that are implicit questions, such as "it is unclear".
    pub hidden_prefixes: Vec<String>,
}

/// Rules that decide whether an action is specific or vague.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRules {
    /// Prefixes of vague actions, such as "consider".
    pub vague_prefixes: Vec<String>,
    /// Phrases that make an action vague, such as "maybe".
    pub hedges: Vec<String>,
    /// Actions without a verb and with fewer words than this are vague.
    pub short_words: usize,
    /// Imperative verbs of specific actions.
    pub verbs: Vec<String>,
    /// Words that may precede the verb of an action, such as "will".
    pub owner_markers: Vec<String>,
    /// Phrases that assign an action to an owner, such as "assigned to".
    pub ownership: Vec<String>,
    /// Words that do not count as the object of a verb, such as "it".
    pub empty_objects: Vec<String>,
}

/// Rules that detect blockers in questions, actions and claims.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockerRules {
    /// Phrases that indicate a blocker in questions and actions.
    pub phrases: Vec<String>,
    /// Phrases that indicate a blocker in claims.
    pub claim_phrases: Vec<String>,
    /// Phrases that indicate a blocker at the beginning of any text, such as "insufficient data".
    pub leading_phrases: Vec<String>,
    /// Phrases that indicate a blocker at the beginning of questions, actions and decisions, such as "wait for".
    pub waiting_phrases: Vec<String>,
    /// Beginnings of decisions to hand the matter over, such as "escalate to".
    pub escalations: Vec<String>,
    /// Words that block unless the action works on them, such as "missing".
    pub attributes: Vec<String>,
    /// Words that cancel a phrase within three words before it.
    pub negations: Vec<String>,
    /// Phrases that contain a negation and are not cancelled by one.
    pub negative_phrases: Vec<String>,
    /// Words that cancel a phrase within four words after it.
    pub resolutions: Vec<String>,
    /// Example sentences of implicit blockers, compared by embedding.
    pub prototypes: Vec<String>,
    /// Minimum cosine similarity to a prototype for a warning.
    pub prototype_warns: f64,
    /// Minimum cosine similarity to a prototype for a blocker.
    pub prototype_blocks: f64,
}

/// Rules that detect the stance of a claim on an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgreementRules {
    /// Phrases that endorse an earlier claim.
    pub endorsing: Vec<String>,
    /// Phrases that modify an earlier claim.
    pub modifying: Vec<String>,
    /// Phrases that contradict an earlier claim.
    pub contradicting: Vec<String>,
    /// Minimum similarity at which a claim relates to an earlier one.
    pub related_similarity: f64,
    /// Names of speakers who ask rather than discuss, in lowercase; their silence means nothing.
    pub requesters: Vec<String>,
}

/// Thresholds of the warnings about failure modes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarningRules {
    /// Minimum share of reworded claims that restate earlier ones for `paraphrase_gaming`.
    pub paraphrase_share: f64,
    /// Minimum number of such claims for `paraphrase_gaming`.
    pub paraphrase_minimum: usize,
    /// Share of new claims below which a long round is `claim_inflation`.
    pub inflation_ratio: f64,
    /// Minimum number of claims of a long round.
    pub inflation_minimum: usize,
}

/// Rules that stop reviews by their yield: the weight of the new findings of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewRules {
    /// Weighted yield below which a round is not worth its cost (critical 8, high 4, medium 2, low 1, nit 0.25);
    /// 0 disables the rule.
    pub bar: f64,
    /// Consecutive rounds below the bar after which the review stops, at least 1.
    pub rounds: u32,
    /// Minimum number of findings with a severity.
    pub minimum_findings: usize,
    /// Minimum share of the claims that are findings with a severity.
    pub minimum_share: f64,
}

/// Errors of loading or validating a profile.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum ProfileError {
    /// The text is not valid TOML.
    #[error("the profile is not valid TOML: {0}")]
    Syntax(String),
    /// No built-in profile has this name.
    #[error("unknown profile `{name}` (expected one of: default, spec)")]
    Unknown {
        /// Name that was requested.
        name: String,
    },
    /// A key is unknown, missing or of the wrong type.
    #[error("invalid profile: {0}")]
    Shape(String),
    /// A number is outside its range.
    #[error("`{key}` must be {range}, but is {value}")]
    OutOfRange {
        /// Full key, including its table.
        key: &'static str,
        /// The value that was set.
        value: f64,
        /// Description of the valid range.
        range: &'static str,
    },
}

impl Profile {
    /// Returns the built-in profile with this name.
    pub fn built_in(name: &str) -> Result<Self, ProfileError> {
        Self::from_table(built_in_table(name)?)
    }

    /// Names of the built-in profiles, the default first.
    pub fn built_in_names() -> [&'static str; 2] {
        ["default", "spec"]
    }

    /// Parses a custom profile. Missing keys come from the profile named by `extends`, or from `default`. A
    /// list key with the suffix `_also` appends to the list instead of replacing it.
    ///
    /// ```
    /// use satiety::dialogue::Profile;
    /// let mine = Profile::parse("name = 'mine'\n[blockers]\nphrases_also = ['embargo']")?;
    /// assert!(mine.blockers.phrases.contains(&"embargo".to_owned()));
    /// assert!(mine.blockers.phrases.contains(&"blocked".to_owned()));
    /// # Ok::<(), satiety::dialogue::ProfileError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let mut table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| ProfileError::Syntax(error.to_string()))?;
        let base = match table.remove("extends") {
            None => "default".to_owned(),
            Some(Value::String(name)) => name,
            Some(other) => {
                return Err(ProfileError::Shape(format!(
                    "`extends` must be a string, found {}",
                    other.type_str()
                )));
            }
        };
        let mut merged = built_in_table(&base)?;
        overlay(&mut merged, table, "")?;
        Self::from_table(merged)
    }

    fn from_table(table: Table) -> Result<Self, ProfileError> {
        let profile: Self = table.try_into().map_err(|error: toml::de::Error| {
            ProfileError::Shape(error.to_string().trim().replace('\n', " "))
        })?;
        profile.check()?;
        Ok(profile)
    }

    /// Validates the ranges of all numbers. Built-in and parsed profiles are always valid.
    pub fn check(&self) -> Result<(), ProfileError> {
        const UNIT: &str = "above 0 and at most 1";
        let in_unit = |key, value: f64| {
            if value > 0.0 && value <= 1.0 {
                Ok(())
            } else {
                Err(ProfileError::OutOfRange {
                    key,
                    value,
                    range: UNIT,
                })
            }
        };
        in_unit("novelty.jaccard_threshold", self.novelty.jaccard_threshold)?;
        in_unit("novelty.semantic_threshold", self.novelty.semantic_threshold)?;
        in_unit("novelty.possible_restatement", self.novelty.possible_restatement)?;
        in_unit("novelty.high", self.novelty.high)?;
        if !(self.novelty.low >= 0.0 && self.novelty.low < self.novelty.high) {
            return Err(ProfileError::OutOfRange {
                key: "novelty.low",
                value: self.novelty.low,
                range: "at least 0 and below novelty.high",
            });
        }
        let decision = &self.decision;
        if decision.k == 0 {
            return Err(ProfileError::OutOfRange {
                key: "decision.k",
                value: 0.0,
                range: "at least 1",
            });
        }
        let living = decision.cusum_living;
        if !(living > 0.0 && living < 1.0) {
            return Err(ProfileError::OutOfRange {
                key: "decision.cusum_living",
                value: living,
                range: "between 0 and 1",
            });
        }
        let exhausted = decision.cusum_exhausted;
        if !(exhausted > 0.0 && exhausted < living) {
            return Err(ProfileError::OutOfRange {
                key: "decision.cusum_exhausted",
                value: exhausted,
                range: "above 0 and below decision.cusum_living",
            });
        }
        if self.review.rounds == 0 {
            return Err(ProfileError::OutOfRange {
                key: "review.rounds",
                value: 0.0,
                range: "at least 1",
            });
        }
        let readiness = &self.readiness;
        let weights = readiness.actions_weight + readiness.questions_weight + readiness.blockers_weight;
        if (weights - 1.0).abs() > 1e-9 {
            return Err(ProfileError::OutOfRange {
                key: "sum of the readiness weights",
                value: weights,
                range: "1",
            });
        }
        Ok(())
    }
}

impl Default for Profile {
    #[expect(
        clippy::expect_used,
        reason = "the built-in file is part of this crate and read by a test"
    )]
    fn default() -> Self {
        Self::built_in("default").expect("the built-in profile is valid")
    }
}

fn built_in_table(name: &str) -> Result<Table, ProfileError> {
    let text = match name {
        "default" => DEFAULT,
        "spec" => SPEC,
        _ => {
            return Err(ProfileError::Unknown {
                name: name.to_owned(),
            });
        }
    };
    text.parse()
        .map_err(|error: toml::de::Error| ProfileError::Syntax(error.to_string()))
}

/// Merges `over` into `base`, table by table; `place` is the path for error messages.
fn overlay(base: &mut Table, over: Table, place: &str) -> Result<(), ProfileError> {
    for (key, value) in over {
        let full = if place.is_empty() {
            key.clone()
        } else {
            format!("{place}.{key}")
        };
        if let Some(list) = key.strip_suffix(APPEND_SUFFIX) {
            match (base.get_mut(list), value) {
                (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
                _ => {
                    return Err(ProfileError::Shape(format!(
                        "`{full}` must be a list, and `{list}` must be an existing list"
                    )));
                }
            }
            continue;
        }
        match (base.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(outer)) => overlay(inner, outer, &full)?,
            (Some(old), new) => {
                // Accept 1 for 1.0.
                let new = match (&*old, new) {
                    #[expect(clippy::cast_precision_loss, reason = "settings are small numbers")]
                    (Value::Float(_), Value::Integer(number)) => Value::Float(number as f64),
                    (_, other) => other,
                };
                if old.same_type(&new) {
                    *old = new;
                } else {
                    let (found, expected) = (new.type_str(), old.type_str());
                    return Err(ProfileError::Shape(format!(
                        "`{full}` must be of type {expected}, found {found}"
                    )));
                }
            }
            // Optional keys that the base omits; deserialization rejects unknown names.
            (None, new) => {
                base.insert(key, new);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profiles_are_valid_and_named_as_they_are_called() {
        for name in Profile::built_in_names() {
            assert_eq!(Profile::built_in(name).unwrap().name, name);
        }
    }

    #[test]
    fn spec_has_the_numbers_of_the_seed() {
        let spec = Profile::built_in("spec").unwrap();
        assert_eq!(spec.decision.rule, Rule::KConsecutive);
        assert_eq!((spec.decision.k, spec.decision.escalate_after), (2, Some(3)));
        assert_eq!(
            (spec.novelty.jaccard_threshold, spec.novelty.semantic_threshold),
            (0.6, 0.82)
        );
        assert_eq!((spec.novelty.low, spec.novelty.high), (0.15, 0.5));
        let readiness = &spec.readiness;
        assert_eq!(
            (
                readiness.actions_weight,
                readiness.questions_weight,
                readiness.blockers_weight
            ),
            (0.5, 0.3, 0.2)
        );
        assert_eq!((readiness.medium, readiness.high), (0.4, 0.7));
        assert!(!spec.decision.stop_signal);
    }

    #[test]
    fn a_users_profile_sets_only_some_keys() {
        let mine = Profile::parse("extends = 'spec'\nname = 'mine'\n[decision]\nk = 3\n[novelty]\nhigh = 1")
            .unwrap();
        let mut expected = Profile::built_in("spec").unwrap();
        expected.name = "mine".to_owned();
        expected.decision.k = 3;
        expected.novelty.high = 1.0;
        assert_eq!(mine, expected);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("name = ", "not valid TOML"),
            ("extends = 'defualt'", "unknown profile `defualt`"),
            ("extends = 3", "`extends` must be a string, found integer"),
            ("[decision]\nkk = 3", "unknown field `kk`"),
            (
                "[decision]\nk = 'two'",
                "`decision.k` must be of type integer, found string",
            ),
            ("[decision]\nrule = 'coin'", "coin"),
            ("[decision]\nk = 0", "`decision.k` must be at least 1, but is 0"),
            (
                "[novelty]\nsemantic_threshold = 75",
                "`novelty.semantic_threshold` must be above 0 and at most 1, but is 75",
            ),
            (
                "[novelty]\nlow = 0.6",
                "`novelty.low` must be at least 0 and below novelty.high, but is 0.6",
            ),
            (
                "[readiness]\nactions_weight = 0.9",
                "sum of the readiness weights",
            ),
            ("[blockers]\nphrazes_also = ['x']", "`blockers.phrazes_also`"),
        ] {
            let error = Profile::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?} gave {error}");
        }
    }
}
