//! Complete record of one round, as stored and reported.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assess::Novelty;
use super::gate::Verdict;
use super::hit::Hit;
use super::unseen::Unseen;

/// Outcome of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum RoundOutcome {
    /// The search returned results.
    Found,
    /// The search succeeded without results.
    Empty,
    /// The search failed, including all retries.
    Failed {
        /// Error message of the last attempt.
        error: String,
    },
}

/// Number of chat model calls in a round, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCalls {
    /// Calls to plan the query.
    pub plan: u32,
    /// Calls to score novelty.
    pub novelty: u32,
    /// Calls to write the summary.
    pub compress: u32,
    /// Calls to write an answer.
    #[serde(default)]
    pub answer: u32,
    /// Failed calls, which were replaced by rules.
    #[serde(default)]
    pub failed: u32,
}

impl std::ops::AddAssign for ModelCalls {
    fn add_assign(&mut self, other: Self) {
        self.plan += other.plan;
        self.novelty += other.novelty;
        self.compress += other.compress;
        self.answer += other.answer;
        self.failed += other.failed;
    }
}

/// Complete record of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundRecord {
    /// Number of the round, starting at 1.
    pub round: u32,
    /// Query that was searched for.
    pub query: String,
    /// Whether the query was planned from the start rather than derived from a gap.
    pub planned: bool,
    /// Outcome of the search.
    pub outcome: RoundOutcome,
    /// Results that the search returned.
    pub results: Vec<Hit>,
    /// Whether the results came from the cache.
    pub from_cache: bool,
    /// Scores of the novelty assessors.
    pub novelty: Novelty,
    /// Decision of the saturation gate.
    pub verdict: Verdict,
    /// Number of results not seen before, if the round was accepted.
    pub new_results: usize,
    /// Summary of accepted results after the round.
    pub summary: String,
    /// Length of the summary in characters.
    pub summary_chars: usize,
    /// Estimate of the unseen share after the round.
    pub unseen: Unseen,
    /// Number of chat model calls in the round.
    pub model_calls: ModelCalls,
    /// Input and output tokens of chat models.
    pub tokens: u64,
    /// Cost of the round in the currency of the configured prices.
    pub money: f64,
    /// Duration of the round in seconds.
    pub seconds: f64,
}
