//! `satiety sweep`: accuracy of a profile over labelled conversations or runs of agents.

use std::fmt::Write;
use std::path::PathBuf;

use satiety::dialogue::{Cell, Grid, Signal};
use satiety_engine::progress::{SweepWorkRequest, SweptWork};
use satiety_engine::sweep::{SweepRequest, SweepResponse};
use satiety_engine::{Engine, EngineError};
use satiety_report::document::dim;
use satiety_report::documents::progress as documents;
use satiety_report::{Block, Document};

use crate::args::SweepArgs;
use crate::commands::score::progress_profile;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Settings;
use crate::table::table;

const SIGNALS: [Signal; 4] = [Signal::Continue, Signal::Ship, Signal::Stop, Signal::Escalate];

pub(super) async fn run(
    arguments: SweepArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    // Labelled conversations are in a directory; a single file is a log with several runs.
    if arguments.work || arguments.folder.as_ref().is_some_and(|path| path.is_file()) {
        printer.answer(&sweep_work(&arguments, engine).await?)?;
        return Ok(Exit::Done);
    }
    let request = SweepRequest {
        folder: source(&arguments),
        profile: settings.profile.clone(),
        grid: Grid {
            k: arguments.k.clone(),
            jaccard_threshold: arguments.jaccard.clone(),
            semantic_threshold: arguments.semantic.clone(),
            low: arguments.low.clone(),
        },
    };
    match engine.dialogue().sweep(&request).await {
        Ok(swept) => printer.answer(&swept)?,
        // No labelled conversations: the directory may have logs of agents.
        Err(error @ (EngineError::NoLabels { .. } | EngineError::Input { .. })) => {
            match sweep_work(&arguments, engine).await {
                Ok(swept) => printer.answer(&swept)?,
                Err(Failure::Engine(EngineError::NoLabels { .. })) => return Err(error.into()),
                Err(other) => return Err(other),
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Exit::Done)
}

/// Path with labels; `None` for the labels in the database.
fn source(arguments: &SweepArgs) -> Option<PathBuf> {
    arguments.folder.clone().filter(|_| !arguments.stored)
}

/// Levels that are tried if none are given.
const STOPS: [f64; 9] = [2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 8.0];

/// Calibrates the progress judge on recorded runs.
async fn sweep_work(arguments: &SweepArgs, engine: &Engine) -> Result<SweptWork, Failure> {
    let mut stops = arguments.stop.clone();
    if stops.is_empty() {
        stops = STOPS.to_vec();
    }
    if let Some(stop) = stops.iter().find(|stop| !(**stop > 0.0 && stop.is_finite())) {
        return Err(Failure::bad_input(
            format!("cannot stop at level {stop}: a level is positive"),
            "pass a level such as --stop 3.5",
        ));
    }
    stops.sort_by(f64::total_cmp);
    let request = SweepWorkRequest {
        path: source(arguments),
        profile: progress_profile(&arguments.judging),
        stops,
    };
    Ok(engine.progress().sweep(&request).await?)
}

impl Render for SweptWork {
    fn document(&self) -> Document {
        let mut document = documents::sweep(&self.sweep);
        if self.without_outcome > 0 {
            document.blocks.push(Block::note(format!(
                "{} runs without an outcome were left out",
                self.without_outcome
            )));
        }
        if self.skipped > 0 {
            document.blocks.push(Block::note(format!(
                "{} records were not understood and skipped",
                self.skipped
            )));
        }
        document.blocks.push(Block::Text(dim(format!(
            "{} files, profile {}, without a sentence model",
            self.files, self.profile
        ))));
        document
    }
}

impl Render for SweepResponse {
    fn human(&self) -> String {
        let outcomes = self.report.outcomes.iter().map(|outcome| {
            let wrong = outcome
                .expected
                .is_some_and(|expected| expected != outcome.signal);
            vec![
                outcome.name.clone(),
                outcome
                    .expected
                    .map_or_else(String::new, |signal| signal.to_string()),
                format!("{}{}", outcome.signal, if wrong { "  <- wrong" } else { "" }),
                outcome
                    .stop_round
                    .map_or_else(String::new, |round| round.to_string()),
                outcome
                    .first_stop_round
                    .map_or_else(|| "-".into(), |round| round.to_string()),
            ]
        });
        let mut text = table(
            &[
                "conversation",
                "expected",
                "actual",
                "expected stop",
                "actual stop",
            ],
            &[3, 4],
            outcomes,
        );
        text.push_str("\n\nexpected (rows) and actual (columns) signals\n");
        let counts = SIGNALS.iter().map(|expected| {
            let count = |given| {
                self.report
                    .confusion
                    .counts
                    .get(expected)
                    .and_then(|row| row.get(given))
                    .copied()
            };
            let mut row = vec![expected.to_string()];
            row.extend(SIGNALS.iter().map(|given| count(given).unwrap_or(0).to_string()));
            row
        });
        let header: Vec<&str> = std::iter::once("")
            .chain(SIGNALS.iter().map(|signal| signal.as_str()))
            .collect();
        text.push_str(&table(&header, &[1, 2, 3, 4], counts));
        let base = &self.report.base;
        let _ = write!(
            text,
            "\n\n{} of {} signals correct",
            base.signals_right, base.signals_labelled
        );
        if base.stop_rounds_labelled > 0 {
            let _ = write!(
                text,
                "; {} of {} stop rounds correct, {} early, {} late",
                base.stop_rounds_right,
                base.stop_rounds_labelled,
                base.stop_rounds_early,
                base.stop_rounds_late
            );
        }
        if self.report.cells.len() > 1 {
            text.push_str("\n\nwith other settings\n");
            text.push_str(&cells(&self.report.cells));
        }
        let model = self.embedder.as_deref().unwrap_or("none");
        let _ = write!(text, "\n\nprofile {}, sentence model {model}", self.profile);
        if !self.unlabelled.is_empty() {
            let _ = write!(text, "\nskipped, no label: {}", self.unlabelled.join(", "));
        }
        text
    }
}

fn cells(cells: &[Cell]) -> String {
    let rows = cells.iter().map(|cell| {
        vec![
            cell.k.to_string(),
            format!("{:.2}", cell.jaccard_threshold),
            format!("{:.2}", cell.semantic_threshold),
            format!("{:.2}", cell.low),
            format!("{} of {}", cell.signals_right, cell.signals_labelled),
            format!("{} of {}", cell.stop_rounds_right, cell.stop_rounds_labelled),
        ]
    });
    table(
        &[
            "k",
            "jaccard",
            "semantic",
            "low",
            "signals correct",
            "stop rounds correct",
        ],
        &[0, 1, 2, 3, 4, 5],
        rows,
    )
}
