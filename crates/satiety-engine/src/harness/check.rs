//! Compares two harness versions: whether one may follow the other, and what an approver would sign.
//!
//! The old side determines whose signatures count. The new side is always read from a tree, never from a file
//! that describes one.

use crate::handles::HarnessOperations;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use satiety::harness::{
    Authority, Change, KeyRing, Lock, Manifest, Rigor, RigorDiff, SignedStep, Succession, Transition,
    TransitionStatement, succession,
};
use satiety::ids;
use satiety_report::Finding;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::HarnessError;
use super::directory::{HarnessDirectory, display_path};
use super::disk;
use super::findings::findings;
use super::keys::KeyFile;
use super::tree::{HarnessTree, LOCK_FILE, Side, read_side, transition_file};
use crate::EngineError;
use crate::bench::suites;

/// Two harness versions to compare.
#[derive(Debug, Clone, Default)]
pub struct CheckHarnessRequest {
    /// The base: `git:REVISION[:DIRECTORY]`, a directory, a lock file, or a manifest file.
    pub old: String,
    /// The change: a directory, or `git:REVISION[:DIRECTORY]`.
    pub new: String,
    /// Whether a harness without approvers may get its first ones.
    pub accept_first_keys: bool,
}

/// Whether a harness is at least as rigorous as another, or reached by signed steps.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HarnessCheck {
    /// Every change between the two harnesses.
    #[serde(flatten)]
    pub diff: RigorDiff,
    /// Whether the change is allowed: nothing is weaker, or an approver signed exactly this step.
    pub allowed: bool,
    /// Changes that require an approver's signature but have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsigned_retirements: Vec<String>,
    /// Every refused change with its rule, file and line; empty if the change is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Hash of the old lock, which a transition must start from.
    pub from_lock: String,
    /// Hash of the new lock.
    pub to_lock: String,
    /// State of the new side's lock file.
    pub lock: LockState,
    /// Signed steps that allow the change, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<String>,
    /// Signed steps that do not count, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_transitions: BTreeMap<String, String>,
}

/// State of a harness lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockState {
    /// Neither the tree nor the base has one.
    Absent,
    /// It matches the current tree.
    Current,
    /// It matches the base; the tree has changed since.
    Stale,
    /// It is missing, or matches neither the tree nor the base.
    Invalid,
}

/// Lock file to write or check.
#[derive(Debug, Clone, Default)]
pub struct LockHarnessRequest {
    pub folder: PathBuf,
    /// Whether to only compare, without writing.
    pub check_only: bool,
}

/// Lock file that was written or checked.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LockedHarness {
    /// Path of the lock file.
    pub file: String,
    /// Id of the harness, if it has one.
    pub id: Option<String>,
    /// Hash of everything that affects verdicts.
    pub hash: String,
    /// Harness version that cycles refer to.
    pub version: String,
    /// Whether the file now matches the tree.
    pub current: bool,
    /// Whether this call wrote the file.
    pub written: bool,
    /// Numbers of suites, cases, baselines and target descriptions covered.
    pub covers: Coverage,
    /// Changes since the previous lock file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// Numbers of items that a lock covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LockCoverage")]
pub struct Coverage {
    /// Number of suites below the harness.
    pub suites: usize,
    /// Number of cases in all suites, including disabled ones.
    pub cases: usize,
    /// Number of suites with a baseline file.
    pub baselines: usize,
    /// Number of suites with a target description.
    pub targets: usize,
    /// Number of approvers whose signatures count.
    pub approvers: usize,
}

/// Transition for an approver to sign.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PendingTransition {
    /// Id of the transition to be signed.
    pub id: String,
    /// Hash of the lock that it starts from.
    pub from: String,
    /// Hash of the lock that it leads to.
    pub to: String,
    /// Reason for the change of the harness.
    pub reason: String,
    /// Every change between the two locks.
    pub diff: RigorDiff,
    /// Each changed case, before and after.
    pub cases: Vec<CaseSides>,
    /// Names of the old side's approvers.
    pub approvers: Vec<String>,
    #[serde(skip)]
    locks: Box<(Lock, Lock)>,
    #[serde(skip)]
    root: PathBuf,
}

/// Complete content of a case before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CaseSides {
    /// Id of the suite.
    pub suite: String,
    /// Id of the case.
    pub case_id: String,
    /// Content before the change; absent for a new case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// Content after the change; absent for a removed case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Transition that was signed and written.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SignedTransition {
    /// Id of the transition.
    pub id: String,
    /// Path of the written file.
    pub file: String,
    /// Statement that was signed.
    pub statement: TransitionStatement,
}

