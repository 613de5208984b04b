//! Eviction proposals and the agent's answers to them.

use crate::handles::EvictionOperations;
use std::collections::BTreeMap;

use satiety::Hint;
use satiety::eviction::{
    EvictionError, EvictionFeedback, EvictionProposal, Exclude, Need, ProposeRequest, QUOTA, Resolution,
    ResolvedBy, propose, resolve,
};
use satiety::ids;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::scopes::{deadline, now, scope_not_found};
use crate::EngineError;

/// Default time a program may take to answer, in milliseconds.
const TIMEOUT_MS: u64 = 2000;
/// Default share of exploratory candidates, relative to the items that must be evicted.
const EXPLORATION: f64 = 0.05;

/// Request for an eviction proposal.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposeScopeRequest {
    /// Id of the scope to shrink.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"\S"))]
    pub scope_id: String,
    /// Maximum tokens after eviction.
    #[serde(default)]
    pub budget_tokens: Option<u64>,
    /// Tokens to free, instead of `budget_tokens`.
    #[serde(default)]
    pub free_tokens: Option<u64>,
    /// Current turn, if it has advanced.
    #[serde(default)]
    pub turn: Option<u64>,
    /// Answer timeout in milliseconds; 2000 if absent.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Extra candidates proposed only for learning, as a share of those that must go; 0.05 if absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 0.5))]
    pub exploration: Option<f64>,
    /// Random seed; generated if absent.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Provider with the cache prices to use, such as `anthropic`; the configured one if absent.
    #[serde(default)]
    #[schemars(length(min = 1, max = 128))]
    pub provider: Option<String>,
    /// Expected number of further requests; as many as there have been turns, at least 10, if absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub remaining_turns: Option<f64>,
    /// Seconds since the last request to the model, to know whether its cache has expired; 0 if absent.
    #[serde(default)]
    pub idle_seconds: Option<u64>,
    /// Tokens that the model accepts at most. Below this, a proposal that costs more than it saves waits.
    #[serde(default)]
    pub window_tokens: Option<u64>,
}

/// An eviction proposal and how to present it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProposeResponse {
    /// The proposal with its candidates.
    #[serde(flatten)]
    pub proposal: EvictionProposal,
    /// Compact candidates to show to the agent.
    pub view: Vec<CandidateView>,
    /// Ids of earlier proposals that timed out and were therefore executed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timed_out: Vec<String>,
}

/// Compact view of a candidate for the agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CandidateView {
    /// Id of the context item.
    pub ctx_id: String,
    /// Probability that the item will be needed again, 0 to 1.
    pub relevance_score: f64,
    /// One line that identifies the content.
    pub snippet: String,
}

/// Answer to an eviction proposal.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// Id of the answered proposal.
    pub proposal_id: String,
    /// Who answers; `llm` if absent, `auto_accepted` if nothing is excluded.
    #[serde(default)]
    pub resolved_by: Option<ResolvedBy>,
    /// Items to keep, most important first.
    #[serde(default)]
    pub exclude_ctx_ids: Vec<String>,
    /// Reasons, by item id.
    #[serde(default)]
    pub exclude_reasons: BTreeMap<String, String>,
    /// Share of the proposal's tokens that may be kept; 0.3 if absent.
    #[serde(default)]
    pub quota: Option<f64>,
}

