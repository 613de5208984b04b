//! Gated runs in a locked harness: the tree must be at least as rigorous as its lock file, and no option of
//! the command may be weaker than the lock.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use satiety::bench::contract::TargetSpec;
use satiety::bench::{GatePolicy, SandboxRequirement, content_hash};
use satiety::harness::{Lock, Manifest, Rigor, compare};

use super::HarnessError;
use super::check::{adoption, objections};
use super::directory::{RULES_FILE, read_rules};
use super::tree::{HarnessTree, LOCK_FILE, read_lock};
use crate::EngineError;
use crate::bench::suites::LoadedSuite;
use crate::bench::{RunBenchRequest, named_target};
use crate::handles::HarnessOperations;

/// Maximum number of parent directories searched for the harness of a suite.
const MAX_LEVELS: usize = 8;

/// Rejects a gated run that the lock of the suite's harness does not allow, and applies the settings of the
/// lock. Does nothing for a suite without a lock file at or above it.
pub(crate) fn hold_to_lock(request: &mut RunBenchRequest, loaded: &LoadedSuite) -> Result<(), EngineError> {
    let Some(root) = root_with(loaded, &[LOCK_FILE])? else {
        return Ok(());
    };
    let tree = HarnessTree::read(&root, None)?;
    let Some(lock) = tree.lock_file.clone() else {
        return Ok(());
    };
    let nothing = BTreeSet::new();
    let step = adoption(
        &lock,
        &tree.lock,
        &tree.steps,
        &lock.keys,
        &nothing,
        Timestamp::now(),
    )?;
    if !step.allowed {
        return Err(HarnessError::WeakerThanLock {
            file: root.join(LOCK_FILE).display().to_string(),
            objections: objections(&step.diff, &nothing),
        }
        .into());
    }
    let flags = softer_options(request, loaded, &tree.lock)?;
    if !flags.is_empty() {
        return Err(HarnessError::LockedOptions {
            file: root.join(LOCK_FILE).display().to_string(),
            flags,
        }
        .into());
    }
    if let Some(policy) = tree.lock.manifest.gates.get(&loaded.suite.suite_id) {
        request.gate = Some(policy.clone());
    }
    request.sandbox = request.sandbox.max(Some(tree.lock.sandbox));
    Ok(())
}

/// Applies the sandbox that the harness requires to runs of its suites, unless the caller chose another:
/// `harness record` evaluates these runs.
pub(crate) fn confine_harness_run(
    request: &mut RunBenchRequest,
    loaded: &LoadedSuite,
) -> Result<(), EngineError> {
    if request.sandbox.is_some() {
        return Ok(());
    }
    if let Some(root) = root_with(loaded, &[LOCK_FILE, RULES_FILE])? {
        request.sandbox = Some(read_rules(&root.join(RULES_FILE))?.sandbox);
    }
    Ok(())
}

impl HarnessOperations<'_> {
    /// Whether a suite belongs to the locked harness in a directory, so that its baseline and cases change only with a
    /// signature.
    pub fn is_locked_suite(self, harness: &Path, suite_id: &str) -> bool {
        is_locked_suite(harness, suite_id)
    }
}

/// Whether a suite belongs to the locked harness in a directory. A lock that cannot be read protects every suite.
pub(crate) fn is_locked_suite(harness: &Path, suite_id: &str) -> bool {
    match read_lock(harness) {
        Ok(None) => false,
        Ok(Some(lock)) => lock.manifest.suites.contains_key(suite_id),
        Err(_) => true,
    }
}

/// Options that are weaker than the lock, with the required values.
fn softer_options(
    request: &RunBenchRequest,
    loaded: &LoadedSuite,
    lock: &Lock,
) -> Result<Vec<String>, EngineError> {
    let suite = &loaded.suite;
    let mut flags = Vec::new();
    if !request.cases.is_empty() {
        flags.push("--case: a gate runs every case".to_owned());
    }
    if !request.tags.is_empty() {
        flags.push("--tag: a gate runs every case".to_owned());
    }
    let most = suite
        .cases
        .iter()
        .map(|case| suite.repeats_of(case))
        .max()
        .unwrap_or(1);
    if request.repeats.is_some_and(|repeats| repeats < most) {
        flags.push(format!("--repeats: the suite requires {most}"));
    }
    for (given, flag) in [
        (request.sequential, "--sequential"),
        (request.until_decided.is_some(), "--until-decided"),
    ] {
        if given {
            flags.push(format!(
                "{flag}: a gate runs every repeat and uses the accepted baseline"
            ));
        }
    }
    if request.inconclusive_passes {
        flags.push("--on-inconclusive: a gate passes only with a verdict".to_owned());
    }
    let limits = || {
        suite
            .cases
            .iter()
            .map(|case| case.timeout_ms.or(suite.timeout_ms))
    };
    if let Some(given) = request.timeout_ms
        && limits().flatten().any(|limit| given > limit)
    {
        flags.push("--timeout: longer than the suite allows".to_owned());
    }
    if let (Some(named), Some(hash)) = (&request.target, lock.targets.get(&suite.suite_id)) {
        let spec: TargetSpec = named_target(named)?;
        if content_hash(&spec) != *hash {
            flags.push(format!("--target: {} describes another target", suite.suite_id));
        }
    }
    if let (Some(given), Some(locked)) = (&request.gate, lock.manifest.gates.get(&suite.suite_id))
        && is_softer(given, locked)?
        && *given != GatePolicy::default()
    {
        flags.push(format!(
            "gate options: harness.toml has [gates.{}]",
            suite.suite_id
        ));
    }
    if request.sandbox == Some(SandboxRequirement::Off) && lock.sandbox != SandboxRequirement::Off {
        flags.push(format!("--no-sandbox: harness.toml requires {}", lock.sandbox));
    }
    Ok(flags)
}

fn is_softer(given: &GatePolicy, locked: &GatePolicy) -> Result<bool, EngineError> {
    let manifest_with = |policy: &GatePolicy| -> Result<Manifest, EngineError> {
        let mut manifest =
            Manifest::from_suites(&[], &std::collections::BTreeMap::new()).map_err(HarnessError::from)?;
        manifest.gates.insert("gate".into(), policy.clone());
        Ok(manifest)
    };
    let diff = compare(&manifest_with(locked)?, &manifest_with(given)?).map_err(HarnessError::from)?;
    Ok(diff.changes.iter().any(|change| change.rigor == Rigor::Weaker))
}

/// Finds the nearest directory at or above a suite with one of these files, within the repository of the
/// suite.
fn root_with(loaded: &LoadedSuite, names: &[&str]) -> Result<Option<PathBuf>, EngineError> {
    let file =
        std::path::absolute(&loaded.file).map_err(|cause| EngineError::file("find", &loaded.file, cause))?;
    let mut directory = file.parent();
    for _ in 0..MAX_LEVELS {
        let Some(here) = directory else {
            break;
        };
        if names.iter().any(|name| here.join(name).exists()) {
            return Ok(Some(here.to_path_buf()));
        }
        if is_top(here) {
            break;
        }
        directory = here.parent();
    }
    Ok(None)
}

fn is_top(directory: &Path) -> bool {
    directory.join(".git").exists()
}
