//! Harness on disk: every suite below a directory, and `harness.toml` next to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::bench::{BenchmarkSuite, Named};
use satiety::harness::manifest::is_tree_hash;
use satiety::harness::{FileHashes, Manifest, Rules};

use super::HarnessError;
use crate::EngineError;
use crate::bench::suites::{self, LoadedSuite};

/// File with the rules of the harness.
pub(super) const RULES_FILE: &str = "harness.toml";
/// Directory for files that satiety keeps in the repository: used approvals, and the last hash of the log.
const OWN_FOLDER: &str = ".harness";

/// Harness read from disk.
#[derive(Debug, Clone)]
pub(super) struct HarnessDirectory {
    pub(super) root: PathBuf,
    pub(super) suites: Vec<LoadedSuite>,
    pub(super) rules: Rules,
    pub(super) manifest: Manifest,
}

impl HarnessDirectory {
    pub(super) fn read(root: &Path) -> Result<Self, EngineError> {
        if !root.is_dir() {
            return Err(HarnessError::NoFolder {
                path: display_path(root),
            }
            .into());
        }
        let mut loaded = Vec::new();
        for file in suites::below(root)? {
            loaded.push(suites::load(&file)?);
        }
        if loaded.is_empty() {
            return Err(HarnessError::NoSuites {
                path: display_path(root),
            }
            .into());
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

    /// Every file that determines the version, with its content, by path relative to the root. A rollback
    /// restores these.
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
                file: display_path(&path),
                reason: "is outside the harness".into(),
            })?;
            contents.insert(display_path(name), bytes);
        }
        Ok(contents)
    }

    /// Manifest as the first version hashed it: a directory that a case refers to counts by its name alone.
    pub(super) fn legacy_manifest(&self) -> Manifest {
        let mut hashes = self.hashes();
        for files in hashes.values_mut() {
            for hash in files.values_mut().filter(|hash| is_tree_hash(hash)) {
                "folder".clone_into(hash);
            }
        }
        self.rules
            .manifest(&self.suites(), &hashes)
            // Cannot fail: the same suites and rules already produced a manifest.
            .unwrap_or_else(|_| self.manifest.clone())
    }
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

pub(super) fn read_rules(path: &Path) -> Result<Rules, EngineError> {
    if !path.is_file() {
        return Ok(Rules::default());
    }
    let text = suites::read(path)?;
    let name = display_path(path);
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

pub(super) fn display_path(path: &Path) -> String {
    path.display().to_string()
}
