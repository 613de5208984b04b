//! `satiety memory`: save, search and validate memories.

mod import;
mod show;
mod tasks;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use satiety::memory::{Author, Fusion, MemoryFilter, Mode, OnDuplicate, Pipeline, Scope, parse_tier};
use satiety::retrieval::Tier;
use satiety_engine::memory::{
    IndexRequest, IndexResponse, LinkRequest, ListRequest, MatchRequest, MemoryError, ReadRequest,
    SaveRequest, SearchRequest, UpdateRequest, ValidateRequest,
};
use satiety_engine::{Engine, EngineError};

use super::confirm::confirm_on_terminal;
use crate::args::{
    Memory, MemoryArgs, MemoryFilterArgs, MemoryFusion, MemoryIndexArgs, MemoryListArgs, MemoryMode,
    MemoryOnDuplicate, MemorySaveArgs, MemorySearchArgs, MemoryUpdateArgs,
};
use crate::exit::Exit;
use crate::failure::{Failure, warn};
use crate::printer::Printer;
use crate::project::scope_named;

/// Maximum time that shadow runs may delay the exit of a command.
const SHADOW_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn run(asked: MemoryArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let scope = if asked.all_projects {
        Some(Scope::All)
    } else {
        asked.project.as_deref().map(scope_named).transpose()?
    };
    match asked.command {
        Memory::Save(arguments) => save(arguments, scope, engine, printer).await?,
        Memory::Search(arguments) => search(arguments, scope, "memory_search", engine, printer).await?,
        Memory::Context(arguments) => search(arguments, scope, "memory_context", engine, printer).await?,
        Memory::Match(arguments) => {
            let request = MatchRequest {
                text: text_or_input(arguments.text)?,
                limit: Some(arguments.limit),
                session: arguments.session,
                scope,
            };
            printer.answer(&engine.memory().matching(&request).await?)?;
        }
        Memory::List(arguments) => list(arguments, scope, engine, printer).await?,
        Memory::Get(arguments) => {
            let request = ReadRequest {
                id: arguments.id,
                session: arguments.session,
                scope,
            };
            printer.answer(&engine.memory().read(&request).await?)?;
        }
        Memory::Preflight(arguments) => tasks::begin(arguments, scope, engine, printer).await?,
        Memory::Postflight(arguments) => tasks::close(arguments, scope, engine, printer).await?,
        Memory::Sessions(arguments) => match arguments.session {
            Some(session) => printer.answer(&engine.memory().session_summary(&session).await?)?,
            None => printer.answer(&engine.memory().sessions(arguments.limit).await?)?,
        },
        Memory::Update(arguments) => update(arguments, scope, engine, printer).await?,
        Memory::Delete { ids } => delete(&ids, scope.as_ref(), engine, printer).await?,
        Memory::Validate(arguments) => {
            let request = ValidateRequest {
                id: arguments.id,
                useful: arguments.useful,
                session: arguments.session,
                scope,
            };
            printer.answer(&engine.memory().validate(&request).await?)?;
        }
        Memory::Link(arguments) => {
            let request = LinkRequest {
                kind: arguments.kind.parse().map_err(bad)?,
                from: arguments.from,
                to: arguments.to,
                remove: arguments.remove,
                scope,
            };
            printer.answer(&engine.memory().link(request).await?)?;
        }
        Memory::Index(arguments) => {
            let indexed = index(arguments, scope, engine).await?;
            printer.answer(&indexed)?;
            if !indexed.refused.is_empty() {
                return Ok(Exit::CheckFailed);
            }
        }
        Memory::Import(arguments) => return import::import(arguments, scope, engine, printer).await,
        Memory::Embed => return import::embed(engine, printer).await,
        Memory::Health => {
            let health = engine.memory().health().await?;
            printer.answer(&health)?;
            if health.degraded.is_some() {
                return Ok(Exit::Inconclusive);
            }
        }
    }
    Ok(Exit::Done)
}

