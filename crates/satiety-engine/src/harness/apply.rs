//! Applies an approved expansion step by step: archive, tighten thresholds, add new suites and cases
//! disabled, enable them one at a time, verify the old ones, commit, log; or roll everything back. Each step
//! is recorded before the next, so an interrupted or killed apply resumes where it stopped.

use crate::handles::HarnessOperations;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::Hint;
use satiety::harness::approval::verify;
use satiety::harness::archive::{archive_hash, check_archive};
use satiety::harness::expansion::{CaseOutcome, Context, Event, Justification};
use satiety::harness::ledger::Anchor;
use satiety::harness::{
    Action, AppliedProposal, Expansion, KeyRing, Manifest, Observation, Phase, Proposal, Step,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::HarnessError;
use super::approval::{check_active_version, release, trusted};
use super::cycle::drift;
use super::directory::HarnessDirectory;
use super::disk;
use super::state::{State, Writing};
use super::tree::{HarnessTree, LOCK_FILE};
use crate::EngineError;
use crate::bench::{Progress, RunBenchRequest, Stop};

/// Expansion to apply.
#[derive(Debug, Clone, Default)]
pub struct ApplyRequest {
    pub folder: PathBuf,
    /// Id of the expansion; the open one if `None`.
    pub expansion: Option<String>,
    /// Options for running cases.
    pub options: RunBenchRequest,
}

/// Result of applying an expansion.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AppliedExpansion {
    /// Id of the expansion.
    pub expansion_id: String,
    /// Phase of the expansion after this call.
    pub phase: Phase,
    /// Active version of the harness.
    pub version: String,
    /// New cases, and whether the system passed each at once.
    pub outcomes: Vec<CaseOutcome>,
    /// Reason of a rollback, and who requested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Justification>,
    /// Whether it was interrupted before it was finished; apply resumes from there.
    pub interrupted: bool,
    /// Last hash of the log, to be kept in another place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Anchor>,
    /// Errors of hooks that failed.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl HarnessOperations<'_> {
    /// Applies or resumes an approved expansion, and alerts if it was rolled back. Calls `on_step` for every
    /// completed step.
    pub async fn apply(
        self,
        request: ApplyRequest,
        stop: &Stop,
        mut on_step: impl FnMut(&str),
        mut progress: impl FnMut(Progress),
    ) -> Result<AppliedExpansion, EngineError> {
        // Read the files first: keys and identity are stored next to them.
        let folder = HarnessDirectory::read(&request.folder)?;
        let mut state = self.history_of(&folder).await?;
        let mut expansion = state.open_expansion(request.expansion.as_deref()).await?;
        refuse_selection(&request.options, &folder, &expansion)?;
        let keys = trusted(&state, &folder)?;
        check_approval(&state, &expansion, &keys)?;
        while !expansion.is_over() && !stop.is_requested() {
            check_rigor(&state, &expansion, &request.folder).await?;
            let step = self.step(&mut state, &mut expansion, &keys, &request, stop, &mut progress);
            let step = Box::pin(step).await?;
            on_step(&step);
        }
        let mut applied = finished(&mut state, expansion, &request.folder)?;
        if applied.phase == Phase::RolledBack {
            applied.warnings = self.alert_rollback(&applied).await;
        }
        Ok(applied)
    }

    /// Restores the archived version while a new one is being applied: the only exemption from the ratchet.
    pub async fn rollback(
        self,
        request: ApplyRequest,
        ending: Justification,
        on_step: impl FnMut(&str),
    ) -> Result<AppliedExpansion, EngineError> {
        let mut state = self.state(&request.folder).await?;
        state.check_history()?;
        let mut expansion = state.open_expansion(request.expansion.as_deref()).await?;
        if expansion.phase.is_applying() || expansion.phase == Phase::RollingBack {
            // Reject as a whole, before anything is decided or written.
            let archived = archived_files(&state, &expansion).await?;
            disk::check_places(&request.folder, archived.keys().map(String::as_str), "restore")?;
        }
        if expansion.phase != Phase::RollingBack {
            if !expansion.phase.is_applying() {
                return Err(HarnessError::Phase {
                    id: expansion.expansion_id,
                    state: "cannot be rolled back: it is not being applied".into(),
                    hint: Hint::with_command(
                        "a committed version cannot be undone; to end a pending proposal, reject it",
                        "satiety harness reject",
                    ),
                }
                .into());
            }
            observe(
                &mut state,
                &mut expansion,
                &KeyRing::default(),
                Observation::RollbackRequested(ending),
            )
            .await?;
        }
        let stop = Stop::default();
        self.apply(request, &stop, on_step, |_| {}).await
    }

    async fn alert_rollback(self, applied: &AppliedExpansion) -> Vec<String> {
        let body = json!({
            "event": "harness_rollback",
            "action": Action::FlagForReview,
            "reason": applied.ended.as_ref().map(|ended| &ended.why),
            "expansion_id": applied.expansion_id,
            "harness_version": applied.version,
        });
        self.engine.hooks.harness.send("harness.notify", &body).await
    }

    /// Performs one step and records it; returns a description.
    async fn step(
        self,
        state: &mut State,
        expansion: &mut Expansion,
        keys: &KeyRing,
        request: &ApplyRequest,
        stop: &Stop,
        progress: &mut impl FnMut(Progress),
    ) -> Result<String, EngineError> {
        let root = request.folder.as_path();
        let marker = format!("added by {}; it is enabled in its turn", expansion.expansion_id);
        let content = expansion
            .proposal
            .as_ref()
            .map(|proposal| proposal.content.clone())
            .unwrap_or_default();
        let (observation, message) = match expansion.next() {
            Step::Research | Step::AwaitApproval(_) => {
                return Err(approval_missing(expansion));
            }
            Step::Archive { version } => {
                let (folder, version) = (HarnessDirectory::read(root)?, version.to_owned());
                let files = folder.contents()?;
                // Do not archive files that could not be restored.
                check_archive(&files, None).map_err(HarnessError::from)?;
                disk::check_places(root, files.keys().map(String::as_str), "archive")?;
                let found = folder.manifest.version();
                if HarnessDirectory::read(root)?.contents()? != files {
                    return Err(HarnessError::Conflict.into());
                }
                let message = format!("archived version {}", super::state::short(&version));
                let observation = Observation::Archived(found);
                let detail = json!({"archive": archive_hash(&files)});
                let writing = Writing::default().version(&folder.manifest, Some(disk::packed(&files)))?;
                observe_with(state, expansion, keys, observation, writing, detail).await?;
                return Ok(message);
            }
            Step::ApplyThresholds(increases) => {
                let message = format!("tightened {} threshold(s)", increases.len());
                disk::write_thresholds(&HarnessDirectory::read(root)?, &content)?;
                (Observation::ThresholdsApplied, message)
            }
            Step::AddBenchmarks(cases) => {
                let message = format!("added {} case(s) of new suites, disabled", cases.len());
                disk::add_suites(&HarnessDirectory::read(root)?, &content, &marker)?;
                (Observation::BenchmarksAdded, message)
            }
            Step::AddEdgeCases(cases) => {
                let message = format!("added {} case(s) to known suites, disabled", cases.len());
                disk::add_cases(&HarnessDirectory::read(root)?, &content, &marker)?;
                (Observation::EdgeCasesAdded, message)
            }
            Step::Enable(case) => {
                let case = case.clone();
                disk::enable(
                    &HarnessDirectory::read(root)?,
                    &content,
                    &case.suite,
                    &case.case_id,
                )?;
                let expected = signed_manifest(state, expansion).await?;
                let Some(passed) = self.try_case(request, &expected, &case, stop, progress).await? else {
                    return Ok("interrupted".into());
                };
                let message = format!(
                    "enabled {}/{}: {}",
                    case.suite,
                    case.case_id,
                    if passed { "passed" } else { "failed" }
                );
                (Observation::Enabled(CaseOutcome { case, passed }), message)
            }
            Step::VerifyBaseline => {
                let expected = before_retirements(state, expansion).await?;
                let verification = self.verify_baseline(request, &expected, stop, progress);
                let Some((passes, detail)) = Box::pin(verification).await? else {
                    return Ok("interrupted".into());
                };
                let message = format!(
                    "baseline verification {}: {detail}",
                    if passes { "passed" } else { "failed" }
                );
                (Observation::BaselineVerified { passes, detail }, message)
            }
            Step::Commit { .. } => {
                // The signature first: there is never a retirement without one.
                let folder = HarnessDirectory::read(root)?;
                if let (Some(proposal), Some(approval)) = (&expansion.proposal, &expansion.approval) {
                    let from = state.manifest(&approval.statement.from_version).await?;
                    let to = state.manifest(&approval.statement.to_version).await?;
                    keep_approval(&folder, proposal, approval, (from, to))?;
                }
                disk::write_retirements(&folder, &content)?;
                let folder = HarnessDirectory::read(root)?;
                let tree = HarnessTree::from_directory(folder.clone(), None)?;
                if tree.lock_file.is_some() {
                    disk::replace(&root.join(LOCK_FILE), tree.lock.render().as_bytes())?;
                }
                let version = folder.manifest.version();
                let message = format!("committed version {}", super::state::short(&version));
                let observation = Observation::Committed(version);
                let writing = Writing::default()
                    .event(
                        "locked",
                        json!({"version": folder.manifest.version(), "lock": tree.lock.hash()}),
                    )
                    .version(&folder.manifest, None)?
                    .lock(&tree.lock)?;
                observe_with(state, expansion, keys, observation, writing, Value::Null).await?;
                return Ok(message);
            }
            Step::Log => (Observation::Logged, "logged".into()),
            Step::Restore { version, ending } => {
                let message = format!(
                    "restored version {}: {}",
                    super::state::short(version),
                    ending.why
                );
                let archived = archived_files(state, expansion).await?;
                disk::check_places(root, archived.keys().map(String::as_str), "restore")?;
                disk::restore(root, &archived, &content)?;
                let found = HarnessDirectory::read(root)?.manifest.version();
                (Observation::Restored(found), message)
            }
            Step::Finished(_) => return Ok("finished".into()),
        };
        observe(state, expansion, keys, observation).await?;
        Ok(message)
    }
}

