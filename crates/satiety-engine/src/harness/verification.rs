//! Verifies the stored history and the files of a harness.

use crate::handles::HarnessOperations;
use std::collections::BTreeSet;
use std::path::Path;

use satiety::harness::{Anchor, Entry, Manifest, Phase, ledger};
use schemars::JsonSchema;
use serde::Serialize;

use super::HarnessError;
use super::apply::archive;
use super::cycle::may_follow;
use super::directory::HarnessDirectory;
use super::state::{State, retry_conflicts};
use super::tree::HarnessTree;
use crate::EngineError;

/// Result of verifying a harness.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VerifyResponse {
    /// Number of log entries checked.
    pub entries: usize,
    /// Problems found, in words; empty if the record is intact.
    pub problems: Vec<String>,
    /// Anchor that the log was compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Anchor>,
    /// Last hash of the log, to be kept in another place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Anchor>,
}

impl HarnessOperations<'_> {
    /// Verifies the hash chain, an anchor, the values whose hashes are in the log, and the files.
    pub async fn verify(self, folder: &Path, anchor: Option<Anchor>) -> Result<VerifyResponse, EngineError> {
        let folder = HarnessDirectory::read(folder)?;
        retry_conflicts(|| self.verify_once(&folder, anchor.as_ref())).await
    }

    async fn verify_once(
        self,
        folder: &HarnessDirectory,
        anchor: Option<&Anchor>,
    ) -> Result<VerifyResponse, EngineError> {
        let state = self.log(&folder.root).await?;
        let mut problems = Vec::new();
        let whole = match anchor {
            Some(anchor) => ledger::verify_anchored(&state.entries, anchor),
            None => ledger::verify_chain(&state.entries),
        };
        if let Err(broken) = whole {
            problems.push(broken.to_string());
        } else {
            let known = match state.check_history() {
                Ok(()) => state.check_identity(folder).await,
                Err(problem) => Err(problem.into()),
            };
            keep(&mut problems, known)?;
            keep(&mut problems, state.check_branch(folder).await)?;
            verify_values(&state, folder, &mut problems).await?;
        }
        Ok(VerifyResponse {
            entries: state.entries.len(),
            problems,
            anchor: anchor.or(state.marks.anchor.as_ref()).cloned(),
            last: state.entries.last().map(Entry::anchor),
        })
    }

    /// Returns the manifest of the harness, whose hash is its version.
    pub fn manifest(self, folder: &Path) -> Result<Manifest, EngineError> {
        Ok(HarnessDirectory::read(folder)?.manifest)
    }
}

/// Collects a harness error as a problem; returns any other error.
fn keep(problems: &mut Vec<String>, outcome: Result<(), EngineError>) -> Result<(), EngineError> {
    match outcome {
        Err(EngineError::Harness(problem)) if !matches!(problem, HarnessError::Conflict) => {
            problems.push(problem.to_string());
            Ok(())
        }
        other => other,
    }
}

/// Verifies every value in the log, and the files, in any phase of an expansion.
async fn verify_values(
    state: &State,
    folder: &HarnessDirectory,
    problems: &mut Vec<String>,
) -> Result<(), EngineError> {
    keep(problems, state.aggregate().await.map(|_| ()))?;
    let expansions: BTreeSet<&str> = state
        .entries
        .iter()
        .filter_map(|entry| entry.body["expansion_id"].as_str())
        .collect();
    for id in expansions {
        keep(problems, state.expansion(id).await.map(|_| ()))?;
    }
    for entry in &state.entries {
        match entry.kind.as_str() {
            "cycle" => keep(problems, verify_cycle(state, entry).await)?,
            "archived" => keep(problems, verify_archive(state, entry).await)?,
            _ => {}
        }
    }
    let Some(version) = state.version() else {
        return Ok(());
    };
    keep(problems, state.manifest(version).await.map(|_| ()))?;
    keep(problems, verify_files(state, folder, version).await)
}

/// The files must match the recorded version. While an expansion is applied they may be harder than the
/// archive, never weaker.
async fn verify_files(state: &State, folder: &HarnessDirectory, version: &str) -> Result<(), EngineError> {
    let tree = HarnessTree::from_directory(folder.clone(), None)?;
    let recorded = state.lock(version, &tree.lock).await?;
    let applying = matches!(state.open_expansion(None).await, Ok(open) if open.phase.is_applying() || open.phase == Phase::RollingBack);
    if recorded == tree.lock {
        return Ok(());
    }
    let words = match may_follow(state, &recorded, &tree).await {
        Ok(_) if applying => return Ok(()),
        Ok(_) => "at least as rigorous; adopt them with `satiety harness record`".to_owned(),
        Err(EngineError::Harness(HarnessError::Weaker { objections })) => {
            format!("weaker: {}", objections.join("; "))
        }
        Err(other) => return Err(other),
    };
    Err(HarnessError::OtherFiles { words }.into())
}

/// The record of a cycle must match its hash, as long as it is retained.
async fn verify_cycle(state: &State, entry: &Entry) -> Result<(), EngineError> {
    let (Some(id), Some(expected_hash)) = (entry.body["cycle_id"].as_str(), entry.body["snapshot"].as_str())
    else {
        return Ok(());
    };
    let key = satiety::harness::cycles::cycle_key(id).map_err(HarnessError::from)?;
    let Some(record) = state.record(&key).await? else {
        // Cycles are retained for 90 days; the log keeps their scores.
        return Ok(());
    };
    let snapshot: Option<satiety::harness::CycleSnapshot> = serde_json::from_value(record).ok();
    if snapshot.is_none_or(|snapshot| satiety::bench::content_hash(&snapshot) != expected_hash) {
        return Err(HarnessError::Tampered {
            what: format!("cycle {id} was modified"),
        }
        .into());
    }
    Ok(())
}

/// An archive must match its hash; those from before archives were hashed are checked by their paths.
async fn verify_archive(state: &State, entry: &Entry) -> Result<(), EngineError> {
    let Some(version) = entry.body["detail"]["version"].as_str() else {
        return Ok(());
    };
    archive(state, version, entry.body["detail"]["archive"].as_str())
        .await
        .map(|_| ())
}
