//! `satiety evict`: proposes evictions, records exclusions and calibrates the scorer.

mod show;
mod traces;

use std::io::Read;
use std::path::{Path, PathBuf};

use satiety::eviction::ResolvedBy;
use satiety::eviction::calibration::{FitSettings, Fitted, OnlineSettings};
use satiety::eviction::simulation::{Session, write_trace};
use satiety_engine::eviction::{
    ActivateRequest, CalibrateRequest, CalibrateWith, ExportFeedbackRequest, ProposeScopeRequest,
    ResolveRequest, RollbackRequest, UpdateScopeRequest, VariantsRequest,
};
use satiety_engine::{Engine, EngineError};
use serde_json::Value;

use crate::args::{
    AnsweredBy, Evict, EvictActivateArgs, EvictAddArgs, EvictCalibrateArgs, EvictProposeArgs,
    EvictResolveArgs, EvictRollbackArgs, EvictVariantsArgs,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Format;

pub(super) use show::{Resolved, ScopeReport, WrittenVariants};

pub(super) async fn run(command: Evict, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Evict::Add(arguments) => add(arguments, engine, printer).await,
        Evict::List(arguments) => {
            let listing = engine.eviction().list(arguments.scope.as_deref()).await?;
            printer.answer(&show::Listed {
                listing,
                explain: arguments.explain,
            })?;
            Ok(Exit::Done)
        }
        Evict::Propose(arguments) => propose(arguments, engine, printer).await,
        Evict::Resolve(arguments) => resolve(arguments, engine, printer).await,
        Evict::Refresh(arguments) => {
            printer.answer(&engine.eviction().refresh(&arguments.scope).await?)?;
            Ok(Exit::Done)
        }
        Evict::Timeline(arguments) => {
            let timeline = engine.eviction().timeline(&arguments.scope).await?;
            printer.answer(&show::ScopeReport {
                scope_id: arguments.scope,
                timeline,
            })?;
            Ok(Exit::Done)
        }
        Evict::Feedback(arguments) => {
            printer.answer(&engine.eviction().feedback(arguments.scope.as_deref()).await?)?;
            Ok(Exit::Done)
        }
        Evict::Export(arguments) => {
            let request = ExportFeedbackRequest {
                scope_id: arguments.scope,
                content: arguments.with_content,
            };
            let exported = engine.eviction().export(&request).await?;
            printer.note(&format!("{} labels", exported.labels));
            if exported.labels > 0 {
                printer.text(&exported.text)?;
            }
            Ok(Exit::Done)
        }
        Evict::Calibrate(arguments) => calibrate(arguments, engine, printer).await,
        Evict::Weights(arguments) => {
            let Some(version) = arguments.version else {
                printer.answer(&engine.eviction().scorers().await?)?;
                return Ok(Exit::Done);
            };
            let scorer = engine.eviction().scorer(&version).await?;
            if printer.format() == Format::Json {
                printer.answer(&show::Version(scorer))?;
            } else {
                printer.text(&scorer.weights.to_toml())?;
            }
            Ok(Exit::Done)
        }
        Evict::Variants(arguments) => variants(&arguments, engine, printer).await,
        Evict::Activate(arguments) => activate(arguments, engine, printer).await,
        Evict::Rollback(arguments) => rollback(arguments, engine, printer).await,
        Evict::Simulate(arguments) => traces::simulate(arguments, engine, printer).await,
        Evict::Convert(arguments) => traces::convert(&arguments, engine, printer),
        Evict::Generate(arguments) => traces::generate(&arguments, engine, printer),
        Evict::Target(arguments) => traces::target(&arguments, engine).await,
    }
}

async fn add(arguments: EvictAddArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let items = match &arguments.file {
        Some(file) => items(&name(file), &read(file)?)?,
        None => Vec::new(),
    };
    let updated = engine
        .eviction()
        .update(UpdateScopeRequest {
            scope_id: arguments.scope,
            turn: arguments.turn,
            goal: arguments.goal,
            add: items,
            uses: arguments.uses,
            pin: arguments.pin,
            unpin: arguments.unpin,
            remove: arguments.remove,
        })
        .await?;
    printer.answer(&updated)?;
    Ok(Exit::Done)
}

async fn propose(arguments: EvictProposeArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let proposed = engine
        .eviction()
        .propose(ProposeScopeRequest {
            scope_id: arguments.scope,
            budget_tokens: arguments.budget,
            free_tokens: arguments.free,
            turn: arguments.turn,
            timeout_ms: Some(arguments.timeout_ms),
            exploration: Some(arguments.exploration),
            seed: arguments.seed,
            provider: arguments.provider,
            remaining_turns: arguments.remaining_turns,
            idle_seconds: Some(arguments.idle),
            window_tokens: arguments.window,
        })
        .await?;
    printer.answer(&proposed)?;
    Ok(if proposed.proposal.shortfall.is_some() {
        Exit::CheckFailed
    } else {
        Exit::Done
    })
}

