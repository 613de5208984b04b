//! Manifest of a harness: every case with input and expectation, thresholds, gates, judges and significance
//! levels, as one value whose hash is the harness version. [`compare()`] decides whether another manifest is
//! at least as rigorous.
//!
//! Descriptive texts are not part of it. Nothing here reads suites from disk.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::bench::expected::{BenchmarkExpected, Direction};
use crate::bench::gate::GatePolicy;
use crate::bench::hash::{canonical_json, case_hash, content_hash};
use crate::bench::suite::{BenchmarkCase, BenchmarkSuite, Source};

mod assign;
mod compare;
mod compare_cases;
mod graduation;
#[cfg(test)]
pub(in crate::harness) mod laws;
mod strictness;
#[cfg(test)]
pub(super) mod tests;

pub use compare::{Change, Rigor, RigorDiff, compare};
pub(in crate::harness) use compare::{Changes, changes_between};
pub use graduation::{CaseRecord, Graduation, graduations};
pub(crate) use strictness::implies;
pub use strictness::{Order, order};

/// Content of a harness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Format version: 2 if a case refers to a directory, whose whole content is hashed; 1 otherwise.
    pub format: u32,
    /// Cases by suite and id.
    pub suites: BTreeMap<String, BTreeMap<String, CaseEntry>>,
    /// Required value of a metric, by `suite/metric`.
    #[serde(default)]
    pub thresholds: BTreeMap<String, Threshold>,
    /// Regression gates, by name of the gate.
    #[serde(default)]
    pub gates: BTreeMap<String, GatePolicy>,
    /// Judges, by name of the judge.
    #[serde(default)]
    pub judges: BTreeMap<String, JudgeEntry>,
    /// Retired cases with their replacements, by content hash; entries are never removed.
    #[serde(default)]
    pub retired: BTreeMap<String, Retirement>,
    /// Significance level at which an improvement counts as shown, above 0 and at most 1.
    pub alpha: f64,
    /// Minimum agreement of a new judge with its predecessor, above 0 and at most 1.
    pub judge_agreement: f64,
}

/// Case of a harness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseEntry {
    /// Content hash of the case: input, files and expectation.
    pub hash: String,
    /// Hash of the input of the target, including files.
    pub input_hash: String,
    /// Expectation that an answer must meet.
    pub expected: BenchmarkExpected,
    /// Tier of the case.
    pub tier: Tier,
    /// Whether the case is run.
    pub enabled: bool,
    /// Number of repeats per run.
    pub repeats: u32,
    /// Whether a single worse result is a regression.
    pub deterministic: bool,
    /// Time limit in milliseconds; the default of the runner if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Tier in which a case counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The case discriminates between versions.
    Capability,
    /// The case must always pass; cases that every version passes graduate to this tier.
    Regression,
}

/// Required value of a metric and the direction that is better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// Value that must be reached.
    pub value: f64,
    /// Direction that is better.
    pub direction: Direction,
}

/// Judge: its definition, and its lineage from the first judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeEntry {
    /// Hash of model, prompt and settings.
    pub fingerprint: String,
    /// Number of votes that form a score.
    pub votes: u32,
    /// Replacements so far, oldest first, each with old answers scored again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<Succession>,
}

/// Replacement of a judge by another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Succession {
    /// Fingerprint of the old judge.
    pub from: String,
    /// Fingerprint of the new judge.
    pub to: String,
    /// Share of old answers on which both agree, from 0 to 1.
    pub agreement: f64,
    /// Number of old answers that were scored again.
    pub rescored: u64,
    /// Hash of the scores.
    pub evidence: String,
}

/// Case that was retired because it was broken. The key in the manifest is its content hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retirement {
    /// Id of the suite.
    pub suite: String,
    /// Id of the retired case.
    pub case_id: String,
    /// Hash of the input of the case.
    pub input_hash: String,
    /// What was broken about the case.
    pub reason: String,
    /// Name of the person who audited the case.
    pub audited_by: String,
    /// Id of the replacement in the same suite.
    pub replacement: String,
}

/// Reason why a manifest is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ManifestError {
    /// Two suites or cases have the same id.
    #[error("duplicate id `{0}`")]
    Duplicate(String),
    /// A number is out of range.
    #[error("{place} is {value} (expected {range})")]
    OutOfRange {
        /// Field of the manifest.
        place: String,
        /// Value that was given.
        value: f64,
        /// Permitted range.
        range: &'static str,
    },
    /// The format version is not supported.
    #[error("manifest format {0} is not supported (expected: 1 or 2)")]
    Format(u32),
}

/// Prefix of directory hashes; file hashes consist of hexadecimal digits only.
const TREE: &str = "tree:";

/// Computes the hash of a directory from the relative name of each file, whether it is executable, and the
/// hash of its content.
pub fn tree_hash(entries: &BTreeMap<String, (bool, String)>) -> String {
    format!("{TREE}{}", content_hash(entries))
}

/// Whether a hash is a directory hash.
pub fn is_tree_hash(hash: &str) -> bool {
    hash.starts_with(TREE)
}

