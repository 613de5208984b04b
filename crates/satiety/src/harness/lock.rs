//! The lock file: everything that affects results, as one value. `harness.lock` in a repository is this value
//! with its hash.
//!
//! The [`Manifest`] defines the harness version: cases, thresholds, gates and judges. A [`Lock`] adds
//! everything else that affects a measurement: target descriptions, baselines, trusted keys, the sandbox
//! policy, the prompt of the judge and the signed transitions so far. [`compare_locks`] extends the ratchet
//! to all of it.
//!
//! Reading files is the task of the engine.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::approval::KeyRing;
use super::manifest::{Manifest, ManifestError, Rigor, RigorDiff, changes_between};
use crate::bench::hash::content_hash;
use crate::bench::run::BenchmarkRun;
use crate::bench::sandbox::SandboxRequirement;
use crate::bench::summary::leading;

/// Format version of the lock files that this program writes.
const FORMAT: u32 = 1;
/// Tolerance for mean scores, which depend on the order of summation.
const SCORE_TOLERANCE: f64 = 1e-9;

/// Everything that affects the results of a harness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// Format version of the lock: 1.
    pub format: u32,
    /// Identity of the harness, created with its first lock and never changed; absent without a lock file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Cases, thresholds, gates and judges of the harness.
    pub manifest: Manifest,
    /// Hash of the target description of each suite; absent for suites without one.
    #[serde(default)]
    pub targets: BTreeMap<String, String>,
    /// Accepted run of each suite; absent for suites without one.
    #[serde(default)]
    pub baselines: BTreeMap<String, BaselineEntry>,
    /// Keys whose signatures are trusted.
    #[serde(default)]
    pub keys: KeyRing,
    /// Whether targets must be sandboxed; their permissions are part of their descriptions.
    #[serde(default)]
    pub sandbox: SandboxRequirement,
    /// Hash of the prompt of the judges; absent if no case needs a judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_prompt: Option<String>,
    /// Ids of the signed transitions that were used; ids are never removed, so that none is used twice.
    #[serde(default)]
    pub transitions: BTreeSet<String>,
}

/// Accepted run, reduced to the data that a gate uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BaselineEntry {
    /// Id of the accepted run.
    pub run_id: String,
    /// Number of passes of each case.
    pub cases: BTreeMap<String, BaselineCase>,
    /// Mean score over all scored results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_score: Option<f64>,
}

/// Case of an accepted run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BaselineCase {
    /// Content hash of the case when it was run; a gate ignores cases whose hash has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Number of results that passed.
    pub passed: u32,
    /// Number of results of the case.
    pub total: u32,
    /// Whether a single worse result is a regression.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deterministic: bool,
}

/// Reason why a lock file is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum LockError {
    /// The text is not JSON of the expected structure.
    #[error("{0}")]
    Syntax(String),
    /// The format version is not supported.
    #[error("format {0} is not supported (expected: {FORMAT})")]
    Format(u32),
    /// The content does not match the hash in the file.
    #[error("the content does not match its hash; the file was edited or merged by hand")]
    Hash,
    /// The manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// File content: the lock and its hash.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFile {
    #[serde(rename = "//")]
    note: String,
    hash: String,
    lock: Lock,
}

impl Lock {
    /// Creates a lock that contains only a manifest.
    pub fn from_manifest(manifest: Manifest) -> Self {
        Self {
            format: FORMAT,
            id: None,
            manifest,
            targets: BTreeMap::new(),
            baselines: BTreeMap::new(),
            keys: KeyRing::default(),
            sandbox: SandboxRequirement::default(),
            judge_prompt: None,
            transitions: BTreeSet::new(),
        }
    }

    /// Returns the BLAKE3 hash of the canonical JSON; transitions refer to it.
    pub fn hash(&self) -> String {
        content_hash(self)
    }

