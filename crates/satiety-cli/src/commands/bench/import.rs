//! `satiety bench import`, `export`, `from-failure` and `scrub`: cases and runs from and for other tools.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::bench::{ColumnUse, ImportedScore, Loss, ScoreChoice, ScrubReport};
use satiety_engine::Engine;
use satiety_engine::bench::{
    ExportFormat, ExportRequest, ExportedRun, FailureCase, FromFailureRequest, ImportRequest, ImportResponse,
    ResultOptions, ScrubFilesRequest, ScrubResponse,
};
use satiety_report::document::percent;

use crate::args::{
    BenchExportArgs, BenchFromFailureArgs, BenchImportArgs, BenchScrubArgs, ExportTo, ResultFileArgs,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::table::table;

/// Maximum number of losses shown.
const MAX_LOSSES: usize = 20;

pub(super) async fn import(
    arguments: BenchImportArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let imported = engine
        .bench()
        .import(ImportRequest {
            file: arguments.file,
            output: arguments.output,
            options: ResultOptions {
                suite_id: arguments.suite_id,
                ..result_options(arguments.results)
            },
        })
        .await?;
    printer.answer(&imported)?;
    // The result is written either way; the exit code says that it decides less than the source.
    Ok(if imported.losses().iter().any(|loss| loss.decides) {
        Exit::Inconclusive
    } else {
        Exit::Done
    })
}

/// How the flags say to read result files.
pub(super) fn result_options(arguments: ResultFileArgs) -> ResultOptions {
    ResultOptions {
        suite_id: None,
        choice: ScoreChoice {
            scorer: arguments.scorer,
            threshold: arguments.threshold,
            range: arguments.range,
            lower_is_better: arguments.lower_is_better,
        },
        columns: arguments.map,
    }
}

pub(super) async fn export(
    arguments: BenchExportArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let exported = engine
        .bench()
        .export(ExportRequest {
            run: arguments.run,
            file: arguments.file,
            format: arguments.to.map(|format| match format {
                ExportTo::Csv => ExportFormat::Csv,
                ExportTo::Parquet => ExportFormat::Parquet,
                ExportTo::Junit => ExportFormat::Junit,
                ExportTo::Inspect => ExportFormat::Inspect,
                ExportTo::Json => ExportFormat::Json,
            }),
        })
        .await?;
    printer.answer(&exported)?;
    Ok(Exit::Done)
}

pub(super) fn from_failure(
    arguments: BenchFromFailureArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let made = engine.bench().from_failure(&FromFailureRequest {
        record: arguments.record,
        suite: arguments.suite,
    })?;
    printer.answer(&made)?;
    Ok(Exit::Done)
}

pub(super) fn scrub(arguments: BenchScrubArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let scrubbed = engine.bench().scrub(&ScrubFilesRequest {
        files: arguments.files,
        output: arguments.output,
        consent: arguments.i_have_consent,
    })?;
    printer.answer(&scrubbed)?;
    Ok(Exit::Done)
}

impl Render for ImportResponse {
    fn human(&self) -> String {
        let suite = match self {
            Self::Run(run) => {
                let mut text = format!(
                    "run {} of {} ({}): {} results, {} passed",
                    run.run_id.bold(),
                    run.suite_id,
                    run.target,
                    run.results,
                    percent(run.pass_rate)
                );
                if run.skipped > 0 {
                    let _ = write!(text, "; {} unscored ones skipped", run.skipped);
                }
                if !run.complete {
                    let _ = write!(
                        text,
                        "\n{} the log is incomplete; the run cannot become a baseline",
                        "note:".yellow()
                    );
                }
                if run.scores.len() > 1 {
                    let _ = write!(text, "\n\n{}", scores(&run.scores));
                }
                text += &columns(&run.columns);
                text += &losses(&run.losses);
                let _ = write!(text, "\nnext: satiety bench report {}", run.run_id);
                return text;
            }
            Self::Suite(suite) => suite,
        };
        let report = &suite.report;
        let mut text = format!(
            "{}: {} runnable cases, {} skipped",
            suite.suite_id.bold(),
            report.imported,
            report.skipped.len()
        );
        let rows: Vec<Vec<String>> = report
            .assertions
            .iter()
            .map(|(kind, count)| {
                let not = report.unsupported.get(kind).copied().unwrap_or(0);
                vec![kind.clone(), count.to_string(), not.to_string()]
            })
            .collect();
        if !rows.is_empty() {
            let header = ["assertion", "cases", "unsupported"];
            let _ = write!(text, "\n\n{}", table(&header, &[1, 2], rows));
        }
        text += &losses(&report.losses);
        for name in &report.needs {
            let _ = write!(
                text,
                "\n{} {name} is referenced but does not exist",
                "note:".yellow()
            );
        }
        for warning in &report.warnings {
            let _ = write!(text, "\n{} {warning}", "note:".yellow());
        }
        let _ = write!(text, "\n\nwrote {}", suite.files.join(", "));
        text
    }
}

fn scores(scores: &[ImportedScore]) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    let rows = scores.iter().map(|score| {
        vec![
            score.name.clone(),
            number(score.mean),
            number(score.log_mean),
            format!("{} to {}", number(score.min), number(score.max)),
            score.scored.to_string(),
            score.unscored.to_string(),
            if score.decides { "yes" } else { "" }.to_owned(),
        ]
    });
    let header = [
        "score",
        "mean",
        "in the log",
        "values",
        "scored",
        "unscored",
        "decides",
    ];
    table(&header, &[1, 2, 4, 5], rows)
}

