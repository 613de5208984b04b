//! `satiety score`: what to do about a conversation, and why.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use owo_colors::OwoColorize;
use satiety::dialogue::{Level, Report, Signal, Warning};
use satiety_engine::Engine;
use satiety_engine::dialogue::{Extract, ScoreRequest, ScoreResponse};
use serde::Serialize;

use crate::args::ScoreArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Settings;
use crate::table::{sparkline, table};

pub(super) async fn run(
    arguments: ScoreArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let request = ScoreRequest {
        name: arguments.file.display().to_string(),
        bytes: read_input(&arguments.file)?,
        format: arguments.input.map(Into::into),
        profile: settings.profile.clone(),
        extract: if arguments.extract == crate::args::ExtractWith::Model {
            Extract::Model
        } else {
            Extract::Rules
        },
        record: settings.record,
    };
    let scored = engine.dialogue().score(request).await?;
    let signal = scored.report.stop_recommendation.signal;
    printer.answer(&Shown {
        scored,
        at_every_round: arguments.at_every_round,
    })?;
    Ok(if arguments.exit_code {
        Exit::of_signal(signal)
    } else {
        Exit::Done
    })
}

/// Reads a file whole, or standard input for `-`.
pub(super) fn read_input(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let outcome = if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        fs_err::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    match outcome {
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => Err(Failure::bad_input(
            format!("{} is a folder", path.display()),
            "give a file, or score all labelled conversations of a folder with `satiety sweep`",
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failure::bad_input(
            format!("there is no file {}", path.display()),
            "give the path of a transcript, a trace, a chat log or a session log, or `-` for standard input",
        )),
        Err(error) => Err(Failure::environment(
            format!("cannot read {}: {}", path.display(), error.kind()),
            None,
        )),
    }
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    scored: ScoreResponse,
    #[serde(skip)]
    at_every_round: bool,
}

/// A signal in its colour; the word alone says it all.
pub(super) fn coloured(signal: Signal) -> String {
    match signal {
        Signal::Continue => signal.cyan().bold().to_string(),
        Signal::Ship => signal.green().bold().to_string(),
        Signal::Stop => signal.blue().bold().to_string(),
        Signal::Escalate => signal.red().bold().to_string(),
    }
}

fn level(level: Level) -> String {
    level.as_str().to_lowercase()
}

impl Render for Shown {
    fn human(&self) -> String {
        let report = &self.scored.report;
        let mut text = String::new();
        if let Some(topic) = &self.scored.topic {
            let _ = writeln!(text, "{}", topic.bold());
        }
        text.push_str(&rounds(report, self.at_every_round));
        let curve: Vec<f64> = report
            .novelty_by_round
            .iter()
            .map(|round| round.novelty.unwrap_or(0.0))
            .collect();
        let _ = write!(text, "\n\nnovelty  {}", sparkline(&curve));
        if let Some(summary) = &report.unseen.summary {
            let _ = write!(text, "\nunsaid   {summary}");
        }
        let stop = &report.stop_recommendation;
        let _ = write!(
            text,
            "\n\n{}  {} (novelty {}, readiness {})",
            coloured(stop.signal),
            report.hint,
            level(stop.novelty_classification),
            level(stop.readiness_classification)
        );
        for reason in &report.reasons {
            let _ = write!(text, "\n  - {reason}");
        }
        if let Some(caveat) = &stop.caveat {
            let _ = write!(text, "\n  caveat: {caveat}");
        }
        if self.at_every_round {
            let _ = match report.first_stop_round {
                Some(round) => write!(text, "\n\nfirst to stop after round {round}"),
                None => write!(text, "\n\nwould not have stopped yet"),
            };
        }
        for warning in &report.warnings {
            let _ = write!(text, "\n{}", shown_warning(warning));
        }
        let model = report
            .embedder
            .as_deref()
            .unwrap_or("none: compared by words only");
        let _ = write!(
            text,
            "\n\n{}",
            format!("profile {}, sentence model {model}", report.profile).dimmed()
        );
        text
    }

    fn markdown(&self) -> String {
        let report = &self.scored.report;
        let stop = &report.stop_recommendation;
        let mut text = format!("### {}: {}\n\n", stop.signal, report.hint);
        for reason in &report.reasons {
            let _ = writeln!(text, "- {reason}");
        }
        text.push_str(
            "\n| round | claims | new | novelty | readiness | signal |\n|--:|--:|--:|--:|--:|---|\n",
        );
        for row in round_rows(report, true) {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        if let Some(summary) = &report.unseen.summary {
            let _ = write!(text, "\n{summary}\n");
        }
        if !report.warnings.is_empty() {
            text.push_str("\n**Warnings**\n\n");
            for warning in &report.warnings {
                let _ = writeln!(text, "- round {}: {}", warning.round, warning.message);
            }
        }
        let model = report.embedder.as_deref().unwrap_or("none");
        let _ = write!(
            text,
            "\n<sub>satiety, profile `{}`, sentence model `{model}`</sub>",
            report.profile
        );
        text
    }
}

fn rounds(report: &Report, with_signals: bool) -> String {
    let mut header = vec!["round", "claims", "new", "novelty", "readiness"];
    if with_signals {
        header.push("signal");
    }
    table(&header, &[0, 1, 2, 3, 4], round_rows(report, with_signals))
}

fn round_rows(report: &Report, with_signals: bool) -> Vec<Vec<String>> {
    report
        .novelty_by_round
        .iter()
        .zip(&report.readiness_by_round)
        .zip(&report.signal_by_round)
        .map(|((novelty, readiness), signal)| {
            let mut row = vec![
                novelty.round.to_string(),
                novelty.claims.to_string(),
                novelty.new_claims.to_string(),
                novelty
                    .novelty
                    .map_or_else(|| "-".into(), |value| format!("{value:.2}")),
                format!("{:.2}", readiness.action_readiness),
            ];
            if with_signals {
                row.push(signal.signal.to_string());
            }
            row
        })
        .collect()
}

fn shown_warning(warning: &Warning) -> String {
    let mut text = format!(
        "\n{} round {}: {}",
        "warning:".yellow().bold(),
        warning.round,
        warning.message
    );
    for evidence in warning.evidence.iter().take(2) {
        let _ = write!(text, "\n  \"{}\"", shortened(&evidence.text));
        if let Some(against) = &evidence.against {
            let round = evidence
                .against_round
                .map_or_else(String::new, |round| format!(" (round {round})"));
            let _ = write!(text, "\n    beside \"{}\"{round}", shortened(against));
        }
    }
    text
}

/// Evidence as far as a line of a terminal shows it; JSON has it whole.
fn shortened(text: &str) -> String {
    const WIDTH: usize = 96;
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    let start: String = text.chars().take(WIDTH - 1).collect();
    format!("{}…", start.trim_end())
}
