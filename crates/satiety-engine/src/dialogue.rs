//! Scores conversations: parse, embed, decide, record.

use crate::handles::DialogueOperations;
use satiety::cancel::Cancellation;
use satiety::dialogue::input::{self, Content, InputFormat, ReadOptions};
use satiety::dialogue::{Conversation, ConversationError, Profile, Report, Round, Transcript, Verdict};
use satiety::ids;
use satiety_store::conversations::{ConversationRow, RoundRow};
use satiety_store::journal::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::EngineError;
use crate::embedding_cache::EmbeddingCache;

/// Bytes of a conversation that are parsed in about a millisecond.
const READ_PER_UNIT: u64 = 16 << 10;

/// Request to score a conversation.
#[derive(Debug, Clone)]
pub struct ScoreRequest {
    /// Name used in error messages: a path, or `-`.
    pub name: String,
    pub bytes: Vec<u8>,
    /// Input format; detected if `None`.
    pub format: Option<InputFormat>,
    /// Name of a built-in profile, or path of a profile file.
    pub profile: String,
    /// How plain messages are sorted into claims, questions and actions.
    pub extract: Extract,
    /// Whether to store the conversation and its verdict.
    pub record: bool,
}

/// How plain messages are sorted into claims, questions and actions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extract {
    /// Fixed rules, without a model.
    #[default]
    Rules,
    /// The configured chat model (`models.chat`).
    Model,
}

/// Result of scoring a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreResponse {
    /// Id from the input, or one generated when the conversation was recorded.
    pub conversation_id: Option<String>,
    /// Topic of the conversation, in a few words.
    pub topic: Option<String>,
    /// Format that the input was parsed as.
    pub input_format: InputFormat,
    /// Full report over all rounds.
    #[serde(flatten)]
    pub report: Report,
}

/// Approximate size of a value as text.
fn text_bytes(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() as u64 + text_bytes(value))
            .sum(),
        _ => 8,
    }
}

impl<'e> DialogueOperations<'e> {
    #[tracing::instrument(name = "score", skip_all)]
    pub async fn score(self, request: ScoreRequest) -> Result<ScoreResponse, EngineError> {
        let conversation = self.empty_conversation(&request.profile).await?;
        let options = ReadOptions {
            format: request.format,
            growing: false,
        };
        let (name, bytes, extract) = (request.name.clone(), request.bytes, request.extract);
        // Parsing is one pass over the bytes; admission counts its result before anything is compared.
        let units = bytes.len() as u64 / READ_PER_UNIT;
        let reading = move |_: &Cancellation| {
            let read =
                input::read(&bytes, options).map_err(|problem| EngineError::Input { name, problem })?;
            let content = match (read.content, extract) {
                (Content::Messages(log), Extract::Rules) => Content::Rounds(input::extract(&log)),
                (content, _) => content,
            };
            Ok((content, read.format))
        };
        let (content, format) = self.engine.compute(units, reading).await?;
        let transcript = match content {
            Content::Rounds(transcript) => transcript,
            Content::Messages(log) => self.extract_with_model(&log).await?,
        };
        let mut scored = self.score_rounds(conversation, &transcript, format).await?;
        if request.record {
            scored.conversation_id = Some(self.record_score(&transcript, &scored).await?);
        }
        Ok(scored)
    }

    /// Scores a transcript that was already parsed as JSON, without storing it. `None` if the value is not a
    /// transcript: [`score`](Self::score) its text for the error.
    #[tracing::instrument(name = "score", skip_all)]
    pub(crate) async fn score_value(
        self,
        value: &Value,
        profile: &str,
    ) -> Result<Option<ScoreResponse>, EngineError> {
        // A large value is read on another thread, as text.
        if text_bytes(value) > READ_PER_UNIT {
            return Ok(None);
        }
        let Some(transcript) = input::read_transcript_value(value) else {
            return Ok(None);
        };
        let conversation = self.empty_conversation(profile).await?;
        self.score_rounds(conversation, &transcript, InputFormat::Transcript)
            .await
            .map(Some)
    }

    async fn score_rounds(
        self,
        conversation: Conversation,
        transcript: &Transcript,
        input_format: InputFormat,
    ) -> Result<ScoreResponse, EngineError> {
        let (_, _, report) = self
            .observe_rounds(conversation, &transcript.rounds, Conversation::follow)
            .await?;
        Ok(ScoreResponse {
            conversation_id: transcript.conversation_id.clone(),
            topic: transcript.topic.clone(),
            input_format,
            report: report.ok_or(ConversationError::NoRounds)?,
        })
    }

