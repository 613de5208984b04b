//! `satiety memory`: keep, find, learn.

mod show;
mod tasks;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use satiety::memory::{Draft, Fusion, Mode, Pipeline, tier_named};
use satiety_engine::memory::{
    IndexRequest, LinkRequest, ListRequest, MatchRequest, MemoryError, ReadRequest, SaveRequest,
    SearchRequest, UpdateRequest, ValidateRequest,
};
use satiety_engine::{Engine, EngineError};

use crate::args::{
    Memory, MemoryFusion, MemoryListArgs, MemoryMode, MemorySaveArgs, MemorySearchArgs, MemoryUpdateArgs,
};
use crate::exit::Exit;
use crate::failure::{Failure, warn};
use crate::printer::Printer;

/// How long shadow runs may keep a command from ending.
const SHADOWS: Duration = Duration::from_secs(10);

pub(super) async fn run(command: Memory, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Memory::Save(arguments) => save(arguments, engine, printer).await?,
        Memory::Search(arguments) => search(arguments, "memory_search", engine, printer).await?,
        Memory::Context(arguments) => search(arguments, "memory_context", engine, printer).await?,
        Memory::Match(arguments) => {
            let request = MatchRequest {
                text: text_or_input(arguments.text)?,
                limit: arguments.limit,
                session: arguments.session,
            };
            printer.answer(&engine.memory_match(&request).await?)?;
        }
        Memory::List(arguments) => list(arguments, engine, printer).await?,
        Memory::Get(arguments) => {
            let request = ReadRequest {
                id: arguments.id,
                session: arguments.session,
            };
            printer.answer(&engine.memory_read(&request).await?)?;
        }
        Memory::Preflight(arguments) => tasks::begin(arguments, engine, printer).await?,
        Memory::Postflight(arguments) => tasks::close(arguments, engine, printer).await?,
        Memory::Sessions(arguments) => match arguments.session {
            Some(session) => printer.answer(&engine.memory_session_summary(&session).await?)?,
            None => printer.answer(&engine.memory_sessions(arguments.limit).await?)?,
        },
        Memory::Update(arguments) => update(arguments, engine, printer).await?,
        Memory::Delete { ids } => printer.answer(&engine.memory_delete(&ids).await?)?,
        Memory::Validate(arguments) => {
            let request = ValidateRequest {
                id: arguments.id,
                useful: arguments.useful,
                session: arguments.session,
            };
            printer.answer(&engine.memory_validate(&request).await?)?;
        }
        Memory::Link(arguments) => {
            let request = LinkRequest {
                kind: arguments.kind.parse().map_err(bad)?,
                from: arguments.from,
                to: arguments.to,
                remove: arguments.remove,
            };
            printer.answer(&engine.memory_link(request).await?)?;
        }
        Memory::Index(arguments) => {
            let request = IndexRequest {
                folder: arguments.directory,
                keep_missing: arguments.keep_missing,
            };
            let indexed = engine.memory_index(&request).await?;
            printer.answer(&indexed)?;
            if !indexed.refused.is_empty() {
                return Ok(Exit::GateSaysNo);
            }
        }
        Memory::Health => {
            let health = engine.memory_health().await?;
            printer.answer(&health)?;
            if health.degraded.is_some() {
                return Ok(Exit::Inconclusive);
            }
        }
    }
    Ok(Exit::Done)
}

async fn save(mut arguments: MemorySaveArgs, engine: &Engine, printer: &Printer) -> Result<(), Failure> {
    let session = arguments.session.take();
    let request = draft(arguments)?;
    let text = request.draft.content.clone();
    let saved = engine.memory_save(request).await?;
    if let Some(session) = session {
        engine
            .memory_notice(&session, &text, Some(&saved.memory.id))
            .await?;
    }
    printer.answer(&saved)
}

fn draft(arguments: MemorySaveArgs) -> Result<SaveRequest, Failure> {
    Ok(SaveRequest {
        draft: Draft {
            tier: tier_named(&arguments.tier).map_err(bad)?,
            title: arguments.title,
            content: text_or_input(arguments.content)?,
            triggers: arguments.triggers,
            folder: arguments.folder,
            kind: arguments.kind,
        },
        expires_in_days: arguments.expires,
        origin: None,
    })
}

async fn search(
    arguments: MemorySearchArgs,
    tool: &'static str,
    engine: &Engine,
    printer: &Printer,
) -> Result<(), Failure> {
    let found = engine
        .memory_search(SearchRequest {
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
            pipeline: Arc::new(Pipeline {
                fusion: match arguments.fusion {
                    MemoryFusion::Score => Fusion::Score,
                    MemoryFusion::Rrf => Fusion::ReciprocalRank { k: arguments.rrf_k },
                },
                ..Pipeline::default()
            }),
            tool,
        })
        .await?;
    if let Some(reason) = &found.degraded {
        warn(reason);
    }
    printer.answer(&found)?;
    // The asker has the answer; what is compared behind it may take a little more of this process's life.
    engine.finish_shadows(SHADOWS).await;
    Ok(())
}

async fn list(arguments: MemoryListArgs, engine: &Engine, printer: &Printer) -> Result<(), Failure> {
    if let Some(id) = arguments.id {
        return printer.answer(&engine.memory_get(&id).await?);
    }
    let request = ListRequest {
        folder: arguments.folder,
        tier: arguments.tier,
        after: arguments.after,
        limit: arguments.limit,
    };
    printer.answer(&engine.memory_list(&request).await?)
}

async fn update(arguments: MemoryUpdateArgs, engine: &Engine, printer: &Printer) -> Result<(), Failure> {
    if let Some(phrase) = &arguments.unlearn
        && !engine.memory_unlearn(&arguments.id, phrase).await?
    {
        return Err(Failure::bad_input(
            format!("`{}` has not learnt `{phrase}`", arguments.id),
            "`satiety memory list --id` shows what it has learnt",
        ));
    }
    let request = UpdateRequest {
        content: arguments.content.map(text_or_input).transpose()?,
        id: arguments.id,
        title: arguments.title,
        tier: arguments.tier,
        triggers: arguments.triggers,
        folder: arguments.folder,
        kind: arguments.kind,
    };
    if let (Some(session), Some(text)) = (&arguments.session, &request.content) {
        engine.memory_notice(session, text, Some(&request.id)).await?;
    }
    printer.answer(&engine.memory_update(request).await?)
}

/// `-` means standard input.
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
