//! Stored conversations that grow round by round, for agents on other machines.
//!
//! The verdict after a round depends on all rounds before it, so recently used conversations are cached in
//! memory. The database is authoritative: a cached conversation that another process has changed is rebuilt
//! from it.

use crate::handles::DialogueOperations;
use std::collections::BTreeMap;
use std::sync::Mutex;

use satiety::admission::Workload;
use satiety::cancel::Cancellation;
use satiety::dialogue::{Conversation, ConversationError, Report, Round, RoundVectors, Signal, Verdict};
use satiety::ids;
use satiety_store::conversations::{ConversationRow, ConversationSummaryRow, RoundRow};
use satiety_store::journal::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::embedding_cache::EmbeddingCache;
use crate::{EngineError, admission};

/// Maximum number of conversations cached in memory.
const MAX_CACHED: usize = 256;
/// Attempts to append before giving up on concurrent writers.
const MAX_ATTEMPTS: u32 = 50;
/// Maximum number of rounds in one request.
const MAX_ROUNDS_PER_REQUEST: usize = 200;
/// Maximum number of rounds in a conversation; each round is compared with all earlier claims.
const MAX_ROUNDS: usize = 5000;

/// Request to start a stored conversation.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginConversationRequest {
    /// Conversation id; generated if absent.
    #[serde(default)]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_.:-]+$"))]
    pub conversation_id: Option<String>,
    /// Topic of the conversation, in a few words.
    #[serde(default)]
    pub topic: Option<String>,
    /// Built-in profile that decides; `default` if absent.
    #[serde(default)]
    #[schemars(extend("enum" = ["default", "spec", null]))]
    pub profile: Option<String>,
    /// Rounds so far, in order.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub rounds: Vec<Round>,
}

/// Request to append rounds to a conversation.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RoundsBody")]
pub struct AppendRoundsRequest {
    /// Id of the conversation to extend.
    #[schemars(length(min = 1, max = 256))]
    pub conversation_id: String,
    /// Rounds to append, in order.
    #[schemars(length(min = 1, max = 200))]
    pub rounds: Vec<Round>,
}

/// Verdicts after appending rounds to a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AppendedRounds {
    /// Id of the extended conversation.
    pub conversation_id: String,
    /// Total number of rounds after the append.
    pub rounds: usize,
    /// Current recommendation; CONTINUE while there are no rounds.
    pub signal: Signal,
    /// Verdict after each appended round, in order.
    pub verdicts: Vec<Verdict>,
}

/// A stored conversation with its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StoredConversation {
    /// Id of the stored conversation.
    pub conversation_id: String,
    /// Topic of the conversation, in a few words.
    pub topic: String,
    /// Name of the profile that decides.
    pub profile: String,
    /// Sentence model that compared the texts; absent if words alone were compared.
    pub embedder: Option<String>,
    /// Current recommendation, such as `CONTINUE`.
    pub signal: String,
    /// Rounds in order, each with its verdict.
    pub rounds: Vec<StoredRound>,
    /// Full report over all rounds; absent before the first round.
    pub report: Option<Report>,
}

/// A round and the verdict after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StoredRound {
    /// Position in the conversation, from 1.
    pub position: i64,
    /// Name of the agent that spoke.
    pub agent: Option<String>,
    /// Recommendation after this round, such as `CONTINUE`.
    pub signal: String,
    /// Novelty of the round, 0 to 1.
    pub novelty: Option<f64>,
    /// Readiness for action after the round, 0 to 1.
    pub readiness: Option<f64>,
    /// The round as it was submitted.
    pub round: Value,
}

/// Request for a page of conversations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListConversationsRequest {
    /// Cursor: `(updated_at, conversation_id)` of the last conversation on the previous page.
    pub before: Option<(i64, String)>,
    /// Maximum number of conversations on the page.
    pub limit: u32,
}

/// A page of conversations, most recently updated first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConversationList {
    /// Conversations on this page, most recently updated first.
    pub conversations: Vec<ConversationSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip)]
    pub next: Option<(i64, String)>,
}

/// Summary of a conversation in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConversationSummary {
    /// Id of the conversation, unique in the database.
    pub conversation_id: String,
    /// Topic of the conversation, in a few words.
    pub topic: String,
    /// Name of the profile that decides.
    pub profile: String,
    /// Current recommendation, such as `CONTINUE`.
    pub signal: String,
    /// 1 − novelty rate after the last round, 0 to 1.
    pub score: Option<f64>,
    /// Number of rounds in the conversation.
    pub rounds: i64,
    /// Time when the conversation was started.
    pub created_at: jiff::Timestamp,
    /// Time when a round was last appended.
    pub updated_at: jiff::Timestamp,
}

