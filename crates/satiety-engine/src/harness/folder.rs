//! A harness on disk: every suite below a folder, and `harness.toml` beside them. Also as it was in a commit of the
//! repository, so that a build can hold a change against what it starts from without a store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use satiety::bench::{BenchmarkSuite, Named};
use satiety::harness::proposal::{Proposal, RetireCase};
use satiety::harness::{Approval, FileHashes, KeyRing, Manifest, Rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HarnessError;
use crate::EngineError;
use crate::bench::suites::{self, LoadedSuite};

/// The rules beside the suites.
pub(super) const RULES_FILE: &str = "harness.toml";
/// The folder for what the program leaves in the repository: approvals that were used, and the log's last hash.
const OWN_FOLDER: &str = ".harness";

/// A harness that was read.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) root: PathBuf,
    pub(super) suites: Vec<LoadedSuite>,
    pub(super) rules: Rules,
    pub(super) manifest: Manifest,
}

/// A proposal that was applied, with the signature that allowed it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Applied {
    pub(super) proposal: Proposal,
    pub(super) approval: Approval,
}

impl Folder {
    /// Reads a harness.
    pub(super) fn read(root: &Path) -> Result<Self, EngineError> {
        if !root.is_dir() {
            return Err(HarnessError::NoFolder { path: shown(root) }.into());
        }
        let mut loaded = Vec::new();
        for file in suites::below(root)? {
            loaded.push(suites::load(&file)?);
        }
        if loaded.is_empty() {
            return Err(HarnessError::NoSuites { path: shown(root) }.into());
        }
        let rules = read_rules(&root.join(RULES_FILE))?;
        let manifest = rules
            .manifest(&values(&loaded), &hashes(&loaded))
            .map_err(HarnessError::from)?;
        Ok(Self {
            root: root.to_path_buf(),
            suites: loaded,
            rules,
            manifest,
        })
    }

    pub(super) fn suites(&self) -> Vec<BenchmarkSuite> {
        values(&self.suites)
    }

    pub(super) fn hashes(&self) -> FileHashes {
        hashes(&self.suites)
    }

    pub(super) fn suite(&self, id: &str) -> Option<&LoadedSuite> {
        self.suites.iter().find(|loaded| loaded.suite.suite_id == id)
    }

    pub(super) fn own(&self) -> PathBuf {
        self.root.join(OWN_FOLDER)
    }

    /// Every file that the version is made of, with its content: relative to the root. What a restore brings back.
    pub(super) fn contents(&self) -> Result<BTreeMap<String, Vec<u8>>, EngineError> {
        let mut paths = vec![self.root.join(RULES_FILE)];
        for loaded in &self.suites {
            paths.push(loaded.file.clone());
            if let Some(folder) = loaded.file.parent() {
                paths.extend(suites::case_files(&folder.join("cases"))?);
            }
            paths.extend(loaded.files.keys().map(|name| loaded.folder.join(name)));
        }
        let mut contents = BTreeMap::new();
        for path in paths.into_iter().filter(|path| path.is_file()) {
            let bytes = fs_err::read(&path).map_err(|cause| EngineError::file("read", &path, cause))?;
            let name = path.strip_prefix(&self.root).map_err(|_| HarnessError::BadFile {
                file: shown(&path),
                reason: "lies outside the harness".into(),
            })?;
            contents.insert(shown(name), bytes);
        }
        Ok(contents)
    }

    /// Proposals that were applied here, as far as their files can be read.
    pub(super) fn applied(&self) -> Result<Vec<Applied>, EngineError> {
        let folder = self.own().join("approvals");
        let mut applied = Vec::new();
        for path in suites::case_files(&folder)? {
            let text =
                fs_err::read_to_string(&path).map_err(|cause| EngineError::file("read", &path, cause))?;
            applied.push(
                serde_json::from_str(&text).map_err(|error| HarnessError::BadFile {
                    file: shown(&path),
                    reason: error.to_string(),
                })?,
            );
        }
        Ok(applied)
    }
}

