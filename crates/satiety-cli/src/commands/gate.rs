//! `satiety gate`: the search-gate decision alone, for search loops in any language.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};

use owo_colors::OwoColorize as _;
use satiety::research::Decision;
use satiety::research::recommend::Recommendation;
use satiety_engine::ResearchOperations;
use satiety_engine::research::{GateRequest, GateSummary, SearchGateResponse};
use satiety_report::Document;
use satiety_report::document::count;
use serde::Serialize;

use super::research::gate_settings;
use crate::args::GateArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Format;

pub(super) fn run(arguments: &GateArgs, printer: &Printer) -> Result<Exit, Failure> {
    if arguments.recommend {
        return recommend(arguments, printer);
    }
    let request = GateRequest {
        settings: gate_settings(&arguments.gate)?,
        task: arguments.task.clone(),
        seed_by_run: arguments.gate.seed.is_none(),
    };
    if request.settings.assessor.uses_vectors() {
        return Err(Failure::bad_input(
            format!(
                "`satiety gate` does not support --novelty {}: it has no sentence model",
                request.settings.assessor.name()
            ),
            "use --novelty claims, seed or model (with a `model` field in each line)",
        ));
    }
    let name = arguments.file.display().to_string();
    let mut last = None;
    let mut tell = |gated: &SearchGateResponse| {
        last = Some(gated.verdict.decision);
        printer.line(&Line(gated))
    };
    let summary = if arguments.file.as_os_str() == "-" {
        ResearchOperations::gate(
            &request,
            "standard input",
            std::io::stdin().lock().lines(),
            &mut tell,
        )
    } else {
        let file = open(arguments)?;
        ResearchOperations::gate(&request, &name, BufReader::new(file).lines(), &mut tell)
    }??;
    if printer.format() != Format::Json {
        printer.note(&text(&summary));
    }
    Ok(match last {
        Some(Decision::Stop) if arguments.exit_code => Exit::Stop,
        _ => Exit::Done,
    })
}

/// Recommends a stop rule for recorded loops.
fn recommend(arguments: &GateArgs, printer: &Printer) -> Result<Exit, Failure> {
    let max_missed = gate_settings(&arguments.gate)?.max_missed;
    let found = if arguments.file.as_os_str() == "-" {
        ResearchOperations::recommend_stop("standard input", std::io::stdin().lock(), max_missed)
    } else {
        let name = arguments.file.display().to_string();
        ResearchOperations::recommend_stop(&name, open(arguments)?, max_missed)
    }?;
    printer.answer(&found)?;
    Ok(Exit::Done)
}

fn open(arguments: &GateArgs) -> Result<fs_err::File, Failure> {
    fs_err::File::open(&arguments.file).map_err(|error| {
        Failure::bad_input(
            format!("cannot read {}: {}", arguments.file.display(), error.kind()),
            "give a JSON Lines file, or `-` for standard input",
        )
    })
}

impl Render for Recommendation {
    fn document(&self) -> Document {
        satiety_report::documents::research::recommendation(self)
    }
}

fn text(summary: &GateSummary) -> String {
    let mut text = format!(
        "{} of {}: {} until the gate stops, {} accepted",
        count(summary.rounds, "round", "rounds"),
        count(summary.runs, "run", "runs"),
        count(summary.searches, "search", "searches"),
        summary.accepted
    );
    if summary.after_stop > 0 {
        let _ = write!(text, "; {} rounds after the stop", summary.after_stop);
    }
    for pair in &summary.agreement {
        let _ = write!(
            text,
            "\nnovelty by `{}` and by `{}` is on the same side of the threshold in {} of {} (mean difference {:.2})",
            pair.a.name(),
            pair.b.name(),
            pair.same_side,
            count(pair.rounds, "round", "rounds"),
            pair.mean_difference
        );
    }
    text
}

/// One-line rendering of a decision.
#[derive(Serialize)]
#[serde(transparent)]
struct Line<'a>(&'a SearchGateResponse);

impl Render for Line<'_> {
    fn human(&self) -> String {
        let gated = self.0;
        let verdict = &gated.verdict;
        let word = match verdict.decision {
            Decision::Continue => "continue".cyan().bold().to_string(),
            Decision::Stop => "stop    ".yellow().bold().to_string(),
        };
        let run = gated
            .run
            .as_ref()
            .map_or_else(String::new, |run| match run.as_str() {
                Some(name) => format!("{name} "),
                None => format!("{run} "),
            });
        let late = if gated.after_stop { " (after the stop)" } else { "" };
        let score = verdict
            .score
            .map_or_else(|| " -".into(), |score| format!("{score:>2}"));
        format!(
            "{run}{:>2}  {word}  {score}/10  {}{late}",
            verdict.round, gated.words
        )
    }
}
