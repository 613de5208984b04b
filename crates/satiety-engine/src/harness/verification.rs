//! Is everything as it was written?

use crate::handles::HarnessOperations;
use std::collections::BTreeSet;
use std::path::Path;

use satiety::harness::{Anchor, Entry, Manifest, Phase, ledger};
use schemars::JsonSchema;
use serde::Serialize;

use super::HarnessError;
use super::apply::archive;
use super::cycle::may_follow;
use super::directory::Folder;
use super::state::State;
use super::tree::HarnessTree;
use crate::EngineError;

/// Whether the record is whole.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VerifyResponse {
    /// Entries that were checked.
    pub entries: usize,
    /// What is wrong, in words; empty when everything is as it was written.
    pub problems: Vec<String>,
    /// Which anchor the log was held against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Anchor>,
    /// The last hash, to be kept elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Anchor>,
}

impl HarnessOperations<'_> {
    /// Whether everything is as it was written: the chain, an anchor, the values that it vouches for, the files.
    pub async fn verify(self, folder: &Path, anchor: Option<Anchor>) -> Result<VerifyResponse, EngineError> {
        let folder = Folder::read(folder)?;
        let state = self.log(&folder.root).await?;
        let mut problems = Vec::new();
        let whole = match &anchor {
            Some(anchor) => ledger::verify_anchored(&state.entries, anchor),
            None => ledger::verify_chain(&state.entries),
        };
        if let Err(broken) = whole {
            problems.push(broken.to_string());
        } else {
            let known = match state.check_history() {
                Ok(()) => state.check_identity(&folder).await,
                Err(problem) => Err(problem.into()),
            };
            keep(&mut problems, known)?;
            keep(&mut problems, state.check_branch(&folder).await)?;
            verify_values(&state, &folder, &mut problems).await?;
        }
        Ok(VerifyResponse {
            entries: state.entries.len(),
            problems,
            anchor: anchor.or_else(|| state.marks.anchor.clone()),
            last: state.entries.last().map(Entry::anchor),
        })
    }

    /// The harness as one value, whose hash is its version.
    pub fn manifest(self, folder: &Path) -> Result<Manifest, EngineError> {
        Ok(Folder::read(folder)?.manifest)
    }
}

/// A problem with the harness is told beside the others; anything else ends it.
fn keep(problems: &mut Vec<String>, outcome: Result<(), EngineError>) -> Result<(), EngineError> {
    match outcome {
        Err(EngineError::Harness(problem)) => {
            problems.push(problem.to_string());
            Ok(())
        }
        other => other,
    }
}

/// Everything that the log vouches for, and the files, in whatever phase an expansion is.
async fn verify_values(
    state: &State,
    folder: &Folder,
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

/// The files must be those of the recorded version. Half applied, they may ask more than the archive and never less.
async fn verify_files(state: &State, folder: &Folder, version: &str) -> Result<(), EngineError> {
    let tree = HarnessTree::of(folder.clone(), None)?;
    let recorded = state.lock(version, &tree.lock).await?;
    let applying = matches!(state.open_expansion(None).await, Ok(open) if open.phase.is_applying() || open.phase == Phase::RollingBack);
    if recorded == tree.lock {
        return Ok(());
    }
    let words = match may_follow(state, &recorded, &tree).await {
        Ok(_) if applying => return Ok(()),
        Ok(_) => "at least as rigorous; `satiety harness record` takes them over".to_owned(),
        Err(EngineError::Harness(HarnessError::Weaker { objections })) => {
            format!("weaker: {}", objections.join("; "))
        }
        Err(other) => return Err(other),
    };
    Err(HarnessError::OtherFiles { words }.into())
}

/// A cycle's record must be what was hashed, as long as it is kept.
async fn verify_cycle(state: &State, entry: &Entry) -> Result<(), EngineError> {
    let (Some(id), Some(told)) = (entry.body["cycle_id"].as_str(), entry.body["snapshot"].as_str()) else {
        return Ok(());
    };
    let key = satiety::harness::cycles::cycle_key(id).map_err(HarnessError::from)?;
    let Some(record) = state.record(&key).await? else {
        // Cycles are kept for 90 days; the log keeps their scores.
        return Ok(());
    };
    let snapshot: Option<satiety::harness::CycleSnapshot> = serde_json::from_value(record).ok();
    if snapshot.is_none_or(|snapshot| satiety::bench::content_hash(&snapshot) != told) {
        return Err(HarnessError::Tampered {
            what: format!("cycle {id} was edited"),
        }
        .into());
    }
    Ok(())
}

/// An archive must be what was hashed when it was made; those from before archives were hashed are checked by their names.
async fn verify_archive(state: &State, entry: &Entry) -> Result<(), EngineError> {
    let Some(version) = entry.body["detail"]["version"].as_str() else {
        return Ok(());
    };
    archive(state, version, entry.body["detail"]["archive"].as_str())
        .await
        .map(|_| ())
}
