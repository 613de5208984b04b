//! Is everything as it was written, and is one harness at least as rigorous as another?

use std::collections::BTreeSet;
use std::path::Path;

use satiety::harness::{Anchor, Entry, KeyRing, Manifest, Phase, RigorDiff, compare, ledger};
use schemars::JsonSchema;
use serde::Serialize;

use super::HarnessError;
use super::applying::archive;
use super::folder::{Folder, manifest_of, unapproved_retirements};
use super::keys::ring_of;
use super::recording::objections;
use super::state::State;
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

/// Whether a harness is at least as rigorous as another.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CheckedHarness {
    /// What lies between them.
    #[serde(flatten)]
    pub diff: RigorDiff,
    /// Cases that were retired without a signature.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsigned_retirements: Vec<String>,
}

impl Engine {
    /// Whether everything is as it was written: the chain, an anchor, the values that it vouches for, the files.
    pub async fn harness_verify(
        &self,
        folder: &Path,
        anchor: Option<Anchor>,
    ) -> Result<Verified, EngineError> {
        let folder = Folder::read(folder)?;
        let state = self.harness_log(&folder.root).await?;
        let mut problems = Vec::new();
        let whole = match &anchor {
            Some(anchor) => ledger::verify_anchored(&state.entries, anchor),
            None => ledger::verify_chain(&state.entries),
        };
        match whole {
            Err(broken) => problems.push(broken.to_string()),
            Ok(()) => {
                let known = match state.check_history() {
                    Ok(()) => state.check_identity(&folder).await,
                    Err(problem) => Err(problem.into()),
                };
                keep(&mut problems, known)?;
                verify_values(&state, &folder, &mut problems).await?;
            }
        }
        Ok(Verified {
            entries: state.entries.len(),
            problems,
            anchor: anchor.or_else(|| state.marks.anchor.clone()),
            last: state.entries.last().map(Entry::anchor),
        })
    }

    /// Whether `new` is at least as rigorous as `old`: folders, manifests in files, or `git:REVISION`. Needs no store.
    pub fn harness_check(&self, old: &str, new: &str) -> Result<CheckedHarness, EngineError> {
        let (before, _) = manifest_of(old, Some(new))?;
        let (after, applied) = manifest_of(new, Some(old))?;
        let diff = compare(&before, &after).map_err(HarnessError::from)?;
        let keys = if Path::new(new).is_dir() {
            ring_of(Path::new(new))?.1
        } else {
            KeyRing::default()
        };
        Ok(CheckedHarness {
            unsigned_retirements: unapproved_retirements(&before, &after, &applied, &keys),
            diff,
        })
    }

    /// The harness as one value, whose hash is its version.
    pub fn harness_manifest(&self, folder: &Path) -> Result<Manifest, EngineError> {
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
    if folder.manifest.version() == version {
        return Ok(());
    }
    let Ok(old) = state.manifest(version).await else {
        // Told above.
        return Ok(());
    };
    let (_, keys) = ring_of(&folder.root)?;
    let (_, objections) = objections(state, folder, &keys, &old).await?;
    let applying = matches!(state.open_expansion(None).await, Ok(open) if open.phase.is_applying() || open.phase == Phase::RollingBack);
    // Half applied, the files may ask more than the archive and never less.
    if objections.is_empty() && applying {
        return Ok(());
    }
    let words = if objections.is_empty() {
        "at least as rigorous; `satiety harness record` takes them over".to_owned()
    } else {
        format!("weaker: {}", objections.join("; "))
    };
    problems.push(format!(
        "the files are not those of the recorded version; they are {words}"
    ));
    Ok(())
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
