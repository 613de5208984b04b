//! Every knob of a search as one value, so that a search can be named, stored, compared and tried beside another.
//! The defaults are data. A part of it is enough (JSON or TOML): what is absent is as it is by default, what nobody
//! knows is refused.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::intent::{Intent, weights};
use super::mode::{Mode, ModeSettings, PressureSettings};
use super::rank::{ConfidenceFactors, Diversity, RankSettings, TierFactors};
use super::{Channel, Fusion, LexicalSettings, Weights};

/// How a search goes.
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
    /// How channels become one list.
    pub fusion: Fusion,
    /// A channel is asked for so many times its candidates, because some are elsewhere or expired.
    pub candidates_over: usize,
    /// Constitutional memories are among so many first results.
    pub constitutional_within: usize,
    /// Which channels are searched at all.
    pub channels: ChannelSwitches,
    /// How much each channel counts, by intent.
    pub weights: IntentWeights,
    /// How words are weighed.
    pub lexical: LexicalSettings,
    /// How near-repeats give way.
    pub diversity: Diversity,
    /// How much a tier moves a score.
    pub tiers: TierFactors,
    /// How much confidence moves a score.
    pub confidence: ConfidenceFactors,
    /// What the session's earlier uses do.
    pub session: SessionSettings,
    /// What causal links do.
    pub links: LinkSettings,
    /// How many candidates are ranked in full.
    pub rerank: RerankSettings,
    /// When searches get shallower.
    pub pressure: PressureSettings,
    /// What each mode means.
    pub modes: ModeTable,
}

/// Which channels are searched at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
#[expect(clippy::struct_excessive_bools, reason = "one switch a channel")]
pub struct ChannelSwitches {
    /// Words.
    pub lexical: bool,
    /// Meaning, where the mode wants it.
    pub vector: bool,
    /// Trigger phrases.
    pub trigger: bool,
    /// Causal links.
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

/// How much each channel counts, by intent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct IntentWeights {
    /// When nothing tells what the asker is after.
    pub general: Weights,
    /// Something new.
    pub add_feature: Weights,
    /// Something is broken.
    pub fix_bug: Weights,
    /// The same in better shape.
    pub refactor: Weights,
    /// What could be abused.
    pub security_audit: Weights,
    /// How something works.
    pub understand: Weights,
    /// What was asked for.
    pub find_spec: Weights,
    /// Why something is as it is.
    pub find_decision: Weights,
}

impl IntentWeights {
    /// The weights for an intent.
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

    /// The same weights whatever the asker is after.
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

    fn of_the_table() -> Self {
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

/// What the session's earlier uses do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct SessionSettings {
    /// What full attention adds, as a share of the score.
    pub boost: f64,
    /// What a use counts for each query that was asked since.
    pub decay: f64,
    /// Queries and events that are looked at.
    pub look_back: u32,
}

/// What causal links do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct LinkSettings {
    /// What a causal neighbour gets of the score of what led to it.
    pub share: f64,
    /// Of so many best results links are followed.
    pub seeds: usize,
}

/// How many candidates are ranked in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct RerankSettings {
    /// So many for each result.
    pub per_result: usize,
    /// And never fewer than this.
    pub least: usize,
}

/// What each mode means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = optional)]
pub struct ModeTable {
    /// Words and triggers only, few results.
    pub quick: ModeSettings,
    /// All channels.
    pub focused: ModeSettings,
    /// All channels, the query expanded, links followed further, more results.
    pub deep: ModeSettings,
}

impl ModeTable {
    /// What a mode means.
    pub fn of(&self, mode: Mode) -> ModeSettings {
        match mode {
            Mode::Quick => self.quick,
            Mode::Focused => self.focused,
            Mode::Deep => self.deep,
        }
    }
}

