//! Operations on context eviction: proposals, answers and the feedback learnt from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page::PageRequest;
use super::{Call, Effect, IdRequest, NoFields, Operation};
use crate::eviction::{
    ActivateRequest, CalibrateScorerRequest, ProposeScopeRequest, ResolveRequest, RollbackRequest,
    ScopeSummary, UpdateScopeRequest, VariantsRequest,
};
use crate::tokens::Scope;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "list_scopes",
            "List eviction scopes (contexts)",
            Scope::Read,
            Effect::Read,
            |call: Call, page: PageRequest| async move {
                let eviction = call.engine.eviction();
                let found = eviction.list_scopes(page.after()?, page.limit() + 1).await?;
                let (scopes, next_cursor) = page.cut_after(found, |scope| &scope.scope_id)?;
                Ok(ScopePage { scopes, next_cursor })
            },
        ),
        Operation::new(
            "update_scope",
            "Add, change or remove items of a context; the first item creates it",
            Scope::Write,
            Effect::Write,
            |call: Call, request: UpdateScopeRequest| async move { call.engine.eviction().update(request).await },
        ),
        Operation::new(
            "get_scope",
            "Get the items of a context in eviction order",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.eviction().list(Some(&request.id)).await },
        ),
        Operation::new(
            "scope_timeline",
            "Get the outcome of each eviction proposal",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.eviction().timeline(&request.id).await },
        ),
        Operation::new(
            "refresh_scope",
            "Recompute the slow signals of the items and rank them again",
            Scope::Write,
            Effect::Write,
            |call: Call, request: IdRequest| async move { call.engine.eviction().refresh(&request.id).await },
        ),
        Operation::new(
            "propose_eviction",
            "Propose items to evict",
            Scope::Write,
            Effect::Write,
            |call: Call, request: ProposeScopeRequest| async move {
                call.engine.eviction().propose(request).await
            },
        ),
        Operation::new(
            "resolve_eviction",
            "Answer a proposal with the items to exclude, and why",
            Scope::Write,
            Effect::Destructive,
            |call: Call, request: ResolveRequest| async move { call.engine.eviction().resolve(request).await },
        ),
        Operation::new(
            "eviction_feedback",
            "Get exclusion rates and how well they were predicted",
            Scope::Read,
            Effect::Read,
            |call: Call, request: FeedbackRequest| async move {
                call.engine.eviction().feedback(request.scope_id.as_deref()).await
            },
        ),
        Operation::new(
            "calibrate_scorer",
            "Fit a new scorer version to feedback, without activating it",
            Scope::Write,
            Effect::Write,
            |call: Call, request: CalibrateScorerRequest| async move {
                call.engine.eviction().calibrate(request.into()).await
            },
        ),
        Operation::new(
            "scorer_variants",
            "Get the suite, control and variant for an ablation of a scorer version",
            Scope::Read,
            Effect::Read,
            |call: Call, request: VariantsRequest| async move {
                call.engine.eviction().variants(&request, "satiety").await
            },
        ),
        Operation::new(
            "list_scorers",
            "List scorer versions and the active one",
            Scope::Read,
            Effect::Read,
            |call: Call, _: NoFields| async move { call.engine.eviction().scorers().await },
        ),
        Operation::new(
            "activate_scorer",
            "Activate a scorer version if an ablation permits it",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: ActivateRequest| async move { call.engine.eviction().activate(request).await },
        ),
        Operation::new(
            "rollback_scorer",
            "Roll back to the previously active scorer version",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: RollbackRequest| async move { call.engine.eviction().rollback(request).await },
        ),
    ]
}

/// Page of eviction scopes.
#[derive(Debug, Serialize, JsonSchema)]
struct ScopePage {
    /// Eviction scopes on this page.
    scopes: Vec<ScopeSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Filter of the eviction feedback.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FeedbackRequest {
    /// Id of the scope; all scopes when absent.
    #[serde(default)]
    scope_id: Option<String>,
}
