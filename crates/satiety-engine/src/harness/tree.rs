//! Harness tree with everything that affects verdicts: suites, rules, keys, target descriptions, baselines,
//! the lock file and the signed steps it contains.

use std::path::{Path, PathBuf};

use satiety::bench::judge::{answer_schema, judge_prompt};
use satiety::bench::{content_hash, parse_rubric};
use satiety::harness::{AppliedProposal, BaselineEntry, Lock, SignedStep, Transition};

use super::HarnessError;
use super::directory::{HarnessDirectory, display_path};
use super::git::Repository;
use super::keys::ring_within;
use crate::EngineError;
use crate::bench::{described_target, stored_baseline, suites};

/// Lock file next to the suites.
pub(super) const LOCK_FILE: &str = "harness.lock";
/// Subdirectory of signed transitions.
const TRANSITIONS: &str = "transitions";
const APPROVALS: &str = "approvals";
/// Maximum number of entries below a harness.
const MAX_ENTRIES: usize = 1_000_000;

/// Complete harness tree.
#[derive(Debug, Clone)]
pub(super) struct HarnessTree {
    pub(super) folder: HarnessDirectory,
    /// Lock computed from the tree.
    pub(super) lock: Lock,
    /// Content of the lock file, if there is one.
    pub(super) lock_file: Option<Lock>,
    pub(super) steps: Vec<SignedStep>,
}

impl HarnessTree {
    /// Reads a tree. `top` ends the search for `satiety.toml` above the harness.
    pub(super) fn read(root: &Path, top: Option<&Path>) -> Result<Self, EngineError> {
        let folder = HarnessDirectory::read(root)?;
        Self::from_directory(folder, top)
    }

    /// Reads the remaining parts of a tree whose suites have been read.
    pub(super) fn from_directory(folder: HarnessDirectory, top: Option<&Path>) -> Result<Self, EngineError> {
        let root = folder.root.clone();
        let lock_file = read_lock(&root)?;
        let mut lock = Lock::from_manifest(folder.manifest.clone());
        lock.id = lock_file.as_ref().and_then(|lock| lock.id.clone());
        lock.sandbox = folder.rules.sandbox;
        lock.keys = ring_within(&root, top)?.1;
        lock.keys.approvers.sort_by(|a, b| a.name.cmp(&b.name));
        lock.keys.agent_keys.sort();
        for loaded in &folder.suites {
            let id = loaded.suite.suite_id.clone();
            if let Some(spec) = described_target(loaded, top)? {
                lock.targets.insert(id.clone(), content_hash(&spec));
            }
            if let Some(run) = stored_baseline(loaded)? {
                lock.baselines.insert(id, BaselineEntry::of(&run));
            }
        }
        let needs_judge = |case: &satiety::bench::BenchmarkCase| case.expected.needs_judge();
        let mut cases = folder.suites.iter().flat_map(|loaded| &loaded.suite.cases);
        lock.judge_prompt = cases.any(needs_judge).then(judge_prompt_hash);
        let steps = read_steps(&folder)?;
        lock.transitions = steps
            .iter()
            .filter_map(|step| match step {
                SignedStep::Transition(transition) => Some(transition.statement.id.clone()),
                SignedStep::Expansion(_) => None,
            })
            .collect();
        Ok(Self {
            folder,
            lock,
            lock_file,
            steps,
        })
    }
}

/// Side of a comparison, with the checkout that holds its files.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) tree: HarnessTree,
    pub(super) is_commit: bool,
    checkout: Option<super::git::Checkout>,
}

impl Side {
    /// Directory that corresponds to the top of the repository, for the files of a commit.
    pub(super) fn top(&self) -> Option<&Path> {
        self.checkout.as_ref().map(super::git::Checkout::top)
    }
}