/// How the columns of a table were read, in the form that `--map` takes.
fn columns(columns: &[ColumnUse]) -> String {
    if columns.is_empty() {
        return String::new();
    }
    let list = |guessed: bool| {
        let wanted = columns.iter().filter(|column| column.guessed == guessed);
        wanted.map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    let mut text = String::new();
    for (what, guessed) in [("columns given: ", false), ("columns guessed: ", true)] {
        let list = list(guessed);
        if !list.is_empty() {
            let _ = write!(text, "\n{what}{list}");
        }
    }
    text
}

fn losses(losses: &[Loss]) -> String {
    let mut text = String::new();
    for loss in losses.iter().take(MAX_LOSSES) {
        let kind = if loss.decides { "lost:" } else { "note:" };
        let _ = write!(text, "\n{} {loss}", kind.yellow());
    }
    if let Some(more @ 1..) = losses.len().checked_sub(MAX_LOSSES) {
        let _ = write!(text, "\n… and {more} more; --format json lists all");
    }
    text
}

impl Render for ExportedRun {
    fn human(&self) -> String {
        format!(
            "wrote {} results of {} to {}",
            self.results,
            self.run_id.bold(),
            self.file
        )
    }
}

impl Render for FailureCase {
    fn human(&self) -> String {
        let mut text = format!("wrote case {} to {}", self.case_id.bold(), self.file);
        let _ = write!(
            text,
            "\ntags: {}; {}",
            self.tags.join(", "),
            redactions(&self.scrubbed)
        );
        if self.needs_expectation {
            let _ = write!(
                text,
                "\n{} the record has no `expected` value; the case needs a human verdict until you add one",
                "note:".yellow()
            );
        }
        text
    }
}

impl Render for ScrubResponse {
    fn human(&self) -> String {
        format!(
            "wrote {} records to {}; {} changed: {}\n{} rules match patterns, not people's names; review the file before sharing it",
            self.records,
            self.output,
            self.changed,
            redactions(&self.report),
            "note:".yellow()
        )
    }
}

fn redactions(report: &ScrubReport) -> String {
    if report.total() == 0 {
        return "nothing was redacted".into();
    }
    let kinds: Vec<String> = report
        .replaced
        .iter()
        .map(|(kind, count)| {
            let kind = serde_json::to_value(kind).ok();
            let kind = kind
                .as_ref()
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default();
            format!("{count} {}", kind.replace('_', " "))
        })
        .collect();
    format!("redacted: {}", kinds.join(", "))
}
