//! Tasks: preflight (what is known before a task) and postflight (its outcome). The memory learns most when a
//! task is closed: which results were used, passed over or helpful, and whether the task succeeded.

use crate::handles::MemoryOperations;
use std::collections::{BTreeMap, BTreeSet};

use satiety::memory::{
    Author, Draft, FeedbackKind, Outcome, PastQuery, Scope, SessionEvalSummary, TaskDeltas, TaskScores,
    scroll_past, task_deltas, truncate_query,
};
use satiety::retrieval::Tier;
use satiety_store::memory::FeedbackRow;
use satiety_store::memory_tasks::TaskRow;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::feedback::{ValidateRequest, ValidateResponse};
use super::memories::SaveRequest;
use super::read::event;
use super::scope::check_names;
use super::search::SearchRequest;
use super::{ExcludedResult, MemoryError, MemorySearch};
use crate::EngineError;

/// Maximum queries and events of a session considered when a task is closed.
const MAX_EVENTS: u32 = 500;

/// Request to start a task.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreflightRequest {
    /// Task you are about to start, in words.
    pub task: String,
    /// Your own task id.
    #[serde(default)]
    pub task_id: Option<String>,
    /// Folder of the task; limits memories to it and rules above it.
    #[serde(default)]
    pub folder: Option<String>,
    /// Session; a new one by default.
    #[serde(default)]
    pub session: Option<String>,
    /// Your knowledge of it, 0 to 100.
    #[serde(default)]
    pub knowledge_score: Option<f64>,
    /// Your uncertainty, 0 to 100.
    #[serde(default)]
    pub uncertainty_score: Option<f64>,
    /// Share of needed context you have, 0 to 100.
    #[serde(default)]
    pub context_score: Option<f64>,
    /// Open questions you have.
    #[serde(default)]
    pub knowledge_gaps: Vec<String>,
    /// Maximum tokens of the context.
    #[serde(default)]
    pub token_budget: Option<usize>,
    /// Used share of your context, 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub token_usage: Option<f64>,
    /// Project, by name or id, or `all`.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

/// A task that was started.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Preflight {
    /// Id that closes the task.
    pub task_id: String,
    /// Session that the task belongs to.
    pub session_id: String,
    /// Memories relevant to the task.
    pub context: MemorySearch,
}

/// Request to close a task.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostflightRequest {
    /// Outcome of the task.
    pub outcome: Outcome,
    /// Task id; default: the session's open task.
    #[serde(default)]
    pub task_id: Option<String>,
    /// Session of the task.
    #[serde(default)]
    pub session: Option<String>,
    /// Your knowledge now, 0 to 100.
    #[serde(default)]
    pub knowledge_score: Option<f64>,
    /// Your uncertainty now, 0 to 100.
    #[serde(default)]
    pub uncertainty_score: Option<f64>,
    /// Share of needed context you have now, 0 to 100.
    #[serde(default)]
    pub context_score: Option<f64>,
    /// Gaps that are now closed.
    #[serde(default)]
    pub gaps_closed: Vec<String>,
    /// Gaps that were discovered.
    #[serde(default)]
    pub new_gaps: Vec<String>,
    /// Text you produced; memories it quotes count as used.
    #[serde(default)]
    pub text: Option<String>,
    /// Ids of memories that helped.
    #[serde(default)]
    pub useful: Vec<String>,
    /// Ids of memories that did not help.
    #[serde(default)]
    pub not_useful: Vec<String>,
    /// Lessons to save as memories.
    #[serde(default)]
    pub learnt: Vec<Lesson>,
    /// Project, by name or id; lessons are saved there.
    #[serde(default, rename = "project")]
    #[schemars(with = "Option<String>", length(max = 300))]
    pub scope: Option<Scope>,
}

impl PreflightRequest {
    fn scores(&self) -> TaskScores {
        TaskScores {
            knowledge: self.knowledge_score,
            uncertainty: self.uncertainty_score,
            context: self.context_score,
        }
    }
}

