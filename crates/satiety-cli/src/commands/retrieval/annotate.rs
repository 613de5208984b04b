//! Interactive annotation of results. Prompts go to stderr, the summary to stdout; answers are lines of
//! standard input, so that a script can supply them, too.

use std::fmt::Write;
use std::io::BufRead;

use owo_colors::OwoColorize;
use satiety::retrieval::AnnotationSettings;
use satiety_engine::Engine;
use satiety_engine::retrieval::{AnnotateRequest, AnnotationQuestion, AnnotationStep, AnnotationVerdict};

use crate::args::AnnotateArgs;
use crate::exit::Exit;
use crate::failure::{Failure, to_stderr};
use crate::printer::{Printer, Render};

/// Characters of a text shown before `m` shows all of it.
const MAX_SHOWN: usize = 1200;

pub(super) async fn run(
    arguments: AnnotateArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let named = || {
        ["USER", "LOGNAME", "USERNAME"]
            .iter()
            .find_map(|name| std::env::var(name).ok())
    };
    let request = AnnotateRequest {
        settings: AnnotationSettings {
            annotator: arguments.annotator.or_else(named).unwrap_or_default(),
            double: arguments.double,
            seed: arguments.seed,
        },
        depth: arguments.depth as usize,
        runs: arguments.runs,
        documents: arguments.documents,
    };
    let mut step = engine.retrieval().next_annotation(&request).await?;
    if !arguments.progress {
        step = converse(step, &request, engine).await?;
    }
    printer.answer(&Progress(step))?;
    Ok(Exit::Done)
}

async fn converse(
    mut step: AnnotationStep,
    request: &AnnotateRequest,
    engine: &Engine,
) -> Result<AnnotationStep, Failure> {
    let mut keys = std::io::stdin().lock().lines();
    let mut all = false;
    let mut last_query = String::new();
    while let Some(question) = step.next.clone() {
        if last_query != question.query_id {
            to_stderr(&format!("\n{} {}", "query:".bold(), printable(&question.query)));
            last_query.clone_from(&question.query_id);
        }
        to_stderr(&render_question(&question, &step, all));
        all = false;
        let Some(line) = keys.next() else { break };
        let line = line.map_err(|cause| {
            Failure::bad_input(
                format!("cannot read standard input: {cause}"),
                "judgments so far are stored; run it again to continue",
            )
        })?;
        let verdict = |grade| AnnotationVerdict {
            query_id: question.query_id.clone(),
            memory_id: question.memory_id.clone(),
            grade,
        };
        match line.trim() {
            key @ ("0" | "1" | "2" | "3") => {
                step = engine
                    .retrieval()
                    .annotate(request, &verdict(key.parse().ok()))
                    .await?;
            }
            "s" => step = engine.retrieval().annotate(request, &verdict(None)).await?,
            "u" => {
                step = engine.retrieval().undo_annotation(request).await?;
                match &step.undone {
                    Some((query, result)) => to_stderr(&format!("undone: {query} {result}")),
                    None => to_stderr("nothing to undo"),
                }
                last_query.clear();
            }
            "m" => all = true,
            "q" => break,
            "" => {}
            other => to_stderr(&format!(
                "unknown answer `{}` (expected one of: 0 1 2 3 s u m q)",
                printable(other)
            )),
        }
    }
    Ok(step)
}

fn render_question(question: &AnnotationQuestion, step: &AnnotationStep, all: bool) -> String {
    let title = question.title.as_deref().unwrap_or(&question.memory_id);
    let text = question
        .text
        .as_deref()
        .unwrap_or("(text unknown: pass --documents, or skip it)");
    let text = printable(text);
    let most = if all { usize::MAX } else { MAX_SHOWN };
    let mut body: String = text.chars().take(most).collect();
    if body.len() < text.len() {
        body.push_str(" […] (m shows all)");
    }
    let place = format!(
        "{} of {} for this query, {} left",
        question.position, question.of, step.progress.waiting
    );
    format!(
        "\n{}  {}\n{body}\n\n0 not relevant  1 marginal  2 relevant  3 highly relevant  s skip  u undo  q quit",
        printable(title).bold(),
        place.dimmed()
    )
}

/// Memory texts are untrusted: they must not move the cursor or change colors.
fn printable(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => character,
            other if other.is_control() => '\u{FFFD}',
            other => other,
        })
        .collect()
}

/// Progress summary.
#[derive(serde::Serialize)]
#[serde(transparent)]
struct Progress(AnnotationStep);

impl Render for Progress {
    fn human(&self) -> String {
        let progress = &self.0.progress;
        let mut text = format!(
            "{} of {} results of {} queries judged; you judged {}, skipped {}, {} pending",
            progress.judged,
            progress.results,
            progress.queries,
            progress.yours,
            progress.skipped,
            progress.waiting
        );
        if progress.double > 0 {
            let _ = write!(text, "; {} judged by two annotators", progress.double);
        }
        if progress.results == 0 {
            text.push_str(
                "\nnothing to judge; retrieve results for the corpus with `satiety retrieval run --memory`",
            );
        }
        text
    }
}