    /// Starts following a conversation round by round, with the configured embedder.
    pub async fn follow(self, profile: Profile) -> Result<Follower<'e>, EngineError> {
        let mut conversation = Conversation::new(profile.clone())?;
        let mut embeddings = self.engine.embedder().await?.map(EmbeddingCache::new);
        if let Some(embeddings) = &mut embeddings {
            conversation =
                conversation.with_blocker_prototypes(embeddings.prototype_vectors(&profile).await?)?;
        }
        Ok(Follower {
            fresh: conversation.clone(),
            conversation,
            embeddings,
            rounds: Vec::new(),
        })
    }

    /// Loads a profile: a built-in name, or the path of a profile file.
    pub fn profile(self, name: &str) -> Result<Profile, EngineError> {
        if Profile::built_in_names().contains(&name) {
            return Ok(Profile::built_in(name)?);
        }
        let path = std::path::Path::new(name);
        if !path.exists() {
            return Err(EngineError::NoProfile { name: name.into() });
        }
        let text = fs_err::read_to_string(path).map_err(|cause| EngineError::file("read", path, cause))?;
        Profile::parse(&text).map_err(|problem| EngineError::ProfileFile {
            path: name.into(),
            problem,
        })
    }

    /// Stores a conversation and its verdicts; returns its id.
    async fn record_score(
        self,
        transcript: &Transcript,
        scored: &ScoreResponse,
    ) -> Result<String, EngineError> {
        let id = transcript
            .conversation_id
            .clone()
            .unwrap_or_else(|| ids::prefixed("conv", uuid::Uuid::now_v7()));
        let report = &scored.report;
        let conversation = ConversationRow {
            id: id.clone(),
            topic: transcript.topic.clone().unwrap_or_default(),
            profile: report.profile.clone(),
            embedder: report.embedder.clone(),
            signal: report.stop_recommendation.signal.to_string(),
            score: Some(report.score),
            report: serde_json::to_value(report)?,
        };
        let mut rounds = Vec::with_capacity(transcript.rounds.len());
        for (position, (round, signal)) in (1..).zip(transcript.rounds.iter().zip(&report.signal_by_round)) {
            let index = rounds.len();
            rounds.push(RoundRow {
                position,
                agent: round.agent.clone(),
                signal: signal.signal.to_string(),
                novelty: report.novelty_by_round.get(index).and_then(|round| round.novelty),
                readiness: report
                    .readiness_by_round
                    .get(index)
                    .map(|round| round.action_readiness),
                body: serde_json::to_value(round)?,
            });
        }
        let store = self.engine.store().await?;
        store.conversations().put(&conversation, &rounds).await?;
        let body = json!({"signal": conversation.signal, "score": report.score, "rounds": rounds.len(),
            "profile": report.profile, "embedder": report.embedder});
        store
            .journal()
            .append(Event::now("dialogue.verdict", &id, body))
            .await?;
        Ok(id)
    }
}

/// Follows one conversation: observes new rounds, and starts over when earlier rounds have changed.
pub struct Follower<'a> {
    fresh: Conversation,
    conversation: Conversation,
    embeddings: Option<EmbeddingCache<'a>>,
    rounds: Vec<Round>,
}

impl Follower<'_> {
    /// Observes the new rounds in `rounds`, which is the whole conversation so far, and returns their
    /// verdicts. Starts over when a round that was already observed has changed.
    pub async fn observe_all(&mut self, rounds: &[Round]) -> Result<Vec<Verdict>, EngineError> {
        if !rounds.starts_with(&self.rounds) {
            self.conversation = self.fresh.clone();
            self.rounds.clear();
        }
        let new = &rounds[self.rounds.len()..];
        if let Some(embeddings) = &mut self.embeddings {
            embeddings.embed_rounds(new).await?;
        }
        let mut verdicts = Vec::with_capacity(new.len());
        for round in new {
            let vectors = self
                .embeddings
                .as_ref()
                .map(|embeddings| embeddings.round_vectors(round))
                .transpose()?;
            verdicts.push(self.conversation.observe(round, vectors.as_ref())?);
            self.rounds.push(round.clone());
        }
        Ok(verdicts)
    }

    /// Returns the report over all rounds observed so far.
    pub fn report(&self) -> Result<Report, EngineError> {
        Ok(self.conversation.report()?)
    }

    /// Returns the number of observed rounds.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }
}
