//! Resolution of a proposal: the agent excludes candidates up to a quota of tokens, then a second pass
//! without veto frees the missing tokens, so that a flush meets its budget or reports which pins prevent it.
//! A rejected answer changes nothing.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::EvictionError;
use super::features::Term;
use super::propose::{EvictionCandidate, EvictionProposal, Shortfall, cover, shortfall};
use super::scope::Scope;

/// Default share of a proposal's tokens that may be excluded.
pub const QUOTA: f64 = 0.3;

/// Who or what resolved a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedBy {
    /// The model of the agent.
    Llm,
    /// A human user of the agent.
    User,
    /// The agent answered and excluded nothing.
    AutoAccepted,
    /// No answer before the timeout: missing data, not consent, so nothing is learned from it.
    Timeout,
}

impl ResolvedBy {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::User => "user",
            Self::AutoAccepted => "auto_accepted",
            Self::Timeout => "timeout",
        }
    }
}

/// Answer to a proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// Who or what answered.
    pub resolved_by: ResolvedBy,
    /// Candidates to exclude from eviction, the most important first.
    pub exclude: Vec<Exclude>,
    /// Time of the answer.
    pub resolved_at: Timestamp,
    /// Share of the proposal's tokens that may be excluded, from 0 to 1.
    pub quota: f64,
}

/// Candidate to exclude from eviction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exclude {
    /// Id of the item to exclude.
    pub ctx_id: String,
    /// Reason for the exclusion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_reason: Option<String>,
}

/// Outcome of a resolved proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionFeedback {
    /// Id of the proposal.
    pub proposal_id: String,
    /// Id of the scope.
    pub scope_id: String,
    /// Time at which the proposal was resolved.
    pub resolved_at: Timestamp,
    /// Who or what resolved the proposal.
    pub resolved_by: ResolvedBy,
    /// Ids of the candidates that were evicted.
    pub evicted: Vec<String>,
    /// Candidates that were excluded from eviction.
    pub excluded: Vec<EvictionExclusion>,
    /// Exclusions that were overruled, because of the quota or because nothing else was left to evict.
    pub overruled: Vec<EvictionExclusion>,
    /// Ids of the candidates that stay because they were pinned after the proposal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned_since: Vec<String>,
    /// Items evicted without a proposal, because the candidates freed too few tokens.
    pub second_pass: Vec<SecondPass>,
    /// Number of tokens that had to be freed.
    pub need_tokens: u64,
    /// Number of tokens that were freed.
    pub freed_tokens: u64,
    /// Maximum number of tokens that could be excluded.
    pub quota_tokens: u64,
    /// Reason why too few tokens were freed; absent if enough were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
}

/// Candidate that was excluded, overriding the scorer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionExclusion {
    /// Id of the item.
    pub ctx_id: String,
    /// Score of the item in the proposal.
    pub relevance_score: f64,
    /// Reason for the exclusion.
    pub exclude_reason: Option<String>,
}

/// Item evicted in the second pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecondPass {
    /// Id of the item.
    pub ctx_id: String,
    /// Size of the item in tokens.
    pub token_count: u64,
}

/// Training example of the scorer: one candidate, and whether its exclusion was requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    /// Id of the proposal.
    pub proposal_id: String,
    /// Id of the scope.
    pub scope_id: String,
    /// Id of the item.
    pub ctx_id: String,
    /// Zone of the item.
    pub zone: String,
    /// Kind of the item.
    pub kind: String,
    /// Number of turns since the last use.
    pub age_turns: u64,
    /// Size of the item in tokens.
    pub token_count: u64,
    /// Score of the item in the proposal.
    pub relevance_score: f64,
    /// Probability with which the item was proposed.
    pub propensity: f64,
    /// Feature values at scoring time, one for each of [`Term::ALL`].
    pub features: [f64; Term::ALL.len()],
    /// Whether the agent asked to exclude the item from eviction.
    pub kept_back: bool,
    /// Reason for the exclusion, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_reason: Option<String>,
    /// Time at which the proposal was resolved.
    pub resolved_at: Timestamp,
}