/// Returns an error for options that select what is verified: the whole harness is verified, as it describes
/// itself, without chosen cases, repeats, timeouts or earlier results. A target is allowed for suites that do
/// not describe one.
fn refuse_selection(
    options: &RunBenchRequest,
    folder: &HarnessDirectory,
    expansion: &Expansion,
) -> Result<(), EngineError> {
    let mut flags = Vec::new();
    let mut refuse = |given: bool, flag: &str| {
        if given {
            flags.push(flag.to_owned());
        }
    };
    refuse(!options.cases.is_empty(), "--case");
    refuse(!options.tags.is_empty(), "--tag");
    refuse(options.repeats.is_some(), "--repeats");
    refuse(options.timeout_ms.is_some(), "--timeout");
    refuse(options.seed != 0, "--seed");
    refuse(options.cache, "--cache");
    refuse(options.resume.is_some(), "--resume");
    refuse(options.sequential, "--sequential");
    refuse(options.without_skill, "--without-skill");
    refuse(options.gate.is_some(), "--gate");
    refuse(options.accept_regression.is_some(), "--accept-regression");
    let sandbox = options.sandbox.unwrap_or_default();
    if sandbox < folder.rules.sandbox {
        refuse(
            true,
            &format!(
                "sandbox `{sandbox}` (--no-sandbox or `bench.sandbox`), but harness.toml requires `{}`",
                folder.rules.sandbox
            ),
        );
    }
    let adds_suites = expansion
        .proposal
        .as_ref()
        .is_some_and(|proposal| !proposal.content.new_benchmarks.is_empty());
    let described = folder.suites.iter().all(crate::bench::describes_target);
    refuse(options.target.is_some() && described && !adds_suites, "--target");
    if flags.is_empty() {
        Ok(())
    } else {
        Err(HarnessError::Selection { flags }.into())
    }
}

