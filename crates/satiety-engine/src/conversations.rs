//! Conversations that are kept and grow round by round: what an agent that is far from this machine uses.
//!
//! The verdict after a round depends on all rounds before it, so a conversation that is asked about again and again is
//! held in memory; the store is what counts, and one that somebody else has changed there is built anew from it.

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

/// Conversations held in memory.
const HELD: usize = 256;
/// How often an append is made anew because somebody else was faster.
const ATTEMPTS: u32 = 50;
/// Rounds in one request.
const ROUNDS_AT_ONCE: usize = 200;
/// Rounds of a conversation; each costs a comparison with all claims before it.
const ROUNDS: usize = 5000;

/// A conversation to begin.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginConversationRequest {
    /// Its id; one is made where none is given.
    #[serde(default)]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_.:-]+$"))]
    pub conversation_id: Option<String>,
    /// What it is about.
    #[serde(default)]
    pub topic: Option<String>,
    /// The built-in profile that decides; `default` where absent.
    #[serde(default)]
    #[schemars(extend("enum" = ["default", "spec", null]))]
    pub profile: Option<String>,
    /// Rounds that have happened already.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub rounds: Vec<Round>,
}

/// Rounds to add to a conversation.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RoundsBody")]
pub struct AppendRoundsRequest {
    /// The conversation.
    #[schemars(length(min = 1, max = 256))]
    pub conversation_id: String,
    /// The rounds, in order.
    #[schemars(length(min = 1, max = 200))]
    pub rounds: Vec<Round>,
}

/// What follows from rounds that were added.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AppendedRounds {
    /// The conversation.
    pub conversation_id: String,
    /// Rounds that it has now.
    pub rounds: usize,
    /// What to do now; CONTINUE where there is no round yet.
    pub signal: Signal,
    /// The verdict after each round that was added.
    pub verdicts: Vec<Verdict>,
}

/// A conversation that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StoredConversation {
    /// Its id.
    pub conversation_id: String,
    /// What it is about.
    pub topic: String,
    /// The profile that decides.
    pub profile: String,
    /// The sentence model that was used.
    pub embedder: Option<String>,
    /// What to do now.
    pub signal: String,
    /// Its rounds, each with the verdict after it.
    pub rounds: Vec<StoredRound>,
    /// Everything that was found; absent before the first round.
    pub report: Option<Report>,
}

/// A round with the verdict after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StoredRound {
    /// Its place, from 1.
    pub position: i64,
    /// Who spoke.
    pub agent: Option<String>,
    /// What to do after it.
    pub signal: String,
    /// How new it was.
    pub novelty: Option<f64>,
    /// How ready for action.
    pub readiness: Option<f64>,
    /// The round as it came in.
    pub round: Value,
}

/// Which conversations to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListConversationsRequest {
    /// Only behind this one, by the moment of its last change and its id: the last one of the page before.
    pub before: Option<(i64, String)>,
    /// At most so many.
    pub limit: u32,
}

/// Conversations, the latest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConversationList {
    /// Which.
    pub conversations: Vec<ConversationSummary>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip)]
    pub next: Option<(i64, String)>,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConversationSummary {
    /// Its id.
    pub conversation_id: String,
    /// What it is about.
    pub topic: String,
    /// The profile that decides.
    pub profile: String,
    /// What to do now.
    pub signal: String,
    /// 1 - novelty rate after the last round.
    pub score: Option<f64>,
    /// How many rounds it has.
    pub rounds: i64,
    /// When it began.
    pub created_at: jiff::Timestamp,
    /// When it last grew.
    pub updated_at: jiff::Timestamp,
}

/// Conversations held in memory, by id, and for each built-in profile one that nobody has spoken in yet: reading a profile
/// and its word lists takes longer than scoring a short conversation.
#[derive(Debug, Default)]
pub(crate) struct ConversationCache {
    current: Mutex<BTreeMap<String, Current>>,
    fresh: Mutex<BTreeMap<String, Conversation>>,
}

/// A conversation as of a state of the store.
#[derive(Debug, Clone)]
struct Current {
    state: (i64, i64),
    used: u64,
    topic: String,
    conversation: Conversation,
}

