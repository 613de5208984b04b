//! What can be wrong with a request about a context. Nothing is changed by a request that is refused.

use thiserror::Error;

use crate::stats::StatsError;

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum EvictionError {
    /// An item that cannot be scored.
    #[error("item `{ctx_id}`: {field}: {reason}")]
    Item {
        /// Which item.
        ctx_id: String,
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// An item that is not in the scope.
    #[error("there is no item `{ctx_id}` in this scope")]
    NoItem {
        /// The id.
        ctx_id: String,
    },
    /// Settings out of range.
    #[error("{what} is {value}, outside {range}")]
    Setting {
        /// Which one.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What is permitted.
        range: &'static str,
    },
    /// Weights that cannot be used.
    #[error("weights: {0}")]
    Weights(String),
    /// Ids that are not among the candidates of the proposal.
    #[error(
        "proposal {proposal_id} has no candidate {}; nothing was changed",
        quoted(ids)
    )]
    UnknownIds {
        /// The proposal.
        proposal_id: String,
        /// The ids.
        ids: Vec<String>,
    },
    /// Ids that are named twice.
    #[error("{} named more than once; nothing was changed", quoted(ids))]
    DuplicateIds {
        /// The ids.
        ids: Vec<String>,
    },
    /// A proposal that has been answered.
    #[error("proposal {proposal_id} was resolved before, by {resolved_by}; nothing was changed")]
    AlreadyResolved {
        /// The proposal.
        proposal_id: String,
        /// How.
        resolved_by: String,
    },
    /// An answer after the time was up.
    #[error("proposal {proposal_id} timed out {late_ms} ms before this answer; nothing was changed")]
    Late {
        /// The proposal.
        proposal_id: String,
        /// How much too late.
        late_ms: u64,
    },
    /// Exclusions where there cannot be any.
    #[error("a proposal resolved by `{resolved_by}` cannot have exclusions; nothing was changed")]
    ExclusionsWithout {
        /// How it is resolved.
        resolved_by: String,
    },
    /// A line of a trace.
    #[error("line {line}: {reason}")]
    Trace {
        /// Which line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Too little to learn from.
    #[error("cannot fit weights: {0}")]
    Fit(#[from] StatsError),
}

impl EvictionError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Item { .. } => "correct the field and send the item again",
            Self::NoItem { .. } => "`satiety evict list SCOPE` shows what is there",
            Self::Setting { .. } => "choose a value in that range",
            Self::Weights(_) => "`satiety evict weights heuristic` prints weights that work",
            Self::UnknownIds { .. } | Self::DuplicateIds { .. } => {
                "name each candidate of this proposal at most once, and no other id"
            }
            Self::AlreadyResolved { .. } => "a proposal is resolved once; ask for a new one",
            Self::Late { .. } => {
                "its candidates are gone; answer within the proposal's timeout_ms, or raise it"
            }
            Self::ExclusionsWithout { .. } => "use `llm` or `user` for an answer that keeps items back",
            Self::Trace { .. } => "docs/eviction.md describes the format",
            Self::Fit(_) => {
                "weights need resolved proposals in which some items were kept back and some were not"
            }
        }
    }
}

fn quoted(ids: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut shown: Vec<String> = ids.iter().take(SHOWN).map(|id| format!("`{id}`")).collect();
    if ids.len() > SHOWN {
        shown.push(format!("and {} more", ids.len() - SHOWN));
    }
    shown.join(", ")
}
