//! May one harness follow another? Reads both sides, asks the library, and shows what an approver would sign.
//!
//! The old side decides whose signature counts. The new side is a tree, never a file that describes one.

use crate::handles::HarnessOperations;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use satiety::harness::{
    Authority, Change, KeyRing, Lock, Manifest, Rigor, RigorDiff, SignedStep, Succession, Transition,
    TransitionStatement, succession,
};
use satiety::ids;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::HarnessError;
use super::directory::{Folder, shown};
use super::disk;
use super::keys::KeyFile;
use super::tree::{HarnessTree, LOCK_FILE, Side, read_side, transition_file};
use crate::EngineError;
use crate::bench::suites;

/// Two harnesses to be compared.
#[derive(Debug, Clone, Default)]
pub struct CheckHarnessRequest {
    /// The base: `git:REVISION[:DIRECTORY]`, a directory, a lock file, or a manifest in a file.
    pub old: String,
    /// The change: a directory, or `git:REVISION[:DIRECTORY]`.
    pub new: String,
    /// Whether a harness that had no approvers may get its first ones.
    pub accept_first_keys: bool,
}

/// Whether a harness is at least as rigorous as another, or signed steps lead to it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HarnessCheck {
    /// Every change between the two harnesses.
    #[serde(flatten)]
    pub diff: RigorDiff,
    /// Whether the change is allowed: nothing asks less, or an approver signed exactly this step.
    pub allowed: bool,
    /// Changes that need an approver's signature and have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsigned_retirements: Vec<String>,
    /// Hash of the old lock: what a transition must lead from.
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

/// State of a lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockState {
    /// There is none, and the base has none.
    Absent,
    /// It describes the tree.
    Current,
    /// It is that of the base; the tree has moved on since.
    Stale,
    /// It is gone, or describes neither the tree nor the base.
    Invalid,
}

/// A lock file to be written or checked.
#[derive(Debug, Clone, Default)]
pub struct LockHarnessRequest {
    /// The harness.
    pub folder: PathBuf,
    /// Whether to compare only, and write nothing.
    pub check_only: bool,
}

/// A lock file that was written or checked.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LockedHarness {
    /// The lock file.
    pub file: String,
    /// The identity of the harness.
    pub id: Option<String>,
    /// The hash of everything that decides.
    pub hash: String,
    /// The harness version that cycles are counted by.
    pub version: String,
    /// Whether the file describes the tree now.
    pub current: bool,
    /// Whether the file was written by this call.
    pub written: bool,
    /// How many suites, cases, baselines and target descriptions it covers.
    pub covers: Coverage,
    /// What changed since the last lock file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// What a lock covers, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Suites below the harness.
    pub suites: usize,
    /// Cases of all suites, also those that are not run.
    pub cases: usize,
    /// Suites with an accepted run beside them.
    pub baselines: usize,
    /// Suites with a target description beside them.
    pub targets: usize,
    /// Approvers whose signature counts.
    pub approvers: usize,
}

/// A step that an approver is asked to sign.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PendingTransition {
    /// The id that the transition will have.
    pub id: String,
    /// Hash of the lock that it leads from.
    pub from: String,
    /// Hash of the lock that it leads to.
    pub to: String,
    /// Why the harness must change.
    pub reason: String,
    /// Every change.
    pub diff: RigorDiff,
    /// Each case that changes, before and after.
    pub cases: Vec<CaseSides>,
    /// Approvers of the old side.
    pub approvers: Vec<String>,
    #[serde(skip)]
    locks: Box<(Lock, Lock)>,
    #[serde(skip)]
    root: PathBuf,
}

/// A case before and after a change, whole.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CaseSides {
    /// The suite.
    pub suite: String,
    /// The case.
    pub case_id: String,
    /// What it was; absent for a new case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What it becomes; absent for a case that goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// A transition that was signed and written.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SignedTransition {
    /// Its id.
    pub id: String,
    /// The file that it was written to.
    pub file: String,
    /// What was signed.
    pub statement: TransitionStatement,
}

