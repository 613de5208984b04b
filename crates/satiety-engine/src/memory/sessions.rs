//! Session summaries: queries and uses of each session, outcomes of its tasks, and whether using memories
//! correlates with success.

use crate::handles::MemoryOperations;
use std::collections::{BTreeMap, BTreeSet};

use satiety::memory::{
    FeedbackKind, LoggedEvent, LoggedQuery, Outcome, SessionEvalSummary, TaskOutcome, session_summary,
};
use satiety_store::memory_tasks::TaskRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MemoryError;
use crate::EngineError;

/// Maximum queries and events of a session in its summary.
const MAX_EVENTS: u32 = 5000;
/// Number of tasks that the statistics cover, most recent first.
const MAX_TASKS: u32 = 500;

/// Sessions, most recent first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Sessions {
    /// Session summaries, most recent first.
    pub sessions: Vec<SessionSummary>,
}

/// Summary of a session in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SessionSummary {
    /// Id of the session.
    pub session_id: String,
    /// Number of queries in the session.
    pub searches: i64,
    /// Time of the first event.
    pub first_at: jiff::Timestamp,
    /// Time of the last query.
    pub last_at: jiff::Timestamp,
    /// Tasks of the session, most recent first.
    pub tasks: Vec<TaskSummary>,
}

/// Summary of a task in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TaskSummary {
    /// Id of the task.
    pub task_id: String,
    /// Description of the task.
    pub task: String,
    /// Outcome; absent while the task is open.
    pub outcome: Option<Outcome>,
    /// Learning index of the task; absent while it is open.
    pub learning_index: Option<f64>,
}

/// Statistics of tasks, with and without use of memories.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TaskMetrics {
    /// Number of open tasks.
    pub open: usize,
    /// Number of closed tasks.
    pub closed: usize,
    /// Success rate of closed tasks, 0 to 1.
    pub success_rate: Option<f64>,
    /// Success rate of tasks in which a memory was read, quoted or judged useful.
    pub success_rate_with_memory: Option<f64>,
    /// Success rate of tasks without such a memory.
    pub success_rate_without_memory: Option<f64>,
    /// Mean learning index of closed tasks.
    pub mean_learning_index: Option<f64>,
    /// Mean share of queries that repeat an earlier query.
    pub mean_re_search_rate: Option<f64>,
}

/// Fields of a stored summary that the statistics use.
#[derive(Deserialize)]
struct StoredSession {
    aggregate_metrics: StoredMetrics,
}

#[derive(Deserialize)]
struct StoredMetrics {
    #[serde(default)]
    used_rate: Option<f64>,
    #[serde(default)]
    re_search_rate: Option<f64>,
}

