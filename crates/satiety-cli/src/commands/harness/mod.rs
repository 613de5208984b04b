//! `satiety harness`: saturation, expansions, approvals and tamper checks of the eval harness.

mod changes;
mod format;
mod prompt;
mod show;
mod signing;

use std::path::{Path, PathBuf};

use satiety::harness::expansion::Justification;
use satiety::harness::{Anchor, Phase};
use satiety_engine::Engine;
use satiety_engine::bench::RunBenchRequest;
use satiety_engine::harness::{
    ApplyRequest, AuditRequest, CheckHarnessRequest, ExpandRequest, KeyFile, LockHarnessRequest,
    ProposeRequest, RecordCycleRequest, RecordedCycle, ThresholdState,
};

use super::bench::run::{Bar, stop_on_interrupt};
use super::bench::{options, who};
use crate::args::{
    Harness, HarnessApplyArgs, HarnessApproveArgs, HarnessAudit, HarnessAuditAddArgs, HarnessEndArgs,
    HarnessExpandArgs, HarnessFolder, HarnessHistoryArgs, HarnessKeygenArgs, HarnessKeysArgs,
    HarnessProposeArgs, HarnessRecordArgs, HarnessStatusArgs, HarnessTransitionArgs, HarnessVerifyArgs,
};
use crate::exit::Exit;
use crate::failure::{Failure, warn_all};
use crate::printer::Printer;
use crate::settings::Settings;

pub(super) async fn run(
    command: Harness,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    match command {
        Harness::Status(arguments) => status(arguments, engine, settings, printer).await,
        Harness::Record(arguments) => record(arguments, engine, settings, printer).await,
        Harness::Check(arguments) => {
            let checked = engine.harness().check(&CheckHarnessRequest {
                old: arguments.old,
                new: arguments.new,
                accept_first_keys: arguments.accept_first_keys,
            })?;
            printer.answer(&checked)?;
            Ok(if checked.allowed {
                Exit::Done
            } else {
                Exit::CheckFailed
            })
        }
        Harness::Lock(arguments) => {
            let locked = engine.harness().lock(&LockHarnessRequest {
                folder: folder(&arguments.folder, settings),
                check_only: arguments.check,
            })?;
            printer.answer(&locked)?;
            Ok(if locked.current {
                Exit::Done
            } else {
                Exit::CheckFailed
            })
        }
        Harness::Transition(arguments) => transition(&arguments, engine, settings, printer),
        Harness::Manifest(arguments) => {
            let manifest = engine.harness().manifest(&folder(&arguments.folder, settings))?;
            printer.text(&manifest.canonical())?;
            Ok(Exit::Done)
        }
        Harness::Expand(arguments) => expand(arguments, engine, settings, printer).await,
        Harness::Propose(arguments) => propose(arguments, engine, settings, printer).await,
        Harness::Approve(arguments) => approve(arguments, engine, settings, printer).await,
        Harness::Reject(arguments) => {
            let decided = engine
                .harness()
                .reject(
                    &folder(&arguments.folder, settings),
                    arguments.which.expansion.as_deref(),
                    ending(arguments.by, arguments.reason)?,
                )
                .await?;
            printer.answer(&decided)?;
            Ok(Exit::Done)
        }
        Harness::Apply(arguments) => Box::pin(apply(arguments, engine, settings, printer)).await,
        Harness::Rollback(arguments) => Box::pin(rollback(arguments, engine, settings, printer)).await,
        Harness::History(arguments) => history(arguments, engine, settings, printer).await,
        Harness::Verify(arguments) => verify(arguments, engine, settings, printer).await,
        Harness::Keygen(arguments) => keygen(&arguments, printer),
        Harness::Keys(arguments) => keys(arguments, engine, settings, printer).await,
        Harness::Audit(HarnessAudit::Add(arguments)) => audit(arguments, engine, settings, printer).await,
        Harness::Audit(HarnessAudit::List { limit }) => {
            let audits = engine.harness().audits(&settings.harness.folder, limit).await?;
            printer.answer(&changes::Audits { audits })?;
            Ok(Exit::Done)
        }
    }
}

async fn status(
    arguments: HarnessStatusArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let status = engine
        .harness()
        .status(&folder(&arguments.folder, settings), settings.harness.driver)
        .await?;
    if arguments.prompt {
        let prompt = status
            .expansion
            .as_ref()
            .and_then(|expansion| expansion.prompt.as_deref());
        let Some(prompt) = prompt else {
            return Err(Failure::bad_input(
                "no open expansion has a research prompt",
                "open one with `satiety harness expand`",
            ));
        };
        printer.text(prompt)?;
        return Ok(Exit::Done);
    }
    printer.answer(&status)?;
    Ok(Exit::Done)
}

async fn record(
    arguments: HarnessRecordArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let recorded = engine
        .harness()
        .record(RecordCycleRequest {
            folder: folder(&arguments.folder, settings),
            metrics: arguments.metrics,
            cycle_id: arguments.cycle,
            driver: settings.harness.driver,
            new_history: match arguments.why {
                Some(why) if arguments.new_history => Some(ending(arguments.by, why)?),
                _ => None,
            },
        })
        .await?;
    warn_all(&recorded.warnings);
    printer.answer(&recorded)?;
    Ok(exit_of(&recorded.thresholds))
}

