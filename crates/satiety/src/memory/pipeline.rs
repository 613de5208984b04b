//! Search pipeline: all search parameters as one value, so that a search can be named, stored, compared and
//! run next to another. Defaults come from a data file. Partial values (JSON or TOML) suffice: absent keys
//! keep their defaults, unknown keys are rejected.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::intent::{Intent, weights};
use super::mode::{Mode, ModeSettings, PressureSettings};
use super::rank::{ConfidenceFactors, Diversity, RankSettings, TierFactors};
use super::{Channel, Fusion, LexicalSettings, RelevanceSettings, TurnSettings, Weights};

/// Parameters of a search.
///
/// ```
/// use satiety::memory::{Fusion, Mode, Pipeline};
/// let part = r#"{"fusion": {"reciprocal_rank": {"k": 10}}, "modes": {"deep": {"limit": 30}}}"#;
/// let pipeline: Pipeline = serde_json::from_str(part)?;
/// assert_eq!(pipeline.fusion, Fusion::ReciprocalRank { k: 10 });
/// assert_eq!((pipeline.modes.of(Mode::Deep).limit, pipeline.modes.of(Mode::Deep).hops), (30, 2));
/// assert!(serde_json::from_str::<Pipeline>(r#"{"fussion": "score"}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct Pipeline {
    /// How the lists of the channels are fused.
    pub fusion: Fusion,
    /// Oversampling factor of each channel, because some candidates are filtered out or expired.
    pub candidates_over: usize,
    /// Constitutional memories appear within this many first results.
    pub constitutional_within: usize,
    /// Channels that are searched.
    pub channels: ChannelSwitches,
    /// Weight of each channel, by intent.
    pub weights: IntentWeights,
    /// Parameters of the lexical channel (BM25).
    pub lexical: LexicalSettings,
    /// How near-duplicates are demoted.
    pub diversity: Diversity,
    /// Score factor of each tier.
    pub tiers: TierFactors,
    /// Score factors by confidence.
    pub confidence: ConfidenceFactors,
    /// Influence of earlier feedback in the session.
    pub session: SessionSettings,
    /// Influence of causal links on the results.
    pub links: LinkSettings,
    /// Treatment of memories that were superseded or are not valid at the time of the search.
    pub currency: CurrencySettings,
    /// Confidence of results, and the floor below which a search has found nothing.
    pub relevance: RelevanceSettings,
    /// Influence of neighboring turns of a conversation.
    pub turns: TurnSettings,
    /// Influence of the language of the query.
    pub languages: LanguageSettings,
    /// Number of candidates that are reranked.
    pub rerank: RerankSettings,
    /// Context usage thresholds for shallower searches.
    pub pressure: PressureSettings,
    /// Limits of each search mode.
    pub modes: ModeTable,
}

/// Channels that are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per channel")]
pub struct ChannelSwitches {
    /// Whether to search the lexical channel.
    pub lexical: bool,
    /// Whether to search the vector channel, if the mode enables it.
    pub vector: bool,
    /// Whether to search the trigger channel.
    pub trigger: bool,
    /// Whether to follow causal links.
    pub graph: bool,
}

impl ChannelSwitches {
    /// Whether a channel is searched.
    pub fn of(self, channel: Channel) -> bool {
        match channel {
            Channel::Lexical => self.lexical,
            Channel::Vector => self.vector,
            Channel::Trigger => self.trigger,
            Channel::Graph => self.graph,
        }
    }
}

/// Weight of each channel, by intent of the query.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct IntentWeights {
    /// Weights for queries without a recognised intent.
    pub general: Weights,
    /// Weights for queries about adding a feature.
    pub add_feature: Weights,
    /// Weights for queries about fixing a bug.
    pub fix_bug: Weights,
    /// Weights for queries about refactoring code.
    pub refactor: Weights,
    /// Weights for queries about security.
    pub security_audit: Weights,
    /// Weights for queries about how something works.
    pub understand: Weights,
    /// Weights for queries about a specification or requirement.
    pub find_spec: Weights,
    /// Weights for queries about a past decision.
    pub find_decision: Weights,
}

