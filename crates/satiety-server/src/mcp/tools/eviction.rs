//! Tools about a full context: what could go, and what the agent says to it.

use satiety::eviction::{EvictionFeedback, ResolvedBy};
use satiety_engine::eviction::{ProposeResponse, ProposeScopeRequest, ResolveRequest, UpdateScopeRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::call::{Call, Problem};
use super::super::registry::{Effect, Profile, Spec, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            Spec {
                name: "evict_propose",
                title: "Propose what to drop",
                about: "Which parts of a context to drop when it is too full. Call it with what is new in the context since the last call (items, used) and the tokens it may have; answer the proposal with evict_resolve.",
                profile: Profile::Full,
                effect: Effect::Adds,
                data: &["candidates[].snippet"],
            },
            |call: Call, asked: ProposeArgs| async move { propose(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "evict_resolve",
                title: "Answer a proposal to drop",
                about: "Say what of a proposal you still need; the rest goes. Call it after evict_propose, within its timeout. What you keep back is what the scorer learns from.",
                profile: Profile::Full,
                effect: Effect::Deletes,
                data: &[],
            },
            |call: Call, asked: ResolveArgs| async move {
                let request = ResolveRequest {
                    proposal_id: asked.proposal_id,
                    resolved_by: (!asked.keep.is_empty()).then_some(ResolvedBy::Llm),
                    exclude_reasons: asked
                        .keep
                        .iter()
                        .filter_map(|one| Some((one.ctx_id.clone(), one.reason.clone()?)))
                        .collect(),
                    exclude_ctx_ids: asked.keep.into_iter().map(|one| one.ctx_id).collect(),
                    quota: None,
                };
                Ok::<EvictionFeedback, Problem>(call.engine().eviction().resolve(request).await?)
            },
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProposeArgs {
    /// The context; a name of your own.
    scope_id: String,
    /// The tokens that it may have afterwards.
    budget_tokens: Option<u64>,
    /// Or the tokens that must come free.
    free_tokens: Option<u64>,
    /// The present turn.
    turn: Option<u64>,
    /// What came into the context since the last call.
    #[serde(default)]
    items: Vec<Item>,
    /// Ids of items that were used in this turn.
    #[serde(default)]
    used: Vec<String>,
    /// Ids of items that must stay.
    #[serde(default)]
    pin: Vec<String>,
    /// How long you may take to answer, in milliseconds.
    timeout_ms: Option<u64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    /// A name of your own.
    ctx_id: String,
    /// What it says, or its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Its tokens; counted from the content where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_count: Option<u64>,
    /// Where it stands: system, chronicle, memory, workspace, or a zone of your own; workspace where absent.
    #[serde(default = "workspace")]
    zone: String,
    /// `message`, `tool_result`, `file`, `fact`, or a kind of your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

fn workspace() -> String {
    "workspace".into()
}

async fn propose(call: &Call, asked: ProposeArgs) -> Result<ProposeResponse, Problem> {
    let engine = call.engine();
    let changes = !(asked.items.is_empty() && asked.used.is_empty() && asked.pin.is_empty());
    if changes {
        let add = asked
            .items
            .iter()
            .map(serde_json::to_value)
            .collect::<Result<Vec<Value>, _>>()
            .map_err(|error| Problem::bug(&error.to_string()))?;
        engine
            .eviction()
            .update(UpdateScopeRequest {
                scope_id: asked.scope_id.clone(),
                turn: asked.turn,
                add,
                uses: asked.used,
                pin: asked.pin,
                ..UpdateScopeRequest::default()
            })
            .await?;
    }
    let request = ProposeScopeRequest {
        scope_id: asked.scope_id,
        budget_tokens: asked.budget_tokens,
        free_tokens: asked.free_tokens,
        turn: asked.turn,
        timeout_ms: asked.timeout_ms,
        ..ProposeScopeRequest::default()
    };
    Ok(engine.eviction().propose(request).await?)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResolveArgs {
    /// The proposal.
    proposal_id: String,
    /// What you still need, the most important first; empty when all of it may go.
    #[serde(default)]
    keep: Vec<Keep>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Keep {
    /// The item.
    ctx_id: String,
    /// What you need it for.
    reason: Option<String>,
}