/// Reports the cycle after a gated run in one line on stderr, so that stdout has only the run's result.
pub(super) fn cycle_after_gate(recorded: &RecordedCycle, printer: &Printer) -> Exit {
    printer.note(&satiety_report::terminal::line(&recorded.line()));
    exit_of(&recorded.thresholds)
}

/// Checks the harness's thresholds after another process recorded the cycle.
pub(super) async fn thresholds_now(engine: &Engine, settings: &Settings) -> Result<Exit, Failure> {
    let status = engine
        .harness()
        .status(&settings.harness.folder, settings.harness.driver)
        .await?;
    Ok(exit_of(&status.thresholds))
}

/// Thresholds are a gate: a missed one fails, and undecided results that could change it are inconclusive.
fn exit_of(thresholds: &[ThresholdState]) -> Exit {
    if thresholds.iter().any(|threshold| threshold.met == Some(false)) {
        return Exit::CheckFailed;
    }
    let open = |threshold: &ThresholdState| threshold.met.is_none() && threshold.note.is_some();
    if thresholds.iter().any(open) {
        return Exit::Inconclusive;
    }
    Exit::Done
}

async fn expand(
    arguments: HarnessExpandArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let proposed = engine
        .harness()
        .expand(ExpandRequest {
            folder: folder(&arguments.folder, settings),
            expansion: arguments.which.expansion,
            model: arguments.model,
            dry_run: arguments.dry_run,
            by: who(arguments.by)?,
        })
        .await?;
    if arguments.yaml {
        printer.text(&changes::yaml(&proposed.expansion_proposals)?)?;
    } else {
        printer.answer(&proposed)?;
    }
    Ok(Exit::Done)
}

async fn propose(
    arguments: HarnessProposeArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let proposed = engine
        .harness()
        .propose(ProposeRequest {
            folder: folder(&arguments.folder, settings),
            expansion: arguments.which.expansion,
            file: arguments.file,
            author: satiety::harness::Author::Person(who(arguments.by)?),
        })
        .await?;
    printer.answer(&proposed)?;
    Ok(Exit::Done)
}

async fn approve(
    arguments: HarnessApproveArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let root = folder(&arguments.folder, settings);
    let approval = match (&arguments.signed, &arguments.key) {
        (Some(file), _) => {
            let text = fs_err::read_to_string(file).map_err(|error| {
                Failure::bad_input(error.to_string(), "give a file written by --only-sign")
            })?;
            serde_json::from_str(&text).map_err(|error| {
                Failure::bad_input(
                    format!("{}: {error}", file.display()),
                    "give a file written by --only-sign",
                )
            })?
        }
        (None, Some(key)) => {
            let pending = engine
                .harness()
                .pending(&root, arguments.which.expansion.as_deref())
                .await?;
            let key = KeyFile::read(key)?;
            prompt::to_the_terminal(&signing::proposal(&pending))?;
            prompt::confirm(&pending.proposal_hash)?;
            let passphrase = prompt::passphrase(&format!("passphrase of {}: ", key.name))?;
            let valid_for = jiff::SignedDuration::from_hours(24 * i64::from(arguments.valid_for));
            engine.harness().sign(&pending, &key, &passphrase, valid_for)?
        }
        (None, None) => {
            return Err(Failure::bad_input(
                "a key is required",
                "pass your key file with --key",
            ));
        }
    };
    if let Some(file) = &arguments.only_sign {
        write_json(file, &approval)?;
        printer.note(&format!(
            "wrote the approval to {}; nothing was approved here",
            file.display()
        ));
        return Ok(Exit::Done);
    }
    let decided = engine.harness().approve(&root, approval).await?;
    printer.answer(&decided)?;
    Ok(Exit::Done)
}

fn transition(
    arguments: &HarnessTransitionArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let root = folder(&arguments.folder, settings);
    let pending = engine
        .harness()
        .pending_transition(&arguments.base, &root, &arguments.reason)?;
    let key = KeyFile::read(&arguments.key)?;
    prompt::to_the_terminal(&signing::transition(&pending))?;
    prompt::confirm(&pending.to)?;
    let passphrase = prompt::passphrase(&format!("passphrase of {}: ", key.name))?;
    let valid_for = jiff::SignedDuration::from_hours(24 * i64::from(arguments.valid_for));
    let signed = engine
        .harness()
        .sign_transition(&pending, &key, &passphrase, valid_for)?;
    printer.answer(&signed)?;
    Ok(Exit::Done)
}