impl HarnessOperations<'_> {
    /// Compares a harness with its base. Does not need a database.
    pub fn check(self, request: &CheckHarnessRequest) -> Result<HarnessCheck, EngineError> {
        let new = read_side(&request.new, Some(&request.old))?;
        let old = read_base(&request.old, &request.new, &new)?;
        let nothing = BTreeSet::new();
        let authority = Authority {
            keys: &old.keys,
            now: Timestamp::now(),
            accept_first_keys: request.accept_first_keys,
            justified: &nothing,
        };
        let goal = old.goal(&new.tree);
        let mut checked =
            succession(&old.lock, &goal, &new.tree.steps, &authority).map_err(HarnessError::from)?;
        // If the lock file of the base differs from its tree, the new side must satisfy both.
        if let Some(file) = old.lock_file.as_ref().filter(|file| **file != old.lock) {
            let by_file = succession(file, &goal, &new.tree.steps, &authority).map_err(HarnessError::from)?;
            merge(&mut checked, by_file);
        }
        let lock = lock_state(old.lock_file.as_ref(), &new.tree);
        if lock == LockState::Invalid {
            checked.allowed = false;
            checked.diff.admissible = false;
            let reason = if new.tree.lock_file.is_some() {
                "matches neither this tree nor the base; run `satiety harness lock`"
            } else {
                "the lock file is missing"
            };
            checked.diff.changes.insert(0, weaker(LOCK_FILE, reason));
        }
        let unsigned = if checked.allowed {
            Vec::new()
        } else {
            checked
                .diff
                .needing_approval()
                .map(|change| change.place.clone())
                .collect()
        };
        let findings = if checked.allowed {
            Vec::new()
        } else {
            findings(&checked.diff, &new)
        };
        Ok(HarnessCheck {
            allowed: checked.allowed,
            findings,
            unsigned_retirements: unsigned,
            from_lock: old.lock.hash(),
            to_lock: goal.hash(),
            lock,
            transitions: checked.used,
            refused_transitions: checked.unused.into_iter().collect(),
            diff: checked.diff,
        })
    }

    /// Writes the lock file of a harness, or compares it with the tree. A tree weaker than its lock file is
    /// rejected.
    pub fn lock(self, request: &LockHarnessRequest) -> Result<LockedHarness, EngineError> {
        let side = read_side(&display_path(&request.folder), None)?;
        let tree = side.tree;
        let mut lock = tree.lock.clone();
        let mut changes = Vec::new();
        if let Some(file) = &tree.lock_file {
            let nothing = BTreeSet::new();
            let authority = Authority {
                keys: &file.keys,
                now: Timestamp::now(),
                accept_first_keys: true,
                justified: &nothing,
            };
            let step = succession(file, &lock, &tree.steps, &authority).map_err(HarnessError::from)?;
            if !step.allowed {
                return Err(HarnessError::Weaker {
                    objections: objections(&step.diff, &nothing),
                }
                .into());
            }
            changes = step.diff.changes;
        }
        let current = tree.lock_file.as_ref() == Some(&lock);
        let file = tree.folder.root.join(LOCK_FILE);
        let written = !request.check_only && !current;
        if written {
            // A harness that was recorded before already has an id.
            let known = super::identity::RepositoryMarks::read(&tree.folder.root)?.id;
            lock.id = lock.id.or(known);
            lock.id
                .get_or_insert_with(|| ids::prefixed("harness", uuid::Uuid::now_v7()));
            disk::replace(&file, lock.render().as_bytes())?;
        }
        Ok(LockedHarness {
            file: display_path(&file),
            hash: lock.hash(),
            version: lock.manifest.version(),
            current: current || written,
            written,
            covers: coverage(&lock),
            id: lock.id,
            changes,
        })
    }

    /// Prepares a step from a base to the current tree, for an approver to review.
    pub fn pending_transition(
        self,
        base: &str,
        folder: &Path,
        reason: &str,
    ) -> Result<PendingTransition, EngineError> {
        if reason.trim().is_empty() {
            return Err(HarnessError::Key("a transition requires a reason".into()).into());
        }
        let named = display_path(folder);
        let new = read_side(&named, Some(base))?;
        let old = read_base(base, &named, &new)?;
        let id = ids::prefixed("transition", uuid::Uuid::now_v7());
        let mut to = old.goal(&new.tree);
        to.transitions.insert(id.clone());
        let diff = satiety::harness::compare_locks(&old.lock, &to).map_err(HarnessError::from)?;
        if diff.is_free() {
            return Err(HarnessError::NothingToSign.into());
        }
        Ok(PendingTransition {
            from: old.lock.hash(),
            to: to.hash(),
            reason: reason.to_owned(),
            cases: case_sides(old.folder.as_ref(), &new.tree.folder),
            approvers: old.keys.approvers.iter().map(|key| key.name.clone()).collect(),
            diff,
            id,
            locks: Box::new((old.lock, to)),
            root: new.tree.folder.root.clone(),
        })
    }

    /// Signs a step with an approver's key and writes it next to the suites, with a matching lock file.
    pub fn sign_transition(
        self,
        pending: &PendingTransition,
        key: &KeyFile,
        passphrase: &str,
        valid_for: SignedDuration,
    ) -> Result<SignedTransition, EngineError> {
        let (from, to) = pending.locks.as_ref();
        let statement = TransitionStatement::about(
            (from, to),
            pending.id.as_str(),
            pending.reason.as_str(),
            key.name.as_str(),
            (Timestamp::now(), valid_for),
        )
        .map_err(HarnessError::from)?;
        let signature = key.sign_bytes(&statement.signed_bytes(), passphrase)?;
        let transition = Transition {
            statement: statement.clone(),
            signature,
            from: from.clone(),
            to: to.clone(),
        };
        transition
            .verify(&from.keys, statement.approved_at)
            .map_err(|why| HarnessError::Key(why.to_string()))?;
        let folder = HarnessDirectory::read(&pending.root)?;
        let file = transition_file(&folder, &pending.id);
        let mut text = serde_json::to_string_pretty(&transition)?;
        text.push('\n');
        disk::replace(&file, text.as_bytes())?;
        if folder.root.join(LOCK_FILE).is_file() {
            disk::replace(&folder.root.join(LOCK_FILE), to.render().as_bytes())?;
        }
        Ok(SignedTransition {
            id: pending.id.clone(),
            file: display_path(&file),
            statement,
        })
    }
}

