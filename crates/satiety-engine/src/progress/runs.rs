//! Stored runs of agents that are reported message by message.
//!
//! The verdict after a step depends on the steps before it, so the judges of recently used runs are kept in
//! memory. The database is authoritative: a judge that has not seen all stored messages is rebuilt from them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use satiety::Hint;
use satiety::progress::{
    LogKind, ProgressProfile, ProgressReport, ProgressSignal, RunJudge, StepVerdict, Waste, texts_to_embed,
};
use satiety::trajectory::{Feed, Skipped, Step};
use satiety_store::agent_runs::AgentRunRow;
use satiety_store::journal::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::EngineError;
use crate::dialogue::{Extract, ScoreRequest};
use crate::embedding_cache::EmbeddingCache;
use crate::handles::ProgressOperations;

/// Maximum number of judges kept in memory.
const MAX_CACHED: usize = 256;
/// Attempts to append before giving up on concurrent writers.
const MAX_ATTEMPTS: u32 = 20;
/// Maximum number of messages in a run.
const MAX_MESSAGES: usize = 100_000;

/// Request to append messages of an agent to a run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MessagesBody")]
pub struct AppendMessagesRequest {
    /// Id of the run; a new one is created on first use.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_.:-]+$"))]
    pub conversation_id: String,
    /// Messages in order, in the shape of the agent's framework: OpenAI, Anthropic or LangChain messages with
    /// tool calls and results, session log records, or steps with `calls`.
    #[schemars(length(min = 1, max = 1000), with = "Vec<serde_json::Map<String, Value>>")]
    pub messages: Vec<Value>,
}

/// Verdict after appending messages to a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AppendedMessages {
    /// Id of the run.
    pub conversation_id: String,
    /// What the run shows so far: work, deliberation, or both.
    pub kind: LogKind,
    /// Current recommendation.
    pub signal: ProgressSignal,
    /// Reason for the recommendation in one sentence.
    pub reason: String,
    /// Sentence to add to the agent's context, for NUDGE, STOP and ESCALATE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nudge: Option<String>,
    /// What the agent is expected to waste if it goes on.
    #[serde(flatten)]
    pub expected_waste: Waste,
    /// Probability that the recommendation is right, from 0 to 1; absent for discussions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Number of messages in the run.
    pub messages: usize,
    /// Number of steps judged so far.
    pub steps: usize,
    /// First step (from 1) with NUDGE.
    pub first_nudge_step: Option<usize>,
    /// First step (from 1) with STOP or ESCALATE.
    pub first_stop_step: Option<usize>,
    /// Verdict after each step that these messages completed.
    pub verdicts: Vec<StepVerdict>,
    /// Messages that were not understood.
    pub skipped: Skipped,
}

/// A stored run with the judgement of all its steps.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StoredRun {
    /// Id of the run.
    pub conversation_id: String,
    /// Time when the run was first reported.
    pub created_at: jiff::Timestamp,
    /// Time when a message was last appended.
    pub updated_at: jiff::Timestamp,
    /// Judgement of the run.
    #[serde(flatten)]
    pub report: ProgressReport,
    /// What the agent did in each step.
    pub actions: Vec<Step>,
}

/// Summary of a stored run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AgentRunSummary")]
pub struct RunSummary {
    /// Id of the run.
    pub conversation_id: String,
    /// What the run shows: `work`, `deliberation` or `mixed`.
    pub kind: String,
    /// Latest recommendation, such as `CONTINUE`.
    pub signal: String,
    /// Reason for the latest recommendation.
    pub reason: String,
    /// Number of messages in the run.
    pub messages: i64,
    /// Number of judged steps.
    pub steps: i64,
    /// Number of steps that brought nothing new.
    pub wasted_steps: i64,
    /// First step (from 1) with NUDGE.
    pub first_nudge_step: Option<i64>,
    /// First step (from 1) with STOP or ESCALATE.
    pub first_stop_step: Option<i64>,
    /// Time when the run was first reported.
    pub created_at: jiff::Timestamp,
    /// Time when a message was last appended.
    pub updated_at: jiff::Timestamp,
}

/// A page of runs, most recently updated first.
#[derive(Debug, Clone, PartialEq)]
pub struct RunList {
    pub runs: Vec<RunSummary>,
    /// Cursor of the next page: time of the last write and id of the last run.
    pub next: Option<(i64, String)>,
}

/// Judges of recently used runs, by id.
#[derive(Debug, Default)]
pub(crate) struct RunCache {
    judges: Mutex<BTreeMap<String, CachedJudge>>,
}

/// The judge of one run, with the time of its last use for the cache.
#[derive(Debug)]
struct CachedJudge {
    judge: RunJudge,
    used: u64,
}