impl MemoryOperations<'_> {
    /// Lists sessions, most recent first.
    pub async fn sessions(self, limit: u32) -> Result<Sessions, EngineError> {
        let store = self.engine.store().await?;
        let mut sessions = Vec::new();
        for row in store.tasks().sessions(limit).await? {
            let tasks = store.tasks().list(Some(&row.session_id), 20).await?;
            sessions.push(SessionSummary {
                searches: row.queries,
                first_at: time(row.first_at),
                last_at: time(row.last_at),
                session_id: row.session_id,
                tasks: tasks
                    .into_iter()
                    .map(|task| TaskSummary {
                        outcome: task.outcome.as_deref().and_then(|name| name.parse().ok()),
                        task_id: task.task_id,
                        task: task.task,
                        learning_index: task.learning_index,
                    })
                    .collect(),
            });
        }
        Ok(Sessions { sessions })
    }

    /// Summarizes one session.
    pub async fn session_summary(self, session: &str) -> Result<SessionEvalSummary, EngineError> {
        let summary = self.session_summary_with(session, None).await?;
        let open = self.engine.store().await?.tasks().list(Some(session), 1).await?;
        if summary.queries.is_empty() && open.is_empty() {
            return Err(MemoryError::NoSession(session.into()).into());
        }
        Ok(summary)
    }

    /// Like `session_summary`, with a task that is about to be closed.
    pub(super) async fn session_summary_with(
        self,
        session: &str,
        closing: Option<&TaskRow>,
    ) -> Result<SessionEvalSummary, EngineError> {
        let store = self.engine.store().await?;
        let queries = store.query_log().queries_of_session(session, MAX_EVENTS).await?;
        let ids: Vec<String> = queries.iter().map(|query| query.query_id.clone()).collect();
        let mut relevant: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (query, memory) in store.evaluation().relevant_memories(&ids).await? {
            relevant.entry(query).or_default().insert(memory);
        }
        let events = store.memories().feedback_of_session(session, MAX_EVENTS).await?;
        let events: Vec<LoggedEvent> = events
            .into_iter()
            .filter_map(|event| {
                let again = event.metadata.get("asked_again_as").and_then(|id| id.as_str());
                Some(LoggedEvent {
                    kind: FeedbackKind::named(&event.event_type)?,
                    asked_again_as: again.map(str::to_owned),
                    query_id: event.query_id,
                    memory_id: event.memory_id,
                    at: event.created_at,
                })
            })
            .collect();
        let queries = queries.into_iter().map(|query| LoggedQuery {
            query_id: query.query_id,
            query: query.query,
            intent: query.intent,
            result_ids: query.result_ids,
            at: query.created_at,
            saved_tokens: query
                .detail
                .pointer("/already_shown/tokens")
                .and_then(serde_json::Value::as_u64),
        });
        let mut tasks = store.tasks().list(Some(session), MAX_TASKS).await?;
        if let Some(closing) = closing {
            tasks.retain(|task| task.task_id != closing.task_id);
            tasks.push(closing.clone());
        }
        tasks.sort_by_key(|task| task.opened_at);
        let outcomes = tasks.iter().filter_map(outcome).collect();
        Ok(session_summary(
            session,
            queries.collect(),
            &events,
            outcomes,
            &relevant,
        ))
    }

    /// Computes statistics over the latest tasks.
    pub async fn task_metrics(self) -> Result<TaskMetrics, EngineError> {
        let tasks = self.engine.store().await?.tasks().list(None, MAX_TASKS).await?;
        let closed: Vec<&TaskRow> = tasks.iter().filter(|task| task.closed_at.is_some()).collect();
        let summary =
            |task: &TaskRow| -> Option<StoredSession> { serde_json::from_value(task.summary.clone()?).ok() };
        let with_memory =
            |task: &TaskRow| summary(task).and_then(|one| one.aggregate_metrics.used_rate) > Some(0.0);
        let success = |wanted: &dyn Fn(&TaskRow) -> bool| {
            mean(closed.iter().filter(|task| wanted(task)).map(|task| {
                let won = task.outcome.as_deref() == Some(Outcome::Success.name());
                f64::from(u8::from(won))
            }))
        };
        Ok(TaskMetrics {
            open: tasks.len() - closed.len(),
            closed: closed.len(),
            success_rate: success(&|_| true),
            success_rate_with_memory: success(&with_memory),
            success_rate_without_memory: success(&|task| !with_memory(task)),
            mean_learning_index: mean(closed.iter().filter_map(|task| task.learning_index)),
            mean_re_search_rate: mean(
                closed
                    .iter()
                    .filter_map(|task| summary(task)?.aggregate_metrics.re_search_rate),
            ),
        })
    }
}

fn outcome(task: &TaskRow) -> Option<TaskOutcome> {
    let deltas = task.postflight.as_ref().map(|after| after["deltas"].clone());
    Some(TaskOutcome {
        spec_folder: task.folder.clone(),
        task_id: task.task_id.clone(),
        outcome: task.outcome.as_deref()?.parse().ok()?,
        deltas: deltas
            .and_then(|deltas| serde_json::from_value(deltas).ok())
            .unwrap_or_default(),
    })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

fn time(micros: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(micros).unwrap_or_default()
}