/// Old side of a comparison.
struct GitBase {
    lock: Lock,
    lock_file: Option<Lock>,
    keys: KeyRing,
    folder: Option<HarnessDirectory>,
    /// Whether it hashes directories as the first version did.
    legacy: bool,
}

impl GitBase {
    /// Lock that the new side is compared as.
    fn goal(&self, new: &HarnessTree) -> Lock {
        if !self.legacy {
            return new.lock.clone();
        }
        Lock {
            manifest: new.folder.legacy_manifest(),
            ..new.lock.clone()
        }
    }
}

fn read_base(named: &str, new_name: &str, new: &Side) -> Result<GitBase, EngineError> {
    let path = Path::new(named);
    if named.starts_with("git:") || !path.is_file() {
        let side = read_side(named, Some(new_name))?;
        if !side.is_commit && !new.is_commit && same_directory(path, Path::new(new_name)) {
            return Err(HarnessError::SameTree {
                path: named.to_owned(),
            }
            .into());
        }
        let tree = side.tree;
        return Ok(GitBase {
            keys: common_keys(&tree),
            lock: tree.lock,
            lock_file: tree.lock_file,
            folder: Some(tree.folder),
            legacy: false,
        });
    }
    let text = suites::read(path)?;
    if let Ok(lock) = Lock::parse(&text) {
        return Ok(GitBase {
            keys: lock.keys.clone(),
            lock_file: Some(lock.clone()),
            lock,
            folder: None,
            legacy: false,
        });
    }
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| HarnessError::BadFile {
        file: named.to_owned(),
        reason: format!("{error}; a manifest is the output of `satiety harness manifest`"),
    })?;
    manifest.check().map_err(HarnessError::from)?;
    // A manifest does not cover keys, baselines and targets, so only the rest can be compared.
    Ok(GitBase {
        legacy: manifest.format == 1,
        keys: KeyRing::default(),
        lock: Lock {
            manifest,
            ..new.tree.lock.clone()
        },
        lock_file: None,
        folder: None,
    })
}

