//! An agent's memory: keep, search, learn.

use axum::http::Method;
use satiety::memory::{Draft, LinkKind, Mode, Scope as MemoryScope};
use satiety::retrieval::Tier;
use satiety_engine::memory::{
    Deleted, IndexRequest, Indexed, LinkRequest, Linked, ListRequest, Listed, MatchRequest, MatchedTriggers,
    Memory, MemoryHealth, MemorySearch, SaveRequest, Saved, SearchRequest, UpdateRequest, ValidateRequest,
    Validated,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ById, no_cursor};
use crate::auth::Scope;
use crate::http::body::{Json, NoBody};
use crate::http::problem::Problem;
use crate::http::route::{Call, Nothing, Parameters, Route, ask, change, get};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(
            "/v1/memories",
            "list_memories",
            "Memories, in the order of their last change",
            list,
        ),
        change(
            Method::POST,
            "/v1/memories",
            "save_memory",
            "Keeps a memory",
            save,
        )
        .status(201),
        get("/v1/memories/{id}", "get_memory", "A memory, whole", show),
        change(
            Method::PATCH,
            "/v1/memories/{id}",
            "update_memory",
            "Changes a memory; what is absent stays",
            update,
        ),
        change(
            Method::DELETE,
            "/v1/memories/{id}",
            "delete_memory",
            "Forgets a memory",
            delete,
        ),
        change(
            Method::POST,
            "/v1/memories/{id}/validate",
            "validate_memory",
            "Says whether a memory was useful, and learns from it",
            validate,
        ),
        change(
            Method::POST,
            "/v1/memory/links",
            "link_memories",
            "Makes or takes away a causal link",
            link,
        ),
        ask(
            "/v1/memory/search",
            "search_memory",
            "Searches by words, meaning and triggers; every result says which channel found it",
            search,
        ),
        ask(
            "/v1/memory/match",
            "match_triggers",
            "Memories whose trigger phrases a text contains",
            matching,
        ),
        get("/v1/memory/health", "memory_health", "How the memory is", health),
        change(
            Method::POST,
            "/v1/memory/index",
            "index_memory",
            "Brings memories up to date with a folder of Markdown files below the server's root",
            index,
        )
        .scope(Scope::Admin),
    ]
}

/// A memory to be kept.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveBody {
    /// What it is called.
    title: String,
    /// What it says.
    content: String,
    /// How important it is; `normal` where absent.
    #[serde(default)]
    tier: Option<Tier>,
    /// Phrases that bring it back when they are said.
    #[serde(default)]
    triggers: Vec<String>,
    /// Where it belongs: segments joined by `/`; empty for everywhere.
    #[serde(default)]
    folder: String,
    /// What kind of thing it is: `decision`, `bug`, `note`, …
    #[serde(default)]
    kind: Option<String>,
    /// For how many days; a temporary memory without this stays for a week, others for ever.
    #[serde(default)]
    #[schemars(range(min = 1, max = 36500))]
    expires_in_days: Option<u32>,
    /// The project that it is kept in, by name or id, or `global` for all of them (scope `admin`); the server's where
    /// absent.
    #[serde(default)]
    #[schemars(length(max = 300))]
    project: Option<String>,
    /// In which session: memories of its searches that the text quotes are remembered as used.
    #[serde(default)]
    session: Option<String>,
}

/// Which project's memories a request is about.
fn scope(project: Option<&str>) -> Result<Option<MemoryScope>, Problem> {
    project
        .map(MemoryScope::parse)
        .transpose()
        .map_err(|error| Problem::unprocessable(error.to_string()).at("project"))
}

/// In which project a memory is looked for.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct ProjectQuery {
    /// The project, by name or id, or `all`; the server's where absent. Global memories are found from everywhere.
    #[serde(default)]
    #[schemars(length(max = 300))]
    project: Option<String>,
}

impl Parameters for ProjectQuery {}

async fn save(call: Call<Nothing, Nothing, Json<SaveBody>>) -> Result<Saved, Problem> {
    let author = call.author();
    let Json(body) = call.body;
    if body
        .expires_in_days
        .is_some_and(|days| !(1..=36500).contains(&days))
    {
        return Err(Problem::unprocessable("days are from 1 to 36500").at("expires_in_days"));
    }
    let request = SaveRequest {
        draft: Draft {
            title: body.title,
            content: body.content,
            tier: body.tier.unwrap_or(Tier::Normal),
            triggers: body.triggers,
            folder: body.folder,
            kind: body.kind.unwrap_or_else(|| "note".into()),
        },
        expires_in_days: body.expires_in_days.map(i64::from),
        origin: None,
        scope: scope(body.project.as_deref())?,
        author,
        session: body.session,
    };
    Ok(call.app.engine.memory_save(request).await?)
}

