//! Results of a suite run: one per case, variant and repeat. Field names follow the specification, extended
//! by error owner, repeat, and the metrics that the statistics require.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expected::Direction;
use super::judge::CriterionAnswer;
use super::summary::BenchmarkSummary;

/// One execution of a suite against a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkRun {
    /// Id of the benchmark run.
    pub run_id: String,
    /// Id of the suite that was run.
    pub suite_id: String,
    /// Content hash of the suite at the time of the run; distinguishes runs of different suite versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_hash: Option<String>,
    /// Agent or skill under evaluation.
    #[serde(default)]
    pub target: String,
    /// Time when the run started.
    pub started_at: Timestamp,
    /// Time when the run ended; absent while it is running or after it was killed.
    #[serde(default)]
    pub completed_at: Option<Timestamp>,
    /// Model, prompt version, weights and their hashes, as required to reproduce the run.
    #[serde(default)]
    pub config_snapshot: BTreeMap<String, Value>,
    /// Results of all cases, variants and repeats.
    pub results: Vec<BenchmarkResult>,
    /// Summary statistics of the run.
    #[serde(default)]
    pub summary: Option<BenchmarkSummary>,
}

/// Outcome of one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The answer meets the expectation.
    Pass,
    /// The answer does not meet the expectation.
    Fail,
    /// A component failed; `error_owner` says which.
    Error,
    /// The target did not answer within the timeout.
    Timeout,
    /// The case was not run or cannot be checked.
    Skipped,
    /// The answer awaits a person or a judge.
    Pending,
}

/// Component that caused an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorOwner {
    /// The system under test.
    Target,
    /// The model that judges answers.
    Judge,
    /// The benchmark harness or the suite.
    Harness,
    /// Infrastructure: networks, rate limits, machines.
    Infra,
}

/// Result of one execution of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkResult {
    /// Id of the benchmark case.
    pub case_id: String,
    /// Content hash of the case at the time of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_hash: Option<String>,
    /// Variant of the target, when several are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Number of the repeat, from 0.
    #[serde(default)]
    pub repeat: u32,
    /// Whether the case is declared deterministic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deterministic: bool,
    /// Outcome of the execution.
    pub status: Status,
    /// Score of the answer between 0 and 1; absent when it was not scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Every scorer, metric and criterion of the answer by name, in the order of its source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<NamedScore>,
    /// Human-readable reasons for the status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Answer of the target as text.
    #[serde(default)]
    pub actual_output: Option<String>,
    /// Latency of the last attempt in milliseconds.
    #[serde(default)]
    pub latency_ms: f64,
    /// Total tokens, input and output.
    #[serde(default)]
    pub token_cost: u64,
    /// Number of input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Number of output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// Cost in US dollars, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Additional metrics reported by the target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Mean score of the judges, between 0 and 1.
    #[serde(default)]
    pub llm_judge_score: Option<f64>,
    /// Opinion of each judge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeOpinion>,
    /// Label that a person assigned afterwards.
    #[serde(default)]
    pub human_label: Option<String>,
    /// Error message; absent without an error.
    #[serde(default)]
    pub error: Option<String>,
    /// Error category, such as `rate_limit` or `crash`; failures are counted by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// Component that caused the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_owner: Option<ErrorOwner>,
    /// Number of attempts after the first.
    #[serde(default)]
    pub retries: u32,
    /// Timeout in milliseconds, recorded when no answer came, so that the latency can be bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Whether the answer came from the cache, in which case `latency_ms` says nothing about the target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// Whether the case is in the regression tier of its suite and must always pass.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regression: bool,
    /// Record of every attempt, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
}

/// Value of one scorer, metric or criterion for one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedScore {
    /// Name of the scorer or metric, or text of the criterion.
    pub name: String,
    /// Value on the scorer's own scale; absent when it returned no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Whether this score alone passes; absent when it has no threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// Smallest and largest possible value, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Whether higher or lower values are better, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Whether the status of the result depends on this score.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decides: bool,
    /// Weight of the score among those of its answer; absent for the usual weight of 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Original value if it was a text, such as a letter grade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Explanation or evidence that the scorer gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl NamedScore {
    /// Creates a score that does not decide.
    pub fn new(name: impl Into<String>, value: Option<f64>) -> Self {
        Self {
            name: name.into(),
            value,
            passed: None,
            range: None,
            direction: None,
            decides: false,
            weight: None,
            label: None,
            reason: None,
        }
    }
}

