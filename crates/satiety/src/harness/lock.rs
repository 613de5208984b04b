//! The lock file: every byte that decides, as one value. `harness.lock` in a repository is this value with its hash.
//!
//! The [`Manifest`] is the harness version that cycles are counted by: cases, thresholds, gates and judges. A [`Lock`] holds
//! the manifest together with what else moves a measure: target descriptions, baselines, trusted keys, the sandbox policy,
//! the judge's prompt and the signed transitions so far. [`compare_locks`] extends the ratchet to all of it.
//!
//! Reading trees and files is the engine's work.

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

/// The form of lock files that this program writes.
const FORMAT: u32 = 1;
/// Mean scores differ by rounding when they are summed in another order.
const SCORE_TOLERANCE: f64 = 1e-9;

/// Everything that decides what a harness measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The form of this value: 1.
    pub format: u32,
    /// The identity of the harness, made when it is first locked and never changed; absent in a tree without a lock file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Cases, thresholds, gates and judges.
    pub manifest: Manifest,
    /// Suite → hash of the target description beside it; suites without one are absent.
    #[serde(default)]
    pub targets: BTreeMap<String, String>,
    /// Suite → the accepted run beside it; suites without one are absent.
    #[serde(default)]
    pub baselines: BTreeMap<String, BaselineEntry>,
    /// Whose signatures count.
    #[serde(default)]
    pub keys: KeyRing,
    /// Whether targets must be sandboxed; what each one may do is part of its description.
    #[serde(default)]
    pub sandbox: SandboxRequirement,
    /// Hash of the prompt that judges are asked with; absent where no case needs a judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_prompt: Option<String>,
    /// Ids of the signed transitions that were used. Ids stay, so that none is used twice.
    #[serde(default)]
    pub transitions: BTreeSet<String>,
}

/// An accepted run, as far as it decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BaselineEntry {
    /// The id of the accepted run.
    pub run_id: String,
    /// Case → how often it passed.
    pub cases: BTreeMap<String, BaselineCase>,
    /// The mean score over all scored results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_score: Option<f64>,
}

/// One case of an accepted run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BaselineCase {
    /// The content hash of the case when it was run. A gate leaves out cases whose hash has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Results that passed.
    pub passed: u32,
    /// All results of the case.
    pub total: u32,
    /// Whether one worse result is a regression.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deterministic: bool,
}

/// Why a text is not a lock file.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum LockError {
    /// Not JSON of this shape.
    #[error("{0}")]
    Syntax(String),
    /// A form that this program does not know.
    #[error("format {0} is not supported (expected: {FORMAT})")]
    Format(u32),
    /// The content does not have the hash that the file states.
    #[error("the content does not match its hash: the file was edited or merged by hand")]
    Hash,
    /// A manifest that cannot be compared.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// A lock file: the lock and its hash.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFile {
    #[serde(rename = "//")]
    note: String,
    hash: String,
    lock: Lock,
}

impl Lock {
    /// The lock of a manifest alone.
    pub fn of_manifest(manifest: Manifest) -> Self {
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

    /// BLAKE3 of the canonical text: what transitions lead from and to.
    pub fn hash(&self) -> String {
        content_hash(self)
    }

    /// The text of a lock file, the same bytes for the same lock.
    pub fn render(&self) -> String {
        let file = LockFile {
            note: "Written by `satiety harness lock`; do not edit. `satiety harness check` compares it with the base.".into(),
            hash: self.hash(),
            lock: self.clone(),
        };
        // Every key is a text, so this always becomes JSON.
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads a lock file and checks its hash.
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
    /// What a gate takes from an accepted run: the results of the variant that the run is about.
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
            // Results of one case that state different contents belong to no content.
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

/// Compares two locks: the ratchet on cases and rules ([`super::compare`]), and on everything else that decides.
pub fn compare_locks(old: &Lock, new: &Lock) -> Result<RigorDiff, ManifestError> {
    let mut changes = changes_between(&old.manifest, &new.manifest)?;
    match (&old.id, &new.id) {
        (Some(before), now) if now.as_ref() != Some(before) => {
            changes.add(
                "id",
                Rigor::Incomparable,
                "the identity of the harness has changed",
            );
        }
        (None, Some(_)) => changes.add("id", Rigor::Neutral, "the harness is locked now"),
        _ => {}
    }
    for (suite, before) in &old.targets {
        let place = format!("targets.{suite}");
        match new.targets.get(suite) {
            None if !new.manifest.suites.contains_key(suite) => {}
            None => changes.add(place, Rigor::Incomparable, "the target description is gone"),
            Some(now) if now != before => {
                changes.add(place, Rigor::Incomparable, "the target description has changed");
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
                "a target description for a suite that had none",
            );
        } else {
            changes.add(place, Rigor::Neutral, "the target of a new suite");
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
                "judges are asked with another prompt",
            );
        }
        _ => {}
    }
    for id in old.transitions.difference(&new.transitions) {
        changes.add(
            format!("transitions.{id}"),
            Rigor::Weaker,
            "the record of a signed transition is gone",
        );
    }
    for id in new.transitions.difference(&old.transitions) {
        changes.add(
            format!("transitions.{id}"),
            Rigor::Neutral,
            "a signed transition is recorded",
        );
    }
    Ok(changes.into_diff(old.manifest.version(), new.manifest.version()))
}

fn compare_baselines(old: &Lock, new: &Lock, changes: &mut super::manifest::Changes) {
    for (suite, before) in &old.baselines {
        let place = format!("baselines.{suite}");
        let Some(now) = new.baselines.get(suite) else {
            changes.add(place, Rigor::Weaker, "the baseline is gone");
            continue;
        };
        for (id, case) in &before.cases {
            let place = format!("{place}.{id}");
            let current = new.manifest.suites.get(suite).and_then(|cases| cases.get(id));
            let Some(then) = now.cases.get(id) else {
                if current.is_some_and(|current| current.enabled) {
                    changes.add(place, Rigor::Weaker, "the case is gone from the baseline");
                }
                continue;
            };
            // A hash that is neither the old one nor that of the case makes the gate leave the case out.
            let follows = then.hash == case.hash
                || current.is_some_and(|current| then.hash.as_ref() == Some(&current.hash));
            if !follows {
                changes.add(
                    &place,
                    Rigor::Weaker,
                    "the baseline states another content of the case",
                );
            }
            if case.deterministic && !then.deterministic {
                changes.add(&place, Rigor::Weaker, "no longer deterministic in the baseline");
            }
            // Compared as fractions, without division.
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
                "the scores are gone from the baseline",
            ),
            _ => {}
        }
    }
    for suite in new
        .baselines
        .keys()
        .filter(|suite| !old.baselines.contains_key(*suite))
    {
        changes.add(format!("baselines.{suite}"), Rigor::Harder, "a new baseline");
    }
}

/// Any change of the keys needs a signature by a key that counted before; there is no order on keys.
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
            format!("{key} is no longer marked as an agent's key"),
        );
    }
    for key in agents(new).difference(&agents(old)) {
        changes.add(
            "keys.agent_keys",
            Rigor::Harder,
            format!("{key} is marked as an agent's key"),
        );
    }
}

#[cfg(test)]
pub(super) mod tests;
