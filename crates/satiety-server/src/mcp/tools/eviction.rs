//! Eviction tools: propose evictions, answer a proposal, and learn from the answers.

use satiety::eviction::{EvictionFeedback, ResolvedBy};
use satiety_engine::eviction::{ProposeResponse, ProposeScopeRequest, ResolveRequest, UpdateScopeRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::call::{Call, Problem};
use super::super::registry::{Effect, Profile, Spec, Tool, ToolProfile};

pub(super) fn tools() -> Vec<Tool> {
    let mut tools = vec![
        Tool::new(
            Spec {
                name: "evict_propose",
                title: "Propose evictions",
                about: "Choose which context items to drop when the context is too full. Call it with changes since the last call (items, used) and the token budget, or without a budget for what pays for itself; answer the proposal with evict_resolve.",
                profile: Profile::Full,
                effect: Effect::Adds,
                data: &["candidates[].snippet"],
            },
            |call: Call, asked: ProposeArgs| async move { propose(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "evict_resolve",
                title: "Answer an eviction proposal",
                about: "Exclude the items of a proposal that you still need; the rest is evicted. Call it after evict_propose, within its timeout. The scorer learns from your exclusions.",
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
    ];
    let offered = [
        (
            "scope_timeline",
            Spec {
                name: "evict_timeline",
                title: "Eviction timeline",
                about: "List the proposals of a context and what became of each item. Call it to see what was dropped before you read it again.",
                profile: Profile::Full,
                effect: Effect::Reads,
                data: &["rows[].items[].exclude_reason"],
            },
        ),
        (
            "calibrate_scorer",
            Spec {
                name: "evict_calibrate",
                title: "Calibrate the eviction scorer",
                about: "Fit a new scorer version to the recorded exclusions, without activating it. Call it after some 50 answered proposals.",
                profile: Profile::Full,
                effect: Effect::Adds,
                data: &[],
            },
        ),
        (
            "scorer_variants",
            Spec {
                name: "evict_variants",
                title: "Files for an ablation",
                about: "Get the files that compare a scorer version with the active one, on a trace or on generated sessions. Call it before activating a version.",
                profile: Profile::Full,
                effect: Effect::Reads,
                data: &[],
            },
        ),
    ];
    for (operation, spec) in offered {
        tools.extend(Tool::of_operation(operation, spec, ToolProfile::default()));
    }
    tools
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProposeArgs {
    /// Context name of your choice.
    scope_id: String,
    /// Maximum tokens of the context afterwards.
    budget_tokens: Option<u64>,
    /// Or the number of tokens to free.
    free_tokens: Option<u64>,
    /// Number of the current turn.
    turn: Option<u64>,
    /// Items added since the last call.
    #[serde(default)]
    items: Vec<Item>,
    /// Ids of items used in this turn.
    #[serde(default)]
    used: Vec<String>,
    /// Ids of items that must stay.
    #[serde(default)]
    pin: Vec<String>,
    /// Time to answer, in milliseconds.
    timeout_ms: Option<u64>,
    /// Tokens that your model accepts at most; below, a proposal that does not pay waits.
    window_tokens: Option<u64>,
    /// Expected number of further requests.
    remaining_turns: Option<f64>,
    /// Seconds since your last request.
    idle_seconds: Option<u64>,
    /// Provider with the cache prices to use.
    provider: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    /// Item name of your choice.
    ctx_id: String,
    /// Text of the item, or its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Tokens of the item; default counted from the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_count: Option<u64>,
    /// Zone: system, chronicle, memory, workspace (default), or your own.
    #[serde(default = "workspace")]
    zone: String,
    /// Kind: `message`, `tool_result`, `file`, `fact`, or your own.
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
        window_tokens: asked.window_tokens,
        remaining_turns: asked.remaining_turns,
        idle_seconds: asked.idle_seconds,
        provider: asked.provider,
        ..ProposeScopeRequest::default()
    };
    Ok(engine.eviction().propose(request).await?)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResolveArgs {
    /// Id of the proposal.
    proposal_id: String,
    /// Items to exclude, most important first; default none.
    #[serde(default)]
    keep: Vec<Keep>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Keep {
    /// Id of the item.
    ctx_id: String,
    /// Reason why you need it.
    reason: Option<String>,
}