/// Record of one attempt at a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Latency of the attempt in milliseconds.
    pub latency_ms: f64,
    /// Error message; absent for the attempt that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Error category, such as `rate_limit` or `crash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// Delay in milliseconds before the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<f64>,
}

/// Opinion of one judge about one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeOpinion {
    /// Name of the judge.
    pub judge: String,
    /// Score between 0 and 1.
    pub score: f64,
    /// Reason that the judge gave.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Answer per criterion, in the order of the rubric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionAnswer>,
}

impl BenchmarkResult {
    /// Creates a result that has only a status.
    pub fn new(case_id: impl Into<String>, repeat: u32, status: Status) -> Self {
        Self {
            case_id: case_id.into(),
            case_hash: None,
            variant: None,
            repeat,
            deterministic: false,
            status,
            score: None,
            scores: Vec::new(),
            reasons: Vec::new(),
            actual_output: None,
            latency_ms: 0.0,
            token_cost: 0,
            tokens_in: None,
            tokens_out: None,
            cost_usd: None,
            metrics: BTreeMap::new(),
            llm_judge_score: None,
            judges: Vec::new(),
            human_label: None,
            error: None,
            error_kind: None,
            error_owner: None,
            retries: 0,
            deadline_ms: None,
            cached: false,
            regression: false,
            attempts: Vec::new(),
        }
    }

    /// Whether the target passed, as used by all rates, metrics and gates. Errors and timeouts owned by the
    /// target count as not passed, because a target could otherwise choose how to fail. Returns `None` when
    /// another component failed, the suite skips the case, or a judge or a person has yet to decide.
    pub fn passed(&self) -> Option<bool> {
        match self.status {
            Status::Pass => Some(true),
            Status::Fail => Some(false),
            Status::Error | Status::Timeout if self.owner() == ErrorOwner::Target => Some(false),
            _ => None,
        }
    }

    /// The score as used by rates: 0 when the target did not pass and no score exists.
    pub(crate) fn counted_score(&self) -> Option<f64> {
        self.score
            .or_else(|| (self.passed() == Some(false)).then_some(0.0))
    }

    /// Whether a checked answer passed; a timeout of the target counts as failed. Unlike in [`Self::passed`],
    /// an error yields `None`; reports that distinguish failures from errors use this.
    pub fn decided(&self) -> Option<bool> {
        match self.status {
            Status::Pass => Some(true),
            Status::Fail => Some(false),
            Status::Timeout if self.owner() == ErrorOwner::Target => Some(false),
            _ => None,
        }
    }

    /// Owner of an error; the target by default.
    pub fn owner(&self) -> ErrorOwner {
        self.error_owner.unwrap_or(ErrorOwner::Target)
    }

    /// Returns a metric by name, measured or reported by the target.
    pub fn metric(&self, name: &str) -> Option<f64> {
        match name {
            "latency_ms" => Some(self.latency_ms),
            // An unreported value is not zero.
            "token_cost" | "tokens" => {
                let reported = self.token_cost > 0 || self.tokens_in.is_some() || self.tokens_out.is_some();
                reported.then_some(self.token_cost as f64)
            }
            "tokens_in" => self.tokens_in.map(|tokens| tokens as f64),
            "tokens_out" => self.tokens_out.map(|tokens| tokens as f64),
            "cost_usd" | "cost" => self.cost_usd,
            "score" => self.counted_score(),
            "pass" => self.passed().map(|passed| f64::from(u8::from(passed))),
            "llm_judge_score" => self.llm_judge_score,
            other => self.metrics.get(other).copied().or_else(|| {
                let named = self.scores.iter().find(|score| score.name == other);
                named.and_then(|score| score.value)
            }),
        }
    }
}