    /// Returns the content of the lock file; equal locks give equal bytes.
    pub fn render(&self) -> String {
        let file = LockFile {
            note: "Written by `satiety harness lock`; do not edit. `satiety harness check` compares it with the base.".into(),
            hash: self.hash(),
            lock: self.clone(),
        };
        // All keys are strings, so serialization cannot fail.
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Parses a lock file and verifies its hash.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let file: LockFile = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| LockError::Syntax(format!("{}: {}", error.path(), error.inner())))?;
        reader
            .end()
            .map_err(|error| LockError::Syntax(error.to_string()))?;
        if file.lock.format != FORMAT {
            return Err(LockError::Format(file.lock.format));
        }
        file.lock.manifest.check()?;
        if file.lock.hash() != file.hash {
            return Err(LockError::Hash);
        }
        Ok(file.lock)
    }
}

impl BaselineEntry {
    /// Extracts the data that a gate uses from an accepted run: the results of its leading variant.
    pub fn of(run: &BenchmarkRun) -> Self {
        let results = leading(&run.results);
        let mut cases: BTreeMap<String, BaselineCase> = BTreeMap::new();
        let (mut sum, mut scored) = (0.0, 0_u32);
        for result in results {
            let case = cases
                .entry(result.case_id.clone())
                .or_insert_with(|| BaselineCase {
                    hash: result.case_hash.clone(),
                    passed: 0,
                    total: 0,
                    deterministic: true,
                });
            case.total += 1;
            case.passed += u32::from(result.decided() == Some(true));
            case.deterministic &= result.deterministic;
            // Results of one case with different hashes have no common hash.
            if case.hash != result.case_hash {
                case.hash = None;
            }
            if let Some(score) = result.score {
                sum += score;
                scored += 1;
            }
        }
        Self {
            run_id: run.run_id.clone(),
            cases,
            mean_score: (scored > 0).then(|| sum / f64::from(scored)),
        }
    }
}

/// Compares two locks: the ratchet on cases and rules ([`super::compare`]), and on everything else that
/// affects results.
pub fn compare_locks(old: &Lock, new: &Lock) -> Result<RigorDiff, ManifestError> {
    let mut changes = changes_between(&old.manifest, &new.manifest)?;
    match (&old.id, &new.id) {
        (Some(before), now) if now.as_ref() != Some(before) => {
            changes.add("id", Rigor::Incomparable, "identity of the harness changed");
        }
        (None, Some(_)) => changes.add("id", Rigor::Neutral, "first lock of the harness"),
        _ => {}
    }
    for (suite, before) in &old.targets {
        let place = format!("targets.{suite}");
        match new.targets.get(suite) {
            None if !new.manifest.suites.contains_key(suite) => {}
            None => changes.add(place, Rigor::Incomparable, "target description removed"),
            Some(now) if now != before => {
                changes.add(place, Rigor::Incomparable, "target description changed");
            }
            Some(_) => {}
        }
    }
    for suite in new
        .targets
        .keys()
        .filter(|suite| !old.targets.contains_key(*suite))
    {
        let place = format!("targets.{suite}");
        if old.manifest.suites.contains_key(suite) {
            changes.add(
                place,
                Rigor::Incomparable,
                "target description added to an existing suite",
            );
        } else {
            changes.add(place, Rigor::Neutral, "target description of a new suite");
        }
    }
    compare_baselines(old, new, &mut changes);
    compare_keys(&old.keys, &new.keys, &mut changes);
    if old.sandbox != new.sandbox {
        let rigor = if new.sandbox > old.sandbox {
            Rigor::Harder
        } else {
            Rigor::Weaker
        };
        let reason = format!("changed from {} to {}", old.sandbox, new.sandbox);
        changes.add("sandbox", rigor, reason);
    }
    match (&old.judge_prompt, &new.judge_prompt) {
        (Some(before), Some(now)) if before != now => {
            changes.add(
                "judge_prompt",
                Rigor::Incomparable,
                "prompt of the judges changed",
            );
        }
        _ => {}
    }
    for id in old.transitions.difference(&new.transitions) {
        changes.add(
            format!("transitions.{id}"),
            Rigor::Weaker,
            "record of a signed transition removed",
        );
    }
    for id in new.transitions.difference(&old.transitions) {
        changes.add(
            format!("transitions.{id}"),
            Rigor::Neutral,
            "signed transition recorded",
        );
    }
    Ok(changes.into_diff(old.manifest.version(), new.manifest.version()))
}