impl PostflightRequest {
    fn scores(&self) -> TaskScores {
        TaskScores {
            knowledge: self.knowledge_score,
            uncertainty: self.uncertainty_score,
            context: self.context_score,
        }
    }
}

/// A lesson to save as a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// Summary in one line.
    pub title: String,
    /// Statement and its reasons.
    pub content: String,
    /// Phrases that recall it.
    #[serde(default)]
    pub triggers: Vec<String>,
}

/// A task that was closed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Postflight {
    /// Id of the closed task.
    pub task_id: String,
    /// Session that the task belongs to.
    pub session_id: String,
    /// Outcome of the task.
    pub outcome: Outcome,
    /// Changes of the scores during the task.
    pub deltas: TaskDeltas,
    /// Ids of memories quoted in its text.
    pub referenced: Vec<String>,
    /// Validations recorded at the close.
    pub validated: Vec<ValidateResponse>,
    /// Memories that were used but not validated.
    pub not_validated: Vec<ExcludedResult>,
    /// Ids of memories saved as lessons.
    pub saved: Vec<String>,
    /// Summary of the whole session.
    pub summary: SessionEvalSummary,
}

impl MemoryOperations<'_> {
    /// Starts a task and returns the memories relevant to it. Starting an open task again updates its scores.
    pub async fn task_preflight(self, request: PreflightRequest) -> Result<Preflight, EngineError> {
        let scores = request.scores();
        check(&scores)?;
        check_names(
            request.session.as_deref(),
            request.task_id.as_deref(),
            request.folder.as_deref(),
        )?;
        self.check_query(&request.task)?;
        self.check_notes("list of knowledge gaps", &request.knowledge_gaps)?;
        let store = self.engine.store().await?;
        let task_id = request
            .task_id
            .filter(|id| !id.trim().is_empty())
            .unwrap_or_else(|| satiety::ids::prefixed("task", Uuid::now_v7()));
        let earlier = store.tasks().get(&task_id).await?;
        if earlier.as_ref().is_some_and(|task| task.closed_at.is_some()) {
            return Err(MemoryError::TaskClosed(task_id).into());
        }
        let session_id = request
            .session
            .or_else(|| earlier.as_ref().map(|task| task.session_id.clone()))
            .unwrap_or_else(|| satiety::ids::prefixed("session", Uuid::now_v7()));
        let search = SearchRequest {
            query: request.task.clone(),
            mode: None,
            limit: None,
            token_budget: request.token_budget,
            token_usage: request.token_usage,
            folder: request.folder.clone(),
            session: Some(session_id.clone()),
            // A task starts with everything that is known about it, whatever the session has received before.
            skip_shown: false,
            tool: "task_preflight",
            scope: request.scope,
            ..SearchRequest::default()
        };
        let context = self.search(search).await?;
        let row = TaskRow {
            task_id: task_id.clone(),
            session_id: session_id.clone(),
            folder: request.folder.unwrap_or_default(),
            task: truncate_query(&request.task).into_owned(),
            query_id: Some(context.query_id.clone()),
            preflight: json!({"scores": scores, "knowledge_gaps": request.knowledge_gaps}),
            outcome: None,
            postflight: None,
            learning_index: None,
            summary: None,
            opened_at: earlier.map_or_else(now_micros, |task| task.opened_at),
            closed_at: None,
        };
        if !store.tasks().put(&row).await? {
            return Err(MemoryError::TaskClosed(task_id).into());
        }
        Ok(Preflight {
            task_id,
            session_id,
            context,
        })
    }

    /// Closes a task: records quoted and passed-over results, applies validations, saves lessons, and
    /// summarizes the session. After a success, used memories learn the words of the query that found them.
    pub async fn task_postflight(self, request: PostflightRequest) -> Result<Postflight, EngineError> {
        let scores = request.scores();
        check(&scores)?;
        check_names(request.session.as_deref(), request.task_id.as_deref(), None)?;
        self.check_notes("list of closed gaps", &request.gaps_closed)?;
        self.check_notes("list of new gaps", &request.new_gaps)?;
        let scope = request.scope.clone();
        let mut task = self.task_to_close(&request).await?;
        // Validate everything before changing anything.
        for id in request.useful.iter().chain(&request.not_useful) {
            self.visible_row(id, scope.as_ref()).await?;
        }
        if !request.learnt.is_empty() {
            self.project(scope.as_ref(), Author::Agent)?;
        }
        let lessons: Vec<SaveRequest> = request
            .learnt
            .iter()
            .map(|lesson| lesson_request(lesson, &task.folder, scope.clone()))
            .collect::<Result<_, MemoryError>>()?;
        let session = task.session_id.clone();
        let store = self.engine.store().await?;
        let referenced = match &request.text {
            Some(text) => self.record_quoted(&session, text, None).await?,
            None => Vec::new(),
        };
        let mut validated = Vec::new();
        let judged = [(true, &request.useful), (false, &request.not_useful)];
        for (useful, ids) in judged {
            for id in ids {
                let about = ValidateRequest {
                    id: id.clone(),
                    useful,
                    session: Some(session.clone()),
                    scope: scope.clone(),
                };
                validated.push(self.validate(&about).await?);
            }
        }
        let events = store.memories().feedback_of_session(&session, MAX_EVENTS).await?;
        let queries = self.past_queries(&session, MAX_EVENTS).await?;
        store
            .memories()
            .put_feedback(&passed_over(&session, &queries, &events))
            .await?;
        let used = used_memories(&events);
        if request.outcome == Outcome::Success {
            let selected: Vec<String> = used
                .iter()
                .filter(|(_, judged)| !**judged)
                .map(|(id, _)| id.clone())
                .collect();
            // The time of each use is in its event; the end of the task would make all queries equally old.
            let mut uses = super::read::Uses::new();
            for memory in &selected {
                let latest = events
                    .iter()
                    .find(|event| event.memory_id.as_ref() == Some(memory));
                if let Some(event) = latest {
                    let one = std::slice::from_ref(memory);
                    uses.extend(self.attribute_uses(&queries, one, event.created_at).await?);
                }
            }
            self.learn_phrases(&queries, &uses, &selected).await?;
        }
        let mut saved = Vec::new();
        for lesson in lessons {
            saved.push(self.save(lesson).await?.memory.id);
        }
        let before = serde_json::from_value(task.preflight["scores"].clone()).unwrap_or_default();
        let deltas = task_deltas(before, scores);
        task.outcome = Some(request.outcome.name().into());
        task.learning_index = deltas.learning_index;
        task.closed_at = Some(now_micros());
        task.postflight = Some(json!({
            "scores": scores, "gaps_closed": request.gaps_closed, "new_gaps": request.new_gaps,
            "deltas": deltas, "referenced": referenced, "saved": saved,
        }));
        let summary = self.session_summary_with(&session, Some(&task)).await?;
        task.summary = Some(serde_json::to_value(&summary)?);
        if !store.tasks().put(&task).await? {
            return Err(MemoryError::TaskClosed(task.task_id).into());
        }
        let silent: Vec<String> = used
            .into_iter()
            .filter(|(_, judged)| !judged)
            .map(|(id, _)| id)
            .collect();
        Ok(Postflight {
            task_id: task.task_id,
            session_id: session,
            outcome: request.outcome,
            deltas,
            referenced,
            validated,
            not_validated: self.named(&silent, &self.scope(scope.as_ref())).await?,
            saved,
            summary,
        })
    }

    async fn task_to_close(self, request: &PostflightRequest) -> Result<TaskRow, EngineError> {
        let store = self.engine.store().await?;
        if let Some(id) = &request.task_id {
            let task = store.tasks().get(id).await?;
            let task = task.ok_or_else(|| MemoryError::NoTask(id.clone()))?;
            if task.closed_at.is_some() {
                return Err(MemoryError::TaskClosed(id.clone()).into());
            }
            return Ok(task);
        }
        let Some(session) = &request.session else {
            return Err(MemoryError::WhichTask.into());
        };
        let open = store.tasks().list(Some(session), 50).await?;
        let open = open.into_iter().find(|task| task.closed_at.is_none());
        Ok(open.ok_or_else(|| MemoryError::NoOpenTask(session.clone()))?)
    }

    async fn named(self, ids: &[String], scope: &Scope) -> Result<Vec<ExcludedResult>, EngineError> {
        let rows = self.engine.store().await?.memories().by_id(ids).await?;
        let seen = rows.into_iter().filter(|row| scope.sees(row.project.as_deref()));
        let held = seen.map(|row| ExcludedResult {
            tokens: satiety::memory::estimate_tokens(&row.content),
            id: row.memory_id,
            title: row.title,
        });
        Ok(held.collect())
    }
}