impl ProgressOperations<'_> {
    /// Appends messages to a run and returns the verdict after them.
    #[tracing::instrument(name = "append messages", skip_all, fields(messages = request.messages.len()))]
    pub async fn append_messages(
        self,
        request: AppendMessagesRequest,
    ) -> Result<AppendedMessages, EngineError> {
        let id = &request.conversation_id;
        crate::conversations::check_id(id)?;
        let store = self.engine.store().await?;
        for _ in 0..MAX_ATTEMPTS {
            let stored = store.agent_runs().get(id).await?.map_or(0, |row| row.messages);
            let before = usize::try_from(stored).unwrap_or_default();
            if before + request.messages.len() > MAX_MESSAGES {
                return Err(EngineError::Unacceptable {
                    what: format!("run `{id}` with more than {MAX_MESSAGES} messages"),
                    hint: Hint::from("report under a new id"),
                });
            }
            let mut judge = match self.engine.runs.take(id, before) {
                Some(judge) => judge,
                None => Box::pin(self.rebuild(id, before)).await?,
            };
            let verdicts = Box::pin(self.observe(&mut judge, &request.messages)).await?;
            let appended = Box::pin(self.summarize(id, &judge, verdicts, before, &request.messages)).await?;
            // The list of runs agrees with the judgement of the whole run, for which the log has ended.
            let (signal, reason) = match judge.at_end().filter(|_| appended.kind != LogKind::Deliberation) {
                Some(ended) => (ended.signal, &ended.reason),
                None => (appended.signal, &appended.reason),
            };
            let row = AgentRunRow {
                id: id.clone(),
                kind: appended.kind.as_str().to_owned(),
                signal: signal.to_string(),
                reason: reason.clone(),
                messages: 0,
                steps: signed(appended.steps),
                wasted_steps: signed(judge.wasted_steps()),
                first_nudge_step: appended.first_nudge_step.map(signed),
                first_stop_step: appended.first_stop_step.map(signed),
                created_at: 0,
                updated_at: 0,
            };
            if !store.agent_runs().append(&row, stored, &request.messages).await? {
                continue;
            }
            if appended
                .verdicts
                .iter()
                .any(|verdict| verdict.signal != ProgressSignal::Continue)
            {
                let body =
                    json!({"signal": row.signal, "reason": row.reason, "steps": row.steps, "kind": row.kind});
                // The messages are stored; an error here would make the caller send them again.
                if let Err(error) = store
                    .journal()
                    .append(Event::now("progress.verdict", id, body))
                    .await
                {
                    tracing::warn!(%error, run = id, "cannot write the verdict to the journal");
                }
            }
            self.engine.runs.put(id, judge);
            return Ok(appended);
        }
        Err(EngineError::Busy {
            what: format!("run `{id}`"),
        })
    }

    /// Returns a stored run with the judgement of all its steps.
    pub async fn run(self, id: &str) -> Result<StoredRun, EngineError> {
        let store = self.engine.store().await?;
        let row = store.agent_runs().get(id).await?.ok_or_else(|| not_found(id))?;
        let mut feed = Feed::new();
        for message in store.agent_runs().messages(id).await? {
            feed.push(&message);
        }
        let mut trajectory = feed.finish();
        trajectory.id = Some(id.to_owned());
        let mut report = self
            .judge_trajectory(&trajectory, ProgressProfile::built_in())
            .await?;
        // A discussion was judged by what was said.
        if report.kind == LogKind::Deliberation
            && let Ok(signal) = serde_json::from_value(Value::String(row.signal.clone()))
        {
            report.signal = signal;
            report.reason.clone_from(&row.reason);
        }
        Ok(StoredRun {
            conversation_id: row.id,
            created_at: crate::time(row.created_at),
            updated_at: crate::time(row.updated_at),
            report,
            actions: trajectory.steps,
        })
    }

    /// Returns the summary of a stored run, without judging it again.
    pub async fn run_summary(self, id: &str) -> Result<RunSummary, EngineError> {
        let row = self.engine.store().await?.agent_runs().get(id).await?;
        row.map(agent_run_summary).ok_or_else(|| not_found(id))
    }

    /// Lists stored runs, most recently updated first, one page at a time.
    pub async fn runs(self, before: Option<(i64, String)>, limit: u32) -> Result<RunList, EngineError> {
        let limit = i64::from(limit.clamp(1, 500));
        let before = before.as_ref().map(|(at, id)| (*at, id.as_str()));
        let store = self.engine.store().await?;
        let mut rows = store.agent_runs().list_before(before, limit + 1).await?;
        let more = signed(rows.len()) > limit;
        rows.truncate(usize::try_from(limit).unwrap_or_default());
        let next = rows
            .last()
            .filter(|_| more)
            .map(|row| (row.updated_at, row.id.clone()));
        Ok(RunList {
            runs: rows.into_iter().map(agent_run_summary).collect(),
            next,
        })
    }

    async fn rebuild(self, id: &str, messages: usize) -> Result<RunJudge, EngineError> {
        let mut judge = RunJudge::new(ProgressProfile::built_in());
        if messages > 0 {
            let stored = self.engine.store().await?.agent_runs().messages(id).await?;
            self.observe(&mut judge, &stored).await?;
        }
        Ok(judge)
    }

    async fn observe(
        self,
        judge: &mut RunJudge,
        messages: &[Value],
    ) -> Result<Vec<StepVerdict>, EngineError> {
        let mut steps = Vec::new();
        for message in messages {
            steps.extend_from_slice(judge.push(message));
        }
        let mut embeddings = None;
        let texts: Vec<String> = steps.iter().filter_map(texts_to_embed).collect();
        if !texts.is_empty()
            && let Some(embedder) = self.engine.embedder().await?
        {
            let mut cache = EmbeddingCache::new(embedder);
            cache.embed_texts(&texts).await?;
            embeddings = Some(cache);
        }
        let observe = |step: &Step| {
            let text = texts_to_embed(step);
            let vector = text.as_deref().and_then(|text| embeddings.as_ref()?.vector(text));
            judge.observe(step, vector)
        };
        Ok(steps.iter().map(observe).collect())
    }

    async fn summarize(
        self,
        id: &str,
        judge: &RunJudge,
        verdicts: Vec<StepVerdict>,
        before: usize,
        messages: &[Value],
    ) -> Result<AppendedMessages, EngineError> {
        let last = judge.last();
        let mut appended = AppendedMessages {
            conversation_id: id.to_owned(),
            kind: judge.kind(),
            signal: last.map_or(ProgressSignal::Continue, |verdict| verdict.signal),
            reason: last.map_or_else(
                || "No step is complete yet.".to_owned(),
                |verdict| verdict.reason.clone(),
            ),
            nudge: last.and_then(|verdict| verdict.nudge.clone()),
            expected_waste: last.map_or_else(Waste::default, |verdict| verdict.expected_waste),
            confidence: last.map(|verdict| verdict.confidence),
            messages: before + messages.len(),
            steps: judge.steps(),
            first_nudge_step: judge.first_nudge_step(),
            first_stop_step: judge.first_stop_step(),
            verdicts,
            skipped: judge.skipped().clone(),
        };
        // A discussion is judged by what is said, unless it already repeats itself.
        if judge.is_open_discussion() {
            self.score_discussion(id, before, messages, &mut appended).await?;
        }
        Ok(appended)
    }

    async fn score_discussion(
        self,
        id: &str,
        before: usize,
        messages: &[Value],
        appended: &mut AppendedMessages,
    ) -> Result<(), EngineError> {
        let mut all = if before == 0 {
            Vec::new()
        } else {
            self.engine.store().await?.agent_runs().messages(id).await?
        };
        all.extend_from_slice(messages);
        let request = ScoreRequest {
            name: id.to_owned(),
            bytes: Value::Array(all).to_string().into_bytes(),
            format: Some(satiety::dialogue::input::InputFormat::Chat),
            profile: "default".into(),
            extract: Extract::Rules,
            record: false,
        };
        // Messages without a discussion, such as a lone prompt, have no rounds to score.
        if let Ok(scored) = self.engine.dialogue().score(request).await {
            let recommendation = &scored.report.stop_recommendation;
            appended.signal = recommendation.signal.into();
            appended.reason.clone_from(&recommendation.rationale);
            appended.nudge = None;
            appended.confidence = None;
        }
        Ok(())
    }
}

