//! What a benchmark suite says: the cases, what goes in and what must come out. Field names are the specification's;
//! what a suite may leave out has a default here, so that a short file stays short.
//!
//! This module knows no file, no target and no way to judge an answer (see [`super::matching`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::expected::BenchmarkExpected;

/// A collection of cases for one agent or skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkSuite {
    /// Names the suite in runs, baselines and metrics.
    pub suite_id: String,
    /// What people call it; the id when absent.
    #[serde(default)]
    pub name: String,
    /// What it is for, in a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The agent or skill that is evaluated.
    #[serde(default)]
    pub target: String,
    /// `SemVer` of the suite.
    #[serde(default = "first_version")]
    pub version: String,
    /// The cases; those in the folder `cases/` are added by whoever reads the folder.
    #[serde(default)]
    pub cases: Vec<BenchmarkCase>,
    /// Free notes: domain, tier, source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
    /// How often every case is run unless the command says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// How long a case may take unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whether every case that does not say otherwise always gives the same result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
}

/// One input and what must come of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkCase {
    /// Unique in its suite.
    pub case_id: String,
    /// What it tests.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What the target is given.
    pub input: BenchmarkInput,
    /// What counts as right; never shown to the target.
    pub expected: BenchmarkExpected,
    /// "multi-step", "error-recovery", "edge-case".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How hard it is meant to be.
    #[serde(default)]
    pub difficulty: Difficulty,
    /// Where it comes from.
    #[serde(default)]
    pub source: Source,
    /// Whether the same system always gives the same result: then a single worse result is a regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
    /// How often it is run, if not as often as the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// How long it may take, if not as long as the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Why it is not run at present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// Free notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

/// What a target is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkInput {
    /// The goal or prompt in words.
    pub goal: String,
    /// A conversation that came before, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Value>>,
    /// Context items that are loaded beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<Map<String, Value>>>,
    /// Settings of the target for this case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_overrides: Option<Map<String, Value>>,
    /// Arguments of a skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_args: Option<Map<String, Value>>,
    /// Files that are copied into the working folder, relative to the suite's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// How hard a case is meant to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Difficulty {
    /// Any system that works at all.
    Easy,
    /// The usual.
    #[default]
    Medium,
    /// Few systems.
    Hard,
    /// Made to mislead.
    Adversarial,
}

/// Where a case comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Written by hand or by a model.
    #[default]
    Synthetic,
    /// From real sessions, scrubbed.
    Organic,
    /// From a failure in production.
    Regression,
}

fn first_version() -> String {
    "0.1.0".to_owned()
}

impl BenchmarkSuite {
    /// An empty suite of the first version.
    pub fn new(suite_id: impl Into<String>) -> Self {
        let suite_id = suite_id.into();
        Self {
            name: suite_id.clone(),
            suite_id,
            description: String::new(),
            target: String::new(),
            version: first_version(),
            cases: Vec::new(),
            metadata: BTreeMap::new(),
            repeats: None,
            timeout_ms: None,
            deterministic: None,
        }
    }

    /// Whether a case of this suite always gives the same result.
    pub fn is_deterministic(&self, case: &BenchmarkCase) -> bool {
        case.deterministic.or(self.deterministic).unwrap_or(false)
    }

    /// How often a case is run when nobody says otherwise.
    pub fn repeats_of(&self, case: &BenchmarkCase) -> u32 {
        case.repeats.or(self.repeats).unwrap_or(1).max(1)
    }
}

impl BenchmarkCase {
    /// A case with nothing but the goal and what is expected.
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
