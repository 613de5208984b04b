//! Profiles: every number, word and rule choice of the dialogue scorer, as data.
//!
//! Two profiles are built in (`profiles/default.toml`, `profiles/spec.toml`). A user's own file may set only some keys
//! and names with `extends` what it builds on. This module reads text; where that came from it does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::{Table, Value};

use crate::text::Tokenization;

const DEFAULT: &str = include_str!("profiles/default.toml");
const SPEC: &str = include_str!("profiles/spec.toml");

/// A key with this ending adds to the list it is named after instead of replacing it.
const ALSO: &str = "_also";

/// Everything that a verdict about a conversation depends on, besides the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name that reports carry.
    pub name: String,
    /// What it is for, in a line.
    pub description: String,
    /// When a claim is new.
    pub novelty: NoveltyRules,
    /// How near the conversation is to something that can be carried out.
    pub readiness: ReadinessRules,
    /// How both become a signal.
    pub decision: DecisionRules,
    /// What makes a question open, answered or put off.
    pub questions: QuestionRules,
    /// What makes an action specific or vague.
    pub actions: ActionRules,
    /// What keeps a plan from being carried out.
    pub blockers: BlockerRules,
    /// How a claim takes a stance on an earlier one.
    pub agreement: AgreementRules,
    /// When something looks wrong.
    pub warnings: WarningRules,
}

/// Thresholds of the three levels of sameness and of the classification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoveltyRules {
    /// L1: how claims are cut into words, `words` or `whitespace`.
    pub tokenization: Tokenization,
    /// L1: Jaccard similarity from which a claim is a restatement.
    pub jaccard_threshold: f64,
    /// L2: cosine from which a claim is a restatement.
    pub semantic_threshold: f64,
    /// L2: cosine from which a new claim is reported as a possible restatement.
    pub possible_restatement: f64,
    /// Whether a match also needs the same numbers, negation and names.
    pub guard: bool,
    /// Whether the claims of one round are compared with each other.
    pub compare_within_round: bool,
    /// Rates below this are LOW.
    pub low: f64,
    /// Rates above this are HIGH.
    pub high: f64,
}

/// Weights, scores and borders of action readiness (seed section 3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the profile files explain each number beside it")]
pub struct ReadinessRules {
    pub actions_weight: f64,
    pub questions_weight: f64,
    pub blockers_weight: f64,
    pub medium: f64,
    pub high: f64,
    pub actions_none: f64,
    pub actions_vague: f64,
    pub actions_specific: f64,
    pub actions_owned: f64,
    pub questions_none: f64,
    pub questions_fewer: f64,
    pub questions_same: f64,
    pub questions_more: f64,
    pub questions_first: f64,
}

/// Which rule decides, and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRules {
    /// The rule.
    pub rule: Rule,
    /// Low rounds in a row that make novelty LOW for good.
    pub k: u32,
    /// Low rounds in a row that become ESCALATE unless readiness was HIGH in one of them (seed 4.2.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate_after: Option<u32>,
    /// Whether "converged, nothing to execute" is STOP instead of SHIP.
    pub stop_signal: bool,
    /// Whether a converged round with open questions needs a specific action to be SHIP; without one it is ESCALATE.
    pub ship_needs_action: bool,
    /// `course`: share of the peak up to which a finished plan ships.
    pub settled_novelty: f64,
    /// `course`: repeated claims in a row before one quiet round can end the conversation.
    pub minimum_repeats: u32,
    /// CUSUM: share of new claims in a living conversation, `p0`.
    pub cusum_living: f64,
    /// CUSUM: share of new claims in an exhausted one, `p1`.
    pub cusum_exhausted: f64,
    /// CUSUM: the alarm, `h`.
    pub cusum_alarm: f64,
}

/// The rules that can decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The seed: novelty is LOW after `k` low rounds in a row, then the matrix.
    KConsecutive,
    /// Novelty is LOW when the claim-level CUSUM raises its alarm, then the matrix.
    Cusum,
    /// The whole course: a finished plan ships when new ground tapers off, a quiet round that moves nothing ends the
    /// conversation, one that does move something is a pause, and the CUSUM ends long tails.
    Course,
}

/// What makes a question open, answered or put off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the profile files explain each key beside it")]
pub struct QuestionRules {
    pub answer_similarity: f64,
    pub decision_similarity: f64,
    pub answer_overlap: f64,
    pub nothing: Vec<String>,
    pub closed_prefixes: Vec<String>,
    pub interrogatives: Vec<String>,
    pub hidden_prefixes: Vec<String>,
}