/// Resolves a proposal whose candidates are still held in the scope, without changing the scope: see
/// [`apply_resolution`].
pub fn resolve(
    scope: &Scope,
    proposal: &EvictionProposal,
    resolution: &Resolution,
) -> Result<EvictionFeedback, EvictionError> {
    check(proposal, resolution)?;
    let candidates: Vec<&EvictionCandidate> = proposal
        .candidates
        .iter()
        .filter(|candidate| scope.item(&candidate.ctx_id).is_some())
        .collect();
    let pinned_since: Vec<String> = candidates
        .iter()
        .filter(|candidate| scope.kept_by_pin(&candidate.ctx_id).is_some())
        .map(|candidate| candidate.ctx_id.clone())
        .collect();
    let quota_tokens = token_share(proposal.candidate_tokens, resolution.quota);
    let mut remaining = quota_tokens;
    let (mut kept, mut overruled) = (Vec::new(), Vec::new());
    for exclude in &resolution.exclude {
        let Some(candidate) = candidates
            .iter()
            .find(|candidate| candidate.ctx_id == exclude.ctx_id)
        else {
            continue;
        };
        let exclusion = EvictionExclusion {
            ctx_id: candidate.ctx_id.clone(),
            relevance_score: candidate.relevance_score,
            exclude_reason: exclude.exclude_reason.clone(),
        };
        if pinned_since.contains(&candidate.ctx_id) {
            kept.push(exclusion);
        } else if candidate.token_count <= remaining {
            remaining -= candidate.token_count;
            kept.push(exclusion);
        } else {
            overruled.push(exclusion);
        }
    }
    let stays: BTreeSet<&str> = kept
        .iter()
        .map(|kept| kept.ctx_id.as_str())
        .chain(pinned_since.iter().map(String::as_str))
        .collect();
    let going: Vec<&EvictionCandidate> = candidates
        .iter()
        .copied()
        .filter(|candidate| !stays.contains(candidate.ctx_id.as_str()))
        .collect();
    let mut evicted: Vec<String> = going.iter().map(|candidate| candidate.ctx_id.clone()).collect();
    let mut freed: u64 = going.iter().map(|candidate| candidate.token_count).sum();
    let need = proposal.need_tokens;
    let mut second_pass = Vec::new();
    if freed < need {
        let ranked = scope
            .ranking()
            .map(|(slot, entry)| (slot, entry.item.token_count, entry.loss));
        let entries = cover(ranked, need - freed)
            .into_iter()
            .filter_map(|slot| scope.at(slot));
        second_pass.extend(entries.map(|entry| SecondPass {
            ctx_id: entry.item.ctx_id.clone(),
            token_count: entry.item.token_count,
        }));
        freed += second_pass.iter().map(|item| item.token_count).sum::<u64>();
    }
    // Nothing else is left: overrule exclusions too, starting with the least valuable item.
    while freed < need {
        let last = candidates
            .iter()
            .filter(|candidate| !pinned_since.contains(&candidate.ctx_id))
            .find_map(|candidate| {
                Some((
                    candidate,
                    kept.iter().position(|kept| kept.ctx_id == candidate.ctx_id)?,
                ))
            });
        let Some((candidate, position)) = last else { break };
        freed += candidate.token_count;
        evicted.push(candidate.ctx_id.clone());
        overruled.push(kept.remove(position));
    }
    Ok(EvictionFeedback {
        proposal_id: proposal.proposal_id.clone(),
        scope_id: proposal.scope_id.clone(),
        resolved_at: resolution.resolved_at,
        resolved_by: resolution.resolved_by,
        evicted,
        excluded: kept,
        overruled,
        pinned_since,
        second_pass,
        need_tokens: need,
        freed_tokens: freed,
        quota_tokens,
        shortfall: (freed < need).then(|| shortfall(scope, need - freed)),
    })
}

