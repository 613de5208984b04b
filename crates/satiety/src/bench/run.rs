//! What a run of a suite found: one result for each case, variant and repeat. Field names are the specification's,
//! with who owns an error, the repeat and the figures that statistics need beside them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::summary::BenchmarkSummary;

/// One execution of a suite against a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkRun {
    /// Names the run.
    pub run_id: String,
    /// The suite.
    pub suite_id: String,
    /// What the suite was at that time; runs of different suites are told apart by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_hash: Option<String>,
    /// What was evaluated.
    #[serde(default)]
    pub target: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; absent while it runs or after it was killed.
    #[serde(default)]
    pub completed_at: Option<Timestamp>,
    /// Model, prompt version, weights and their hashes: what it takes to do it again.
    #[serde(default)]
    pub config_snapshot: BTreeMap<String, Value>,
    /// What was found.
    pub results: Vec<BenchmarkResult>,
    /// The figures of the whole.
    #[serde(default)]
    pub summary: Option<BenchmarkSummary>,
}

/// How a case came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As expected.
    Pass,
    /// Answered, and not as expected.
    Fail,
    /// Somebody broke; see who in `error_owner`.
    Error,
    /// No answer in time.
    Timeout,
    /// Not run, or not checkable.
    Skipped,
    /// Answered; a person or a judge has still to decide.
    Pending,
}

/// Who broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorOwner {
    /// The system under test.
    Target,
    /// The judge.
    Judge,
    /// This program or the suite.
    Harness,
    /// Networks, rate limits, machines.
    Infra,
}

/// The result of one execution of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkResult {
    /// The case.
    pub case_id: String,
    /// What the case was at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_hash: Option<String>,
    /// Which configuration, where several are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Which repeat, from 0.
    #[serde(default)]
    pub repeat: u32,
    /// Whether the case always gives the same result by declaration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deterministic: bool,
    /// How it came out.
    pub status: Status,
    /// How right the answer was, between 0 and 1; absent when nothing was scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Why, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// What the target answered.
    #[serde(default)]
    pub actual_output: Option<String>,
    /// How long the last attempt took.
    #[serde(default)]
    pub latency_ms: f64,
    /// Tokens in all.
    #[serde(default)]
    pub token_cost: u64,
    /// Tokens that went in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Tokens that came out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// Dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Further figures that the target reported.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// The judges' mean score.
    #[serde(default)]
    pub llm_judge_score: Option<f64>,
    /// What each judge said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeOpinion>,
    /// What a person said afterwards.
    #[serde(default)]
    pub human_label: Option<String>,
    /// What broke.
    #[serde(default)]
    pub error: Option<String>,
    /// What sort of thing broke: `rate_limit`, `crash`; failures are counted by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// Who broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_owner: Option<ErrorOwner>,
    /// Attempts after the first.
    #[serde(default)]
    pub retries: u32,
    /// How long the answer could have taken; kept where no answer came, so that its time can be bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Whether the answer came from the cache, so that `latency_ms` says nothing about the target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// Whether the case is in the regression tier of its suite: it must always pass.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regression: bool,
    /// Every attempt, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
}

/// One attempt at a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// How long it took.
    pub latency_ms: f64,
    /// What broke; absent for the one that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What sort of thing broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// How long was waited before the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<f64>,
}

/// What one judge said about one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeOpinion {
    /// Which judge.
    pub judge: String,
    /// Between 0 and 1.
    pub score: f64,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl BenchmarkResult {
    /// A result with nothing but how it came out.
    pub fn new(case_id: impl Into<String>, repeat: u32, status: Status) -> Self {
        Self {
            case_id: case_id.into(),
            case_hash: None,
            variant: None,
            repeat,
            deterministic: false,
            status,
            score: None,
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

    /// Whether the target passed: the view of every rate, measure and gate. Errors and timeouts that the target owns count
    /// as not passed, because a target chooses how it fails. Returns `None` where somebody else broke, where the suite's
    /// author skipped the case, and where a judge or a person has still to decide.
    pub fn passed(&self) -> Option<bool> {
        match self.status {
            Status::Pass => Some(true),
            Status::Fail => Some(false),
            Status::Error | Status::Timeout if self.owner() == ErrorOwner::Target => Some(false),
            _ => None,
        }
    }

    /// The score as rates count it: 0 where the target did not pass and nothing was scored.
    pub(crate) fn counted_score(&self) -> Option<f64> {
        self.score
            .or_else(|| (self.passed() == Some(false)).then_some(0.0))
    }

    /// Whether an answer was checked: passed or failed, or not there in time. Unlike [`Self::passed`], an error is no
    /// answer; reports that tell failures from errors use this.
    pub fn decided(&self) -> Option<bool> {
        match self.status {
            Status::Pass => Some(true),
            Status::Fail => Some(false),
            Status::Timeout if self.owner() == ErrorOwner::Target => Some(false),
            _ => None,
        }
    }

    /// Who owns an error; the target where nobody is named.
    pub fn owner(&self) -> ErrorOwner {
        self.error_owner.unwrap_or(ErrorOwner::Target)
    }

    /// A figure by name: one that was measured, or one that the target reported.
    pub fn metric(&self, name: &str) -> Option<f64> {
        match name {
            "latency_ms" => Some(self.latency_ms),
            // What nobody reported is not zero.
            "token_cost" | "tokens" => {
                let told = self.token_cost > 0 || self.tokens_in.is_some() || self.tokens_out.is_some();
                told.then_some(self.token_cost as f64)
            }
            "tokens_in" => self.tokens_in.map(|tokens| tokens as f64),
            "tokens_out" => self.tokens_out.map(|tokens| tokens as f64),
            "cost_usd" | "cost" => self.cost_usd,
            "score" => self.counted_score(),
            "pass" => self.passed().map(|passed| f64::from(u8::from(passed))),
            "llm_judge_score" => self.llm_judge_score,
            other => self.metrics.get(other).copied(),
        }
    }
}
