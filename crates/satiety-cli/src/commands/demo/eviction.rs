//! Eviction in the demo: a proposal, and a policy comparison on a trace.

use satiety::eviction::EvictionFeedback;
use satiety::eviction::simulation::Budget;
use satiety_engine::Engine;
use satiety_engine::eviction::{
    ProposeScopeRequest, ResolveRequest, SimulateRequest, SimulateResponse, UpdateScopeRequest,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::commands::eviction::Resolved;
use crate::failure::Failure;

/// Trace of six short sessions.
const TRACE: &str = include_str!("../../../../../examples/eviction/trace.jsonl");

/// Fills a context, proposes and accepts evictions, and simulates policies on a trace.
pub(super) async fn evict(engine: &Engine) -> Result<EvictionScene, Failure> {
    let items = [
        json!({"ctx_id": "rules", "zone": "system", "content": "Answer briefly.", "pinned": true}),
        json!({"ctx_id": "test-log", "zone": "workspace", "kind": "tool_result", "token_count": 900, "snippet": "212 lines of test output"}),
        json!({"ctx_id": "fact", "zone": "memory", "kind": "fact", "content": "The staging database is called ada."}),
        json!({"ctx_id": "small-talk", "zone": "chronicle", "content": "Good morning! How was the weekend?"}),
        json!({"ctx_id": "old-diff", "zone": "workspace", "kind": "tool_result", "token_count": 700, "snippet": "a diff that was merged"}),
        json!({"ctx_id": "plan", "zone": "workspace", "kind": "plan", "token_count": 120, "snippet": "the plan, not read since it was written"}),
    ];
    let update = UpdateScopeRequest {
        scope_id: "demo".into(),
        turn: Some(1),
        add: items.to_vec(),
        ..UpdateScopeRequest::default()
    };
    engine.eviction().update(update).await?;
    let uses = UpdateScopeRequest {
        scope_id: "demo".into(),
        turn: Some(9),
        uses: vec!["fact".into(), "test-log".into()],
        ..UpdateScopeRequest::default()
    };
    engine.eviction().update(uses).await?;
    let proposed = engine
        .eviction()
        .propose(ProposeScopeRequest {
            scope_id: "demo".into(),
            budget_tokens: Some(1050),
            timeout_ms: Some(60_000),
            exploration: Some(0.0),
            ..ProposeScopeRequest::default()
        })
        .await?;
    let feedback = engine
        .eviction()
        .resolve(ResolveRequest {
            proposal_id: proposed.proposal.proposal_id.clone(),
            resolved_by: None,
            exclude_ctx_ids: Vec::new(),
            exclude_reasons: std::collections::BTreeMap::new(),
            quota: Some(0.5),
        })
        .await?;
    let simulated = engine
        .eviction()
        .simulate(SimulateRequest {
            trace: ("synthetic sessions".into(), TRACE.into()),
            policies: ["heuristic", "gdsf", "lru", "fifo", "belady-size"]
                .map(str::to_owned)
                .to_vec(),
            budget: Budget::Share(0.25),
            headroom: 0.1,
            learn_from: None,
            seed: 1,
            resamples: 1000,
            provider: None,
        })
        .await?;
    Ok(EvictionScene {
        feedback: Resolved(feedback),
        simulated,
    })
}

/// Results of the eviction scene.
#[derive(Serialize, JsonSchema)]
pub(super) struct EvictionScene {
    /// Decision for a context over its budget.
    #[schemars(with = "EvictionFeedback")]
    feedback: Resolved,
    /// Replay of recorded sessions with several policies.
    simulated: SimulateResponse,
}

impl EvictionScene {
    pub(super) fn lines(&self) -> Vec<String> {
        let feedback = &self.feedback.0;
        let mut lines = vec![
            format!(
                "An agent's context is {} tokens over its budget:",
                feedback.need_tokens
            ),
            format!(
                "  evict {} ({} tokens)",
                feedback.evicted.join(", "),
                feedback.freed_tokens
            ),
            format!(
                "Replayed on {}, share of needed items still in the context:",
                self.simulated.trace
            ),
        ];
        let policies = &self.simulated.simulation.policies;
        lines.extend(
            policies
                .iter()
                .map(|policy| format!("  {:<12} {:>5.1} %", policy.policy, 100.0 * policy.hit_rate)),
        );
        lines
    }
}