impl IntentWeights {
    /// Weights for an intent.
    pub fn of(&self, intent: Option<Intent>) -> Weights {
        match intent {
            None => self.general,
            Some(Intent::AddFeature) => self.add_feature,
            Some(Intent::FixBug) => self.fix_bug,
            Some(Intent::Refactor) => self.refactor,
            Some(Intent::SecurityAudit) => self.security_audit,
            Some(Intent::Understand) => self.understand,
            Some(Intent::FindSpec) => self.find_spec,
            Some(Intent::FindDecision) => self.find_decision,
        }
    }

    /// Uses the same weights for every intent.
    pub fn all(weights: Weights) -> Self {
        Self {
            general: weights,
            add_feature: weights,
            fix_bug: weights,
            refactor: weights,
            security_audit: weights,
            understand: weights,
            find_spec: weights,
            find_decision: weights,
        }
    }

    fn from_intent_table() -> Self {
        Self {
            general: weights(None),
            add_feature: weights(Some(Intent::AddFeature)),
            fix_bug: weights(Some(Intent::FixBug)),
            refactor: weights(Some(Intent::Refactor)),
            security_audit: weights(Some(Intent::SecurityAudit)),
            understand: weights(Some(Intent::Understand)),
            find_spec: weights(Some(Intent::FindSpec)),
            find_decision: weights(Some(Intent::FindDecision)),
        }
    }
}

/// Influence of earlier feedback in the session.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct SessionSettings {
    /// Maximum score increase by session attention, as a fraction of the score.
    pub boost: f64,
    /// Decay factor of a use per later query, from 0 to 1.
    pub decay: f64,
    /// Number of recent queries and events to consider.
    pub look_back: u32,
}

/// Influence of causal links on the results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct LinkSettings {
    /// Fraction of a result's score that its causal neighbour inherits.
    pub share: f64,
    /// Number of best results whose links are followed.
    pub seeds: usize,
}

/// Treatment of memories that were superseded or are not valid at the time of the search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct CurrencySettings {
    /// What happens to a superseded memory.
    pub superseded: OutdatedRule,
    /// What happens to a memory outside its validity.
    pub invalid: OutdatedRule,
    /// Score factor of a memory outside its validity, if it is demoted.
    pub factor: f64,
}

/// What happens to a result that is not current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutdatedRule {
    /// It is marked and ranked lower: a superseded memory never above its successor.
    Demote,
    /// It is not returned.
    Hide,
    /// It is marked and keeps its rank.
    Mark,
}

/// Factors of the vector weight for queries that are not in English, if the model knows only English.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct LanguageSettings {
    /// Factor for other languages in Latin script, of which the model knows some words.
    pub latin: f64,
    /// Factor for languages in other scripts.
    pub other: f64,
}

/// Number of candidates that are reranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct RerankSettings {
    /// Number of reranked candidates per requested result.
    pub per_result: usize,
    /// Minimum number of reranked candidates.
    pub least: usize,
}

/// Limits of each search mode.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct ModeTable {
    /// Quick mode: lexical and trigger channels only, few results.
    pub quick: ModeSettings,
    /// Focused mode: all channels.
    pub focused: ModeSettings,
    /// Deep mode: all channels, query expansion, more link hops and more results.
    pub deep: ModeSettings,
}

impl ModeTable {
    /// Settings of a mode.
    pub fn of(&self, mode: Mode) -> ModeSettings {
        match mode {
            Mode::Quick => self.quick,
            Mode::Focused => self.focused,
            Mode::Deep => self.deep,
        }
    }
}

/// Reason why a pipeline is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// A key is unknown, or a value has the wrong type.
    #[error("cannot read the search pipeline: {0}")]
    Unreadable(String),
    /// A number is out of range.
    #[error("`{knob}` of the search pipeline must be from {least} to {most}, got {value}")]
    OutOfRange {
        /// Path of the key.
        knob: String,
        /// Value that was given.
        value: f64,
        /// Minimum of the range.
        least: f64,
        /// Maximum of the range.
        most: f64,
    },
    /// All channels are disabled.
    #[error("invalid search pipeline: {0}")]
    Nothing(&'static str),
}