/// Checks that an expansion being applied has the signature recorded in the log, whatever the database says.
fn check_approval(state: &State, expansion: &Expansion, keys: &KeyRing) -> Result<(), EngineError> {
    let (Some(proposal), Some(approval)) = (&expansion.proposal, &expansion.approval) else {
        return Err(approval_missing(expansion));
    };
    if !state.knows_approval(&expansion.expansion_id, approval) {
        return Err(HarnessError::Tampered {
            what: format!("the log has no approval of expansion {}", expansion.expansion_id),
        }
        .into());
    }
    // The lifetime is checked when the approval is first used; it may expire afterwards.
    let at = approval.statement.approved_at;
    verify(approval, proposal, keys, &std::collections::BTreeSet::new(), at)
        .map_err(|why| HarnessError::Expansion(why.into()))?;
    Ok(())
}

fn approval_missing(expansion: &Expansion) -> EngineError {
    let (state, hint) = if expansion.proposal.is_some() {
        (
            "is waiting for approval",
            Hint::with_command("a person must approve it", "satiety harness approve --key FILE"),
        )
    } else {
        (
            "has no proposal yet",
            Hint::with_command("create one by rule, or from a file", "satiety harness expand"),
        )
    };
    HarnessError::Phase {
        id: expansion.expansion_id.clone(),
        state: state.into(),
        hint,
    }
    .into()
}

async fn observe(
    state: &mut State,
    expansion: &mut Expansion,
    keys: &KeyRing,
    observation: Observation,
) -> Result<(), EngineError> {
    observe_with(
        state,
        expansion,
        keys,
        observation,
        Writing::default(),
        Value::Null,
    )
    .await
}

/// Records the outcome of a step together with related changes.
async fn observe_with(
    state: &mut State,
    expansion: &mut Expansion,
    keys: &KeyRing,
    observation: Observation,
    writing: Writing,
    detail: Value,
) -> Result<(), EngineError> {
    let context = Context {
        keys,
        spent: &state.spent(),
        now: state.now(),
    };
    let mut event: Event = expansion
        .observe(observation, &context)
        .map_err(HarnessError::from)?;
    if let (Some(known), Value::Object(more)) = (event.body["detail"].as_object_mut(), detail) {
        known.extend(more);
    }
    let mut writing = writing.expansion(event, expansion)?;
    if expansion.is_over() && expansion.phase != Phase::Done {
        writing = release(state, expansion, writing).await?;
    }
    state.write(writing).await
}