/// Converts a lesson to a memory in the task's folder.
fn lesson_request(lesson: &Lesson, folder: &str, scope: Option<Scope>) -> Result<SaveRequest, MemoryError> {
    let draft = Draft {
        title: lesson.title.clone(),
        content: lesson.content.clone(),
        tier: Tier::Normal,
        triggers: lesson.triggers.clone(),
        folder: folder.to_owned(),
        kind: "lesson".into(),
    };
    Ok(SaveRequest {
        scope,
        ..draft.checked()?.into()
    })
}

/// Returns memories that were read or quoted, and whether they were validated.
fn used_memories(events: &[FeedbackRow]) -> BTreeMap<String, bool> {
    let of = |kinds: &[FeedbackKind]| -> BTreeSet<String> {
        let wanted = events
            .iter()
            .filter(|event| kinds.iter().any(|kind| kind.name() == event.event_type));
        wanted.filter_map(|event| event.memory_id.clone()).collect()
    };
    let judged = of(&[FeedbackKind::ValidateUseful, FeedbackKind::ValidateNotUseful]);
    let used = of(&[FeedbackKind::ReadAfterSearch, FeedbackKind::Reference]);
    used.into_iter()
        .map(|id| (id.clone(), judged.contains(&id)))
        .collect()
}

/// Returns results that ranked above the first used result of each query and were not used. This is known
/// only at the end of a task: an agent may read the third result before the first.
fn passed_over(session: &str, queries: &[PastQuery], events: &[FeedbackRow]) -> Vec<FeedbackRow> {
    let mut rows = Vec::new();
    for PastQuery {
        id: query, results, ..
    } in queries
    {
        let of = |kinds: &[FeedbackKind]| -> BTreeSet<String> {
            events
                .iter()
                .filter(|event| event.query_id.as_ref() == Some(query))
                .filter(|event| kinds.iter().any(|kind| kind.name() == event.event_type))
                .filter_map(|event| event.memory_id.clone())
                .collect()
        };
        let used = of(&[
            FeedbackKind::ReadAfterSearch,
            FeedbackKind::Reference,
            FeedbackKind::ValidateUseful,
        ]);
        let known = of(&[FeedbackKind::ScrollPast]);
        for (rank, id) in (1..).zip(scroll_past(results, &used)) {
            if !known.contains(id) {
                rows.push(event(
                    session,
                    FeedbackKind::ScrollPast,
                    Some((query, rank)),
                    id,
                    json!({}),
                ));
            }
        }
    }
    rows
}

fn check(scores: &TaskScores) -> Result<(), MemoryError> {
    match scores.wrong() {
        None => Ok(()),
        Some((what, value)) => Err(MemoryError::OutOfRange {
            what,
            range: "from 0 to 100",
            value: value.to_string(),
        }),
    }
}
