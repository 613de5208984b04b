//! The JSON shapes of a conversation, as they come in: transcript, rounds and what each round put out.
//! Keys that are not named here are kept, never dropped, so that a transcript survives reading and writing.
//! Nothing here scores or judges; see [`Report`](super::Report) for what goes out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// Keys of the input that this version does not name, in the order of their names.
pub type ExtraKeys = BTreeMap<String, Value>;

/// A whole conversation: the seed's transcript JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transcript {
    /// Version of the transcript format, as the writer gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The writer's id of this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// What the conversation is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The rounds, in the order in which they happened.
    pub rounds: Vec<Round>,
    /// Everything else that stood there.
    #[serde(flatten)]
    pub extra: ExtraKeys,
}

/// One round: one turn of a loop, one message, or one exchange between agents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// The writer's number of this round. Shown back; the order of the list is what counts.
    pub round: u32,
    /// Who spoke in this round, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the round produced.
    #[serde(default, deserialize_with = "null_is_default")]
    pub outputs: Outputs,
    /// What the round was given.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Inputs::is_empty"
    )]
    pub inputs: Inputs,
    /// What was measured while the round ran.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Telemetry::is_empty"
    )]
    pub telemetry: Telemetry,
    /// Everything else that stood there.
    #[serde(flatten)]
    pub extra: ExtraKeys,
}

/// What a round produced, sorted into kinds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outputs {
    /// Statements that are put forward as true or as proposals.
    #[serde(default, deserialize_with = "null_is_default")]
    pub claims: Vec<Claim>,
    /// What was settled.
    #[serde(default, deserialize_with = "null_is_default")]
    pub decisions: Vec<String>,
    /// What is still to be answered.
    #[serde(default, deserialize_with = "null_is_default")]
    pub open_questions: Vec<String>,
    /// What is to be done next.
    #[serde(default, deserialize_with = "null_is_default")]
    pub next_actions: Vec<String>,
    /// Sources: strings or objects, kept as they are.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub citations: Vec<Value>,
    /// The round in a sentence, in the writer's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Everything else that stood there.
    #[serde(flatten)]
    pub extra: ExtraKeys,
}

/// One statement, and who made it where that differs from the round's speaker.
///
/// In JSON a claim is a string, or an object with `text` and, if known, `agent`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// The statement as it was written.
    pub text: String,
    /// Who made it; the round's agent when absent.
    pub agent: Option<String>,
}

/// What a round was given: kept whole, not interpreted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Inputs {
    /// All keys.
    pub extra: ExtraKeys,
}

/// What was measured while a round ran: kept whole, not interpreted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Telemetry {
    /// All keys.
    pub extra: ExtraKeys,
}

impl Round {
    /// A round with its number and output and nothing else.
    pub fn new(round: u32, outputs: Outputs) -> Self {
        Self {
            round,
            outputs,
            ..Self::default()
        }
    }

    /// Who made the claim: its own agent, or the round's.
    pub(crate) fn speaker_of<'a>(&'a self, claim: &'a Claim) -> Option<&'a str> {
        claim.agent.as_deref().or(self.agent.as_deref())
    }
}

impl Claim {
    /// A claim of whoever speaks in the round.
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

/// A claim with a name, as it stands in JSON.
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
            "description": "What was said: its text, or the text with who said it.",
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

/// Writers put `null` where they mean "none"; the seed's format makes no difference between the two.
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