async fn show(call: Call<ById, ProjectQuery, NoBody>) -> Result<Memory, Problem> {
    let scope = scope(call.query.project.as_deref())?;
    Ok(call.app.engine.memory_get(&call.path.id, scope.as_ref()).await?)
}

/// What changes about a memory.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateBody {
    /// Its new title.
    #[serde(default)]
    title: Option<String>,
    /// Its new text.
    #[serde(default)]
    content: Option<String>,
    /// Its new tier.
    #[serde(default)]
    tier: Option<Tier>,
    /// Its new trigger phrases.
    #[serde(default)]
    triggers: Option<Vec<String>>,
    /// Its new folder.
    #[serde(default)]
    folder: Option<String>,
    /// Its new kind.
    #[serde(default)]
    kind: Option<String>,
    /// Its new project, by name or id, or `global` for all of them (scope `admin`).
    #[serde(default)]
    #[schemars(length(max = 300))]
    project: Option<String>,
    /// In which session: memories of its searches that the new text quotes are remembered as used.
    #[serde(default)]
    session: Option<String>,
}

async fn update(call: Call<ById, ProjectQuery, Json<UpdateBody>>) -> Result<Saved, Problem> {
    let author = call.author();
    let Json(body) = call.body;
    let request = UpdateRequest {
        id: call.path.id,
        title: body.title,
        content: body.content,
        tier: body.tier.map(|tier| tier.name().to_owned()),
        triggers: body.triggers,
        folder: body.folder,
        kind: body.kind,
        scope: scope(call.query.project.as_deref())?,
        move_to: scope(body.project.as_deref())?,
        author,
        unlearn: None,
        session: body.session,
    };
    Ok(call.app.engine.memory_update(request).await?)
}

async fn delete(call: Call<ById, ProjectQuery, NoBody>) -> Result<Deleted, Problem> {
    let (author, scope) = (call.author(), scope(call.query.project.as_deref())?);
    let ids = [call.path.id];
    Ok(call
        .app
        .engine
        .memory_delete(&ids, scope.as_ref(), author)
        .await?)
}

/// Which memories to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct MemoryQuery {
    /// Only in this folder and below.
    #[serde(default)]
    folder: Option<String>,
    /// Only of this tier.
    #[serde(default)]
    tier: Option<Tier>,
    /// Where the page begins: `next_cursor` of the page before.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,18}$"))]
    cursor: Option<String>,
    /// How many at most; 50 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
    /// The project, by name or id, or `all`; the server's where absent. Global memories come along.
    #[serde(default)]
    #[schemars(length(max = 300))]
    project: Option<String>,
}

impl Parameters for MemoryQuery {}

/// Memories on a page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct MemoryPage {
    /// In the order of their last change.
    memories: Vec<Listed>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn list(call: Call<Nothing, MemoryQuery, NoBody>) -> Result<MemoryPage, Problem> {
    let query = call.query;
    let after = match &query.cursor {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| no_cursor())?,
    };
    let request = ListRequest {
        folder: query.folder,
        tier: query.tier.map(|tier| tier.name().to_owned()),
        after,
        limit: usize::try_from(super::limit(query.limit)?).unwrap_or(usize::MAX),
        scope: scope(query.project.as_deref())?,
    };
    let page = call.app.engine.memory_list(&request).await?;
    Ok(MemoryPage {
        memories: page.memories,
        next_cursor: page.next.map(|next| next.to_string()),
    })
}

/// Whether a memory was useful.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateBody {
    /// Whether it was.
    useful: bool,
    /// In which session: its latest query that found the memory is what is judged.
    #[serde(default)]
    session: Option<String>,
}

async fn validate(call: Call<ById, ProjectQuery, Json<ValidateBody>>) -> Result<Validated, Problem> {
    let Json(body) = call.body;
    let request = ValidateRequest {
        id: call.path.id,
        useful: body.useful,
        session: body.session,
        scope: scope(call.query.project.as_deref())?,
    };
    Ok(call.app.engine.memory_validate(&request).await?)
}