impl RunCache {
    /// Removes and returns the judge of a run, if it has seen exactly this many messages.
    fn take(&self, id: &str, messages: usize) -> Option<RunJudge> {
        let mut judges = self.judges.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = judges.remove(id)?;
        (cached.judge.records() == messages).then_some(cached.judge)
    }

    fn put(&self, id: &str, judge: RunJudge) {
        let mut judges = self.judges.lock().unwrap_or_else(PoisonError::into_inner);
        let used = 1 + judges.values().map(|other| other.used).max().unwrap_or_default();
        judges.insert(id.to_owned(), CachedJudge { judge, used });
        if judges.len() > MAX_CACHED {
            let oldest = judges
                .iter()
                .min_by_key(|(_, other)| other.used)
                .map(|(id, _)| id.clone());
            if let Some(oldest) = oldest {
                judges.remove(&oldest);
            }
        }
    }
}

pub(crate) fn agent_run_summary(row: AgentRunRow) -> RunSummary {
    RunSummary {
        conversation_id: row.id,
        kind: row.kind,
        signal: row.signal,
        reason: row.reason,
        messages: row.messages,
        steps: row.steps,
        wasted_steps: row.wasted_steps,
        first_nudge_step: row.first_nudge_step,
        first_stop_step: row.first_stop_step,
        created_at: crate::time(row.created_at),
        updated_at: crate::time(row.updated_at),
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn not_found(id: &str) -> EngineError {
    EngineError::NotFound {
        what: format!("run `{id}`"),
        hint: Hint::from("append messages to it first, or list the runs to see their ids"),
    }
}
