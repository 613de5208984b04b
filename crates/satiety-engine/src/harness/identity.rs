//! Identity of a harness: an id that is created with the first version and committed to the repository,
//! together with the newest log entry that the repository refers to (the anchor). A database may hold several
//! harnesses, and a harness may be used with several databases; none of them may start a new history
//! unnoticed.

use std::path::{Path, PathBuf};

use satiety::harness::{Anchor, Entry, compare, ledger};
use satiety::ids;
use serde::{Deserialize, Serialize};

use super::HarnessError;
use super::directory::{HarnessDirectory, display_path};
use super::disk;
use super::state::{State, active_version, entries};
use crate::EngineError;

/// File with id and anchor, relative to the harness.
const ANCHOR_FILE: &str = ".harness/anchor.json";
/// Lock file, which may also contain the id.
const LOCK_FILE: &str = "harness.lock";
/// First event of a history that branches from the one that the anchor refers to.
pub(super) const HISTORY_BEGUN: &str = "history_begun";

/// Identity and anchor in the repository.
#[derive(Debug, Clone, Default)]
pub(super) struct RepositoryMarks {
    /// Id of the harness.
    pub(super) id: Option<String>,
    /// Newest log entry that the repository refers to.
    pub(super) anchor: Option<Anchor>,
    /// Version that was active at the anchor.
    pub(super) version: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct AnchorFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    harness_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl RepositoryMarks {
    /// Reads the marks of a repository; empty if there are none.
    pub(super) fn read(root: &Path) -> Result<Self, EngineError> {
        let file = read_file(&anchor_path(root))?.unwrap_or_default();
        let anchor = match (file.seq, file.hash) {
            (Some(seq), Some(hash)) => Some(Anchor { seq, hash }),
            _ => None,
        };
        let id = match (locked_id(root)?, file.harness_id) {
            (Some(lock), Some(anchor)) if lock != anchor => {
                return Err(HarnessError::Identity { lock, anchor }.into());
            }
            (lock, anchor) => lock.or(anchor),
        };
        if let Some(id) = &id
            && satiety::harness::cycles::cycle_key(id).is_err()
        {
            return Err(HarnessError::BadFile {
                file: display_path(&anchor_path(root)),
                reason: format!("harness_id: `{id}` is not a valid id"),
            }
            .into());
        }
        Ok(Self {
            id,
            anchor,
            version: file.version,
        })
    }
}

fn anchor_path(root: &Path) -> PathBuf {
    root.join(ANCHOR_FILE)
}

fn read_file(path: &Path) -> Result<Option<AnchorFile>, EngineError> {
    let text = match fs_err::read_to_string(path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(EngineError::file("read", path, cause)),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        HarnessError::BadFile {
            file: display_path(path),
            reason: error.to_string(),
        }
        .into()
    })
}

/// Reads the `id` of the lock file, in JSON or TOML, if there is one.
fn locked_id(root: &Path) -> Result<Option<String>, EngineError> {
    let path = root.join(LOCK_FILE);
    let text = match fs_err::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(EngineError::file("read", &path, cause)),
    };
    let json = serde_json::from_str::<serde_json::Value>(&text).ok();
    let from_json = json.and_then(|value| value["id"].as_str().map(str::to_owned));
    let from_toml = || {
        let document: toml_edit::DocumentMut = text.parse().ok()?;
        document.get("id")?.as_str().map(str::to_owned)
    };
    Ok(from_json.or_else(from_toml))
}

/// Writes a new id. Returns `None` if another process was faster.
fn create(root: &Path) -> Result<Option<String>, EngineError> {
    let path = anchor_path(root);
    let id = ids::prefixed("harness", uuid::Uuid::now_v7());
    let file = AnchorFile {
        harness_id: Some(id.clone()),
        ..AnchorFile::default()
    };
    let aside = path.with_file_name(format!(".{id}.partial"));
    disk::replace(&aside, text(&file)?.as_bytes())?;
    // A hard link is created atomically and never replaces an existing file.
    let linked = fs_err::hard_link(&aside, &path);
    fs_err::remove_file(&aside).map_err(|cause| EngineError::file("remove", &aside, cause))?;
    match linked {
        Ok(()) => Ok(Some(id)),
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
        Err(cause) => Err(EngineError::file("write", &path, cause)),
    }
}

fn text(file: &AnchorFile) -> Result<String, EngineError> {
    Ok(serde_json::to_string_pretty(file)? + "\n")
}

impl State {
    /// Whether this history is a branch of the one that the anchor refers to. A branch never moves the
    /// anchor.
    pub(super) fn is_branch(&self) -> bool {
        self.entries
            .first()
            .is_some_and(|entry| entry.kind == HISTORY_BEGUN)
    }