/// Loads the archive of a version and checks that it matches the log and contains only restorable paths.
pub(super) async fn archive(
    state: &State,
    version: &str,
    expected: Option<&str>,
) -> Result<BTreeMap<String, Vec<u8>>, EngineError> {
    let row = state
        .store()
        .harness()
        .version(&state.harness_id, version)
        .await?;
    let files = row
        .and_then(|row| disk::unpacked(&row.files?))
        .ok_or_else(|| HarnessError::Tampered {
            what: format!(
                "the archive of version {} is missing",
                super::state::short(version)
            ),
        })?;
    check_archive(&files, expected).map_err(HarnessError::from)?;
    Ok(files)
}

/// Loads the archive made by this expansion.
async fn archived_files(
    state: &State,
    expansion: &Expansion,
) -> Result<BTreeMap<String, Vec<u8>>, EngineError> {
    let archived = state
        .entries
        .iter()
        .rev()
        .find(|entry| entry.kind == "archived" && entry.body["expansion_id"] == *expansion.expansion_id);
    let expected = archived.and_then(|entry| entry.body["detail"]["archive"].as_str());
    archive(state, &expansion.from_version, expected).await
}

/// Checks that the files are at least as rigorous as the active version while an expansion is applied, and
/// that the expansion starts from that version. Not required for a rollback, which is the remedy.
async fn check_rigor(state: &State, expansion: &Expansion, root: &Path) -> Result<(), EngineError> {
    if expansion.phase == Phase::Logging {
        return Ok(());
    }
    check_active_version(state, expansion)?;
    if expansion.phase == Phase::RollingBack {
        return Ok(());
    }
    let folder = HarnessDirectory::read(root)?;
    let names = folder.contents()?;
    disk::check_places(root, names.keys().map(String::as_str), "change")?;
    let (_, objections) = drift(state, &folder, &expansion.from_version).await?;
    if objections.is_empty() {
        Ok(())
    } else {
        Err(HarnessError::Weaker { objections }.into())
    }
}

/// The signed harness.
async fn signed_manifest(state: &State, expansion: &Expansion) -> Result<Manifest, EngineError> {
    match &expansion.proposal {
        Some(proposal) => state.manifest(&proposal.diff.to).await,
        None => Err(approval_missing(expansion)),
    }
}

/// The signed harness, including the cases that are retired in the last step.
async fn before_retirements(state: &State, expansion: &Expansion) -> Result<Manifest, EngineError> {
    let mut expected = signed_manifest(state, expansion).await?;
    let old = state.manifest(&expansion.from_version).await?;
    let retired = expansion
        .proposal
        .iter()
        .flat_map(|proposal| &proposal.content.retirements);
    for retired in retired {
        let case = old
            .suites
            .get(&retired.suite)
            .and_then(|suite| suite.get(&retired.case_id));
        if let (Some(case), Some(suite)) = (case, expected.suites.get_mut(&retired.suite)) {
            suite.insert(retired.case_id.clone(), case.clone());
        }
    }
    expected.retired = old.retired;
    Ok(expected)
}

/// Stores the approval in the repository, so that a build without the database can verify it.
fn keep_approval(
    folder: &HarnessDirectory,
    proposal: &Proposal,
    approval: &satiety::harness::Approval,
    (from, to): (satiety::harness::Manifest, satiety::harness::Manifest),
) -> Result<(), EngineError> {
    let applied = AppliedProposal {
        proposal: proposal.clone(),
        approval: approval.clone(),
        from: Some(from),
        to: Some(to),
    };
    let mut text = serde_json::to_string_pretty(&applied)?;
    text.push('\n');
    let file = folder
        .own()
        .join("approvals")
        .join(format!("{}.json", proposal.proposal_id));
    disk::replace(&file, text.as_bytes())
}

fn finished(state: &mut State, expansion: Expansion, root: &Path) -> Result<AppliedExpansion, EngineError> {
    let folder = HarnessDirectory::read(root)?;
    let anchor = state.entries.last().map(satiety::harness::Entry::anchor);
    if expansion.is_over() {
        state.write_anchor(&folder)?;
    }
    Ok(AppliedExpansion {
        interrupted: !expansion.is_over(),
        expansion_id: expansion.expansion_id,
        phase: expansion.phase,
        version: folder.manifest.version(),
        outcomes: expansion.outcomes,
        ended: expansion.ended,
        anchor,
        warnings: Vec::new(),
    })
}