/// What makes an action specific or vague.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the profile files explain each key beside it")]
pub struct ActionRules {
    pub vague_prefixes: Vec<String>,
    pub hedges: Vec<String>,
    pub short_words: usize,
    pub verbs: Vec<String>,
    pub owner_markers: Vec<String>,
    pub ownership: Vec<String>,
    pub empty_objects: Vec<String>,
}

/// What keeps a plan from being carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the profile files explain each key beside it")]
pub struct BlockerRules {
    pub phrases: Vec<String>,
    pub claim_phrases: Vec<String>,
    pub attributes: Vec<String>,
    pub negations: Vec<String>,
    pub negative_phrases: Vec<String>,
    pub resolutions: Vec<String>,
    pub prototypes: Vec<String>,
    pub prototype_warns: f64,
    pub prototype_blocks: f64,
}

/// How a claim takes a stance on an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the profile files explain each key beside it")]
pub struct AgreementRules {
    pub endorsing: Vec<String>,
    pub modifying: Vec<String>,
    pub contradicting: Vec<String>,
    pub related_similarity: f64,
}

/// When something looks wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the profile files explain each key beside it")]
pub struct WarningRules {
    pub paraphrase_share: f64,
    pub paraphrase_minimum: usize,
    pub inflation_ratio: f64,
    pub inflation_minimum: usize,
}

/// What can be wrong with a profile.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum ProfileError {
    /// It is not TOML.
    #[error("the profile is not valid TOML: {0}")]
    Syntax(String),
    /// It names no profile that exists.
    #[error("there is no built-in profile `{name}`; there are `default` and `spec`")]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// A key is unknown, missing or of the wrong type.
    #[error("the profile does not fit: {0}")]
    Shape(String),
    /// A number is outside its range.
    #[error("`{key}` is {value}, it must be {range}")]
    OutOfRange {
        /// Which key, with its table.
        key: &'static str,
        /// What it was set to.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
}

impl Profile {
    /// A built-in profile by its name.
    pub fn built_in(name: &str) -> Result<Self, ProfileError> {
        Self::from_table(built_in_table(name)?)
    }

    /// The names of the built-in profiles, the default first.
    pub fn built_in_names() -> [&'static str; 2] {
        ["default", "spec"]
    }

    /// Reads a user's profile. Keys that are not set come from the profile named by `extends`, or from `default`; a
    /// list key with `_also` after its name adds to the list instead of replacing it.
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
                    "`extends` is a {}, it must be a string",
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

    /// Whether every number is one that can be decided with; built-in profiles and those that were read are.
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
        let readiness = &self.readiness;
        let weights = readiness.actions_weight + readiness.questions_weight + readiness.blockers_weight;
        if (weights - 1.0).abs() > 1e-9 {
            return Err(ProfileError::OutOfRange {
                key: "the sum of the readiness weights",
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

/// Lays `over` onto `base`, table by table; `place` is for messages.
fn overlay(base: &mut Table, over: Table, place: &str) -> Result<(), ProfileError> {
    for (key, value) in over {
        let full = if place.is_empty() {
            key.clone()
        } else {
            format!("{place}.{key}")
        };
        if let Some(list) = key.strip_suffix(ALSO) {
            match (base.get_mut(list), value) {
                (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
                _ => {
                    return Err(ProfileError::Shape(format!(
                        "`{full}` must be a list and `{list}` one to add to"
                    )));
                }
            }
            continue;
        }
        match (base.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(outer)) => overlay(inner, outer, &full)?,
            (Some(old), new) => {
                // 1 for 1.0 is what people write.
                let new = match (&*old, new) {
                    #[expect(clippy::cast_precision_loss, reason = "settings are small numbers")]
                    (Value::Float(_), Value::Integer(number)) => Value::Float(number as f64),
                    (_, other) => other,
                };
                if old.same_type(&new) {
                    *old = new;
                } else {
                    let (is, must) = (new.type_str(), old.type_str());
                    return Err(ProfileError::Shape(format!(
                        "`{full}` is a {is}, it must be a {must}"
                    )));
                }
            }
            // Keys that a base leaves out on purpose; whether the name exists is checked by the strict type.
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
            ("extends = 'defualt'", "no built-in profile `defualt`"),
            ("extends = 3", "`extends` is a integer"),
            ("[decision]\nkk = 3", "unknown field `kk`"),
            (
                "[decision]\nk = 'two'",
                "`decision.k` is a string, it must be a integer",
            ),
            ("[decision]\nrule = 'coin'", "coin"),
            ("[decision]\nk = 0", "`decision.k` is 0"),
            (
                "[novelty]\nsemantic_threshold = 75",
                "`novelty.semantic_threshold` is 75",
            ),
            ("[novelty]\nlow = 0.6", "`novelty.low` is 0.6"),
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