impl HarnessOperations<'_> {
    /// Compares a harness with its base. Needs no store.
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
        // A lock file of the base that differs from its tree counts too: the new side must satisfy both.
        if let Some(file) = old.lock_file.as_ref().filter(|file| **file != old.lock) {
            let by_file = succession(file, &goal, &new.tree.steps, &authority).map_err(HarnessError::from)?;
            merge(&mut checked, by_file);
        }
        let lock = lock_state(old.lock_file.as_ref(), &new.tree);
        if lock == LockState::Invalid {
            checked.allowed = false;
            checked.diff.admissible = false;
            let reason = if new.tree.lock_file.is_some() {
                "describes neither this tree nor the base; run `satiety harness lock`"
            } else {
                "the lock file is gone"
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
        Ok(HarnessCheck {
            allowed: checked.allowed,
            unsigned_retirements: unsigned,
            from_lock: old.lock.hash(),
            to_lock: goal.hash(),
            lock,
            transitions: checked.used,
            refused_transitions: checked.unused.into_iter().collect(),
            diff: checked.diff,
        })
    }

    /// Writes the lock file of a harness, or compares it with the tree. A tree that is weaker than its lock file is refused.
    pub fn lock(self, request: &LockHarnessRequest) -> Result<LockedHarness, EngineError> {
        let side = read_side(&shown(&request.folder), None)?;
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
            // A harness that was recorded before has an identity already.
            let known = super::identity::RepositoryMarks::read(&tree.folder.root)?.id;
            lock.id = lock.id.or(known);
            lock.id
                .get_or_insert_with(|| ids::prefixed("harness", uuid::Uuid::now_v7()));
            disk::replace(&file, lock.render().as_bytes())?;
        }
        Ok(LockedHarness {
            file: shown(&file),
            hash: lock.hash(),
            version: lock.manifest.version(),
            current: current || written,
            written,
            covers: coverage(&lock),
            id: lock.id,
            changes,
        })
    }

    /// Prepares a step from a base to the tree as it is now, for an approver to look at.
    pub fn pending_transition(
        self,
        base: &str,
        folder: &Path,
        reason: &str,
    ) -> Result<PendingTransition, EngineError> {
        if reason.trim().is_empty() {
            return Err(HarnessError::Key("a transition needs a reason".into()).into());
        }
        let named = shown(folder);
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

    /// Signs a step with an approver's key and writes it beside the suites, with a lock file that fits.
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
        let folder = Folder::read(&pending.root)?;
        let file = transition_file(&folder, &pending.id);
        let mut text = serde_json::to_string_pretty(&transition)?;
        text.push('\n');
        disk::replace(&file, text.as_bytes())?;
        if folder.root.join(LOCK_FILE).is_file() {
            disk::replace(&folder.root.join(LOCK_FILE), to.render().as_bytes())?;
        }
        Ok(SignedTransition {
            id: pending.id.clone(),
            file: shown(&file),
            statement,
        })
    }
}

/// The old side of a comparison.
struct GitBase {
    lock: Lock,
    lock_file: Option<Lock>,
    keys: KeyRing,
    folder: Option<Folder>,
    /// Whether it describes directories the way the first version did.
    legacy: bool,
}

impl GitBase {
    /// What the new side is compared as.
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
        reason: format!("{error}; a manifest is what `satiety harness manifest` prints"),
    })?;
    manifest.check().map_err(HarnessError::from)?;
    // A manifest says nothing about keys, baselines and targets, so nothing else can be compared.
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

/// Keys that both the settings and the lock file of a base name.
fn common_keys(tree: &HarnessTree) -> KeyRing {
    let mut keys = tree.lock.keys.clone();
    if let Some(file) = &tree.lock_file {
        keys.approvers.retain(|key| file.keys.approvers.contains(key));
        keys.agent_keys.extend(file.keys.agent_keys.iter().cloned());
    }
    keys
}

/// The stricter of two answers about the same new side.
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

/// Why a step is refused, a line each.
pub(super) fn objections(diff: &RigorDiff, justified: &BTreeSet<String>) -> Vec<String> {
    let needing = diff
        .needing_approval()
        .filter(|change| !justified.contains(&change.place))
        .map(|change| format!("{}: {}; this needs a signature", change.place, change.reason));
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

/// Every case that differs, with its whole content on both sides.
pub(super) fn case_sides(old: Option<&Folder>, new: &Folder) -> Vec<CaseSides> {
    let cases = |folder: &Folder| -> BTreeMap<(String, String), Value> {
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

/// Signed steps of a tree that count towards adopting it, for whoever has an older lock.
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
        // The log trusts the first keys that it sees, and remembers them.
        accept_first_keys: true,
        justified,
    };
    Ok(succession(old, new, steps, &authority).map_err(HarnessError::from)?)
}