fn compare_baselines(old: &Lock, new: &Lock, changes: &mut super::manifest::Changes) {
    for (suite, before) in &old.baselines {
        let place = format!("baselines.{suite}");
        let Some(now) = new.baselines.get(suite) else {
            changes.add(place, Rigor::Weaker, "baseline removed");
            continue;
        };
        for (id, case) in &before.cases {
            let place = format!("{place}.{id}");
            let current = new.manifest.suites.get(suite).and_then(|cases| cases.get(id));
            let Some(then) = now.cases.get(id) else {
                if current.is_some_and(|current| current.enabled) {
                    changes.add(place, Rigor::Weaker, "case removed from the baseline");
                }
                continue;
            };
            // The gate ignores a case whose hash is neither the old one nor that of the current case.
            let follows = then.hash == case.hash
                || current.is_some_and(|current| then.hash.as_ref() == Some(&current.hash));
            if !follows {
                changes.add(
                    &place,
                    Rigor::Weaker,
                    "content hash of the case in the baseline does not match",
                );
            }
            if case.deterministic && !then.deterministic {
                changes.add(&place, Rigor::Weaker, "no longer deterministic in the baseline");
            }
            // Compare as fractions, without division.
            let falls = u64::from(then.passed) * u64::from(case.total)
                < u64::from(case.passed) * u64::from(then.total);
            if then.passed < case.passed || falls {
                changes.add(
                    place,
                    Rigor::Weaker,
                    format!(
                        "passes lowered from {} of {} to {} of {}",
                        case.passed, case.total, then.passed, then.total
                    ),
                );
            } else if then.passed > case.passed {
                changes.add(
                    place,
                    Rigor::Harder,
                    format!("passes raised from {} to {}", case.passed, then.passed),
                );
            }
        }
        match (before.mean_score, now.mean_score) {
            (Some(was), Some(is)) if is + SCORE_TOLERANCE < was || is.is_nan() => {
                changes.add(
                    format!("{place}.mean_score"),
                    Rigor::Weaker,
                    format!("lowered from {was} to {is}"),
                );
            }
            (Some(_), None) => changes.add(
                format!("{place}.mean_score"),
                Rigor::Weaker,
                "scores removed from the baseline",
            ),
            _ => {}
        }
    }
    for suite in new
        .baselines
        .keys()
        .filter(|suite| !old.baselines.contains_key(*suite))
    {
        changes.add(format!("baselines.{suite}"), Rigor::Harder, "new baseline");
    }
}

/// Compares trusted keys. Keys have no order, so every change needs a signature by a previously trusted key.
fn compare_keys(old: &KeyRing, new: &KeyRing, changes: &mut super::manifest::Changes) {
    let approvers = |ring: &KeyRing| -> BTreeSet<(String, String)> {
        let keys = ring.approvers.iter();
        keys.map(|key| (key.name.clone(), key.public_key.to_lowercase()))
            .collect()
    };
    let agents = |ring: &KeyRing| -> BTreeSet<String> {
        ring.agent_keys.iter().map(|key| key.to_lowercase()).collect()
    };
    let (before, now) = (approvers(old), approvers(new));
    for (name, key) in now.difference(&before) {
        let reason = if before.is_empty() {
            format!("first approver key: {name} {key}")
        } else {
            format!("approver key added or changed: {name} {key}")
        };
        changes.add_for_approval(format!("keys.approvers.{name}"), reason);
    }
    for (name, key) in before.difference(&now) {
        let place = format!("keys.approvers.{name}");
        changes.add_for_approval(place, format!("approver key removed or changed: {name} {key}"));
    }
    for key in agents(old).difference(&agents(new)) {
        changes.add(
            "keys.agent_keys",
            Rigor::Weaker,
            format!("{key} is no longer marked as an agent key"),
        );
    }
    for key in agents(new).difference(&agents(old)) {
        changes.add(
            "keys.agent_keys",
            Rigor::Harder,
            format!("{key} is marked as an agent key"),
        );
    }
}

#[cfg(test)]
pub(super) mod tests;
