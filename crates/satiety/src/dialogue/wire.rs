//! The JSON input format of a conversation: transcript, rounds and the outputs of each round. Unknown keys
//! are preserved, so that a transcript survives a round trip. [`Report`](super::Report) is the output.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// Unknown keys of the input, sorted by name.
pub type ExtraKeys = BTreeMap<String, Value>;

/// A complete conversation in the transcript format of the seed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transcript {
    /// Version of the transcript format, as given in the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Id of the conversation, as given in the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// Topic of the conversation, shown in reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Rounds of the conversation in chronological order.
    pub rounds: Vec<Round>,
    /// Unknown keys, preserved without interpretation.
    #[serde(flatten)]
    pub extra: ExtraKeys,
}

/// One round: an iteration of a loop, a message, or an exchange between agents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Number of the round, used for display; rounds are scored in list order.
    pub round: u32,
    /// Name of the agent that spoke, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Claims, decisions, questions and actions of the round.
    #[serde(default, deserialize_with = "null_is_default")]
    pub outputs: Outputs,
    /// Inputs of the round, such as a prompt; not scored.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Inputs::is_empty"
    )]
    pub inputs: Inputs,
    /// Measurements of the round, such as token counts; not scored.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Telemetry::is_empty"
    )]
    pub telemetry: Telemetry,
    /// Unknown keys, preserved without interpretation.
    #[serde(flatten)]
    pub extra: ExtraKeys,
}

/// Outputs of a round, grouped by kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outputs {
    /// Statements made as facts or proposals.
    #[serde(default, deserialize_with = "null_is_default")]
    pub claims: Vec<Claim>,
    /// Decisions made in this round.
    #[serde(default, deserialize_with = "null_is_default")]
    pub decisions: Vec<String>,
    /// Questions that are still unanswered.
    #[serde(default, deserialize_with = "null_is_default")]
    pub open_questions: Vec<String>,
    /// Actions to take next, such as "write the migration".
    #[serde(default, deserialize_with = "null_is_default")]
    pub next_actions: Vec<String>,
    /// Courtesies that end an exchange, such as thanks; set only if the round contains nothing else.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub partings: Vec<String>,
    /// Sources as strings or objects, preserved without interpretation.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub citations: Vec<Value>,
    /// Summary of the round in one sentence; not scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Unknown keys, preserved without interpretation.
    #[serde(flatten)]
    pub extra: ExtraKeys,
}

/// One statement, with its speaker if it differs from the speaker of the round.
///
/// In JSON a claim is a string, or an object with `text` and, if known, `agent`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// Text of the statement.
    pub text: String,
    /// Speaker of the claim; defaults to the agent of the round.
    pub agent: Option<String>,
}

/// Inputs of a round, preserved without interpretation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Inputs {
    /// All keys and values, as given.
    pub extra: ExtraKeys,
}

/// Measurements of a round, preserved without interpretation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Telemetry {
    /// All keys and values, as given.
    pub extra: ExtraKeys,
}

impl Round {
    /// Key of the role of the speaker among the unknown keys; `user` marks a requester.
    pub(crate) const ROLE: &'static str = "role";

    /// Creates a round with a number and outputs only.
    pub fn new(round: u32, outputs: Outputs) -> Self {
        Self {
            round,
            outputs,
            ..Self::default()
        }
    }

    /// Speaker of a claim, or the agent of the round.
    pub(crate) fn speaker_of<'a>(&'a self, claim: &'a Claim) -> Option<&'a str> {
        claim.agent.as_deref().or(self.agent.as_deref())
    }
}

impl Claim {
    /// Creates a claim by the agent of the round.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            agent: None,
        }
    }
}

impl From<&str> for Claim {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Claim {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl Inputs {
    fn is_empty(&self) -> bool {
        self.extra.is_empty()
    }
}

impl Telemetry {
    fn is_empty(&self) -> bool {
        self.extra.is_empty()
    }
}

/// The object form of a claim in JSON.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NamedClaim {
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

impl JsonSchema for Claim {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Claim".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let named = NamedClaim::json_schema(generator);
        schemars::json_schema!({
            "description": "A statement: its text, or an object with the text and its speaker.",
            "anyOf": [{ "type": "string" }, named]
        })
    }
}

impl Serialize for Claim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.agent {
            None => serializer.serialize_str(&self.text),
            Some(_) => NamedClaim {
                text: self.text.clone(),
                agent: self.agent.clone(),
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Claim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ClaimVisitor;

        impl<'de> de::Visitor<'de> for ClaimVisitor {
            type Value = Claim;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a claim: a string, or an object with `text` and optionally `agent`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Claim, E> {
                Ok(Claim::new(text))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Claim, E> {
                Ok(Claim::new(text))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Claim, A::Error> {
                let named = NamedClaim::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Claim {
                    text: named.text,
                    agent: named.agent,
                })
            }
        }

        deserializer.deserialize_any(ClaimVisitor)
    }
}

/// Treats `null` like an absent key, as the format of the seed does.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_survive_reading_and_writing_at_every_level() {
        let text = r#"{"version":"0.1","conversation_id":"c","topic":"t","rounds":[{"round":1,"agent":"a",
            "outputs":{"claims":["x",{"text":"y","agent":"b"}],"decisions":[],"open_questions":[],
            "next_actions":[],"mood":"calm"},"inputs":{"prompt":"p"},"telemetry":{"tokens":12},"wall":3}],"_note":true}"#;
        let transcript: Transcript = serde_json::from_str(text).unwrap();
        let round = &transcript.rounds[0];
        assert_eq!(round.speaker_of(&round.outputs.claims[0]), Some("a"));
        assert_eq!(round.speaker_of(&round.outputs.claims[1]), Some("b"));
        let written: Value = serde_json::to_value(&transcript).unwrap();
        assert_eq!(written, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn null_and_absent_lists_are_empty_lists() {
        let text = r#"{"round":1,"outputs":{"claims":null},"inputs":null}"#;
        let round: Round = serde_json::from_str(text).unwrap();
        assert_eq!(
            round,
            Round {
                round: 1,
                ..Round::default()
            }
        );
    }

    #[test]
    fn a_claim_of_the_wrong_kind_is_refused_in_words() {
        for (text, part) in [
            ("3", "a claim: a string, or an object with `text`"),
            (r#"{"agent":"a"}"#, "missing field `text`"),
            (r#"{"text":"a","agnt":"b"}"#, "unknown field `agnt`"),
        ] {
            let error = serde_json::from_str::<Claim>(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
