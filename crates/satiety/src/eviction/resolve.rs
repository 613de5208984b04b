//! What happens when a proposal is answered: items that the agent keeps back stay, up to a quota of tokens; then a second
//! pass without veto frees what is still missing, so that a flush meets its budget or says which pins prevent it. A
//! refused answer changes nothing.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::EvictionError;
use super::features::Term;
use super::propose::{EvictionCandidate, EvictionProposal, Shortfall, cover, shortfall};
use super::scope::Scope;

/// The share of a proposal's tokens that may be kept back, unless said otherwise.
pub const QUOTA: f64 = 0.3;

/// Who or what answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedBy {
    /// The agent's model.
    Llm,
    /// A person.
    User,
    /// The agent answered and kept nothing back.
    AutoAccepted,
    /// Nobody answered in time: missing data, not consent, so nothing is learned from it.
    Timeout,
}

impl ResolvedBy {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::User => "user",
            Self::AutoAccepted => "auto_accepted",
            Self::Timeout => "timeout",
        }
    }
}

/// An answer to a proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// Who answered.
    pub resolved_by: ResolvedBy,
    /// What is to be kept back, the most important first.
    pub exclude: Vec<Exclude>,
    /// When.
    pub resolved_at: Timestamp,
    /// The share of the proposal's tokens that may be kept back.
    pub quota: f64,
}

/// An item to be kept back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exclude {
    /// The item.
    pub ctx_id: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_reason: Option<String>,
}

/// What came of a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionFeedback {
    /// The proposal.
    pub proposal_id: String,
    /// The scope.
    pub scope_id: String,
    /// When it was answered.
    pub resolved_at: Timestamp,
    /// By whom.
    pub resolved_by: ResolvedBy,
    /// Candidates that went.
    pub evicted: Vec<String>,
    /// Candidates that were kept back.
    pub excluded: Vec<EvictionExclusion>,
    /// Candidates that were to be kept back and went all the same: above the quota, or nothing else was left.
    pub overruled: Vec<EvictionExclusion>,
    /// Candidates that stay because they were pinned since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned_since: Vec<String>,
    /// Items that went without being proposed, because too little came free.
    pub second_pass: Vec<SecondPass>,
    /// Tokens that had to come free.
    pub need_tokens: u64,
    /// Tokens that did.
    pub freed_tokens: u64,
    /// Tokens that could have been kept back.
    pub quota_tokens: u64,
    /// Why too little came free, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
}

/// An item that was kept back: the scorer was overridden.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionExclusion {
    /// The item.
    pub ctx_id: String,
    /// What the scorer thought.
    pub relevance_score: f64,
    /// Why it was kept back.
    pub exclude_reason: Option<String>,
}

/// An item that went in the second pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecondPass {
    /// The item.
    pub ctx_id: String,
    /// Its size.
    pub token_count: u64,
}

/// One candidate and whether it was kept back: what the scorer learns from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    /// The proposal.
    pub proposal_id: String,
    /// The scope.
    pub scope_id: String,
    /// The item.
    pub ctx_id: String,
    /// Its zone.
    pub zone: String,
    /// Its kind.
    pub kind: String,
    /// Turns since its last use.
    pub age_turns: u64,
    /// Its size.
    pub token_count: u64,
    /// What the scorer thought.
    pub relevance_score: f64,
    /// The probability with which it was proposed.
    pub propensity: f64,
    /// What the scorer saw, one value for each of [`Term::ALL`].
    pub features: [f64; Term::ALL.len()],
    /// Whether it was kept back.
    pub kept_back: bool,
    /// Why, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_reason: Option<String>,
    /// When that became known.
    pub resolved_at: Timestamp,
}

/// Answers a proposal whose candidates are still in the scope and held. Nothing is changed: see [`settle`].
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
    let quota_tokens = share(proposal.candidate_tokens, resolution.quota);
    let mut left = quota_tokens;
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
        } else if candidate.token_count <= left {
            left -= candidate.token_count;
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
    // Nothing else is left: what was kept back goes too, the least valuable first.
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

/// Carries out what came of a proposal: takes out what goes, lets the rest into proposals again.
pub fn settle(scope: &mut Scope, proposal: &EvictionProposal, feedback: &EvictionFeedback) {
    let second = feedback.second_pass.iter().map(|item| &item.ctx_id);
    for ctx_id in feedback.evicted.iter().chain(second) {
        scope.remove(ctx_id);
    }
    for candidate in &proposal.candidates {
        // Those that are gone need no release.
        let _ = scope.hold(&candidate.ctx_id, false);
    }
}

/// What can be learned: nothing from a proposal that nobody answered.
pub fn labels(proposal: &EvictionProposal, feedback: &EvictionFeedback) -> Vec<Label> {
    if feedback.resolved_by == ResolvedBy::Timeout {
        return Vec::new();
    }
    let wanted = |ctx_id: &str| {
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
            let exclusion = wanted(&candidate.ctx_id);
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

fn share(tokens: u64, share: f64) -> u64 {
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
