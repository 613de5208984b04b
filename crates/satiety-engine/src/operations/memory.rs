//! Operations on an agent's memory.

use super::view::{View, keep};
use super::{Call, Effect, NoFields, Operation};
use crate::EngineError;
use crate::memory::{
    DeleteRequest, GetRequest, ImportRecordsRequest, IndexRequest, LinkRequest, ListRequest, MatchRequest,
    MemoryPage, MemorySearch, Postflight, PostflightRequest, Preflight, PreflightRequest, ReadRequest,
    SaveRequest, SearchRequest, UpdateRequest, ValidateRequest,
};
use crate::tokens::Scope;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "list_memories",
            "List memories in order of their last change",
            Scope::Read,
            Effect::Read,
            |call: Call, request: ListRequest| async move {
                Ok(MemoryPage::from(call.engine.memory().list(&request).await?))
            },
        ),
        Operation::new(
            "save_memory",
            "Save a memory",
            Scope::Write,
            Effect::Write,
            |call: Call, mut request: SaveRequest| async move {
                request.author = call.author;
                call.engine.memory().save(request).await
            },
        ),
        Operation::new(
            "import_memories",
            "Save many memories, or records of another system, at once; repeating it stores nothing twice",
            Scope::Write,
            Effect::Write,
            |call: Call, mut request: ImportRecordsRequest| async move {
                request.author = call.author;
                call.engine.memory().import_records(request).await
            },
        ),
        Operation::new(
            "get_memory",
            "Get a memory with its full content",
            Scope::Read,
            Effect::Read,
            |call: Call, request: GetRequest| async move {
                call.engine
                    .memory()
                    .get(&request.id, request.scope.as_ref())
                    .await
            },
        ),
        Operation::new(
            "read_memory",
            "Get a memory with its full content and links, and record that the session read it",
            Scope::Read,
            Effect::Read,
            |call: Call, request: ReadRequest| async move { call.engine.memory().read(&request).await },
        ),
        Operation::new(
            "update_memory",
            "Update a memory; absent fields stay unchanged",
            Scope::Write,
            Effect::Write,
            |call: Call, mut request: UpdateRequest| async move {
                request.author = call.author;
                call.engine.memory().update(request).await
            },
        ),
        Operation::new(
            "delete_memory",
            "Delete memories permanently",
            Scope::Write,
            Effect::Destructive,
            |call: Call, request: DeleteRequest| async move {
                let scope = request.scope.as_ref();
                call.engine
                    .memory()
                    .delete(&request.ids, scope, call.author)
                    .await
            },
        ),
        Operation::new(
            "validate_memory",
            "Record whether a memory was useful, and learn from it",
            Scope::Write,
            Effect::Write,
            |call: Call, request: ValidateRequest| async move { call.engine.memory().validate(&request).await },
        ),
        Operation::new(
            "link_memories",
            "Add or remove a causal link",
            Scope::Write,
            Effect::Write,
            |call: Call, request: LinkRequest| async move { call.engine.memory().link(request).await },
        ),
        Operation::new(
            "search_memory",
            "Search by words, meaning and triggers; each result names the channels that found it",
            Scope::Read,
            Effect::Compute,
            search,
        ),
        Operation::new(
            "memory_context",
            "Search for context that the session has not received yet",
            Scope::Read,
            Effect::Compute,
            |call: Call, mut request: SearchRequest| {
                request.skip_shown = true;
                request.tool = "memory_context";
                search(call, request)
            },
        ),
        Operation::new(
            "match_triggers",
            "Find memories whose trigger phrases a text contains",
            Scope::Read,
            Effect::Compute,
            |call: Call, mut request: MatchRequest| async move {
                // The feedback of a session is stored.
                if call.scope < Scope::Write {
                    request.session = None;
                }
                call.engine.memory().matching(&request).await
            },
        ),
        Operation::new(
            "memory_health",
            "Get counts, vector status and unavailable search channels",
            Scope::Read,
            Effect::Read,
            |call: Call, _: NoFields| async move {
                let mut health = call.engine.memory().health().await?;
                if call.is_remote() {
                    // The kind of database only: its location is only of interest to the operator of the
                    // server.
                    health.store = health.store.split(':').next().unwrap_or_default().to_owned();
                }
                Ok(health)
            },
        ),
        Operation::new(
            "task_preflight",
            "Start a task and return relevant memories",
            Scope::Write,
            Effect::Write,
            |call: Call, request: PreflightRequest| async move {
                call.engine.memory().task_preflight(request).await
            },
        ),
        Operation::new(
            "task_postflight",
            "Close a task, recording which memories helped and what was learnt",
            Scope::Write,
            Effect::Write,
            |call: Call, request: PostflightRequest| async move {
                call.engine.memory().task_postflight(request).await
            },
        ),
        Operation::new(
            "index_memory",
            "Synchronise memories with a directory of Markdown files below the server's root",
            Scope::Admin,
            Effect::Write,
            |call: Call, mut request: IndexRequest| async move {
                request.folder = call.path(&request.folder)?;
                request.author = call.author;
                call.engine.memory().index(&request).await
            },
        ),
    ]
}

async fn search(call: Call, request: SearchRequest) -> Result<MemorySearch, EngineError> {
    let found = call.engine.memory().search(request).await?;
    if let Some(observer) = &call.observer {
        observer.searched(&found);
    }
    Ok(found)
}

impl SearchRequest {
    /// Projection for agents: results and reasons; telemetry only if the request sets `explain`.
    pub const AGENT_VIEW: View = View(&[
        keep("query_id"),
        keep("intent").optional(),
        keep("mode").at("selected_mode"),
        keep("outcome"),
        keep("results").each(&RESULT),
        keep("below_floor").optional(),
        keep("already_shown").optional(),
        keep("over_budget").optional(),
        keep("tokens"),
        keep("degraded").optional(),
        keep("telemetry").when("explain"),
    ]);
}

static RESULT: View = View(&[
    keep("id"),
    keep("title"),
    keep("excerpt"),
    keep("partial"),
    keep("tier"),
    keep("folder").optional(),
    keep("kind"),
    keep("project").at("project.label").otherwise("global"),
    keep("score").decimals(3),
    keep("confidence").decimals(2),
    keep("channels").pick("rank"),
    keep("superseded_by").optional(),
    keep("contradicts").optional(),
    keep("validity").optional(),
]);

impl Preflight {
    /// Projection of a started task for agents.
    pub const AGENT_VIEW: View = View(&[
        keep("task_id"),
        keep("session_id"),
        keep("context").inside(&SearchRequest::AGENT_VIEW),
    ]);
}

impl Postflight {
    /// Projection of a closed task for agents; they report with `memory_validate` whether `not_validated`
    /// helped.
    pub const AGENT_VIEW: View = View(&[
        keep("task_id"),
        keep("outcome"),
        keep("deltas"),
        keep("referenced"),
        keep("saved"),
        keep("searches").at("summary.aggregate_metrics.total_searches"),
        keep("memories_accessed").at("summary.aggregate_metrics.total_memories_accessed"),
        keep("not_validated").each(&NAMED),
    ]);
}

static NAMED: View = View(&[keep("id"), keep("title")]);