/// A causal link.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkBody {
    /// From which memory.
    from: String,
    /// How it bears on the other.
    kind: LinkKind,
    /// To which.
    to: String,
    /// Take it away instead.
    #[serde(default)]
    remove: bool,
    /// The project that both are looked for in, by name or id, or `all`; the server's where absent.
    #[serde(default)]
    #[schemars(length(max = 300))]
    project: Option<String>,
}

async fn link(call: Call<Nothing, Nothing, Json<LinkBody>>) -> Result<Linked, Problem> {
    let Json(body) = call.body;
    let request = LinkRequest {
        from: body.from,
        kind: body.kind,
        to: body.to,
        remove: body.remove,
        scope: scope(body.project.as_deref())?,
    };
    Ok(call.app.engine.memory_link(request).await?)
}

/// What to search for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchBody {
    /// The question.
    query: String,
    /// How deep; chosen by question and room where absent.
    #[serde(default)]
    mode: Option<Mode>,
    /// Results at most, instead of the mode's.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u32>,
    /// Tokens of all results, instead of the mode's.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000000))]
    token_budget: Option<u32>,
    /// How full the asker's context is, from 0 to 1.
    #[serde(default)]
    token_usage: Option<f64>,
    /// Only this folder and below.
    #[serde(default)]
    folder: Option<String>,
    /// The session: its uses raise scores, and with `skip_shown` it gets nothing twice.
    #[serde(default)]
    session: Option<String>,
    /// Hold back what the session has already.
    #[serde(default)]
    skip_shown: bool,
    /// The project, by name or id, or `all`; the server's where absent. Global memories are found from everywhere.
    #[serde(default)]
    #[schemars(length(max = 300))]
    project: Option<String>,
}

async fn search(call: Call<Nothing, Nothing, Json<SearchBody>>) -> Result<MemorySearch, Problem> {
    let Json(body) = call.body;
    let size = |number: Option<u32>| number.and_then(|number| usize::try_from(number).ok());
    let request = SearchRequest {
        query: body.query,
        mode: body.mode,
        limit: size(body.limit),
        token_budget: size(body.token_budget),
        token_usage: body.token_usage,
        folder: body.folder,
        session: body.session,
        skip_shown: body.skip_shown,
        tool: "memory_search",
        scope: scope(body.project.as_deref())?,
        ..SearchRequest::default()
    };
    let found = call.app.engine.memory_search(request).await?;
    call.app.metrics.search(&found);
    Ok(found)
}

/// A text in which phrases are looked for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MatchBody {
    /// The text.
    text: String,
    /// Results at most; 5 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    /// The project, by name or id, or `all`; the server's where absent. Global memories come along.
    #[serde(default)]
    #[schemars(length(max = 300))]
    project: Option<String>,
    /// In which session: memories of its searches that the text quotes are remembered as used.
    #[serde(default)]
    session: Option<String>,
}

async fn matching(call: Call<Nothing, Nothing, Json<MatchBody>>) -> Result<MatchedTriggers, Problem> {
    let Json(body) = call.body;
    let limit = usize::try_from(body.limit.unwrap_or(5)).unwrap_or(5);
    let request = MatchRequest {
        text: body.text,
        limit,
        session: body.session,
        scope: scope(body.project.as_deref())?,
    };
    Ok(call.app.engine.memory_match(&request).await?)
}

async fn health(call: Call<Nothing, Nothing, NoBody>) -> Result<MemoryHealth, Problem> {
    let mut health = call.app.engine.memory_health().await?;
    // Where the store is concerns who runs the server.
    health.store = health.store.split(':').next().unwrap_or_default().to_owned();
    Ok(health)
}

/// A folder to be indexed.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexBody {
    /// The folder, below the server's root.
    folder: String,
    /// Keep memories whose files are gone.
    #[serde(default)]
    keep_missing: bool,
    /// The project that they are kept in, by name or id, or `global` for all of them; the server's where absent.
    #[serde(default)]
    #[schemars(length(max = 300))]
    project: Option<String>,
}

async fn index(call: Call<Nothing, Nothing, Json<IndexBody>>) -> Result<Indexed, Problem> {
    let author = call.author();
    let Json(body) = call.body;
    let request = IndexRequest {
        folder: call.app.below_root(&body.folder)?,
        keep_missing: body.keep_missing,
        scope: scope(body.project.as_deref())?,
        author,
    };
    let indexed = call.app.engine.memory_index(&request).await;
    indexed.map_err(|error| call.app.discreet(error))
}