/// In-memory cache of conversations by id, plus one empty conversation per built-in profile: parsing a
/// profile and its lexicons takes longer than scoring a short conversation.
#[derive(Debug, Default)]
pub(crate) struct ConversationCache {
    current: Mutex<BTreeMap<String, CachedConversation>>,
    fresh: Mutex<BTreeMap<String, Conversation>>,
}

/// A conversation as of a revision in the database.
#[derive(Debug, Clone)]
struct CachedConversation {
    state: (i64, i64),
    used: u64,
    topic: String,
    conversation: Conversation,
}

impl DialogueOperations<'_> {
    /// Starts a stored conversation.
    pub async fn begin_conversation(
        self,
        request: BeginConversationRequest,
    ) -> Result<AppendedRounds, EngineError> {
        let id = match request.conversation_id {
            Some(id) => validate_id(id)?,
            None => ids::prefixed("conv", uuid::Uuid::now_v7()),
        };
        let profile = request.profile.unwrap_or_else(|| "default".into());
        // Only built-in profiles: a name from a remote caller must not become a file path.
        if !satiety::dialogue::Profile::built_in_names().contains(&profile.as_str()) {
            return Err(EngineError::NoProfile { name: profile });
        }
        let store = self.engine.store().await?;
        let taken = || EngineError::AlreadyExists {
            what: format!("conversation `{id}`"),
            hint: "append rounds to it, or choose another id".into(),
        };
        if store.conversations().state(&id).await?.is_some() {
            return Err(taken());
        }
        let row = ConversationRow {
            id: id.clone(),
            topic: request.topic.unwrap_or_default(),
            profile,
            embedder: None,
            signal: Signal::Continue.to_string(),
            score: None,
            report: Value::Null,
        };
        if !store.conversations().begin(&row).await? {
            return Err(taken());
        }
        self.append_rounds(AppendRoundsRequest {
            conversation_id: id,
            rounds: request.rounds,
        })
        .await
    }

    /// Appends rounds to a conversation and returns the verdict after each.
    #[tracing::instrument(name = "append rounds", skip_all, fields(rounds = request.rounds.len()))]
    pub async fn append_rounds(self, request: AppendRoundsRequest) -> Result<AppendedRounds, EngineError> {
        let id = &request.conversation_id;
        if request.rounds.len() > MAX_ROUNDS_PER_REQUEST {
            return Err(EngineError::Unacceptable {
                what: format!("{} rounds at once", request.rounds.len()),
                hint: format!("send at most {MAX_ROUNDS_PER_REQUEST} rounds per request").into(),
            });
        }
        for _ in 0..MAX_ATTEMPTS {
            let CachedConversation {
                mut state,
                used,
                topic,
                conversation,
            } = self.load_conversation(id).await?;
            let before = usize::try_from(state.1).unwrap_or_default();
            if before + request.rounds.len() > MAX_ROUNDS {
                return Err(EngineError::Unacceptable {
                    what: format!("conversation `{id}` with more than {MAX_ROUNDS} rounds"),
                    hint: "start a new conversation with the decisions so far".into(),
                });
            }
            let (conversation, verdicts, report) = self
                .observe_rounds(conversation, &request.rounds, Conversation::observe)
                .await?;
            let done = |report: Option<&Report>, verdicts: Vec<Verdict>| AppendedRounds {
                conversation_id: id.clone(),
                rounds: before + request.rounds.len(),
                signal: report.map_or(Signal::Continue, |report| report.stop_recommendation.signal),
                verdicts,
            };
            let report = match report {
                Some(report) if !request.rounds.is_empty() => report,
                report => return Ok(done(report.as_ref(), verdicts)),
            };
            let row = ConversationRow {
                id: id.clone(),
                topic: topic.clone(),
                profile: report.profile.clone(),
                embedder: report.embedder.clone(),
                signal: report.stop_recommendation.signal.to_string(),
                score: Some(report.score),
                report: serde_json::to_value(&report)?,
            };
            let rows = round_rows(&request.rounds, &verdicts, state.1)?;
            let store = self.engine.store().await?;
            let Some(written) = store.conversations().extend(&row, state.1, &rows).await? else {
                continue;
            };
            let body = json!({"signal": row.signal, "score": report.score, "rounds": before + rows.len(),
                "profile": report.profile, "embedder": report.embedder});
            // The rounds are stored; an error here would make the caller send them again.
            if let Err(error) = store
                .journal()
                .append(Event::now("dialogue.verdict", id, body))
                .await
            {
                tracing::warn!(%error, conversation = id, "cannot write the verdict to the journal");
            }
            state = (written, state.1 + signed(request.rounds.len()));
            let current = CachedConversation {
                state,
                used,
                topic,
                conversation,
            };
            self.engine.conversations.put(id, current);
            return Ok(done(Some(&report), verdicts));
        }
        Err(EngineError::Busy {
            what: format!("conversation `{id}`"),
        })
    }

    /// Returns a conversation with its rounds.
    pub async fn conversation(self, id: &str) -> Result<StoredConversation, EngineError> {
        let found = self.engine.store().await?.conversations().get(id).await?;
        let (row, rounds) = found.ok_or_else(|| conversation_not_found(id))?;
        Ok(StoredConversation {
            conversation_id: row.id,
            topic: row.topic,
            profile: row.profile,
            embedder: row.embedder,
            signal: row.signal,
            rounds: rounds.into_iter().map(stored_round).collect(),
            report: match row.report {
                Value::Null => None,
                report => Some(serde_json::from_value(report)?),
            },
        })
    }

    /// Returns the rounds of a conversation after the first `after`.
    pub async fn conversation_rounds(self, id: &str, after: i64) -> Result<Vec<StoredRound>, EngineError> {
        let store = self.engine.store().await?;
        let rows = store.conversations().rounds_after(id, after, 500).await?;
        if rows.is_empty() && store.conversations().state(id).await?.is_none() {
            return Err(conversation_not_found(id));
        }
        Ok(rows.into_iter().map(stored_round).collect())
    }

    /// Lists conversations, most recently updated first, one page at a time.
    pub async fn conversations(
        self,
        request: &ListConversationsRequest,
    ) -> Result<ConversationList, EngineError> {
        let before = request.before.as_ref().map(|(at, id)| (*at, id.as_str()));
        let limit = i64::from(request.limit.clamp(1, 500));
        let mut rows = self
            .engine
            .store()
            .await?
            .conversations()
            .list_before(before, limit + 1)
            .await?;
        let more = signed(rows.len()) > limit;
        rows.truncate(usize::try_from(limit).unwrap_or_default());
        let next = rows
            .last()
            .filter(|_| more)
            .map(|row| (row.updated_at, row.id.clone()));
        Ok(ConversationList {
            conversations: rows.into_iter().map(conversation_summary).collect(),
            next,
        })
    }

    /// Returns the conversation at its current revision: from the cache, or rebuilt from the database.
    async fn load_conversation(self, id: &str) -> Result<CachedConversation, EngineError> {
        let store = self.engine.store().await?;
        let state = store
            .conversations()
            .state(id)
            .await?
            .ok_or_else(|| conversation_not_found(id))?;
        if let Some(current) = self.engine.conversations.get(id, state) {
            return Ok(current);
        }
        let (row, rounds) = store
            .conversations()
            .get(id)
            .await?
            .ok_or_else(|| conversation_not_found(id))?;
        let conversation = self.empty_conversation(&row.profile).await?;
        let count = signed(rounds.len());
        let earlier = rounds
            .into_iter()
            .map(|round| serde_json::from_value(round.body))
            .collect::<Result<Vec<Round>, _>>()?;
        let (conversation, _, _) = self
            .observe_rounds(conversation, &earlier, Conversation::follow)
            .await?;
        Ok(CachedConversation {
            state: (state.0, count),
            used: 0,
            topic: row.topic,
            conversation,
        })
    }

    /// Returns an empty conversation for a profile, given by name or file.
    pub(crate) async fn empty_conversation(self, profile: &str) -> Result<Conversation, EngineError> {
        if let Some(fresh) = lock(&self.engine.conversations.fresh).get(profile) {
            return Ok(fresh.clone());
        }
        let read = self.profile(profile)?;
        let mut fresh = Conversation::new(read.clone())?;
        if let Some(embedder) = self.engine.embedder().await? {
            let mut embeddings = EmbeddingCache::new(embedder);
            let prototypes = admission::unmetered(embeddings.prototype_vectors(&read)).await?;
            fresh = fresh.with_blocker_prototypes(prototypes)?;
        }
        // A file may change before the next request; a built-in profile cannot.
        if satiety::dialogue::Profile::built_in_names().contains(&profile) {
            lock(&self.engine.conversations.fresh).insert(profile.to_owned(), fresh.clone());
        }
        Ok(fresh)
    }

    /// Feeds rounds with their embeddings into a conversation through the given function. Returns the
    /// conversation, the result of each round, and the report after all of them, which is absent without
    /// rounds. The cost is admitted first, and the work is cancelled when the caller no longer waits.
    pub(crate) async fn observe_rounds<T: Send + 'static>(
        self,
        mut conversation: Conversation,
        rounds: &[Round],
        take: impl Fn(&mut Conversation, &Round, Option<&RoundVectors>) -> Result<T, ConversationError>
        + Send
        + 'static,
    ) -> Result<(Conversation, Vec<T>, Option<Report>), EngineError> {
        let work = Workload::for_rounds(rounds, conversation.claim_count() as u64);
        let model = self.engine.model_cost();
        admission::admit("scoring these rounds", &work, model)?;
        let mut vectors = Vec::new();
        if let Some(embedder) = self.engine.embedder().await? {
            let mut embeddings = EmbeddingCache::new(embedder);
            embeddings.embed_rounds(rounds).await?;
            for round in rounds {
                vectors.push(embeddings.round_vectors(round)?);
            }
        }
        let compared = Workload { tokens: 0, ..work };
        let rounds = rounds.to_vec();
        let compute = move |cancellation: &Cancellation| {
            conversation.set_cancellation(cancellation.clone());
            let mut taken = Vec::with_capacity(rounds.len());
            for (position, round) in rounds.iter().enumerate() {
                taken.push(take(&mut conversation, round, vectors.get(position))?);
            }
            // The flag belongs to this request; the conversation outlives it.
            conversation.set_cancellation(Cancellation::default());
            let report = match conversation.report() {
                Err(ConversationError::NoRounds) => None,
                report => Some(report?),
            };
            Ok((conversation, taken, report))
        };
        self.engine.compute(compared.units(model), compute).await
    }
}