impl Pipeline {
    /// The default pipeline as TOML, with comments about each key.
    pub(crate) const DEFAULTS: &'static str = include_str!("data/pipeline.toml");

    /// Returns the default pipeline with some keys changed.
    pub fn with(changes: &Value) -> Result<ValidPipeline, PipelineError> {
        let mut whole = COMPLETE_DEFAULTS.clone();
        overlay(&mut whole, changes);
        let StrictPipeline(pipeline) = serde_path_to_error::deserialize(whole)
            .map_err(|error| PipelineError::Unreadable(error.to_string()))?;
        pipeline.validate()
    }

    /// Checks that every number is in range and that at least one channel is enabled.
    pub fn validate(self) -> Result<ValidPipeline, PipelineError> {
        let value =
            serde_json::to_value(&self).map_err(|error| PipelineError::Unreadable(error.to_string()))?;
        for (path, least, most) in RANGES {
            check_range(&value, path, *least, *most)?;
        }
        if self.pressure.focused_from > self.pressure.quick_from {
            return Err(PipelineError::OutOfRange {
                knob: "pressure.focused_from".into(),
                value: self.pressure.focused_from,
                least: 0.0,
                most: self.pressure.quick_from,
            });
        }
        let ChannelSwitches {
            lexical,
            vector,
            trigger,
            ..
        } = self.channels;
        if !(lexical || vector || trigger) {
            return Err(PipelineError::Nothing(
                "at least one of the channels lexical, vector and trigger must be enabled",
            ));
        }
        Ok(ValidPipeline(self))
    }

    /// Ranking settings for a search with the given limit and token budget.
    pub(crate) fn rank_settings(&self, limit: usize, token_budget: usize) -> RankSettings {
        RankSettings {
            limit,
            token_budget,
            constitutional_within: self.constitutional_within,
            session_boost: self.session.boost,
            diversity: self.diversity,
            tiers: self.tiers,
            confidence: self.confidence,
        }
    }
}

impl Default for Pipeline {
    fn default() -> Self {
        STANDARD.0.clone()
    }
}

/// A validated pipeline; searches need not check it again.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidPipeline(Pipeline);

impl ValidPipeline {
    /// Returns the shared default pipeline.
    pub fn standard() -> &'static Arc<Self> {
        &STANDARD
    }
}

impl Default for ValidPipeline {
    fn default() -> Self {
        STANDARD.as_ref().clone()
    }
}

impl Deref for ValidPipeline {
    type Target = Pipeline;

    fn deref(&self) -> &Pipeline {
        &self.0
    }
}

/// Valid range of each number. `*` matches every key.
const RANGES: &[(&str, f64, f64)] = &[
    ("fusion.reciprocal_rank.k", 0.0, 100_000.0),
    ("candidates_over", 1.0, 100.0),
    ("constitutional_within", 0.0, 50.0),
    ("weights.*.*", 0.0, 1000.0),
    ("lexical.k1", 0.0, 100.0),
    ("lexical.b", 0.0, 1.0),
    ("lexical.title", 0.0, 100.0),
    ("lexical.expansion", 0.0, 100.0),
    ("diversity.*", 0.0, 1.0),
    ("tiers.*", 0.0, 100.0),
    ("confidence.*", 0.0, 100.0),
    ("session.boost", 0.0, 100.0),
    ("session.decay", 0.0, 1.0),
    ("session.look_back", 0.0, 1000.0),
    ("links.share", 0.0, 1.0),
    ("links.seeds", 0.0, 500.0),
    ("currency.factor", 0.0, 1.0),
    ("relevance.*.intercept", -100.0, 100.0),
    ("relevance.*.coverage", -100.0, 100.0),
    ("relevance.*.cosine", -100.0, 100.0),
    ("relevance.*.floor", 0.0, 1.0),
    ("turns.before", 0.0, 1.0),
    ("turns.after", 0.0, 1.0),
    ("turns.second", 0.0, 1.0),
    ("turns.seeds", 0.0, 500.0),
    ("languages.*", 0.0, 1.0),
    ("rerank.per_result", 1.0, 100.0),
    ("rerank.least", 1.0, 1000.0),
    ("pressure.*", 0.0, 1.0),
    ("modes.*.limit", 1.0, 200.0),
    ("modes.*.candidates", 1.0, 5000.0),
    ("modes.*.token_budget", 1.0, 10_000_000.0),
    ("modes.*.hops", 0.0, 5.0),
];

