//! Data model of a benchmark suite: its cases, their inputs and their expectations. Field names follow the
//! specification. Every optional field has a default, so a minimal file stays short.
//!
//! This module does not read files, run targets or assess answers (see [`super::matching`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::expected::BenchmarkExpected;

/// A collection of cases for one agent or skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkSuite {
    /// Id of the suite in runs, baselines and metrics.
    pub suite_id: String,
    /// Display name of the suite; defaults to the id.
    #[serde(default)]
    pub name: String,
    /// Purpose of the suite, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Agent or skill under evaluation.
    #[serde(default)]
    pub target: String,
    /// Semantic version of the suite.
    #[serde(default = "default_version")]
    pub version: String,
    /// Cases of the suite; the directory reader appends those of the `cases/` directory.
    #[serde(default)]
    pub cases: Vec<BenchmarkCase>,
    /// Free-form metadata, such as domain, tier or source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
    /// Default number of repeats per case; a command-line value takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Default timeout per case, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Default for `deterministic` of all cases in the suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
}

/// A benchmark case: one input and its expectation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkCase {
    /// Id of the case, unique within its suite.
    pub case_id: String,
    /// What the case tests, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Input passed to the target.
    pub input: BenchmarkInput,
    /// Expectation for the answer; never shown to the target.
    pub expected: BenchmarkExpected,
    /// Tags such as "multi-step", "error-recovery" or "edge-case".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Intended difficulty of the case.
    #[serde(default)]
    pub difficulty: Difficulty,
    /// Origin of the case: synthetic, organic or regression.
    #[serde(default)]
    pub source: Source,
    /// Whether the same system always gives the same result. If so, a single worse result is a regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
    /// Number of repeats; overrides the suite's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Timeout in milliseconds; overrides the suite's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Reason why the case is skipped; absent when it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// Free-form metadata of the case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

/// Input passed to the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkInput {
    /// Goal or prompt in natural language.
    pub goal: String,
    /// Preceding conversation, oldest message first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Value>>,
    /// Context items loaded before the target starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<Map<String, Value>>>,
    /// Configuration of the target for this case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_overrides: Option<Map<String, Value>>,
    /// Arguments passed to the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_args: Option<Map<String, Value>>,
    /// Files to copy into the working directory; paths are relative to the suite's directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Intended difficulty of a case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Difficulty {
    /// Any working system should pass.
    Easy,
    /// Default for cases of typical difficulty.
    #[default]
    Medium,
    /// Only few systems are expected to pass.
    Hard,
    /// Designed to mislead the system.
    Adversarial,
}

/// Origin of a benchmark case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CaseSource")]
pub enum Source {
    /// Written by hand or by a model.
    #[default]
    Synthetic,
    /// Taken from real sessions, with sensitive data scrubbed.
    Organic,
    /// Derived from a failure in production.
    Regression,
}

fn default_version() -> String {
    "0.1.0".to_owned()
}

impl BenchmarkSuite {
    /// Creates an empty suite with version 0.1.0.
    pub fn new(suite_id: impl Into<String>) -> Self {
        let suite_id = suite_id.into();
        Self {
            name: suite_id.clone(),
            suite_id,
            description: String::new(),
            target: String::new(),
            version: default_version(),
            cases: Vec::new(),
            metadata: BTreeMap::new(),
            repeats: None,
            timeout_ms: None,
            deterministic: None,
        }
    }

    /// Whether a case is deterministic, with the suite's value as default.
    pub fn is_deterministic(&self, case: &BenchmarkCase) -> bool {
        case.deterministic.or(self.deterministic).unwrap_or(false)
    }

    /// Number of repeats of a case: its own, else the suite's, else 1.
    pub fn repeats_of(&self, case: &BenchmarkCase) -> u32 {
        case.repeats.or(self.repeats).unwrap_or(1).max(1)
    }
}

impl BenchmarkCase {
    /// Creates a case with a goal and an expectation; all other fields have their defaults.
    pub fn new(case_id: impl Into<String>, goal: impl Into<String>, expected: BenchmarkExpected) -> Self {
        Self {
            case_id: case_id.into(),
            description: String::new(),
            input: BenchmarkInput {
                goal: goal.into(),
                ..BenchmarkInput::default()
            },
            expected,
            tags: Vec::new(),
            difficulty: Difficulty::default(),
            source: Source::default(),
            deterministic: None,
            repeats: None,
            timeout_ms: None,
            skip: None,
            metadata: BTreeMap::new(),
        }
    }
}
