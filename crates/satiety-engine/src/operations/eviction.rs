//! Operations on contexts that are too full: proposals, answers, what is learnt from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page::PageRequest;
use super::{Call, Effect, IdRequest, NoFields, Operation};
use crate::eviction::{
    ActivateRequest, ProposeScopeRequest, ResolveRequest, RollbackRequest, ScopeSummary, UpdateScopeRequest,
};
use crate::tokens::Scope;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "list_scopes",
            "List contexts",
            Scope::Read,
            Effect::Read,
            |call: Call, page: PageRequest| async move {
                let all = call.engine.eviction().list(None).await?.scopes;
                let (scopes, next_cursor) = page.cut(all, |scope| &scope.scope_id)?;
                Ok(ScopePage { scopes, next_cursor })
            },
        ),
        Operation::new(
            "update_scope",
            "Change what is in a context; it begins with its first item",
            Scope::Write,
            Effect::Write,
            |call: Call, request: UpdateScopeRequest| async move { call.engine.eviction().update(request).await },
        ),
        Operation::new(
            "get_scope",
            "Get the items of a context, the first to drop first",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.eviction().list(Some(&request.id)).await },
        ),
        Operation::new(
            "scope_timeline",
            "Get what became of each proposal",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.eviction().timeline(&request.id).await },
        ),
        Operation::new(
            "refresh_scope",
            "Compute the slow signals of the items and rank them again",
            Scope::Write,
            Effect::Write,
            |call: Call, request: IdRequest| async move { call.engine.eviction().refresh(&request.id).await },
        ),
        Operation::new(
            "propose_eviction",
            "Propose what to drop",
            Scope::Write,
            Effect::Write,
            |call: Call, request: ProposeScopeRequest| async move {
                call.engine.eviction().propose(request).await
            },
        ),
        Operation::new(
            "resolve_eviction",
            "Answer a proposal: what is excluded, and why",
            Scope::Write,
            Effect::Destructive,
            |call: Call, request: ResolveRequest| async move { call.engine.eviction().resolve(request).await },
        ),
        Operation::new(
            "eviction_feedback",
            "Get how often items are excluded, and how well that was predicted",
            Scope::Read,
            Effect::Read,
            |call: Call, request: FeedbackRequest| async move {
                call.engine.eviction().feedback(request.scope_id.as_deref()).await
            },
        ),
        Operation::new(
            "list_scorers",
            "List versions of the scorer, and which is active",
            Scope::Read,
            Effect::Read,
            |call: Call, _: NoFields| async move { call.engine.eviction().scorers().await },
        ),
        Operation::new(
            "activate_scorer",
            "Activate a version of the scorer if an ablation permits it",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: ActivateRequest| async move { call.engine.eviction().activate(request).await },
        ),
        Operation::new(
            "rollback_scorer",
            "Return to the version that was active before",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: RollbackRequest| async move { call.engine.eviction().rollback(request).await },
        ),
    ]
}

/// Contexts on a page.
#[derive(Debug, Serialize, JsonSchema)]
struct ScopePage {
    /// The contexts.
    scopes: Vec<ScopeSummary>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Which feedback to return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FeedbackRequest {
    /// The context; all where absent.
    #[serde(default)]
    scope_id: Option<String>,
}