fn check_range(value: &Value, path: &str, least: f64, most: f64) -> Result<(), PipelineError> {
    let mut waiting = vec![(String::new(), value)];
    for part in path.split('.') {
        let mut next = Vec::new();
        for (name, value) in waiting {
            let Some(object) = value.as_object() else { continue };
            let inner = object.iter().filter(|(key, _)| part == "*" || part == *key);
            next.extend(inner.map(|(key, value)| {
                let name = if name.is_empty() {
                    key.clone()
                } else {
                    format!("{name}.{key}")
                };
                (name, value)
            }));
        }
        waiting = next;
    }
    for (knob, value) in waiting {
        // Numbers that JSON cannot represent (infinity, NaN) are null.
        let value = value.as_f64().unwrap_or(f64::NAN);
        if !(least..=most).contains(&value) {
            return Err(PipelineError::OutOfRange {
                knob,
                value,
                least,
                most,
            });
        }
    }
    Ok(())
}

/// Applies `changes` to `base`, recursively by object.
fn overlay(base: &mut Value, changes: &Value) {
    match (base, changes) {
        (Value::Object(base), Value::Object(changes)) => {
            for (key, change) in changes {
                match base.get_mut(key) {
                    Some(inner) => overlay(inner, change),
                    None => {
                        base.insert(key.clone(), change.clone());
                    }
                }
            }
        }
        (base, changes) => *base = changes.clone(),
    }
}

/// A pipeline that was deserialized strictly.
struct StrictPipeline(Pipeline);

impl<'de> Deserialize<'de> for StrictPipeline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The derived function, which has no defaults.
        Pipeline::deserialize(deserializer).map(Self)
    }
}

impl Serialize for Pipeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Pipeline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let changes = Value::deserialize(deserializer)?;
        Self::with(&changes)
            .map(|valid| valid.0)
            .map_err(serde::de::Error::custom)
    }
}

/// Partial values suffice, so no key is required.
pub(super) fn optional(schema: &mut Schema) {
    schema.remove("required");
}

#[expect(
    clippy::expect_used,
    reason = "the files are compiled in, and the tests below read them"
)]
static COMPLETE_DEFAULTS: LazyLock<Value> = LazyLock::new(|| {
    let mut whole: Value = toml::from_str(Pipeline::DEFAULTS).expect("pipeline.toml is TOML");
    let weights = serde_json::to_value(IntentWeights::from_intent_table()).expect("numbers can be written");
    overlay(&mut whole, &serde_json::json!({ "weights": weights }));
    whole
});