fn same_directory(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Keys that occur both in the settings and in the lock file of a base.
fn common_keys(tree: &HarnessTree) -> KeyRing {
    let mut keys = tree.lock.keys.clone();
    if let Some(file) = &tree.lock_file {
        keys.approvers.retain(|key| file.keys.approvers.contains(key));
        keys.agent_keys.extend(file.keys.agent_keys.iter().cloned());
    }
    keys
}

/// Merges two results for the same new side into the stricter one.
fn merge(first: &mut Succession, second: Succession) {
    first.allowed &= second.allowed;
    first.diff.admissible &= second.diff.admissible;
    for change in second.diff.changes {
        if !first.diff.changes.contains(&change) {
            first.diff.changes.push(change);
        }
    }
    first
        .diff
        .changes
        .sort_by(|a, b| (a.rigor, &a.place).cmp(&(b.rigor, &b.place)));
    first.unused.extend(second.unused);
}

fn lock_state(base: Option<&Lock>, new: &HarnessTree) -> LockState {
    match (&new.lock_file, base) {
        (None, None) => LockState::Absent,
        (Some(file), _) if *file == new.lock => LockState::Current,
        (Some(file), Some(base)) if file == base => LockState::Stale,
        _ => LockState::Invalid,
    }
}

fn weaker(place: &str, reason: &str) -> Change {
    Change {
        place: place.to_owned(),
        rigor: Rigor::Weaker,
        reason: reason.to_owned(),
        needs_approval: false,
    }
}

/// Reasons why a step is rejected, one per line.
pub(super) fn objections(diff: &RigorDiff, justified: &BTreeSet<String>) -> Vec<String> {
    let needing = diff
        .needing_approval()
        .filter(|change| !justified.contains(&change.place))
        .map(|change| format!("{}: {}; requires a signature", change.place, change.reason));
    diff.objections()
        .map(|change| format!("{}: {}", change.place, change.reason))
        .chain(needing)
        .collect()
}

fn coverage(lock: &Lock) -> Coverage {
    Coverage {
        suites: lock.manifest.suites.len(),
        cases: lock.manifest.cases().count(),
        baselines: lock.baselines.len(),
        targets: lock.targets.len(),
        approvers: lock.keys.approvers.len(),
    }
}

/// Every case that differs, with its complete content on both sides.
pub(super) fn case_sides(old: Option<&HarnessDirectory>, new: &HarnessDirectory) -> Vec<CaseSides> {
    let cases = |folder: &HarnessDirectory| -> BTreeMap<(String, String), Value> {
        let hashes = folder.hashes();
        let none = BTreeMap::new();
        folder
            .suites
            .iter()
            .flat_map(|loaded| {
                let files = hashes.get(&loaded.suite.suite_id).unwrap_or(&none);
                loaded.suite.cases.iter().map(|case| {
                    let own: BTreeMap<&String, Option<&String>> = case
                        .input
                        .files
                        .iter()
                        .map(|name| (name, files.get(name)))
                        .collect();
                    let value = json!({
                        "input": case.input,
                        "expected": case.expected,
                        "files": own,
                        "repeats": loaded.suite.repeats_of(case),
                        "deterministic": loaded.suite.is_deterministic(case),
                        "timeout_ms": case.timeout_ms.or(loaded.suite.timeout_ms),
                        "skip": case.skip,
                    });
                    ((loaded.suite.suite_id.clone(), case.case_id.clone()), value)
                })
            })
            .collect()
    };
    let before = old.map(cases).unwrap_or_default();
    let mut after = cases(new);
    let mut sides = Vec::new();
    for ((suite, case_id), value) in before {
        let now = after.remove(&(suite.clone(), case_id.clone()));
        if now.as_ref() != Some(&value) {
            sides.push(CaseSides {
                suite,
                case_id,
                old: Some(value),
                new: now,
            });
        }
    }
    if old.is_some() {
        sides.extend(after.into_iter().map(|((suite, case_id), value)| CaseSides {
            suite,
            case_id,
            old: None,
            new: Some(value),
        }));
    }
    sides
}

/// Signed steps of a tree that count towards adopting it from an older lock.
pub(super) fn adoption(
    old: &Lock,
    new: &Lock,
    steps: &[SignedStep],
    keys: &KeyRing,
    justified: &BTreeSet<String>,
    now: Timestamp,
) -> Result<Succession, EngineError> {
    let authority = Authority {
        keys,
        now,
        // The log trusts the first keys that it sees, and records them.
        accept_first_keys: true,
        justified,
    };
    Ok(succession(old, new, steps, &authority).map_err(HarnessError::from)?)
}
