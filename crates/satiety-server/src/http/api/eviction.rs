//! Which context to drop: scopes, proposals, answers, what is learnt from them.

use axum::http::Method;
use satiety::eviction::{EvictionFeedback, Timeline};
use satiety_engine::eviction::{
    ActivateRequest, Activated, Feedback, ListedScope, ProposeScopeRequest, Proposed, Refreshed,
    ResolveRequest, RollbackRequest, ScopeListing, ScopeUpdated, Scorers, UpdateScopeRequest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ById, PageOf, page_of};
use crate::auth::Scope;
use crate::http::body::{Json, NoBody};
use crate::http::problem::Problem;
use crate::http::route::{Call, Nothing, Parameters, Route, change, get};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(
            "/v1/eviction/scopes",
            "list_scopes",
            "Contexts that are kept",
            scopes,
        ),
        change(
            Method::POST,
            "/v1/eviction/scopes",
            "update_scope",
            "Changes what is in a context; it begins with its first item",
            update,
        ),
        get(
            "/v1/eviction/scopes/{id}",
            "get_scope",
            "The items of a context, the first to go first",
            show,
        ),
        get(
            "/v1/eviction/scopes/{id}/timeline",
            "scope_timeline",
            "What became of each proposal",
            timeline,
        ),
        change(
            Method::POST,
            "/v1/eviction/scopes/{id}/refresh",
            "refresh_scope",
            "Finds out what takes time about the items, and ranks them anew",
            refresh,
        ),
        change(
            Method::POST,
            "/v1/eviction/propose",
            "propose_eviction",
            "Proposes what to drop",
            propose,
        ),
        change(
            Method::POST,
            "/v1/eviction/resolve",
            "resolve_eviction",
            "Answers a proposal: what is kept back, and why",
            resolve,
        ),
        get(
            "/v1/eviction/feedback",
            "eviction_feedback",
            "How often items are kept back, and how well that was foretold",
            feedback,
        ),
        get(
            "/v1/eviction/scorers",
            "list_scorers",
            "Versions of the scorer, and which is in force",
            scorers,
        ),
        change(
            Method::POST,
            "/v1/eviction/scorers/activate",
            "activate_scorer",
            "Puts a version into force, if an ablation permits it",
            activate,
        )
        .scope(Scope::Admin),
        change(
            Method::POST,
            "/v1/eviction/scorers/rollback",
            "rollback_scorer",
            "Goes back to what was in force before",
            rollback,
        )
        .scope(Scope::Admin),
    ]
}

/// Contexts on a page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ScopePage {
    /// Which.
    scopes: Vec<ListedScope>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn scopes(call: Call<Nothing, PageOf, NoBody>) -> Result<ScopePage, Problem> {
    let limit = call.query.limit()?;
    let all = call.app.engine.evict_list(None).await?.scopes;
    let (scopes, next_cursor) = page_of(all, |scope| &scope.scope_id, call.query.cursor.as_deref(), limit)?;
    Ok(ScopePage { scopes, next_cursor })
}

async fn update(call: Call<Nothing, Nothing, Json<UpdateScopeRequest>>) -> Result<ScopeUpdated, Problem> {
    let Json(body) = call.body;
    Ok(call.app.engine.evict_update(body).await?)
}

async fn show(call: Call<ById, Nothing, NoBody>) -> Result<ScopeListing, Problem> {
    Ok(call.app.engine.evict_list(Some(&call.path.id)).await?)
}

async fn timeline(call: Call<ById, Nothing, NoBody>) -> Result<Timeline, Problem> {
    Ok(call.app.engine.evict_timeline(&call.path.id).await?)
}

async fn refresh(call: Call<ById, Nothing, NoBody>) -> Result<Refreshed, Problem> {
    Ok(call.app.engine.evict_refresh(&call.path.id).await?)
}

async fn propose(call: Call<Nothing, Nothing, Json<ProposeScopeRequest>>) -> Result<Proposed, Problem> {
    let Json(body) = call.body;
    Ok(call.app.engine.evict_propose(body).await?)
}

async fn resolve(call: Call<Nothing, Nothing, Json<ResolveRequest>>) -> Result<EvictionFeedback, Problem> {
    let Json(body) = call.body;
    Ok(call.app.engine.evict_resolve(body).await?)
}

/// Of which context.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct OfScope {
    /// The scope; all where absent.
    #[serde(default)]
    scope_id: Option<String>,
}

impl Parameters for OfScope {}

async fn feedback(call: Call<Nothing, OfScope, NoBody>) -> Result<Feedback, Problem> {
    Ok(call
        .app
        .engine
        .evict_feedback(call.query.scope_id.as_deref())
        .await?)
}

async fn scorers(call: Call<Nothing, Nothing, NoBody>) -> Result<Scorers, Problem> {
    Ok(call.app.engine.evict_scorers().await?)
}

async fn activate(call: Call<Nothing, Nothing, Json<ActivateRequest>>) -> Result<Activated, Problem> {
    let Json(body) = call.body;
    Ok(call.app.engine.evict_activate(body).await?)
}

async fn rollback(call: Call<Nothing, Nothing, Json<RollbackRequest>>) -> Result<Activated, Problem> {
    let Json(body) = call.body;
    Ok(call.app.engine.evict_rollback(body).await?)
}