#[expect(
    clippy::expect_used,
    reason = "the files are compiled in, and the tests below read them"
)]
static STANDARD: LazyLock<Arc<ValidPipeline>> = LazyLock::new(|| {
    let nothing = Value::Object(serde_json::Map::new());
    Arc::new(Pipeline::with(&nothing).expect("pipeline.toml is a whole pipeline"))
});

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_defaults_match_the_documentation() {
        let pipeline = Pipeline::default();
        assert_eq!(pipeline.fusion, Fusion::ZScore);
        let focused = pipeline.modes.of(Mode::Focused);
        assert_eq!((focused.limit, focused.token_budget, focused.hops), (10, 2000, 1));
        assert_eq!(
            pipeline.weights.of(Some(Intent::FindSpec)),
            weights(Some(Intent::FindSpec))
        );
        assert_eq!(pipeline.rank_settings(10, 2000), RankSettings::default());
    }

    #[test]
    fn pipelines_round_trip_and_partial_values_suffice() {
        let mut pipeline = Pipeline::default();
        pipeline.weights.fix_bug.graph = 0.75;
        pipeline.fusion = Fusion::ReciprocalRank { k: 10 };
        let text = serde_json::to_string(&pipeline).unwrap();
        assert_eq!(serde_json::from_str::<Pipeline>(&text).unwrap(), pipeline);
        let text = toml::to_string(&pipeline).unwrap();
        assert_eq!(toml::from_str::<Pipeline>(&text).unwrap(), pipeline);
        let part = "[fusion.reciprocal_rank]\nk = 10\n[weights.fix_bug]\ngraph = 0.75\n";
        assert_eq!(toml::from_str::<Pipeline>(part).unwrap(), pipeline);
        assert_eq!(
            serde_json::from_str::<Pipeline>("{}").unwrap(),
            Pipeline::default()
        );
    }

    #[test]
    fn unknown_keys_and_invalid_values_are_rejected_by_name() {
        for (changes, expected) in [
            (json!({"lambda": 1}), "unknown field `lambda`"),
            (
                json!({"modes": {"deeper": {}}}),
                "modes.deeper: unknown field `deeper`",
            ),
            (
                json!({"modes": {"deep": {"limit": 0}}}),
                "`modes.deep.limit` of the search pipeline must be from 1 to 200",
            ),
            (
                json!({"modes": {"deep": {"limit": -3}}}),
                "modes.deep.limit: invalid value",
            ),
            (json!({"diversity": {"lambda": 1.5}}), "`diversity.lambda`"),
            (
                json!({"weights": {"general": {"lexical": -0.1}}}),
                "`weights.general.lexical`",
            ),
            (json!({"fusion": "sum"}), "unknown variant `sum`"),
            (json!({"fusion": {"reciprocal_rank": {}}}), "missing field `k`"),
            (
                json!({"pressure": {"focused_from": 0.9}}),
                "`pressure.focused_from`",
            ),
            (
                json!({"channels": {"lexical": false, "vector": false, "trigger": false}}),
                "at least one of the channels",
            ),
            (json!(3), "invalid type"),
            (json!({"tiers": 3}), "tiers: invalid type"),
        ] {
            let error = Pipeline::with(&changes).unwrap_err().to_string();
            assert!(error.contains(expected), "{changes}: {error}");
        }
        let pipeline = Pipeline {
            diversity: Diversity {
                lambda: f64::NAN,
                ..Pipeline::default().diversity
            },
            ..Pipeline::default()
        };
        assert!(pipeline.validate().is_err());
    }

    /// Every number has a range: a new key without one fails here.
    #[test]
    fn every_number_has_a_range() {
        fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
            match value {
                Value::Object(object) => {
                    for (key, value) in object {
                        numbers(value, &format!("{path}.{key}"), found);
                    }
                }
                Value::Number(_) => found.push(path.trim_start_matches('.').to_owned()),
                _ => {}
            }
        }
        let mut found = Vec::new();
        numbers(&COMPLETE_DEFAULTS, "", &mut found);
        for path in found {
            let fits = |pattern: &str| {
                let (pattern, path): (Vec<&str>, Vec<&str>) =
                    (pattern.split('.').collect(), path.split('.').collect());
                pattern.len() == path.len() && pattern.iter().zip(&path).all(|(a, b)| *a == "*" || a == b)
            };
            assert!(
                RANGES.iter().any(|(pattern, ..)| fits(pattern)),
                "{path} has no range"
            );
        }
    }

    #[test]
    fn the_schema_has_all_keys_and_requires_none() {
        let schema = serde_json::to_value(schemars::schema_for!(Pipeline)).unwrap();
        assert_eq!(schema["required"], Value::Null);
        assert_eq!(schema["additionalProperties"], json!(false));
        for knob in COMPLETE_DEFAULTS.as_object().unwrap().keys() {
            assert!(schema["properties"].get(knob).is_some(), "{knob}");
        }
    }
}