/// Applies the outcome of a proposal: removes the evicted items and releases the other candidates.
pub fn apply_resolution(scope: &mut Scope, proposal: &EvictionProposal, feedback: &EvictionFeedback) {
    let second = feedback.second_pass.iter().map(|item| &item.ctx_id);
    for ctx_id in feedback.evicted.iter().chain(second) {
        scope.remove(ctx_id);
    }
    for candidate in &proposal.candidates {
        // Evicted items need no release.
        let _ = scope.hold(&candidate.ctx_id, false);
    }
}

/// Returns the training labels of a resolved proposal; none if it timed out.
pub fn labels(proposal: &EvictionProposal, feedback: &EvictionFeedback) -> Vec<Label> {
    if feedback.resolved_by == ResolvedBy::Timeout {
        return Vec::new();
    }
    let exclusion_of = |ctx_id: &str| {
        feedback
            .excluded
            .iter()
            .chain(&feedback.overruled)
            .find(|exclusion| exclusion.ctx_id == ctx_id)
    };
    proposal
        .candidates
        .iter()
        .map(|candidate| {
            let exclusion = exclusion_of(&candidate.ctx_id);
            Label {
                proposal_id: proposal.proposal_id.clone(),
                scope_id: proposal.scope_id.clone(),
                ctx_id: candidate.ctx_id.clone(),
                zone: candidate.zone.clone(),
                kind: candidate.kind.clone(),
                age_turns: candidate.age_turns,
                token_count: candidate.token_count,
                relevance_score: candidate.relevance_score,
                propensity: candidate.propensity,
                features: candidate.features,
                kept_back: exclusion.is_some(),
                exclude_reason: exclusion.and_then(|exclusion| exclusion.exclude_reason.clone()),
                resolved_at: feedback.resolved_at,
            }
        })
        .collect()
}

fn check(proposal: &EvictionProposal, resolution: &Resolution) -> Result<(), EvictionError> {
    if !(0.0..=1.0).contains(&resolution.quota) {
        return Err(EvictionError::Setting {
            what: "quota",
            value: resolution.quota,
            range: "0 to 1",
        });
    }
    let answered = matches!(resolution.resolved_by, ResolvedBy::Llm | ResolvedBy::User);
    if !answered && !resolution.exclude.is_empty() {
        return Err(EvictionError::ExclusionsWithout {
            resolved_by: resolution.resolved_by.name().to_owned(),
        });
    }
    let waited = resolution.resolved_at.as_millisecond() - proposal.proposed_at.as_millisecond();
    let late = u64::try_from(waited)
        .unwrap_or(0)
        .saturating_sub(proposal.timeout_ms);
    if late > 0 && resolution.resolved_by != ResolvedBy::Timeout {
        return Err(EvictionError::Late {
            proposal_id: proposal.proposal_id.clone(),
            late_ms: late,
        });
    }
    let known: BTreeSet<&str> = proposal
        .candidates
        .iter()
        .map(|candidate| candidate.ctx_id.as_str())
        .collect();
    let (mut seen, mut twice, mut unknown) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for exclude in &resolution.exclude {
        if !known.contains(exclude.ctx_id.as_str()) {
            unknown.insert(exclude.ctx_id.clone());
        } else if !seen.insert(exclude.ctx_id.as_str()) {
            twice.insert(exclude.ctx_id.clone());
        }
    }
    if !unknown.is_empty() {
        return Err(EvictionError::UnknownIds {
            proposal_id: proposal.proposal_id.clone(),
            ids: unknown.into_iter().collect(),
        });
    }
    if !twice.is_empty() {
        return Err(EvictionError::DuplicateIds {
            ids: twice.into_iter().collect(),
        });
    }
    Ok(())
}

fn token_share(tokens: u64, share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share from 0 to 1 of a number of tokens"
    )]
    let tokens = (tokens as f64 * share).floor() as u64;
    tokens
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
