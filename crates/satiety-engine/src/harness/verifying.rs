//! Is everything as it was written?

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use satiety::harness::{Anchor, Entry, Manifest, Phase, ledger};
use satiety_store::Store;
use schemars::JsonSchema;
use serde::Serialize;

use super::HarnessError;
use super::folder::{Folder, shown};
use super::recording::may_follow;
use super::state::{State, entries};
use super::tree::HarnessTree;
use crate::{Engine, EngineError};

/// Whether the record is whole.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Verified {
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

impl Engine {
    /// Whether everything is as it was written: the chain, an anchor, the values that it vouches for, the files.
    pub async fn harness_verify(
        &self,
        folder: &Path,
        anchor: Option<Anchor>,
    ) -> Result<Verified, EngineError> {
        let store = self.store().await?.clone();
        let all = entries(&store).await?;
        let folder = Folder::read(folder)?;
        let anchor = match anchor {
            Some(anchor) => Some(anchor),
            None => anchor_file(&folder)?,
        };
        let mut problems = Vec::new();
        let whole = match &anchor {
            Some(anchor) => ledger::verify_anchored(&all, anchor),
            None => ledger::verify_chain(&all),
        };
        match whole {
            Err(broken) => problems.push(broken.to_string()),
            Ok(()) => self.verify_values(&store, &folder, &all, &mut problems).await?,
        }
        Ok(Verified {
            entries: all.len(),
            problems,
            anchor,
            last: all.last().map(Entry::anchor),
        })
    }

    async fn verify_values(
        &self,
        store: &Store,
        folder: &Folder,
        all: &[Entry],
        problems: &mut Vec<String>,
    ) -> Result<(), EngineError> {
        let state = self.harness_state().await?;
        let mut keep = |outcome: Result<(), EngineError>| match outcome {
            Err(EngineError::Harness(problem)) => {
                problems.push(problem.to_string());
                Ok(())
            }
            other => other,
        };
        keep(state.aggregate().await.map(|_| ()))?;
        let expansions: BTreeSet<&str> = all
            .iter()
            .filter_map(|entry| entry.body["expansion_id"].as_str())
            .collect();
        for id in expansions {
            keep(state.expansion(id).await.map(|_| ()))?;
        }
        for entry in all.iter().filter(|entry| entry.kind == "cycle") {
            keep(verify_cycle(store, entry).await)?;
        }
        if let Some(version) = state.version() {
            keep(verify_files(&state, folder, version).await)?;
        }
        Ok(())
    }

    /// The harness as one value, whose hash is its version.
    pub fn harness_manifest(&self, folder: &Path) -> Result<Manifest, EngineError> {
        Ok(Folder::read(folder)?.manifest)
    }
}

/// The files must be those of the recorded version, unless an expansion is being applied.
async fn verify_files(state: &State, folder: &Folder, version: &str) -> Result<(), EngineError> {
    let tree = HarnessTree::of(folder.clone(), None)?;
    let recorded = state.lock(version, &tree.lock).await?;
    let applying = matches!(state.open_expansion(None).await, Ok(open) if open.phase.is_applying() || open.phase == Phase::RollingBack);
    if recorded == tree.lock || applying {
        return Ok(());
    }
    let words = match may_follow(state, &recorded, &tree).await {
        Ok(_) => "at least as rigorous; `satiety harness record` takes them over".to_owned(),
        Err(EngineError::Harness(HarnessError::Weaker { objections })) => {
            format!("weaker: {}", objections.join("; "))
        }
        Err(other) => return Err(other),
    };
    Err(HarnessError::OtherFiles { words }.into())
}

/// A cycle's record must be what was hashed, as long as it is kept.
async fn verify_cycle(store: &Store, entry: &Entry) -> Result<(), EngineError> {
    let (Some(id), Some(told)) = (entry.body["cycle_id"].as_str(), entry.body["snapshot"].as_str()) else {
        return Ok(());
    };
    let key = satiety::harness::cycles::cycle_key(id).map_err(HarnessError::from)?;
    let Some(record) = store.record(&key).await? else {
        // Cycles are kept for 90 days; the log keeps their scores.
        return Ok(());
    };
    let snapshot: Option<satiety::harness::CycleSnapshot> = serde_json::from_value(record.body).ok();
    if snapshot.is_none_or(|snapshot| satiety::bench::content_hash(&snapshot) != told) {
        return Err(HarnessError::Tampered {
            what: format!("cycle {id} was edited"),
        }
        .into());
    }
    Ok(())
}

fn anchor_file(folder: &Folder) -> Result<Option<Anchor>, EngineError> {
    let path: PathBuf = folder.own().join("anchor.json");
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs_err::read_to_string(&path).map_err(|cause| EngineError::file("read", &path, cause))?;
    serde_json::from_str(&text).map(Some).map_err(|error| {
        HarnessError::BadFile {
            file: shown(&path),
            reason: error.to_string(),
        }
        .into()
    })
}