impl ConversationCache {
    fn get(&self, id: &str, state: (i64, i64)) -> Option<CachedConversation> {
        let held = lock(&self.current);
        held.get(id).filter(|current| current.state == state).cloned()
    }

    fn put(&self, id: &str, mut current: CachedConversation) {
        let mut held = lock(&self.current);
        current.used = 1 + held.values().map(|other| other.used).max().unwrap_or_default();
        held.insert(id.to_owned(), current);
        if held.len() > MAX_CACHED {
            let oldest = held
                .iter()
                .min_by_key(|(_, other)| other.used)
                .map(|(id, _)| id.clone());
            if let Some(oldest) = oldest {
                held.remove(&oldest);
            }
        }
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn validate_id(id: String) -> Result<String, EngineError> {
    check_id(&id)?;
    Ok(id)
}

/// Checks an id from a caller: short, and safe in a path or a log.
pub(crate) fn check_id(id: &str) -> Result<(), EngineError> {
    let fits = (1..=128).contains(&id.len())
        && id
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.:".contains(letter));
    if fits {
        return Ok(());
    }
    Err(EngineError::Unacceptable {
        what: "this conversation_id".into(),
        hint: "1 to 128 letters, digits, `-`, `_`, `.` or `:`".into(),
    })
}

fn conversation_not_found(id: &str) -> EngineError {
    EngineError::NotFound {
        what: format!("conversation `{id}`"),
        hint: "start it first, or list the conversations to see their ids".into(),
    }
}

fn round_rows(rounds: &[Round], verdicts: &[Verdict], before: i64) -> Result<Vec<RoundRow>, EngineError> {
    (before + 1..)
        .zip(rounds.iter().zip(verdicts))
        .map(|(position, (round, verdict))| {
            Ok(RoundRow {
                position,
                agent: round.agent.clone(),
                signal: verdict.signal.to_string(),
                novelty: verdict.novelty.novelty,
                readiness: Some(verdict.readiness.action_readiness),
                body: serde_json::to_value(round)?,
            })
        })
        .collect()
}

fn stored_round(row: RoundRow) -> StoredRound {
    StoredRound {
        position: row.position,
        agent: row.agent,
        signal: row.signal,
        novelty: row.novelty,
        readiness: row.readiness,
        round: row.body,
    }
}

pub(crate) fn conversation_summary(row: ConversationSummaryRow) -> ConversationSummary {
    ConversationSummary {
        conversation_id: row.id,
        topic: row.topic,
        profile: row.profile,
        signal: row.signal,
        score: row.score,
        rounds: row.rounds,
        created_at: crate::time(row.created_at),
        updated_at: crate::time(row.updated_at),
    }
}
