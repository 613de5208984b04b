//! `memory import` and `memory embed`: arguments to requests, and progress on stderr.

use std::io::IsTerminal;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use satiety::memory::{Author, Scope};
use satiety_engine::memory::{EmbedResponse, ImportProgress, ImportRequest, ImportSource, ImportedMemories};
use satiety_engine::{Engine, StoreUrl};

use super::super::bench::stop_on_interrupt;
use super::super::confirm::confirm_on_terminal;
use crate::args::MemoryImportArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};

pub(super) async fn import(
    arguments: MemoryImportArgs,
    scope: Option<Scope>,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let is_url = arguments.source.starts_with("sqlite:") || arguments.source.starts_with("postgres");
    let source = if is_url {
        ImportSource::Database(
            arguments
                .source
                .parse::<StoreUrl>()
                .map_err(satiety_engine::EngineError::from)?,
        )
    } else {
        ImportSource::Path(PathBuf::from(&arguments.source))
    };
    let request = ImportRequest {
        source,
        format: arguments.from,
        name: arguments.source_name,
        folder: arguments.folder,
        scope: if arguments.global {
            Some(Scope::Global)
        } else {
            scope
        },
        author: Author::Agent,
        dry_run: arguments.dry_run,
        embed: !arguments.no_embed,
    };
    let imported = match run(engine, request.clone(), printer).await {
        Err(refusal) if refusal.needs_person() => {
            confirm_on_terminal(refusal, &[("import", &arguments.source)])?;
            let author = Author::Person;
            run(engine, ImportRequest { author, ..request }, printer).await?
        }
        imported => imported?,
    };
    printer.answer(&imported)?;
    if imported.interrupted {
        printer.note("interrupted; the same command continues");
        return Ok(Exit::Interrupted);
    }
    Ok(if imported.skipped > 0 {
        Exit::CheckFailed
    } else {
        Exit::Done
    })
}

async fn run(
    engine: &Engine,
    request: ImportRequest,
    printer: &Printer,
) -> Result<ImportedMemories, satiety_engine::EngineError> {
    let (stop, bar) = (stop_on_interrupt(), bar(printer));
    let show = |seen: ImportProgress| {
        bar.set_length(seen.total);
        bar.set_position(seen.done);
        bar.set_message(if seen.embedding {
            format!("making vectors, {} memories", seen.memories)
        } else {
            format!("{} memories, {} skipped", seen.memories, seen.skipped)
        });
        !stop.is_requested()
    };
    let imported = engine.memory().import(request, show).await;
    bar.finish_and_clear();
    imported
}

pub(super) async fn embed(engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let (stop, bar) = (stop_on_interrupt(), bar(printer));
    let show = |done: usize, left: usize| {
        bar.set_length((done + left) as u64);
        bar.set_position(done as u64);
        bar.set_message("making vectors");
        !stop.is_requested()
    };
    let embedded = engine.memory().embed_all(show).await;
    bar.finish_and_clear();
    let embedded = embedded?;
    printer.answer(&embedded)?;
    if embedded.pending > 0 && stop.is_requested() {
        printer.note("interrupted; the same command continues");
        return Ok(Exit::Interrupted);
    }
    Ok(Exit::Done)
}

/// Progress bar on stderr, if it is a terminal.
fn bar(printer: &Printer) -> ProgressBar {
    if printer.is_quiet() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {percent} %  {eta} left  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

impl Render for ImportedMemories {
    fn human(&self) -> String {
        let head = if self.dry_run { "would import: " } else { "" };
        let mut lines = vec![format!(
            "{head}{} new, {} changed, {} unchanged, {} skipped{}",
            self.added,
            self.changed,
            self.unchanged,
            self.skipped,
            self.format
                .map_or_else(String::new, |format| format!(" ({format})"))
        )];
        if self.links > 0 {
            lines.push(format!("{} links", self.links));
        }
        if self.embedded + self.pending > 0 {
            lines.push(format!(
                "{} chunks embedded, {} without a vector",
                self.embedded, self.pending
            ));
        }
        if self.lowered > 0 {
            lines.push(format!(
                "{} lowered to important, the highest tier allowed for imports",
                self.lowered
            ));
        }
        for refused in &self.refused {
            lines.push(format!("skipped {}: {}", refused.place, refused.reason));
        }
        if self.skipped > self.refused.len() {
            lines.push(format!("and {} more skipped", self.skipped - self.refused.len()));
        }
        lines.join("\n")
    }
}

impl Render for EmbedResponse {
    fn human(&self) -> String {
        format!(
            "{} chunks embedded, {} without a vector",
            self.embedded, self.pending
        )
    }
}