impl DialogueOperations<'_> {
    /// Begins a conversation that is kept.
    pub async fn begin_conversation(
        self,
        request: BeginConversationRequest,
    ) -> Result<AppendedRounds, EngineError> {
        let id = match request.conversation_id {
            Some(id) => named(id)?,
            None => ids::prefixed("conv", uuid::Uuid::now_v7()),
        };
        let profile = request.profile.unwrap_or_else(|| "default".into());
        // Only what is built in: a name from far away must not become the path of a file.
        if !satiety::dialogue::Profile::built_in_names().contains(&profile.as_str()) {
            return Err(EngineError::NoProfile { name: profile });
        }
        let store = self.engine.store().await?;
        let taken = || EngineError::AlreadyThere {
            what: format!("a conversation `{id}`"),
            hint: "add rounds to it, or choose another id".into(),
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

    /// Adds rounds to a conversation and says what follows after each.
    #[tracing::instrument(name = "append rounds", skip_all, fields(rounds = request.rounds.len()))]
    pub async fn append_rounds(self, request: AppendRoundsRequest) -> Result<AppendedRounds, EngineError> {
        let id = &request.conversation_id;
        if request.rounds.len() > ROUNDS_AT_ONCE {
            return Err(EngineError::Unacceptable {
                what: format!("{} rounds at once", request.rounds.len()),
                hint: format!("send at most {ROUNDS_AT_ONCE} at a time"),
            });
        }
        for _ in 0..ATTEMPTS {
            let Current {
                mut state,
                used,
                topic,
                conversation,
            } = self.conversation_now(id).await?;
            let before = usize::try_from(state.1).unwrap_or_default();
            if before + request.rounds.len() > ROUNDS {
                return Err(EngineError::Unacceptable {
                    what: format!("conversation `{id}` with more than {ROUNDS} rounds"),
                    hint: "begin a new conversation with what was agreed on".into(),
                });
            }
            let (conversation, verdicts, report) = self
                .take_rounds(conversation, &request.rounds, Conversation::observe)
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
            let rows = rows(&request.rounds, &verdicts, state.1)?;
            let store = self.engine.store().await?;
            let Some(written) = store.conversations().extend(&row, state.1, &rows).await? else {
                continue;
            };
            let body = json!({"signal": row.signal, "score": report.score, "rounds": before + rows.len(),
                "profile": report.profile, "embedder": report.embedder});
            // The rounds are kept; saying that they are not would make the caller send them again.
            if let Err(error) = store
                .journal()
                .append(Event::now("dialogue.verdict", id, body))
                .await
            {
                tracing::warn!(%error, conversation = id, "a verdict is missing in the journal");
            }
            state = (written, state.1 + signed(request.rounds.len()));
            let current = Current {
                state,
                used,
                topic,
                conversation,
            };
            self.engine.conversations.hold(id, current);
            return Ok(done(Some(&report), verdicts));
        }
        Err(EngineError::Busy {
            what: format!("conversation `{id}`"),
        })
    }

    /// A conversation with its rounds.
    pub async fn conversation(self, id: &str) -> Result<StoredConversation, EngineError> {
        let found = self.engine.store().await?.conversations().get(id).await?;
        let (row, rounds) = found.ok_or_else(|| no_conversation(id))?;
        Ok(StoredConversation {
            conversation_id: row.id,
            topic: row.topic,
            profile: row.profile,
            embedder: row.embedder,
            signal: row.signal,
            rounds: rounds.into_iter().map(kept).collect(),
            report: match row.report {
                Value::Null => None,
                report => Some(serde_json::from_value(report)?),
            },
        })
    }

    /// The rounds of a conversation behind the first `after`.
    pub async fn conversation_rounds(self, id: &str, after: i64) -> Result<Vec<StoredRound>, EngineError> {
        let store = self.engine.store().await?;
        let rows = store.conversations().rounds_after(id, after, 500).await?;
        if rows.is_empty() && store.conversations().state(id).await?.is_none() {
            return Err(no_conversation(id));
        }
        Ok(rows.into_iter().map(kept).collect())
    }

    /// Conversations, the latest first, a page at a time.
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
            conversations: rows.into_iter().map(listed).collect(),
            next,
        })
    }

    /// The conversation as the store has it now: from memory, or built anew.
    async fn conversation_now(self, id: &str) -> Result<Current, EngineError> {
        let store = self.engine.store().await?;
        let state = store
            .conversations()
            .state(id)
            .await?
            .ok_or_else(|| no_conversation(id))?;
        if let Some(current) = self.engine.conversations.get(id, state) {
            return Ok(current);
        }
        let (row, rounds) = store
            .conversations()
            .get(id)
            .await?
            .ok_or_else(|| no_conversation(id))?;
        let conversation = self.fresh_conversation(&row.profile).await?;
        let count = signed(rounds.len());
        let earlier = rounds
            .into_iter()
            .map(|round| serde_json::from_value(round.body))
            .collect::<Result<Vec<Round>, _>>()?;
        let (conversation, _, _) = self
            .take_rounds(conversation, &earlier, Conversation::follow)
            .await?;
        Ok(Current {
            state: (state.0, count),
            used: 0,
            topic: row.topic,
            conversation,
        })
    }

    /// A conversation that nobody has spoken in yet, by the name or the file of its profile.
    pub(crate) async fn fresh_conversation(self, profile: &str) -> Result<Conversation, EngineError> {
        if let Some(fresh) = lock(&self.engine.conversations.fresh).get(profile) {
            return Ok(fresh.clone());
        }
        let read = self.profile(profile)?;
        let mut fresh = Conversation::new(read.clone())?;
        if let Some(embedder) = self.engine.embedder().await? {
            let mut meaning = EmbeddingCache::new(embedder);
            let prototypes = admission::for_everybody(meaning.of_prototypes(&read)).await?;
            fresh = fresh.with_blocker_prototypes(prototypes)?;
        }
        // A file may be changed by the next request; what is built in may not.
        if satiety::dialogue::Profile::built_in_names().contains(&profile) {
            lock(&self.engine.conversations.fresh).insert(profile.to_owned(), fresh.clone());
        }
        Ok(fresh)
    }

    /// Has a conversation take rounds, each with what it means, in the given way. Returns it with what each round gave and
    /// the report after all of them, which is absent where there is no round yet. The cost is admitted first, and the work ends
    /// when nobody waits for it any more.
    pub(crate) async fn take_rounds<T: Send + 'static>(
        self,
        mut conversation: Conversation,
        rounds: &[Round],
        take: impl Fn(&mut Conversation, &Round, Option<&RoundVectors>) -> Result<T, ConversationError>
        + Send
        + 'static,
    ) -> Result<(Conversation, Vec<T>, Option<Report>), EngineError> {
        let work = Workload::of_rounds(rounds, conversation.claim_count() as u64);
        let model = self.engine.model_cost();
        admission::admit("scoring these rounds", &work, model)?;
        let mut vectors = Vec::new();
        if let Some(embedder) = self.engine.embedder().await? {
            let mut meaning = EmbeddingCache::new(embedder);
            meaning.learn_rounds(rounds).await?;
            for round in rounds {
                vectors.push(meaning.of_round(round)?);
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
    fn get(&self, id: &str, state: (i64, i64)) -> Option<Current> {
        let held = lock(&self.current);
        held.get(id).filter(|current| current.state == state).cloned()
    }

    fn hold(&self, id: &str, mut current: Current) {
        let mut held = lock(&self.current);
        current.used = 1 + held.values().map(|other| other.used).max().unwrap_or_default();
        held.insert(id.to_owned(), current);
        if held.len() > HELD {
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

/// A count as the store has it.
fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// An id that somebody gave: short, and nothing that could hide in a path or a log.
fn named(id: String) -> Result<String, EngineError> {
    let fits = (1..=128).contains(&id.len())
        && id
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.:".contains(letter));
    if fits {
        return Ok(id);
    }
    Err(EngineError::Unacceptable {
        what: "this conversation_id".into(),
        hint: "1 to 128 letters, digits, `-`, `_`, `.` or `:`".into(),
    })
}

fn no_conversation(id: &str) -> EngineError {
    EngineError::NotThere {
        what: format!("conversation `{id}`"),
        hint: "begin it first, or list the conversations to see their ids".into(),
    }
}

fn rows(rounds: &[Round], verdicts: &[Verdict], before: i64) -> Result<Vec<RoundRow>, EngineError> {
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

fn kept(row: RoundRow) -> StoredRound {
    StoredRound {
        position: row.position,
        agent: row.agent,
        signal: row.signal,
        novelty: row.novelty,
        readiness: row.readiness,
        round: row.body,
    }
}

fn listed(row: ConversationSummaryRow) -> ConversationSummary {
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