/// Reads a harness from a directory or from `git:REVISION[:DIRECTORY]`, where the directory is relative to
/// the top of the repository and defaults to that of the other side.
pub(super) fn read_side(named: &str, other: Option<&str>) -> Result<Side, EngineError> {
    let Some(revision) = named.strip_prefix("git:") else {
        let path = Path::new(named);
        if !path.is_dir() {
            return Err(HarnessError::NoFolder {
                path: named.to_owned(),
            }
            .into());
        }
        let top = Repository::containing(path)?;
        if let Some(repository) = &top {
            repository.relative(path)?;
        } else if path.is_symlink() {
            return Err(HarnessError::Link {
                path: named.to_owned(),
            }
            .into());
        }
        refuse_links(path)?;
        let tree = HarnessTree::read(path, top.as_ref().map(|repository| repository.top.as_path()))?;
        return Ok(Side {
            tree,
            is_commit: false,
            checkout: None,
        });
    };
    let (revision, directory) = match revision.split_once(':') {
        Some((revision, directory)) => (revision, Some(directory)),
        None => (revision, None),
    };
    let other_directory = other.filter(|other| !other.starts_with("git:")).map(Path::new);
    let start = other_directory.unwrap_or(Path::new("."));
    let repository = Repository::containing(start)?.ok_or_else(|| HarnessError::Git {
        revision: revision.to_owned(),
        reason: format!("{} is not in a git repository", start.display()),
    })?;
    let relative = match (directory, other_directory) {
        (Some(directory), _) => PathBuf::from(directory),
        (None, Some(other_directory)) => repository.relative(other_directory)?,
        (None, None) => repository.relative(Path::new("."))?,
    };
    let checkout = repository.checkout(revision, &relative)?;
    let tree = HarnessTree::read(&checkout.harness(), Some(checkout.top()))?;
    Ok(Side {
        tree,
        is_commit: true,
        checkout: Some(checkout),
    })
}

/// Rejects symbolic links, submodules and special files below a harness: their targets are not covered by its
/// hash. Hidden directories are not part of a harness, except for `.harness`.
pub(super) fn refuse_links(root: &Path) -> Result<(), EngineError> {
    let refused = |path: &Path| -> EngineError {
        HarnessError::Link {
            path: display_path(path),
        }
        .into()
    };
    let mut left = MAX_ENTRIES;
    let mut todo = vec![root.to_path_buf()];
    while let Some(directory) = todo.pop() {
        let failed = |cause| EngineError::file("read", &directory, cause);
        for entry in fs_err::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            left = left.checked_sub(1).ok_or_else(|| HarnessError::BadFile {
                file: display_path(root),
                reason: format!("more than {MAX_ENTRIES} entries; pass the directory of the harness"),
            })?;
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().map_err(failed)?;
            let name = name.to_string_lossy();
            if name == ".git" && directory != root {
                return Err(refused(&directory));
            }
            if name == ".git" {
                continue;
            }
            if kind.is_symlink() || !(kind.is_dir() || kind.is_file()) {
                return Err(refused(&path));
            }
            let own = name == ".harness";
            if kind.is_dir() && (own || !name.starts_with('.')) {
                todo.push(path);
            }
        }
    }
    Ok(())
}

/// Reads the lock file of a harness, if there is one.
pub(super) fn read_lock(root: &Path) -> Result<Option<Lock>, EngineError> {
    let path = root.join(LOCK_FILE);
    if !path.exists() && !path.is_symlink() {
        return Ok(None);
    }
    if path.is_symlink() {
        return Err(HarnessError::Link {
            path: display_path(&path),
        }
        .into());
    }
    let text = suites::read(&path)?;
    Lock::parse(&text).map(Some).map_err(|error| {
        HarnessError::BadLock {
            file: display_path(&path),
            error,
        }
        .into()
    })
}

fn read_steps(folder: &HarnessDirectory) -> Result<Vec<SignedStep>, EngineError> {
    let mut steps = Vec::new();
    for path in suites::case_files(&folder.own().join(TRANSITIONS))? {
        steps.push(SignedStep::Transition(Box::new(read_json::<Transition>(&path)?)));
    }
    for path in suites::case_files(&folder.own().join(APPROVALS))? {
        steps.push(SignedStep::Expansion(Box::new(read_json::<AppliedProposal>(
            &path,
        )?)));
    }
    Ok(steps)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, EngineError> {
    let text = suites::read(path)?;
    let mut reader = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        HarnessError::BadFile {
            file: display_path(path),
            reason: format!("{}: {}", error.path(), error.inner()),
        }
        .into()
    })
}

/// Path of the file of a transition.
pub(super) fn transition_file(folder: &HarnessDirectory, id: &str) -> PathBuf {
    folder.own().join(TRANSITIONS).join(format!("{id}.json"))
}

/// Hash of the judge prompt, rendered with fixed placeholders for goal, answer and rubric.
fn judge_prompt_hash() -> String {
    let rubric = parse_rubric(&satiety::bench::BenchmarkExpected::with_value(
        satiety::bench::Mode::LlmJudge,
        "rubric",
    ));
    let Some(rubric) = rubric.as_ref() else {
        // Only an expectation without text has no rubric.
        return content_hash(&"no rubric");
    };
    let prompt = judge_prompt("goal", "answer", rubric, "mark");
    content_hash(&(prompt.system, prompt.user, answer_schema(rubric)))
}