async fn save(
    arguments: MemorySaveArgs,
    scope: Option<Scope>,
    engine: &Engine,
    printer: &Printer,
) -> Result<(), Failure> {
    let scope = if arguments.global {
        Some(Scope::Global)
    } else {
        scope
    };
    let request = save_request(arguments, scope)?;
    let saved = match engine.memory().save(request.clone()).await {
        Err(refusal) if refusal.needs_person() => {
            confirm_on_terminal(
                refusal,
                &[
                    ("tier", request.tier.unwrap_or(Tier::Normal).name()),
                    ("title", &request.title),
                    ("content", &request.content),
                ],
            )?;
            let author = Author::Person;
            engine.memory().save(SaveRequest { author, ..request }).await?
        }
        saved => saved?,
    };
    printer.answer(&saved)
}

async fn index(
    arguments: MemoryIndexArgs,
    scope: Option<Scope>,
    engine: &Engine,
) -> Result<IndexResponse, Failure> {
    let request = IndexRequest {
        folder: arguments.directory,
        keep_missing: arguments.keep_missing,
        scope: if arguments.global {
            Some(Scope::Global)
        } else {
            scope
        },
        author: Author::Agent,
    };
    match engine.memory().index(&request).await {
        Err(refusal) if refusal.needs_person() => {
            confirm_on_terminal(refusal, &[("index", &request.folder.display().to_string())])?;
            let author = Author::Person;
            Ok(engine.memory().index(&IndexRequest { author, ..request }).await?)
        }
        indexed => Ok(indexed?),
    }
}

async fn delete(
    ids: &[String],
    scope: Option<&Scope>,
    engine: &Engine,
    printer: &Printer,
) -> Result<(), Failure> {
    let deleted = match engine.memory().delete(ids, scope, Author::Agent).await {
        Err(refusal) if refusal.needs_person() => {
            confirm_on_terminal(refusal, &[("delete", &ids.join(", "))])?;
            engine.memory().delete(ids, scope, Author::Person).await?
        }
        deleted => deleted?,
    };
    printer.answer(&deleted)
}

fn save_request(arguments: MemorySaveArgs, scope: Option<Scope>) -> Result<SaveRequest, Failure> {
    Ok(SaveRequest {
        tier: Some(parse_tier(&arguments.tier).map_err(bad)?),
        title: arguments.title,
        content: text_or_input(arguments.content)?,
        triggers: arguments.triggers,
        folder: arguments.folder,
        kind: Some(arguments.kind),
        expires_in_days: arguments.expires,
        tags: arguments.tags,
        written_by: arguments.author,
        observed_at: arguments.observed_at,
        valid_from: arguments.valid_from,
        valid_until: arguments.valid_until,
        on_duplicate: match arguments.on_duplicate {
            MemoryOnDuplicate::Keep => OnDuplicate::Keep,
            MemoryOnDuplicate::Update => OnDuplicate::Update,
            MemoryOnDuplicate::Merge => OnDuplicate::Merge,
            MemoryOnDuplicate::Reject => OnDuplicate::Reject,
        },
        scope,
        session: arguments.session,
        ..SaveRequest::default()
    })
}

async fn search(
    arguments: MemorySearchArgs,
    scope: Option<Scope>,
    tool: &'static str,
    engine: &Engine,
    printer: &Printer,
) -> Result<(), Failure> {
    let pipeline = Pipeline {
        fusion: match arguments.fusion {
            MemoryFusion::ZScore => Fusion::ZScore,
            MemoryFusion::Score => Fusion::Score,
            MemoryFusion::Rrf => Fusion::ReciprocalRank { k: arguments.rrf_k },
        },
        ..Pipeline::default()
    };
    let pipeline = pipeline.validate().map_err(MemoryError::from);
    let pipeline = pipeline.map_err(EngineError::from)?;
    let filter = filter(arguments.filter)?;
    let found = engine
        .memory()
        .search(SearchRequest {
            filter,
            as_of: arguments.as_of,
            query: arguments.query,
            mode: match arguments.mode {
                MemoryMode::Auto => None,
                MemoryMode::Quick => Some(Mode::Quick),
                MemoryMode::Focused => Some(Mode::Focused),
                MemoryMode::Deep => Some(Mode::Deep),
            },
            limit: arguments.limit,
            token_budget: arguments.budget,
            token_usage: arguments.usage,
            folder: arguments.folder,
            session: arguments.session,
            skip_shown: tool == "memory_context",
            below_floor: arguments.below_floor,
            pipeline: Arc::new(pipeline),
            tool,
            scope,
            ..SearchRequest::default()
        })
        .await?;
    if let Some(reason) = &found.degraded {
        warn(reason);
    }
    printer.answer(&found)?;
    // The results are printed; shadow comparisons may keep the process alive a little longer.
    engine.experiments().drain_shadows(SHADOW_TIMEOUT).await;
    Ok(())
}

