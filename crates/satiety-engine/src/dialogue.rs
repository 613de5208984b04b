//! Scoring conversations: read, embed, decide, record.

use crate::handles::DialogueOperations;
use satiety::cancel::Cancellation;
use satiety::dialogue::input::{self, Content, InputFormat, ReadOptions};
use satiety::dialogue::{Conversation, ConversationError, Profile, Report, Round, Transcript, Verdict};
use satiety::ids;
use satiety_store::conversations::{ConversationRow, RoundRow};
use satiety_store::journal::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::EngineError;
use crate::embedding_cache::EmbeddingCache;

/// Bytes of a conversation that are read in about a millisecond.
const READ_PER_UNIT: u64 = 16 << 10;

/// A conversation to be scored.
#[derive(Debug, Clone)]
pub struct ScoreRequest {
    /// What messages call it: a path, or `-`.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// The shape of the content; found out when absent.
    pub format: Option<InputFormat>,
    /// A built-in profile or a file.
    pub profile: String,
    /// Who sorts plain messages into claims, questions and actions.
    pub extract: Extract,
    /// Whether to keep conversation and verdict in the store.
    pub record: bool,
}

/// Who sorts plain messages into claims, questions and actions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extract {
    /// Fixed rules.
    #[default]
    Rules,
    /// The chat model of the settings.
    Model,
}

/// A scored conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreResponse {
    /// The conversation's id: its own, or one that was made when it was recorded.
    pub conversation_id: Option<String>,
    /// What it is about.
    pub topic: Option<String>,
    /// The shape that the input was read as.
    pub input_format: InputFormat,
    /// The answer.
    #[serde(flatten)]
    pub report: Report,
}

impl<'e> DialogueOperations<'e> {
    /// Scores a conversation.
    #[tracing::instrument(name = "score", skip_all)]
    pub async fn score(self, request: ScoreRequest) -> Result<ScoreResponse, EngineError> {
        let conversation = self.fresh_conversation(&request.profile).await?;
        let options = ReadOptions {
            format: request.format,
            growing: false,
        };
        let (name, bytes, extract) = (request.name.clone(), request.bytes, request.extract);
        // Reading is one pass over the bytes; what it finds is counted before anything is compared.
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
        let (_, _, report) = self
            .take_rounds(conversation, &transcript.rounds, Conversation::follow)
            .await?;
        let report = report.ok_or(ConversationError::NoRounds)?;
        let mut scored = ScoreResponse {
            conversation_id: transcript.conversation_id.clone(),
            topic: transcript.topic.clone(),
            input_format: format,
            report,
        };
        if request.record {
            scored.conversation_id = Some(self.record_score(&transcript, &scored).await?);
        }
        Ok(scored)
    }

    /// Starts following a conversation, round by round, with the embedder of the settings.
    pub async fn follow(self, profile: Profile) -> Result<Follower<'e>, EngineError> {
        let mut conversation = Conversation::new(profile.clone())?;
        let mut meaning = self.engine.embedder().await?.map(EmbeddingCache::new);
        if let Some(meaning) = &mut meaning {
            conversation = conversation.with_blocker_prototypes(meaning.of_prototypes(&profile).await?)?;
        }
        Ok(Follower {
            fresh: conversation.clone(),
            conversation,
            meaning,
            rounds: Vec::new(),
        })
    }

    /// The profile of that name, or in the file of that name.
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

    /// Keeps a conversation and its verdicts; returns its id.
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

/// Follows one conversation: observes new rounds, and begins anew when earlier ones have changed.
pub struct Follower<'a> {
    fresh: Conversation,
    conversation: Conversation,
    meaning: Option<EmbeddingCache<'a>>,
    rounds: Vec<Round>,
}

impl Follower<'_> {
    /// Observes the rounds that are new in `rounds`, which is the whole conversation so far; returns their verdicts.
    /// When a round that was observed before reads differently now, everything is observed again.
    pub async fn observe_all(&mut self, rounds: &[Round]) -> Result<Vec<Verdict>, EngineError> {
        if !rounds.starts_with(&self.rounds) {
            self.conversation = self.fresh.clone();
            self.rounds.clear();
        }
        let new = &rounds[self.rounds.len()..];
        if let Some(meaning) = &mut self.meaning {
            meaning.learn_rounds(new).await?;
        }
        let mut verdicts = Vec::with_capacity(new.len());
        for round in new {
            let vectors = self
                .meaning
                .as_ref()
                .map(|meaning| meaning.of_round(round))
                .transpose()?;
            verdicts.push(self.conversation.observe(round, vectors.as_ref())?);
            self.rounds.push(round.clone());
        }
        Ok(verdicts)
    }

    /// Everything found so far.
    pub fn report(&self) -> Result<Report, EngineError> {
        Ok(self.conversation.report()?)
    }

    /// How many rounds were observed.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }
}
