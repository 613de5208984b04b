//! What the harness *is*: every case with what it asks and expects, thresholds, gates, judges and levels, as one value
//! whose hash is the harness version. Whether another one is at least as rigorous is told by [`compare()`].
//!
//! Words that only people read are not part of it. Nothing here reads suites from disk.

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

/// The whole harness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The form of this value: 2 where a case names a directory, whose whole content is hashed; 1 otherwise.
    pub format: u32,
    /// Suite → case → what it is.
    pub suites: BTreeMap<String, BTreeMap<String, CaseEntry>>,
    /// `suite/metric` → what must be reached.
    #[serde(default)]
    pub thresholds: BTreeMap<String, Threshold>,
    /// Regression gates by name.
    #[serde(default)]
    pub gates: BTreeMap<String, GatePolicy>,
    /// Judges by name.
    #[serde(default)]
    pub judges: BTreeMap<String, JudgeEntry>,
    /// Cases that were taken out, with what took their place. Entries stay.
    #[serde(default)]
    pub retired: BTreeMap<String, Retirement>,
    /// The level at which an improvement counts as shown.
    pub alpha: f64,
    /// The least agreement with its predecessor that a new judge needs.
    pub judge_agreement: f64,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseEntry {
    /// The case's content hash: input, files and expectation.
    pub hash: String,
    /// The hash of what the target is given, files included.
    pub input_hash: String,
    /// What counts as right.
    pub expected: BenchmarkExpected,
    /// Where it counts.
    pub tier: Tier,
    /// Whether it is run.
    pub enabled: bool,
    /// How often.
    pub repeats: u32,
    /// Whether one worse result is a regression.
    pub deterministic: bool,
    /// How long it may take; the runner's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Where a case counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// It tells versions apart.
    Capability,
    /// It must pass, always; cases that every version passes graduate to this tier.
    Regression,
}

/// A bound and its good side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// The bound.
    pub value: f64,
    /// Which side is good.
    pub direction: Direction,
}

/// A judge: what it is made of, and how it follows from the first one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeEntry {
    /// The hash of model, prompt and settings.
    pub fingerprint: String,
    /// How many opinions make a score.
    pub votes: u32,
    /// Every replacement so far, oldest first, each with old answers scored again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<Succession>,
}

/// A judge that took another's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Succession {
    /// The old judge's fingerprint.
    pub from: String,
    /// The new one's.
    pub to: String,
    /// The share of old answers on which both agree.
    pub agreement: f64,
    /// How many old answers were scored again.
    pub rescored: u64,
    /// The hash of those scores.
    pub evidence: String,
}

/// A case that was taken out because it was broken. The key in the manifest is its content hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retirement {
    /// Its suite.
    pub suite: String,
    /// Its id.
    pub case_id: String,
    /// The hash of what it asked.
    pub input_hash: String,
    /// What is broken about it.
    pub reason: String,
    /// Who looked at it.
    pub audited_by: String,
    /// The id of the case that takes its place, in the same suite.
    pub replacement: String,
}

/// Why a manifest is none.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ManifestError {
    /// Two suites or cases of one name.
    #[error("`{0}` appears twice; ids must differ")]
    Duplicate(String),
    /// A number out of its range.
    #[error("{place} is {value}, outside {range}")]
    OutOfRange {
        /// Where.
        place: String,
        /// What.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// Another form than this program knows.
    #[error("manifest format {0} is not supported (expected: 1 or 2)")]
    Format(u32),
}

/// How hashes of directories begin; those of files are hexadecimal digits alone.
const TREE: &str = "tree:";

/// The hash of a directory: relative name of each file → whether it may be executed, and the hash of its content.
pub fn tree_hash(entries: &BTreeMap<String, (bool, String)>) -> String {
    format!("{TREE}{}", content_hash(entries))
}

/// Whether a hash is that of a directory.
pub fn is_tree_hash(hash: &str) -> bool {
    hash.starts_with(TREE)
}

impl Manifest {
    /// A manifest of suites, with no thresholds, gates or judges yet. `files` are hashes of file contents by suite and
    /// by the name that the case uses.
    pub fn of_suites(
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
            // The first version hashed every directory as the same word. Without directories both forms are the same.
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

    /// Refuses numbers that cannot be compared.
    pub fn check(&self) -> Result<(), ManifestError> {
        if !matches!(self.format, 1 | 2) {
            return Err(ManifestError::Format(self.format));
        }
        let out = |place: String, value: f64, range| Err(ManifestError::OutOfRange { place, value, range });
        for (place, value) in [("alpha", self.alpha), ("judge_agreement", self.judge_agreement)] {
            if !(value > 0.0 && value <= 1.0) {
                return out(place.to_owned(), value, "(0, 1]");
            }
        }
        for (name, threshold) in &self.thresholds {
            if !threshold.value.is_finite() {
                return out(
                    format!("thresholds.{name}"),
                    threshold.value,
                    "the finite numbers",
                );
            }
        }
        for (name, gate) in &self.gates {
            for (field, value) in compare::gate_fields(gate) {
                if !(value.is_finite() && value >= 0.0) {
                    return out(format!("gates.{name}.{field}"), value, "[0, ∞)");
                }
            }
        }
        for (name, judge) in &self.judges {
            for step in &judge.lineage {
                if !(0.0..=1.0).contains(&step.agreement) {
                    return out(format!("judges.{name}.agreement"), step.agreement, "[0, 1]");
                }
            }
        }
        Ok(())
    }

    /// The canonical text that is hashed.
    pub fn canonical(&self) -> String {
        // Every key is a text, so this always becomes JSON.
        canonical_json(&serde_json::to_value(self).unwrap_or_default())
    }

    /// The harness version: BLAKE3 of the canonical text.
    pub fn version(&self) -> String {
        content_hash(self)
    }

    /// Every case with its suite and id.
    pub fn cases(&self) -> impl Iterator<Item = (&str, &str, &CaseEntry)> {
        self.suites.iter().flat_map(|(suite, cases)| {
            cases
                .iter()
                .map(move |(id, case)| (suite.as_str(), id.as_str(), case))
        })
    }

    /// The cases that `self` has and `old` does not, by content hash: those that an expansion enables one at a time.
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
    /// What a case of a suite is.
    pub fn of(suite: &BenchmarkSuite, case: &BenchmarkCase, files: &BTreeMap<String, String>) -> Self {
        let own: BTreeMap<&str, Option<&String>> = case
            .input
            .files
            .iter()
            .map(|name| (name.as_str(), files.get(name)))
            .collect();
        let says =
            |word: Option<&serde_json::Value>| word.and_then(|word| word.as_str()) == Some("regression");
        let regression = case.source == Source::Regression
            || case.tags.iter().any(|tag| tag == "regression")
            || says(case.metadata.get("tier"))
            || says(suite.metadata.get("tier"));
        Self {
            hash: case_hash(case, files),
            input_hash: content_hash(&(&case.input, own)),
            expected: case.expected.clone(),
            tier: if regression {
                Tier::Regression
            } else {
                Tier::Capability
            },
            enabled: case.skip.is_none() && case.expected.unsupported_because().is_none(),
            repeats: suite.repeats_of(case),
            deterministic: suite.is_deterministic(case),
            timeout_ms: case.timeout_ms.or(suite.timeout_ms),
        }
    }
}
