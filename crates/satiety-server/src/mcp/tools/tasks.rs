//! Tools around a task: what is known before it, what came of it.

use satiety::memory::{Outcome, TaskDeltas, TaskScores};
use satiety_engine::memory::{Lesson, PostflightRequest, PreflightRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::call::{Call, Problem};
use super::super::registry::{Effect, Profile, Spec, Tool};
use super::memory::{FoundMemories, found};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            Spec {
                name: "task_preflight",
                title: "Begin a task",
                about: "Begin a task: gives what memory knows about it, within the room you have. Call it before you start, with how much you know (scores from 0 to 100); close it with task_postflight.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &[
                    "context.results[].title",
                    "context.results[].excerpt",
                    "context.results[].folder",
                    "context.results[].kind",
                    "context.results[].project",
                    "context.already_shown[].title",
                    "context.over_budget[].title",
                ],
            },
            |call: Call, asked: PreflightArgs| async move {
                let request = PreflightRequest {
                    task: asked.task,
                    task_id: asked.task_id,
                    folder: asked.folder,
                    session: call.session(asked.session),
                    scores: TaskScores {
                        knowledge: asked.knowledge_score,
                        uncertainty: asked.uncertainty_score,
                        context: asked.context_score,
                    },
                    knowledge_gaps: asked.knowledge_gaps,
                    token_budget: asked.token_budget,
                    token_usage: asked.token_usage,
                    scope: None,
                };
                let begun = call.engine().task_preflight(request).await?;
                Ok::<Begun, Problem>(Begun {
                    task_id: begun.task_id,
                    session_id: begun.session_id,
                    context: found(begun.context, false),
                })
            },
        ),
        Tool::new(
            Spec {
                name: "task_postflight",
                title: "Close a task",
                about: "Close a task: how it went, how much you know now, which memories helped, what you produced and what you learnt. Call it at the end of every task that you began, also when it failed: this is how the memory learns what is worth finding.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &["not_validated[].title"],
            },
            |call: Call, asked: PostflightArgs| async move {
                let request = PostflightRequest {
                    task_id: asked.task_id,
                    session: call.session(asked.session),
                    outcome: asked.outcome,
                    scores: TaskScores {
                        knowledge: asked.knowledge_score,
                        uncertainty: asked.uncertainty_score,
                        context: asked.context_score,
                    },
                    gaps_closed: asked.gaps_closed,
                    new_gaps: asked.new_gaps,
                    text: asked.text,
                    useful: asked.useful,
                    not_useful: asked.not_useful,
                    learnt: asked.learnt,
                    scope: None,
                };
                let closed = call.engine().task_postflight(request).await?;
                Ok::<Closed, Problem>(Closed {
                    task_id: closed.task_id,
                    outcome: closed.outcome,
                    deltas: closed.deltas,
                    referenced: closed.referenced,
                    saved: closed.saved,
                    searches: closed.summary.aggregate_metrics.total_searches,
                    memories_accessed: closed.summary.aggregate_metrics.total_memories_accessed,
                    not_validated: closed
                        .not_validated
                        .into_iter()
                        .map(|one| Named {
                            id: one.id,
                            title: one.title,
                        })
                        .collect(),
                })
            },
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PreflightArgs {
    /// What you are about to do, in words.
    task: String,
    /// A name of your own for it.
    task_id: Option<String>,
    /// Where it belongs; only memories from there and rules from above.
    folder: Option<String>,
    /// How much you know about it, 0 to 100.
    knowledge_score: Option<f64>,
    /// How unsure you are, 0 to 100.
    uncertainty_score: Option<f64>,
    /// How much of the needed context you have, 0 to 100.
    context_score: Option<f64>,
    /// What you do not know yet.
    #[serde(default)]
    knowledge_gaps: Vec<String>,
    /// Tokens that the context may have.
    token_budget: Option<usize>,
    /// How full your context is, from 0 to 1.
    token_usage: Option<f64>,
    /// Another session than this connection's.
    session: Option<String>,
}

/// A task that began.
#[derive(Serialize, JsonSchema)]
struct Begun {
    /// What `task_postflight` closes.
    task_id: String,
    /// The session it belongs to.
    session_id: String,
    /// What the memory knows about it.
    context: FoundMemories,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PostflightArgs {
    /// How it went.
    outcome: Outcome,
    /// The task; this session's open one where absent.
    task_id: Option<String>,
    /// How much you know now, 0 to 100.
    knowledge_score: Option<f64>,
    /// How unsure you are now, 0 to 100.
    uncertainty_score: Option<f64>,
    /// How much of the needed context you have now, 0 to 100.
    context_score: Option<f64>,
    /// What you know now and did not before.
    #[serde(default)]
    gaps_closed: Vec<String>,
    /// What turned out to be unknown.
    #[serde(default)]
    new_gaps: Vec<String>,
    /// What you produced; memories that it quotes count as used.
    text: Option<String>,
    /// Ids of memories that helped.
    #[serde(default)]
    useful: Vec<String>,
    /// Ids of memories that did not.
    #[serde(default)]
    not_useful: Vec<String>,
    /// What to remember of it.
    #[serde(default)]
    learnt: Vec<Lesson>,
    /// Another session than this connection's.
    session: Option<String>,
}

/// A task that was closed.
#[derive(Serialize, JsonSchema)]
struct Closed {
    /// Which.
    task_id: String,
    /// How it went.
    outcome: Outcome,
    /// What it changed, where scores were given before and after.
    deltas: TaskDeltas,
    /// Memories that your text quotes.
    referenced: Vec<String>,
    /// Memories that were kept of it.
    saved: Vec<String>,
    /// Searches of this session.
    searches: usize,
    /// Memories that were read, quoted or judged.
    memories_accessed: usize,
    /// Memories that you used and said nothing about: say with `memory_validate` whether they helped.
    not_validated: Vec<Named>,
}

#[derive(Serialize, JsonSchema)]
struct Named {
    id: String,
    title: String,
}