async fn apply(
    arguments: HarnessApplyArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let request = ApplyRequest {
        folder: folder(&arguments.folder, settings),
        expansion: arguments.which.expansion,
        options: RunBenchRequest {
            target: arguments.target,
            repeats: arguments.refused.repeats,
            tags: arguments.refused.tag,
            ..options(arguments.how, Some(settings.sandbox.for_gates()))
        },
    };
    let (stop, bar) = (stop_on_interrupt(), Bar::new(printer));
    let told = |step: &str| {
        bar.finish();
        printer.note(&format!("  {step}"));
    };
    let applying = engine
        .harness()
        .apply(request, &stop, told, |seen| bar.show(seen));
    let applied = Box::pin(applying).await?;
    bar.finish();
    warn_all(&applied.warnings);
    printer.answer(&applied)?;
    Ok(match (applied.interrupted, applied.phase) {
        (true, _) => Exit::Interrupted,
        (false, Phase::Done) => Exit::Done,
        (false, _) => Exit::CheckFailed,
    })
}

async fn rollback(
    arguments: HarnessEndArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let request = ApplyRequest {
        folder: folder(&arguments.folder, settings),
        expansion: arguments.which.expansion,
        options: RunBenchRequest::default(),
    };
    let ending = ending(arguments.by, arguments.reason)?;
    let rolling = engine
        .harness()
        .rollback(request, ending, |step| printer.note(&format!("  {step}")));
    let applied = Box::pin(rolling).await?;
    warn_all(&applied.warnings);
    printer.answer(&applied)?;
    Ok(Exit::Done)
}

async fn history(
    arguments: HarnessHistoryArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let root = folder(&arguments.folder, settings);
    if let Some(key) = &arguments.key {
        let Some(record) = engine.harness().record_by_key(&root, key).await? else {
            return Err(Failure::bad_input(
                format!("record not found: `{key}`"),
                "use eval-harness/saturation/aggregate, …/cycles/ID (kept for 90 days) or …/expansions/ID",
            ));
        };
        printer.text(&format!("{record:#}"))?;
        return Ok(Exit::Done);
    }
    printer.answer(&engine.harness().history(&root, arguments.limit).await?)?;
    Ok(Exit::Done)
}

async fn verify(
    arguments: HarnessVerifyArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let anchor = arguments.anchor.as_deref().map(read_anchor).transpose()?;
    let verified = engine
        .harness()
        .verify(&folder(&arguments.folder, settings), anchor)
        .await?;
    let fine = verified.problems.is_empty();
    printer.answer(&verified)?;
    Ok(if fine { Exit::Done } else { Exit::CheckFailed })
}

fn keygen(arguments: &HarnessKeygenArgs, printer: &Printer) -> Result<Exit, Failure> {
    let file = arguments
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.key", arguments.name)));
    if file.exists() {
        return Err(Failure::bad_input(
            format!("{} already exists; keys are never overwritten", file.display()),
            "choose another file with --output",
        ));
    }
    let passphrase = prompt::new_passphrase()?;
    let key = KeyFile::generate(&arguments.name, &passphrase)?;
    key.write(&file)?;
    printer.answer(&changes::Generated {
        name: key.name,
        public_key: key.public_key,
        file: file.display().to_string(),
    })?;
    Ok(Exit::Done)
}

async fn keys(
    arguments: HarnessKeysArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let root = folder(&arguments.folder, settings);
    let keys = match &arguments.key {
        Some(key) => {
            let now = engine.harness().keys(&root).await?;
            let key = KeyFile::read(key)?;
            prompt::to_the_terminal(&crate::printer::Render::human(&now))?;
            let passphrase =
                prompt::passphrase(&format!("passphrase of {} to accept these keys: ", key.name))?;
            engine.harness().accept_keys(&root, &key, &passphrase).await?
        }
        None => engine.harness().keys(&root).await?,
    };
    let fine = keys.known != Some(false);
    printer.answer(&keys)?;
    Ok(if fine { Exit::Done } else { Exit::CheckFailed })
}

async fn audit(
    arguments: HarnessAuditAddArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let request = AuditRequest {
        cycle_id: arguments.cycle,
        auditor: arguments.auditor,
        accepts: arguments.accept,
        note: arguments.note,
    };
    let row = engine
        .harness()
        .audit(&folder(&arguments.folder, settings), request)
        .await?;
    printer.answer(&changes::Audits { audits: vec![row] })?;
    Ok(Exit::Done)
}

fn folder(named: &HarnessFolder, settings: &Settings) -> PathBuf {
    named
        .harness
        .clone()
        .unwrap_or_else(|| settings.harness.folder.clone())
}

fn ending(by: Option<String>, why: String) -> Result<Justification, Failure> {
    Ok(Justification { by: who(by)?, why })
}

fn read_anchor(text: &str) -> Result<Anchor, Failure> {
    let wrong = || {
        Failure::bad_input(
            format!("cannot parse anchor `{text}`"),
            "use NUMBER:HASH, as `satiety harness verify` prints it",
        )
    };
    let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
    Ok(Anchor {
        seq: seq.parse().map_err(|_| wrong())?,
        hash: hash.to_owned(),
    })
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::environment(format!("cannot write JSON: {error}"), None))?;
    fs_err::write(path, text + "\n")?;
    Ok(())
}
