//! Response of a memory search.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::{
    Channel, ChannelRank, Classified, ModeChoice, Project, SearchOutcome, StageTrace, Validity, Weights,
};
use crate::retrieval::Tier;

/// Result of a memory search.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemorySearch {
    /// Id of the query in the query log.
    pub query_id: String,
    /// Query text in natural language.
    pub query: String,
    /// Detected intent of the query.
    #[serde(flatten)]
    pub intent: Classified,
    /// Search mode that was used.
    #[serde(flatten)]
    pub mode: ModeChoice,
    /// Whether anything relevant was found.
    pub outcome: SearchOutcome,
    /// Results of the search, best first. If nothing relevant was found, only constitutional memories.
    pub results: Vec<MemoryResult>,
    /// What was found but does not reach the relevance floor, if nothing does; best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below_floor: Vec<WeakResult>,
    /// Results that the session has already received; not returned again.
    pub already_shown: Vec<ExcludedResult>,
    /// Results that exceed the token budget.
    pub over_budget: Vec<ExcludedResult>,
    /// Total number of tokens of the results.
    pub tokens: usize,
    /// Reason why a channel was unavailable; absent otherwise.
    pub degraded: Option<String>,
    /// Timings and statistics of the search.
    pub telemetry: SearchTelemetry,
}

/// One result of a memory search.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemoryResult {
    /// Rank of the result, from 1.
    pub rank: usize,
    /// Id of the memory.
    pub id: String,
    /// Title of the memory.
    pub title: String,
    /// Best matching chunk of the memory.
    pub excerpt: String,
    /// Whether the memory has more text than the excerpt.
    pub partial: bool,
    /// Importance tier of the memory.
    pub tier: Tier,
    /// Folder of the memory.
    pub folder: String,
    /// Kind of the memory, such as `decision`, `bug` or `note`.
    pub kind: String,
    /// Project of the memory; null for a global memory that every project sees.
    pub project: Option<Project>,
    /// Relevance score after ranking.
    pub score: f64,
    /// Calibrated probability from 0 to 1 that the result is relevant.
    pub confidence: f64,
    /// Whether the confidence reaches the relevance floor.
    pub relevant: bool,
    /// Whether it is included only because it is constitutional.
    pub constitutional_only: bool,
    /// Rank and score in each channel that found it.
    pub channels: BTreeMap<Channel, ChannelRank>,
    /// Number of tokens of the excerpt.
    pub tokens: usize,
    /// Id of the current memory that replaced this one; absent if it was not replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// Ids of visible memories that contradict this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contradicts: Vec<String>,
    /// Whether it held earlier or will hold later; absent if it holds at the time of the search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validity: Option<Validity>,
}

/// A result below the relevance floor.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WeakResult {
    /// Id of the memory.
    pub id: String,
    /// Title of the memory.
    pub title: String,
    /// Calibrated probability from 0 to 1 that it is relevant.
    pub confidence: f64,
}

/// A result that was excluded from the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Held")]
pub struct ExcludedResult {
    /// Id of the memory.
    pub id: String,
    /// Title of the memory.
    pub title: String,
    /// Number of tokens of the result.
    pub tokens: usize,
}

/// Telemetry of a search, with the field names of the specification.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SearchTelemetry {
    /// Unique id of this trace.
    pub trace_id: String,
    /// Trace of each stage, in order.
    pub stages: Vec<StageTrace>,
    /// Total duration in milliseconds.
    pub total_latency_ms: f64,
    /// Duration of embedding the query, in milliseconds.
    pub embedding_latency_ms: f64,
    /// Weight of each channel in the fusion.
    pub weights: Weights,
    /// Number of results returned.
    pub result_count: usize,
    /// Mean score of the results.
    pub avg_relevance_score: f64,
    /// Score of the best result.
    pub top_result_score: f64,
    /// Change of the mean score by session attention.
    pub boost_impact_delta: f64,
    /// Health score from 0 to 1 as defined by the specification.
    pub quality_proxy_score: f64,
    /// Id of the earlier query that this one repeats, if any.
    pub re_search_of: Option<String>,
}