    /// Checks that this database has the history that the repository refers to.
    pub(super) fn check_history(&self) -> Result<(), HarnessError> {
        if self.is_branch() {
            return Ok(());
        }
        match &self.marks.anchor {
            Some(anchor) if anchor.seq >= self.entries.len() as u64 => Err(HarnessError::HistoryMissing {
                known: anchor.seq.saturating_add(1),
                found: self.entries.len(),
            }),
            Some(anchor) => Ok(ledger::verify_anchored(&self.entries, anchor)?),
            // Killed between the first version and its anchor: the next write creates it.
            None if self.marks.id.is_none() || self.versions_adopted() <= 1 => Ok(()),
            None => Err(HarnessError::AnchorMissing {
                harness_id: self.harness_id.clone(),
            }),
        }
    }

    /// Compares the version of a branch with the anchor's version, because a branch is not compared with the
    /// anchor's entry: rewriting the log as a branch must not allow a weaker harness.
    pub(super) async fn check_branch(&self, folder: &HarnessDirectory) -> Result<(), EngineError> {
        let Some(active) = self.version().filter(|_| self.is_branch()) else {
            return Ok(());
        };
        let missing = || HarnessError::AnchorMissing {
            harness_id: self.harness_id.clone(),
        };
        let anchored = self.marks.version.as_deref().ok_or_else(missing)?;
        if active == anchored {
            return Ok(());
        }
        let old = if folder.manifest.version() == anchored {
            folder.manifest.clone()
        } else {
            self.manifest(anchored).await?
        };
        let diff = compare(&old, &self.manifest(active).await?).map_err(HarnessError::from)?;
        let objections: Vec<String> = diff
            .objections()
            .map(|change| format!("{}: {}", change.place, change.reason))
            .collect();
        if objections.is_empty() {
            Ok(())
        } else {
            Err(HarnessError::Weaker { objections }.into())
        }
    }

    fn versions_adopted(&self) -> usize {
        let adopts = |entry: &&Entry| matches!(entry.kind.as_str(), "adopted" | "committed" | "restored");
        self.entries.iter().filter(adopts).count()
    }

    /// Rejects a directory without an id that this database knows as a harness, by its path or by its suites:
    /// removing the id must not start a new harness.
    pub(super) async fn check_identity(&self, folder: &HarnessDirectory) -> Result<(), EngineError> {
        if self.marks.id.is_some() || !self.entries.is_empty() {
            return Ok(());
        }
        let place = place_of(&folder.root);
        for id in self.store().harness().ids().await? {
            let known = entries(self.store(), &id).await?;
            let mut same = known.iter().any(|entry| entry.body["place"] == place);
            if let Some(version) = active_version(&known)
                && let Some(row) = self.store().harness().version(&id, version).await?
                && let Some(suites) = row.manifest["suites"].as_object()
            {
                same |= suites.keys().any(|suite| folder.suite(suite).is_some());
            }
            if same {
                // Another process may have created the id after the marks were read; the caller reads them again.
                if RepositoryMarks::read(&folder.root)?.id.is_some() {
                    return Err(HarnessError::Conflict.into());
                }
                return Err(HarnessError::AnchorMissing { harness_id: id }.into());
            }
        }
        Ok(())
    }

    /// Ensures that the harness has an id before anything is written under it.
    pub(super) async fn identify(&mut self, folder: &HarnessDirectory) -> Result<(), EngineError> {
        if !self.harness_id.is_empty() {
            return Ok(());
        }
        if let Some(first) = self.entries.first() {
            // For histories from before harnesses had ids: derived, so that every process gets the same one.
            let id = format!("harness-{}", first.hash.get(..32).unwrap_or(&first.hash));
            self.store().harness().claim(&id).await?;
            self.harness_id = id;
            return self.write_anchor(folder);
        }
        match create(&folder.root)? {
            Some(id) => {
                self.marks.id = Some(id.clone());
                self.harness_id = id;
                Ok(())
            }
            None => Err(HarnessError::Conflict.into()),
        }
    }

    /// Writes the newest entry into the repository, unless the history is a branch or the repository refers
    /// to a newer one.
    pub(super) fn write_anchor(&mut self, folder: &HarnessDirectory) -> Result<(), EngineError> {
        let Some(last) = self.entries.last().filter(|_| !self.is_branch()) else {
            return Ok(());
        };
        let path = anchor_path(&folder.root);
        let known = read_file(&path)?.unwrap_or_default();
        if known.harness_id.as_deref() == Some(&self.harness_id) && known.seq > Some(last.seq) {
            return Ok(());
        }
        let file = AnchorFile {
            harness_id: Some(self.harness_id.clone()),
            seq: Some(last.seq),
            hash: Some(last.hash.clone()),
            version: self.version().map(str::to_owned),
        };
        disk::replace(&path, text(&file)?.as_bytes())?;
        self.marks = RepositoryMarks {
            id: file.harness_id,
            anchor: Some(last.anchor()),
            version: file.version,
        };
        Ok(())
    }
}

/// Path of a harness on this machine, to recognise it without its id.
pub(super) fn place_of(root: &Path) -> String {
    display_path(&fs_err::canonicalize(root).unwrap_or_else(|_| root.to_path_buf()))
}
