//! Timeline of the proposals of a scope: which items were evicted, excluded or overruled.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::propose::EvictionProposal;
use super::resolve::{EvictionFeedback, ResolvedBy};

/// Timeline of the proposals of a scope.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// One row per proposal, the oldest first.
    pub rows: Vec<TimelineRow>,
}

/// Proposal in a timeline, with the outcome of its items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineRow {
    /// Id of the proposal.
    pub proposal_id: String,
    /// Turn in which the proposal was made.
    pub turn_number: u64,
    /// Time at which the proposal was made.
    pub proposed_at: Timestamp,
    /// Who or what resolved the proposal; absent while it is open.
    pub resolved_by: Option<ResolvedBy>,
    /// Number of tokens that had to be freed.
    pub need_tokens: u64,
    /// Number of tokens that were freed.
    pub freed_tokens: u64,
    /// Items in the order of the proposal, followed by those of the second pass.
    pub items: Vec<ItemFate>,
}

/// Outcome of an item in a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ItemFate {
    /// Id of the item.
    pub ctx_id: String,
    /// Size of the item in tokens.
    pub token_count: u64,
    /// Outcome of the item.
    pub fate: ItemOutcome,
    /// Reason for the exclusion, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_reason: Option<String>,
}

/// Possible outcome of an item in a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemOutcome {
    /// Proposed and not yet decided.
    Proposed,
    /// Evicted as it was proposed.
    Dropped,
    /// Excluded from eviction by the agent.
    KeptBack,
    /// Evicted although the agent asked to exclude it.
    Overruled,
    /// Evicted in the second pass, without being proposed.
    SecondPass,
    /// Kept because it was pinned after the proposal.
    PinnedSince,
}

impl ItemOutcome {
    /// Returns the label for reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Dropped => "dropped",
            Self::KeptBack => "excluded",
            Self::Overruled => "exclusion overruled",
            Self::SecondPass => "dropped in the second pass",
            Self::PinnedSince => "pinned after the proposal",
        }
    }
}

/// Builds the timeline of proposals, each with its feedback if it is resolved.
pub fn timeline<'a>(
    proposals: impl IntoIterator<Item = (&'a EvictionProposal, Option<&'a EvictionFeedback>)>,
) -> Timeline {
    let mut rows: Vec<TimelineRow> = proposals
        .into_iter()
        .map(|(proposal, feedback)| row(proposal, feedback))
        .collect();
    rows.sort_by(|a, b| {
        a.proposed_at
            .cmp(&b.proposed_at)
            .then_with(|| a.proposal_id.cmp(&b.proposal_id))
    });
    Timeline { rows }
}

fn row(proposal: &EvictionProposal, feedback: Option<&EvictionFeedback>) -> TimelineRow {
    let mut items: Vec<ItemFate> = proposal
        .candidates
        .iter()
        .map(|candidate| {
            let (fate, exclude_reason) = match feedback {
                None => (ItemOutcome::Proposed, None),
                Some(feedback) => fate(&candidate.ctx_id, feedback),
            };
            ItemFate {
                ctx_id: candidate.ctx_id.clone(),
                token_count: candidate.token_count,
                fate,
                exclude_reason,
            }
        })
        .collect();
    items.extend(
        feedback
            .into_iter()
            .flat_map(|feedback| &feedback.second_pass)
            .map(|item| ItemFate {
                ctx_id: item.ctx_id.clone(),
                token_count: item.token_count,
                fate: ItemOutcome::SecondPass,
                exclude_reason: None,
            }),
    );
    TimelineRow {
        proposal_id: proposal.proposal_id.clone(),
        turn_number: proposal.turn_number,
        proposed_at: proposal.proposed_at,
        resolved_by: feedback.map(|feedback| feedback.resolved_by),
        need_tokens: proposal.need_tokens,
        freed_tokens: feedback.map_or(0, |feedback| feedback.freed_tokens),
        items,
    }
}

fn fate(ctx_id: &str, feedback: &EvictionFeedback) -> (ItemOutcome, Option<String>) {
    if let Some(kept) = feedback.excluded.iter().find(|kept| kept.ctx_id == ctx_id) {
        (ItemOutcome::KeptBack, kept.exclude_reason.clone())
    } else if let Some(overruled) = feedback
        .overruled
        .iter()
        .find(|overruled| overruled.ctx_id == ctx_id)
    {
        (ItemOutcome::Overruled, overruled.exclude_reason.clone())
    } else if feedback.pinned_since.iter().any(|pinned| pinned == ctx_id) {
        (ItemOutcome::PinnedSince, None)
    } else {
        (ItemOutcome::Dropped, None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        ContextItem, Exclude, Need, ProposeRequest, QUOTA, Resolution, Scope, Weights, propose, resolve,
    };
    use super::ItemOutcome::{Dropped, KeptBack, Overruled, Proposed, SecondPass};
    use super::*;

    #[test]
    fn every_item_has_its_outcome() {
        let mut scope = Scope::new(Weights::heuristic()).unwrap();
        for number in 0..8 {
            scope
                .add(ContextItem::new(format!("i{number}"), "memory", 100))
                .unwrap();
        }
        let request = ProposeRequest {
            proposal_id: "p".into(),
            scope_id: "s".into(),
            need: Need::Free(500),
            proposed_at: Timestamp::UNIX_EPOCH,
            timeout_ms: 2000,
            exploration: 0.0,
            seed: 0,
            pricing: None,
        };
        let proposal = propose(&scope, &request).unwrap();
        for candidate in &proposal.candidates {
            scope.hold(&candidate.ctx_id, true).unwrap();
        }
        let keep = |i: usize| Exclude {
            ctx_id: proposal.candidates[i].ctx_id.clone(),
            exclude_reason: Some("x".into()),
        };
        let resolution = Resolution {
            resolved_by: ResolvedBy::Llm,
            exclude: vec![keep(1), keep(2)],
            resolved_at: Timestamp::UNIX_EPOCH,
            quota: QUOTA,
        };
        let feedback = resolve(&scope, &proposal, &resolution).unwrap();
        let found = timeline([(&proposal, Some(&feedback)), (&proposal, None)]);
        let fates: Vec<ItemOutcome> = found.rows[0].items.iter().map(|item| item.fate).collect();
        assert_eq!(
            fates,
            [Dropped, KeptBack, Overruled, Dropped, Dropped, SecondPass]
        );
        assert!(found.rows[1].items.iter().all(|item| item.fate == Proposed));
        assert_eq!(
            (found.rows[0].need_tokens, found.rows[0].freed_tokens),
            (500, 500)
        );
    }
}