impl EvictionOperations<'_> {
    /// Proposes items to evict, and reserves them until the proposal is answered or times out.
    #[tracing::instrument(name = "propose eviction", skip_all)]
    pub async fn propose(self, request: ProposeScopeRequest) -> Result<ProposeResponse, EngineError> {
        let need = match (request.budget_tokens, request.free_tokens) {
            (Some(budget), None) => Need::Budget(budget),
            (None, Some(free)) => Need::Free(free),
            (None, None) => Need::Pays,
            (Some(_), Some(_)) => {
                return Err(EngineError::Invalid {
                    message: "two target sizes".into(),
                    hint: Hint::with_command(
                        "give a budget or the tokens to free (`budget_tokens` or `free_tokens`), or neither",
                        "--budget TOKENS",
                    ),
                });
            }
        };
        if self
            .engine
            .store()
            .await?
            .eviction()
            .revision(&request.scope_id)
            .await?
            == 0
        {
            return Err(scope_not_found(&request.scope_id));
        }
        let id = Uuid::now_v7();
        // The lower half of a UUID is random.
        let (_, chance) = id.as_u64_pair();
        let asked = ProposeRequest {
            proposal_id: ids::prefixed("prop", id),
            scope_id: request.scope_id.clone(),
            need,
            proposed_at: now()?,
            timeout_ms: request.timeout_ms.unwrap_or(TIMEOUT_MS),
            exploration: request.exploration.unwrap_or(EXPLORATION),
            // JSON parsers in other languages lose precision beyond 2^53.
            seed: request.seed.unwrap_or(chance & ((1 << 53) - 1)),
            pricing: None,
        };
        self.change(&request.scope_id, |loaded, draft| {
            if let Some(turn) = request.turn {
                loaded.scope.advance(turn);
            }
            let proposal = propose(
                &loaded.scope,
                &ProposeRequest {
                    proposed_at: now()?,
                    pricing: Some(self.pricing(&request, loaded.scope.turn())?),
                    ..asked.clone()
                },
            )?;
            if !proposal.candidates.is_empty() {
                loaded.open(&proposal, draft)?;
            }
            let view = proposal
                .candidates
                .iter()
                .map(|candidate| CandidateView {
                    ctx_id: candidate.ctx_id.clone(),
                    relevance_score: candidate.relevance_score,
                    snippet: candidate.snippet.clone(),
                })
                .collect();
            Ok(ProposeResponse {
                proposal,
                view,
                timed_out: draft.timed_out.clone(),
            })
        })
        .await
    }

    /// Answers a proposal: evicts items, excludes others, and stores the feedback for learning.
    pub async fn resolve(self, request: ResolveRequest) -> Result<EvictionFeedback, EngineError> {
        let unknown = |ids: Vec<String>| EvictionError::UnknownIds {
            proposal_id: request.proposal_id.clone(),
            ids,
        };
        let strangers: Vec<String> = request
            .exclude_reasons
            .keys()
            .filter(|id| !request.exclude_ctx_ids.contains(id))
            .cloned()
            .collect();
        if !strangers.is_empty() {
            return Err(unknown(strangers).into());
        }
        let row = self
            .engine
            .store()
            .await?
            .eviction()
            .proposal(&request.proposal_id)
            .await?;
        let scope_id = row.map(|row| row.scope_id).ok_or_else(|| EngineError::NotFound {
            what: format!("proposal `{}`", request.proposal_id),
            hint: Hint::with_command(
                "read the timeline of the scope to see its proposals",
                "satiety evict timeline SCOPE",
            ),
        })?;
        let default = if request.exclude_ctx_ids.is_empty() {
            ResolvedBy::AutoAccepted
        } else {
            ResolvedBy::Llm
        };
        let outcome = self
            .change(&scope_id, |loaded, draft| {
                let Some(proposal) = loaded.open.get(&request.proposal_id).cloned() else {
                    // The timeout is a separate change and is kept, whatever happens to this answer.
                    return Ok(None);
                };
                let reason = |id: &String| request.exclude_reasons.get(id).cloned();
                let exclude = request.exclude_ctx_ids.iter();
                let resolution = Resolution {
                    resolved_by: request.resolved_by.unwrap_or(default),
                    exclude: exclude
                        .map(|id| Exclude {
                            ctx_id: id.clone(),
                            exclude_reason: reason(id),
                        })
                        .collect(),
                    resolved_at: now()?,
                    quota: request.quota.unwrap_or(QUOTA),
                };
                let feedback = resolve(&loaded.scope, &proposal, &resolution)?;
                loaded.close(&proposal, &feedback, draft)?;
                Ok(Some(feedback))
            })
            .await?;
        match outcome {
            Some(feedback) => Ok(feedback),
            None => Err(self.why_closed(&request.proposal_id).await?),
        }
    }

    /// Explains why a proposal can no longer be answered.
    async fn why_closed(self, proposal_id: &str) -> Result<EngineError, EngineError> {
        let row = self
            .engine
            .store()
            .await?
            .eviction()
            .proposal(proposal_id)
            .await?;
        let resolved_by = row
            .as_ref()
            .and_then(|row| row.resolved_by.clone())
            .unwrap_or_default();
        if resolved_by != ResolvedBy::Timeout.name() {
            return Ok(EvictionError::AlreadyResolved {
                proposal_id: proposal_id.to_owned(),
                resolved_by,
            }
            .into());
        }
        let proposal: Option<EvictionProposal> = row.and_then(|row| serde_json::from_str(&row.body).ok());
        let late = proposal.map_or(0, |proposal| satiety_store::now_micros() - deadline(&proposal));
        Ok(EvictionError::Late {
            proposal_id: proposal_id.to_owned(),
            late_ms: u64::try_from(late / 1000).unwrap_or(0),
        }
        .into())
    }
}
