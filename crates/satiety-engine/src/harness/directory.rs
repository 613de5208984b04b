//! A harness on disk: every suite below a directory, and `harness.toml` beside them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::bench::{BenchmarkSuite, Named};
use satiety::harness::manifest::is_tree_hash;
use satiety::harness::{FileHashes, Manifest, Rules};

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

    /// The harness as the first version hashed it: a directory that a case names counts by its name alone.
    pub(super) fn legacy_manifest(&self) -> Manifest {
        let mut hashes = self.hashes();
        for files in hashes.values_mut() {
            for hash in files.values_mut().filter(|hash| is_tree_hash(hash)) {
                "folder".clone_into(hash);
            }
        }
        self.rules
            .manifest(&self.suites(), &hashes)
            // The same suites and rules have made a manifest before.
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

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}
