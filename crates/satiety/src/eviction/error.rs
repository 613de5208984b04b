//! Errors of the eviction API. A request that returns an error has changed nothing.

use thiserror::Error;

use crate::Hint;
use crate::stats::StatsError;

/// Reason why an eviction request was rejected.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum EvictionError {
    /// An item has a field that cannot be scored.
    #[error("item `{ctx_id}`: {field}: {reason}")]
    Item {
        /// Id of the item.
        ctx_id: String,
        /// Name of the invalid field.
        field: &'static str,
        /// Problem with the field.
        reason: String,
    },
    /// The scope does not contain the item.
    #[error("item `{ctx_id}` not found in this scope")]
    NoItem {
        /// Id that was not found.
        ctx_id: String,
    },
    /// A setting is out of range.
    #[error("{what} is {value} (expected {range})")]
    Setting {
        /// Name of the setting.
        what: &'static str,
        /// Value that was given.
        value: f64,
        /// Permitted range.
        range: &'static str,
    },
    /// No simulated policy has this name.
    #[error(
        "unknown policy `{0}` (expected one of: heuristic, lru, fifo, size, gdsf, random, belady, belady-size, none, priced)"
    )]
    Policy(String),
    /// The weights are invalid.
    #[error("weights: {0}")]
    Weights(String),
    /// The price list is invalid.
    #[error("prices: {0}")]
    Prices(String),
    /// The price list has no such provider.
    #[error("unknown provider `{name}` (expected one of: {})", known.join(", "))]
    Provider {
        /// Name that was given.
        name: String,
        /// Names in the price list.
        known: Vec<String>,
    },
    /// A proposal that should pay for itself needs prices.
    #[error("cannot decide whether an eviction pays: no prices given")]
    NoPrices,
    /// Excluded ids are not among the candidates of the proposal.
    #[error(
        "proposal {proposal_id} has no candidate {}; nothing was changed",
        quoted(ids)
    )]
    UnknownIds {
        /// Id of the proposal.
        proposal_id: String,
        /// Ids that are not candidates.
        ids: Vec<String>,
    },
    /// Excluded ids are repeated.
    #[error("duplicate ids {}; nothing was changed", quoted(ids))]
    DuplicateIds {
        /// Ids that are repeated.
        ids: Vec<String>,
    },
    /// The proposal is already resolved.
    #[error("proposal {proposal_id} is already resolved by {resolved_by}; nothing was changed")]
    AlreadyResolved {
        /// Id of the proposal.
        proposal_id: String,
        /// How it was resolved.
        resolved_by: String,
    },
    /// The answer arrived after the timeout.
    #[error("proposal {proposal_id} timed out {late_ms} ms ago; nothing was changed")]
    Late {
        /// Id of the proposal.
        proposal_id: String,
        /// Milliseconds after the timeout.
        late_ms: u64,
    },
    /// Exclusions were given with a resolution that does not permit them.
    #[error("a proposal resolved by `{resolved_by}` cannot have exclusions; nothing was changed")]
    ExclusionsWithout {
        /// How the proposal is resolved.
        resolved_by: String,
    },
    /// A line of a trace is invalid.
    #[error("line {line}: {reason}")]
    Trace {
        /// Line number, starting at 1.
        line: usize,
        /// Problem with the line.
        reason: String,
    },
    /// The labels are not sufficient to fit weights.
    #[error("cannot fit weights: {0}")]
    Fit(#[from] StatsError),
}

impl EvictionError {
    /// Action that fixes the error.
    pub fn hint(&self) -> Hint {
        match self {
            Self::Item { .. } => Hint::new("correct the field and send the item again"),
            Self::NoItem { .. } => {
                Hint::with_command("list the items of the scope", "satiety evict list SCOPE")
            }
            Self::Policy(_) => Hint::new("use one of the listed policies"),
            Self::Setting { .. } => Hint::new("use a value in the expected range"),
            Self::Weights(_) => Hint::with_command(
                "compare with the built-in weights",
                "satiety evict weights heuristic",
            ),
            Self::Prices(_) => Hint::new("give prices of 0 or more for each provider, with source and date"),
            Self::Provider { .. } => Hint::new("use a provider of the price list, or add it to yours"),
            Self::NoPrices => Hint::new("name a provider, or the tokens to free"),
            Self::UnknownIds { .. } | Self::DuplicateIds { .. } => {
                Hint::new("list each excluded candidate of this proposal once, and no other ids")
            }
            Self::AlreadyResolved { .. } => Hint::new("request a new proposal"),
            Self::Late { .. } => Hint::new("answer within the proposal's timeout_ms, or raise it"),
            Self::ExclusionsWithout { .. } => Hint::new("resolve with `llm` or `user` to exclude items"),
            Self::Trace { .. } => Hint::new("docs/guides/eviction.md describes the format"),
            Self::Fit(_) => {
                Hint::new("collect more resolved proposals, with both excluded and evicted items")
            }
        }
    }
}

fn quoted(ids: &[String]) -> String {
    const MAX_LISTED: usize = 5;
    let mut listed: Vec<String> = ids.iter().take(MAX_LISTED).map(|id| format!("`{id}`")).collect();
    if ids.len() > MAX_LISTED {
        listed.push(format!("and {} more", ids.len() - MAX_LISTED));
    }
    listed.join(", ")
}