/// Retirements of `new` that `old` does not have and that no applied proposal with a good signature allows.
pub(super) fn unapproved_retirements(
    old: &Manifest,
    new: &Manifest,
    applied: &[Applied],
    keys: &KeyRing,
) -> Vec<String> {
    let allowed: Vec<&RetireCase> = applied
        .iter()
        .filter(|applied| {
            let statement = &applied.approval.statement;
            // Whether it had run out when it was used is the business of whoever applied it.
            satiety::harness::approval::verify(
                &applied.approval,
                &applied.proposal,
                keys,
                &std::collections::BTreeSet::new(),
                statement.approved_at,
            )
            .is_ok()
        })
        .flat_map(|applied| &applied.proposal.content.retirements)
        .collect();
    new.retired
        .iter()
        .filter(|(hash, _)| !old.retired.contains_key(*hash))
        .filter(|(_, entry)| {
            !allowed.iter().any(|retired| {
                (
                    &retired.suite,
                    &retired.case_id,
                    &retired.reason,
                    &retired.replacement.case_id,
                ) == (&entry.suite, &entry.case_id, &entry.reason, &entry.replacement)
            })
        })
        .map(|(_, entry)| format!("{}/{}", entry.suite, entry.case_id))
        .collect()
}

fn values(loaded: &[LoadedSuite]) -> Vec<BenchmarkSuite> {
    loaded.iter().map(|loaded| loaded.suite.clone()).collect()
}

fn hashes(loaded: &[LoadedSuite]) -> FileHashes {
    loaded
        .iter()
        .map(|loaded| (loaded.suite.suite_id.clone(), loaded.files.clone()))
        .collect()
}

fn read_rules(path: &Path) -> Result<Rules, EngineError> {
    if !path.is_file() {
        return Ok(Rules::default());
    }
    let text = suites::read(path)?;
    let name = shown(path);
    let value = satiety::bench::reader::parse(Named {
        file: &name,
        text: &text,
    })?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        HarnessError::BadFile {
            file: name.clone(),
            reason: format!("{}: {}", error.path(), error.inner()),
        }
        .into()
    })
}

/// Either side of a comparison: a folder, a manifest in a file, or `git:REVISION[:FOLDER]`.
pub(super) fn manifest_of(
    named: &str,
    beside: Option<&str>,
) -> Result<(Manifest, Vec<Applied>), EngineError> {
    if let Some(revision) = named.strip_prefix("git:") {
        let (revision, folder) = match revision.split_once(':') {
            Some((revision, folder)) => (revision, Some(folder)),
            // The other side's folder, as it was then.
            None => (revision, beside.filter(|beside| !beside.starts_with("git:"))),
        };
        let checked_out = checkout(revision, folder.unwrap_or("."))?;
        let folder = Folder::read(&checked_out.path().join(folder.unwrap_or(".")))?;
        return Ok((folder.manifest.clone(), folder.applied()?));
    }
    let path = Path::new(named);
    if path.is_file() {
        let text = suites::read(path)?;
        let manifest: Manifest = serde_json::from_str(&text).map_err(|error| HarnessError::BadFile {
            file: named.to_owned(),
            reason: format!("{error}; a manifest is what `satiety harness manifest` prints"),
        })?;
        manifest.check().map_err(HarnessError::from)?;
        return Ok((manifest, Vec::new()));
    }
    let folder = Folder::read(path)?;
    Ok((folder.manifest.clone(), folder.applied()?))
}

/// The files of a commit in a folder of their own; the repository itself is not touched.
fn checkout(revision: &str, folder: &str) -> Result<tempfile::TempDir, EngineError> {
    let failed = |reason: String| {
        EngineError::from(HarnessError::Git {
            revision: revision.to_owned(),
            reason,
        })
    };
    if revision.is_empty() || revision.starts_with('-') {
        return Err(failed("that is no revision".into()));
    }
    let made =
        tempfile::tempdir().map_err(|cause| EngineError::file("make", Path::new("a folder"), cause))?;
    let mut git = Command::new("git")
        .args(["archive", "--format=tar", revision, "--", folder])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("git could not be started: {error}")))?;
    let Some(archive) = git.stdout.take() else {
        return Err(failed("git has no output".into()));
    };
    let unpacked = Command::new("tar")
        .arg("-x")
        .arg("-C")
        .arg(made.path())
        .stdin(archive)
        .output()
        .map_err(|error| failed(format!("tar could not be started: {error}")))?;
    let said = git
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if !said.status.success() {
        return Err(failed(String::from_utf8_lossy(&said.stderr).trim().to_owned()));
    }
    if !unpacked.status.success() {
        return Err(failed(
            String::from_utf8_lossy(&unpacked.stderr).trim().to_owned(),
        ));
    }
    Ok(made)
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}