fn filter(arguments: MemoryFilterArgs) -> Result<MemoryFilter, Failure> {
    let tiers = arguments.tiers.iter().map(|tier| parse_tier(tier));
    Ok(MemoryFilter {
        tiers: tiers.collect::<Result<_, _>>().map_err(bad)?,
        kinds: arguments.kinds,
        tags: arguments.tags,
        authors: arguments.authors,
        recorded_from: arguments.recorded_from,
        recorded_until: arguments.recorded_until,
        observed_from: arguments.observed_from,
        observed_until: arguments.observed_until,
    })
}

async fn list(
    arguments: MemoryListArgs,
    scope: Option<Scope>,
    engine: &Engine,
    printer: &Printer,
) -> Result<(), Failure> {
    if let Some(id) = arguments.id {
        return printer.answer(&engine.memory().get(&id, scope.as_ref()).await?);
    }
    let request = ListRequest {
        folder: arguments.folder,
        tier: arguments
            .tier
            .as_deref()
            .map(parse_tier)
            .transpose()
            .map_err(bad)?,
        kind: arguments.kind,
        tag: arguments.tag,
        written_by: arguments.author,
        recorded_from: arguments.recorded_from,
        recorded_until: arguments.recorded_until,
        observed_from: arguments.observed_from,
        observed_until: arguments.observed_until,
        limit: Some(arguments.limit),
        scope,
        ..ListRequest::after(arguments.after)
    };
    printer.answer(&engine.memory().list(&request).await?)
}

async fn update(
    arguments: MemoryUpdateArgs,
    scope: Option<Scope>,
    engine: &Engine,
    printer: &Printer,
) -> Result<(), Failure> {
    let request = UpdateRequest {
        content: arguments.content.map(text_or_input).transpose()?,
        id: arguments.id,
        title: arguments.title,
        tier: arguments
            .tier
            .as_deref()
            .map(parse_tier)
            .transpose()
            .map_err(bad)?,
        triggers: arguments.triggers,
        folder: arguments.folder,
        kind: arguments.kind,
        tags: arguments.tags,
        observed_at: arguments.observed_at,
        valid_from: arguments.valid_from,
        valid_until: arguments.valid_until,
        scope,
        move_to: arguments.move_to.as_deref().map(scope_named).transpose()?,
        unlearn: arguments.unlearn,
        session: arguments.session,
        author: Author::Agent,
    };
    let updated = match engine.memory().update(request.clone()).await {
        Err(refusal) if refusal.needs_person() => {
            let new = |value: &Option<String>| value.clone().unwrap_or_else(|| "unchanged".into());
            confirm_on_terminal(
                refusal,
                &[
                    ("memory", &request.id),
                    ("tier", request.tier.map_or("unchanged", Tier::name)),
                    ("title", &new(&request.title)),
                    ("content", &new(&request.content)),
                    ("project", &new(&arguments.move_to)),
                ],
            )?;
            let author = Author::Person;
            engine
                .memory()
                .update(UpdateRequest { author, ..request })
                .await?
        }
        updated => updated?,
    };
    printer.answer(&updated)
}

/// Reads standard input for `-`.
fn text_or_input(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).map_err(|cause| {
        Failure::bad_input(
            format!("cannot read standard input: {cause}"),
            "give text as UTF-8",
        )
    })?;
    Ok(input)
}

fn bad(error: satiety::memory::DraftError) -> Failure {
    Failure::Engine(EngineError::Memory(MemoryError::from(error)))
}