/// Why something is no pipeline.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// A knob that nobody knows, or a value of the wrong kind.
    #[error("the search pipeline cannot be read: {0}")]
    Unreadable(String),
    /// A number that makes no sense.
    #[error("`{knob}` of the search pipeline must be from {least} to {most}, and it is {value}")]
    OutOfRange {
        /// Which knob.
        knob: String,
        /// What it is.
        value: f64,
        /// What it may be at least.
        least: f64,
        /// What it may be at most.
        most: f64,
    },
    /// Nothing is left to search with.
    #[error("the search pipeline searches nothing: {0}")]
    Nothing(&'static str),
}

impl Pipeline {
    /// The defaults as they are written, with what each knob does.
    pub const DEFAULTS: &'static str = include_str!("data/pipeline.toml");

    /// The default with some knobs changed.
    pub fn with(changes: &Value) -> Result<ValidPipeline, PipelineError> {
        let mut whole = WHOLE.clone();
        overlay(&mut whole, changes);
        let Read(pipeline) = serde_path_to_error::deserialize(whole)
            .map_err(|error| PipelineError::Unreadable(error.to_string()))?;
        pipeline.validate()
    }

    /// Makes sure that every knob is in its range, and that there is something to search with.
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
                "words, meaning and triggers are all off, and links begin at what those find",
            ));
        }
        Ok(ValidPipeline(self))
    }

    /// How candidates become the list, with the limit and the budget of this search.
    pub fn rank_settings(&self, limit: usize, token_budget: usize) -> RankSettings {
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

/// A pipeline that was validated, once: searches need not look again.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidPipeline(Pipeline);

impl ValidPipeline {
    /// The default.
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

/// What each number may be. `*` stands for every key.
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
        // Numbers that JSON cannot write (infinity, not a number) come as null.
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

/// Puts what `changes` says over `base`, object by object.
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

/// What was read strictly.
struct Read(Pipeline);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The derived function, which knows no defaults.
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

/// A part is enough, so nothing is required.
pub(super) fn optional(schema: &mut Schema) {
    schema.remove("required");
}

#[expect(clippy::expect_used, reason = "files of the program, read by the tests below")]
static WHOLE: LazyLock<Value> = LazyLock::new(|| {
    let mut whole: Value = toml::from_str(Pipeline::DEFAULTS).expect("pipeline.toml is TOML");
    let weights = serde_json::to_value(IntentWeights::of_the_table()).expect("numbers can be written");
    overlay(&mut whole, &serde_json::json!({ "weights": weights }));
    whole
});

#[expect(clippy::expect_used, reason = "files of the program, read by the tests below")]
static STANDARD: LazyLock<Arc<ValidPipeline>> = LazyLock::new(|| {
    let nothing = Value::Object(serde_json::Map::new());
    Arc::new(Pipeline::with(&nothing).expect("pipeline.toml is a whole pipeline"))
});

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_defaults_are_what_the_documents_say() {
        let pipeline = Pipeline::default();
        assert_eq!(pipeline.fusion, Fusion::Score);
        let focused = pipeline.modes.of(Mode::Focused);
        assert_eq!((focused.limit, focused.token_budget, focused.hops), (10, 2000, 1));
        assert_eq!(
            pipeline.weights.of(Some(Intent::FindSpec)),
            weights(Some(Intent::FindSpec))
        );
        assert_eq!(pipeline.rank_settings(10, 2000), RankSettings::default());
    }

    #[test]
    fn it_comes_back_from_json_and_toml_and_a_part_is_enough() {
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
    fn what_nobody_knows_and_what_makes_no_sense_is_refused_with_its_name() {
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
                "searches nothing",
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

    /// Every number has a range: a knob that is added without one fails here.
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
        numbers(&WHOLE, "", &mut found);
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
    fn the_schema_knows_the_knobs_and_requires_none() {
        let schema = serde_json::to_value(schemars::schema_for!(Pipeline)).unwrap();
        assert_eq!(schema["required"], Value::Null);
        assert_eq!(schema["additionalProperties"], json!(false));
        for knob in WHOLE.as_object().unwrap().keys() {
            assert!(schema["properties"].get(knob).is_some(), "{knob}");
        }
    }
}
