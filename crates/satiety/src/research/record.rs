//! Everything about one round, as it is stored and shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assess::Novelty;
use super::gate::Verdict;
use super::hit::Hit;
use super::unseen::Unseen;

/// How a search came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum RoundOutcome {
    /// Results.
    Found,
    /// It worked and there was nothing.
    Empty,
    /// It did not work, also after retries.
    Failed {
        /// What went wrong.
        error: String,
    },
}

/// Calls of chat models in a round, by what for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCalls {
    /// To plan the query.
    pub plan: u32,
    /// To say how new results are.
    pub novelty: u32,
    /// To write the summary.
    pub compress: u32,
    /// Calls that failed; what a rule could do was done instead.
    #[serde(default)]
    pub failed: u32,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundRecord {
    /// Its number, from 1.
    pub round: u32,
    /// What was asked.
    pub query: String,
    /// Whether the query was planned from the start, as against made for a gap.
    pub planned: bool,
    /// How the search came out.
    pub outcome: RoundOutcome,
    /// What came back.
    pub results: Vec<Hit>,
    /// Whether it came from the cache.
    pub from_cache: bool,
    /// What the assessors say.
    pub novelty: Novelty,
    /// What was decided.
    pub verdict: Verdict,
    /// Results that were not there before, if the round was accepted.
    pub new_results: usize,
    /// The summary after the round.
    pub summary: String,
    /// Its length in characters.
    pub summary_chars: usize,
    /// How much is unseen, after the round.
    pub unseen: Unseen,
    /// Calls of chat models.
    pub model_calls: ModelCalls,
    /// Tokens of chat models.
    pub tokens: u64,
    /// What they cost.
    pub money: f64,
    /// How long it took.
    pub seconds: f64,
}
