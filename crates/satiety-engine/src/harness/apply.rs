//! An approved expansion, applied step by step: archive, thresholds, new suites and cases disabled, enabled one at a
//! time, the old ones verified, committed, logged; or everything brought back. Each step is recorded before the next, so
//! whoever was interrupted, or killed, goes on where it was.

use crate::handles::HarnessOperations;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::harness::approval::verify;
use satiety::harness::archive::{archive_hash, check_archive};
use satiety::harness::expansion::{CaseOutcome, Context, Ending, Event};
use satiety::harness::ledger::Anchor;
use satiety::harness::{
    Action, AppliedProposal, Expansion, KeyRing, Manifest, Observation, Phase, Proposal, Step,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::HarnessError;
use super::approval::{in_force, release, trusted};
use super::cycle::drift;
use super::directory::Folder;
use super::disk;
use super::state::{State, Writing};
use super::tree::{HarnessTree, LOCK_FILE};
use crate::EngineError;
use crate::bench::{Progress, RunBenchRequest, Stop};

/// An expansion to be applied.
#[derive(Debug, Clone, Default)]
pub struct ApplyRequest {
    /// The harness.
    pub folder: PathBuf,
    /// The expansion; the open one where none is named.
    pub expansion: Option<String>,
    /// How cases are run.
    pub options: RunBenchRequest,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AppliedExpansion {
    /// The expansion.
    pub expansion_id: String,
    /// Where it stands.
    pub phase: Phase,
    /// The version in force.
    pub version: String,
    /// New cases and whether the system passed them at once.
    pub outcomes: Vec<CaseOutcome>,
    /// Why it was rolled back, or who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ending>,
    /// Whether it was ended before it was through; apply goes on from there.
    pub interrupted: bool,
    /// The last hash of the log, to be kept elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Anchor>,
    /// Hooks that failed.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl HarnessOperations<'_> {
    /// Applies an approved expansion, or goes on with it, and tells about one that was rolled back. `told` is given every
    /// step that was done.
    pub async fn apply(
        self,
        request: ApplyRequest,
        stop: &Stop,
        mut told: impl FnMut(&str),
        mut progress: impl FnMut(Progress),
    ) -> Result<AppliedExpansion, EngineError> {
        // The files are read first: keys and identity lie beside them.
        let folder = Folder::read(&request.folder)?;
        let mut state = self.history_of(&folder).await?;
        let mut expansion = state.open_expansion(request.expansion.as_deref()).await?;
        refuse_selection(&request.options, &folder, &expansion)?;
        let keys = trusted(&state, &folder)?;
        approved(&state, &expansion, &keys)?;
        while !expansion.is_over() && !stop.is_asked() {
            as_rigorous(&state, &expansion, &request.folder).await?;
            let step = self
                .step(&mut state, &mut expansion, &keys, &request, stop, &mut progress)
                .await?;
            told(&step);
        }
        let mut applied = finished(&mut state, expansion, &request.folder)?;
        if applied.phase == Phase::RolledBack {
            applied.warnings = self.alert_rollback(&applied).await;
        }
        Ok(applied)
    }

    /// Brings the archived version back while a new one is being applied: the one exemption from the ratchet.
    pub async fn rollback(
        self,
        request: ApplyRequest,
        ending: Ending,
        told: impl FnMut(&str),
    ) -> Result<AppliedExpansion, EngineError> {
        let mut state = self.state(&request.folder).await?;
        state.check_history()?;
        let mut expansion = state.open_expansion(request.expansion.as_deref()).await?;
        if expansion.phase.is_applying() || expansion.phase == Phase::RollingBack {
            // Refused as a whole, before anything is decided or written.
            let archived = archived_files(&state, &expansion).await?;
            disk::check_places(&request.folder, archived.keys().map(String::as_str), "restore")?;
        }
        if expansion.phase != Phase::RollingBack {
            if !expansion.phase.is_applying() {
                return Err(HarnessError::Phase {
                    id: expansion.expansion_id,
                    state: "is not being applied, so there is nothing to bring back".into(),
                    hint: "a proposal that only waits is ended with `satiety harness reject`; what is committed stays: the ratchet turns one way".into(),
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
        self.apply(request, &stop, told, |_| {}).await
    }

    async fn alert_rollback(self, applied: &AppliedExpansion) -> Vec<String> {
        let body = json!({
            "event": "harness_rollback",
            "action": Action::FlagForReview,
            "reason": applied.ended.as_ref().map(|ended| &ended.why),
            "expansion_id": applied.expansion_id,
            "harness_version": applied.version,
        });
        self.engine.hooks.harness.tell("harness.notify", &body).await
    }

    /// Does one step and records it; says what it was.
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
        let (observation, told) = match expansion.next() {
            Step::Research | Step::AwaitApproval(_) => {
                return Err(not_approved(expansion));
            }
            Step::Archive { version } => {
                let (folder, version) = (Folder::read(root)?, version.to_owned());
                let files = folder.contents()?;
                // What could not be restored is not archived.
                check_archive(&files, None).map_err(HarnessError::from)?;
                disk::check_places(root, files.keys().map(String::as_str), "archive")?;
                let found = folder.manifest.version();
                if Folder::read(root)?.contents()? != files {
                    return Err(HarnessError::Conflict.into());
                }
                let told = format!("archived version {}", super::state::short(&version));
                let observation = Observation::Archived(found);
                let detail = json!({"archive": archive_hash(&files)});
                let writing = Writing::default().version(&folder.manifest, Some(disk::packed(&files)))?;
                observe_with(state, expansion, keys, observation, writing, detail).await?;
                return Ok(told);
            }
            Step::ApplyThresholds(increases) => {
                let told = format!("tightened {} threshold(s)", increases.len());
                disk::write_thresholds(&Folder::read(root)?, &content)?;
                (Observation::ThresholdsApplied, told)
            }
            Step::AddBenchmarks(cases) => {
                let told = format!("added {} case(s) of new suites, disabled", cases.len());
                disk::add_suites(&Folder::read(root)?, &content, &marker)?;
                (Observation::BenchmarksAdded, told)
            }
            Step::AddEdgeCases(cases) => {
                let told = format!("added {} case(s) to known suites, disabled", cases.len());
                disk::add_cases(&Folder::read(root)?, &content, &marker)?;
                (Observation::EdgeCasesAdded, told)
            }
            Step::Enable(case) => {
                let case = case.clone();
                disk::enable(&Folder::read(root)?, &content, &case.suite, &case.case_id)?;
                let expected = signed_manifest(state, expansion).await?;
                let Some(passed) = self.try_case(request, &expected, &case, stop, progress).await? else {
                    return Ok("interrupted".into());
                };
                let told = format!(
                    "enabled {}/{}: the system {} it",
                    case.suite,
                    case.case_id,
                    if passed { "passes" } else { "fails" }
                );
                (Observation::Enabled(CaseOutcome { case, passed }), told)
            }
            Step::VerifyBaseline => {
                let expected = before_retirements(state, expansion).await?;
                let Some((passes, detail)) = self.verify_baseline(request, &expected, stop, progress).await?
                else {
                    return Ok("interrupted".into());
                };
                let told = format!(
                    "baseline {}: {detail}",
                    if passes { "holds" } else { "does not hold" }
                );
                (Observation::BaselineVerified { passes, detail }, told)
            }
            Step::Commit { .. } => {
                // The signature first: at no moment is there a retirement without one.
                let folder = Folder::read(root)?;
                if let (Some(proposal), Some(approval)) = (&expansion.proposal, &expansion.approval) {
                    let from = state.manifest(&approval.statement.from_version).await?;
                    let to = state.manifest(&approval.statement.to_version).await?;
                    keep_approval(&folder, proposal, approval, (from, to))?;
                }
                disk::write_retirements(&folder, &content)?;
                let folder = Folder::read(root)?;
                let tree = HarnessTree::of(folder.clone(), None)?;
                if tree.lock_file.is_some() {
                    disk::replace(&root.join(LOCK_FILE), tree.lock.render().as_bytes())?;
                }
                let version = folder.manifest.version();
                let told = format!("committed version {}", super::state::short(&version));
                let observation = Observation::Committed(version);
                let writing = Writing::default()
                    .event(
                        "locked",
                        json!({"version": folder.manifest.version(), "lock": tree.lock.hash()}),
                    )
                    .version(&folder.manifest, None)?
                    .lock(&tree.lock)?;
                observe_with(state, expansion, keys, observation, writing, Value::Null).await?;
                return Ok(told);
            }
            Step::Log => (Observation::Logged, "logged".into()),
            Step::Restore { version, ending } => {
                let told = format!(
                    "brought version {} back: {}",
                    super::state::short(version),
                    ending.why
                );
                let archived = archived_files(state, expansion).await?;
                disk::check_places(root, archived.keys().map(String::as_str), "restore")?;
                disk::restore(root, &archived, &content)?;
                let found = Folder::read(root)?.manifest.version();
                (Observation::Restored(found), told)
            }
            Step::Finished(_) => return Ok("finished".into()),
        };
        observe(state, expansion, keys, observation).await?;
        Ok(told)
    }
}

/// The whole harness is verified, as it describes itself: whoever applies an expansion chooses no cases, repeats, times or
/// answers of before. A target may be named for suites that do not describe one.
fn refuse_selection(
    options: &RunBenchRequest,
    folder: &Folder,
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
                "a sandbox that is `{sandbox}` (--no-sandbox or `bench.sandbox`), where harness.toml says `{}`",
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

/// An expansion that is being applied must have the signature that the log knows, whatever the store says.
fn approved(state: &State, expansion: &Expansion, keys: &KeyRing) -> Result<(), EngineError> {
    let (Some(proposal), Some(approval)) = (&expansion.proposal, &expansion.approval) else {
        return Err(not_approved(expansion));
    };
    if !state.knows_approval(&expansion.expansion_id, approval) {
        return Err(HarnessError::Tampered {
            what: format!(
                "the log knows no approval of expansion {}",
                expansion.expansion_id
            ),
        }
        .into());
    }
    // Its time is checked where it begins to be used; from there on it may run out.
    let at = approval.statement.approved_at;
    verify(approval, proposal, keys, &std::collections::BTreeSet::new(), at)
        .map_err(|why| HarnessError::Expansion(why.into()))?;
    Ok(())
}

fn not_approved(expansion: &Expansion) -> EngineError {
    let (state, hint) = if expansion.proposal.is_some() {
        (
            "waits for a person's approval",
            "a person runs `satiety harness approve --key FILE`",
        )
    } else {
        (
            "has no proposal yet",
            "make one with `satiety harness expand`, or `satiety harness propose FILE`",
        )
    };
    HarnessError::Phase {
        id: expansion.expansion_id.clone(),
        state: state.into(),
        hint: hint.into(),
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

/// Records what came of a step together with whatever else belongs to it.
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

/// The archive of a version, if it is what the log says and names only files that a restore may write.
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
            what: format!("the archive of version {} is gone", super::state::short(version)),
        })?;
    check_archive(&files, expected).map_err(HarnessError::from)?;
    Ok(files)
}

/// The archive that this expansion made.
async fn archived_files(
    state: &State,
    expansion: &Expansion,
) -> Result<BTreeMap<String, Vec<u8>>, EngineError> {
    let told = state
        .entries
        .iter()
        .rev()
        .find(|entry| entry.kind == "archived" && entry.body["expansion_id"] == *expansion.expansion_id);
    let expected = told.and_then(|entry| entry.body["detail"]["archive"].as_str());
    archive(state, &expansion.from_version, expected).await
}

/// The files may ask more than the version in force while an expansion is applied, and never less; and the expansion must
/// start from that version. Bringing the archive back is the remedy, so that is not held up.
async fn as_rigorous(state: &State, expansion: &Expansion, root: &Path) -> Result<(), EngineError> {
    if expansion.phase == Phase::Logging {
        return Ok(());
    }
    in_force(state, expansion)?;
    if expansion.phase == Phase::RollingBack {
        return Ok(());
    }
    let folder = Folder::read(root)?;
    let names = folder.contents()?;
    disk::check_places(root, names.keys().map(String::as_str), "change")?;
    let (_, objections) = drift(state, &folder, &expansion.from_version).await?;
    if objections.is_empty() {
        Ok(())
    } else {
        Err(HarnessError::Weaker { objections }.into())
    }
}

/// The harness that was signed.
async fn signed_manifest(state: &State, expansion: &Expansion) -> Result<Manifest, EngineError> {
    match &expansion.proposal {
        Some(proposal) => state.manifest(&proposal.diff.to).await,
        None => Err(not_approved(expansion)),
    }
}

/// The harness that was signed, with the cases that are retired last.
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

/// The approval in the repository, so that a build without the store can check what it allowed.
fn keep_approval(
    folder: &Folder,
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
    let folder = Folder::read(root)?;
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