async fn resolve(arguments: EvictResolveArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let mut request = ResolveRequest {
        proposal_id: arguments.proposal.clone(),
        resolved_by: None,
        exclude_ctx_ids: Vec::new(),
        exclude_reasons: std::collections::BTreeMap::new(),
        quota: Some(arguments.quota),
    };
    if let Some(file) = &arguments.json {
        let mut value: Value = parse(&name(file), &read(file)?)?;
        if let Some(fields) = value.as_object_mut() {
            fields.insert("proposal_id".into(), arguments.proposal.into());
            fields.entry("quota").or_insert_with(|| arguments.quota.into());
        }
        request = serde_json::from_value(value).map_err(|error| {
            Failure::bad_input(
                format!("{}: {error}", name(file)),
                "use {\"exclude_ctx_ids\": [\"…\"], \"exclude_reasons\": {\"…\": \"…\"}}",
            )
        })?;
    }
    for text in arguments.exclude {
        let (id, reason) = text
            .split_once('=')
            .map_or((text.as_str(), None), |(id, why)| (id, Some(why)));
        request.exclude_ctx_ids.push(id.to_owned());
        if let Some(reason) = reason {
            request.exclude_reasons.insert(id.to_owned(), reason.to_owned());
        }
    }
    request.resolved_by = arguments.by.map(answered_by).or(request.resolved_by);
    let feedback = engine.eviction().resolve(request).await?;
    let short = feedback.shortfall.is_some();
    printer.answer(&show::Resolved(feedback))?;
    Ok(if short { Exit::CheckFailed } else { Exit::Done })
}

fn answered_by(by: AnsweredBy) -> ResolvedBy {
    match by {
        AnsweredBy::Llm => ResolvedBy::Llm,
        AnsweredBy::User => ResolvedBy::User,
        AnsweredBy::AutoAccepted => ResolvedBy::AutoAccepted,
        AnsweredBy::Timeout => ResolvedBy::Timeout,
    }
}

async fn calibrate(
    arguments: EvictCalibrateArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let with = if arguments.online {
        CalibrateWith::Online(OnlineSettings::default())
    } else if let Some(prompt) = &arguments.prompt {
        CalibrateWith::Prompt(read(prompt)?)
    } else {
        CalibrateWith::Weights(FitSettings {
            ridge: arguments.ridge,
            ..FitSettings::default()
        })
    };
    let exported = match &arguments.from {
        Some(file) => Some((name(file), read(file)?)),
        None => None,
    };
    let calibrated = engine
        .eviction()
        .calibrate(CalibrateRequest {
            scope_id: arguments.scope,
            exported,
            with,
        })
        .await?;
    printer.answer(&calibrated)?;
    let shown = calibrated.fitted.as_ref().is_none_or(Fitted::is_better);
    Ok(if shown { Exit::Done } else { Exit::Inconclusive })
}

async fn variants(
    arguments: &EvictVariantsArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    if arguments.out.exists() {
        return Err(Failure::bad_input(
            format!("{} already exists", arguments.out.display()),
            "choose a new directory; nothing was written",
        ));
    }
    let trace = match &arguments.trace {
        None => None,
        Some(path) => {
            let mut sessions = engine.eviction().sessions_of(path)?;
            if arguments.broad {
                sessions = sessions.into_iter().map(Session::with_broad_uses).collect();
            }
            Some(write_trace(&sessions))
        }
    };
    let request = VariantsRequest {
        version: arguments.version.clone(),
        trace,
    };
    let command = std::env::current_exe()?;
    let variants = engine
        .eviction()
        .variants(&request, &command.display().to_string())
        .await?;
    fs_err::create_dir_all(&arguments.out)?;
    for file in &variants.files {
        fs_err::write(arguments.out.join(&file.name), &file.text)?;
    }
    printer.answer(&show::WrittenVariants {
        folder: arguments.out.display().to_string(),
        variants,
    })?;
    Ok(Exit::Done)
}

async fn activate(arguments: EvictActivateArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let request = ActivateRequest {
        version: arguments.version,
        ablation_id: arguments.ablation,
        by: super::bench::who(arguments.by)?,
        reason: arguments.reason,
    };
    match engine.eviction().activate(request).await {
        Ok(activated) => {
            printer.answer(&activated)?;
            Ok(Exit::Done)
        }
        // A refused activation is a result, not a usage error.
        Err(error @ EngineError::EvictRefused { .. }) => {
            Failure::from(error).report();
            Ok(Exit::CheckFailed)
        }
        Err(error) => Err(error.into()),
    }
}

async fn rollback(arguments: EvictRollbackArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let by = super::bench::who(arguments.by)?;
    printer.answer(
        &engine
            .eviction()
            .rollback(RollbackRequest {
                by,
                reason: arguments.reason,
            })
            .await?,
    )?;
    Ok(Exit::Done)
}

fn name(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".into()
    } else {
        file.display().to_string()
    }
}

fn read(file: &PathBuf) -> Result<String, Failure> {
    String::from_utf8(read_bytes(file)?)
        .map_err(|error| Failure::bad_input(format!("{}: {error}", name(file)), "give a text file in UTF-8"))
}

fn read_bytes(file: &PathBuf) -> Result<Vec<u8>, Failure> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    fs_err::read(file).map_err(|error| {
        Failure::bad_input(
            error.to_string(),
            "give an existing file, or `-` for standard input",
        )
    })
}

fn parse(name: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::bad_input(format!("{name}: {error}"), "fix the JSON syntax"))
}

/// Parses items from an object, an array, or JSON Lines.
fn items(name: &str, text: &str) -> Result<Vec<Value>, Failure> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(items)) => Ok(items),
        Ok(item @ Value::Object(_)) => Ok(vec![item]),
        _ => {
            let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
            lines
                .map(|(line, number)| parse(&format!("{name}:{number}"), line))
                .collect()
        }
    }
}