impl Manifest {
    /// Builds the manifest of suites, without thresholds, gates or judges. `files` are hashes of file
    /// contents, by suite and by the file name used in cases.
    pub fn from_suites(
        suites: &[BenchmarkSuite],
        files: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> Result<Self, ManifestError> {
        let none = BTreeMap::new();
        let mut all = BTreeMap::new();
        for suite in suites {
            let files = files.get(&suite.suite_id).unwrap_or(&none);
            let mut cases = BTreeMap::new();
            for case in &suite.cases {
                let entry = CaseEntry::of(suite, case, files);
                if cases.insert(case.case_id.clone(), entry).is_some() {
                    return Err(ManifestError::Duplicate(format!(
                        "{}/{}",
                        suite.suite_id, case.case_id
                    )));
                }
            }
            if all.insert(suite.suite_id.clone(), cases).is_some() {
                return Err(ManifestError::Duplicate(suite.suite_id.clone()));
            }
        }
        let has_trees = files
            .values()
            .flat_map(BTreeMap::values)
            .any(|hash| is_tree_hash(hash));
        Ok(Self {
            // Format 1 hashed every directory to the same value. Without directories both formats are the
            // same.
            format: if has_trees { 2 } else { 1 },
            suites: all,
            thresholds: BTreeMap::new(),
            gates: BTreeMap::new(),
            judges: BTreeMap::new(),
            retired: BTreeMap::new(),
            alpha: 0.05,
            judge_agreement: 0.9,
        })
    }

    /// Checks that the format is supported and all numbers are in range.
    pub fn check(&self) -> Result<(), ManifestError> {
        if !matches!(self.format, 1 | 2) {
            return Err(ManifestError::Format(self.format));
        }
        let out_of_range =
            |place: String, value: f64, range| Err(ManifestError::OutOfRange { place, value, range });
        for (place, value) in [("alpha", self.alpha), ("judge_agreement", self.judge_agreement)] {
            if !(value > 0.0 && value <= 1.0) {
                return out_of_range(place.to_owned(), value, "(0, 1]");
            }
        }
        for (name, threshold) in &self.thresholds {
            if !threshold.value.is_finite() {
                return out_of_range(format!("thresholds.{name}"), threshold.value, "a finite number");
            }
        }
        for (name, gate) in &self.gates {
            for (field, value) in compare::gate_fields(gate) {
                if !(value.is_finite() && value >= 0.0) {
                    return out_of_range(format!("gates.{name}.{field}"), value, "[0, ∞)");
                }
            }
        }
        for (name, judge) in &self.judges {
            for step in &judge.lineage {
                if !(0.0..=1.0).contains(&step.agreement) {
                    return out_of_range(format!("judges.{name}.agreement"), step.agreement, "[0, 1]");
                }
            }
        }
        Ok(())
    }

    /// Returns the canonical JSON that is hashed.
    pub fn canonical(&self) -> String {
        // All keys are strings, so serialization cannot fail.
        canonical_json(&serde_json::to_value(self).unwrap_or_default())
    }

    /// Returns the harness version: the BLAKE3 hash of the canonical JSON.
    pub fn version(&self) -> String {
        content_hash(self)
    }

    /// Returns every case with its suite and id.
    pub fn cases(&self) -> impl Iterator<Item = (&str, &str, &CaseEntry)> {
        self.suites.iter().flat_map(|(suite, cases)| {
            cases
                .iter()
                .map(move |(id, case)| (suite.as_str(), id.as_str(), case))
        })
    }

    /// Returns the enabled cases that `old` does not have, by content hash: an expansion enables them one at
    /// a time.
    pub fn new_cases(&self, old: &Self) -> Vec<(String, String)> {
        let known: BTreeSet<&str> = old
            .cases()
            .filter(|(_, _, case)| case.enabled)
            .map(|(_, _, case)| case.hash.as_str())
            .collect();
        self.cases()
            .filter(|(_, _, case)| case.enabled && !known.contains(case.hash.as_str()))
            .map(|(suite, id, _)| (suite.to_owned(), id.to_owned()))
            .collect()
    }
}

impl CaseEntry {
    /// Creates the entry of a case of a suite.
    pub fn of(suite: &BenchmarkSuite, case: &BenchmarkCase, files: &BTreeMap<String, String>) -> Self {
        let own: BTreeMap<&str, Option<&String>> = case
            .input
            .files
            .iter()
            .map(|name| (name.as_str(), files.get(name)))
            .collect();
        let is_regression_tier =
            |word: Option<&serde_json::Value>| word.and_then(|word| word.as_str()) == Some("regression");
        let regression = case.source == Source::Regression
            || case.tags.iter().any(|tag| tag == "regression")
            || is_regression_tier(case.metadata.get("tier"))
            || is_regression_tier(suite.metadata.get("tier"));
        Self {
            hash: case_hash(case, files),
            input_hash: content_hash(&(&case.input, own)),
            expected: case.expected.clone(),
            tier: if regression {
                Tier::Regression
            } else {
                Tier::Capability
            },
            enabled: case.skip.is_none() && case.expected.unsupported_reason().is_none(),
            repeats: suite.repeats_of(case),
            deterministic: suite.is_deterministic(case),
            timeout_ms: case.timeout_ms.or(suite.timeout_ms),
        }
    }
}
