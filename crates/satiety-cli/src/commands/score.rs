//! `satiety score`: recommend what to do about a conversation or an agent at work, with reasons.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

use owo_colors::OwoColorize;
use satiety::dialogue::{Level, Profile, Report, Review, RoundUnseen, Signal, Warning};
use satiety_engine::Engine;
use satiety_engine::dialogue::{Extract, ScoreRequest, ScoreResponse};
use satiety_engine::judge_choice::{Judge, ScoreFileRequest, ScoredFile, deciding_judge};
use satiety_report::markdown;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{Judging, ScoreArgs};
use crate::commands::progress::{ProgressJson, ProgressOutput, overall_signal};
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
    let name = arguments.file.display().to_string();
    let score = ScoreRequest {
        name: name.clone(),
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
    let request = ScoreFileRequest {
        score,
        judge: arguments.judge.into(),
        progress_profile: progress_profile(&arguments.judging),
    };
    let exit = match Box::pin(engine.progress().score_file(request)).await? {
        ScoredFile::Dialogue(scored) => {
            let signal = scored.report.stop_recommendation.signal;
            printer.answer(&ScoreOutput {
                judge: "dialogue",
                scored,
                at_every_round: arguments.at_every_round,
            })?;
            Exit::of_signal(signal)
        }
        ScoredFile::Progress(judged) => {
            if arguments.record {
                printer.note(
                    "not stored: `--record` stores conversations, and this is the log of an agent at work",
                );
            }
            printer.answer(&ProgressOutput {
                name: &name,
                judged: &judged,
                judge: Some("progress"),
                every_step: arguments.at_every_round,
            })?;
            Exit::of_progress_signal(overall_signal(&judged.runs))
        }
        ScoredFile::Both(scored, judged) => {
            let dialogue = scored.report.stop_recommendation.signal;
            let progress = overall_signal(&judged.runs);
            let progress_decides = deciding_judge(progress) == Judge::Progress;
            printer.answer(&BothOutput {
                dialogue: ScoreOutput {
                    judge: if progress_decides { "progress" } else { "dialogue" },
                    scored,
                    at_every_round: arguments.at_every_round,
                },
                progress: ProgressOutput {
                    name: &name,
                    judged: &judged,
                    judge: None,
                    every_step: arguments.at_every_round,
                },
                progress_decides,
            })?;
            if progress_decides {
                Exit::of_progress_signal(progress)
            } else {
                Exit::of_signal(dialogue)
            }
        }
    };
    Ok(if arguments.exit_code { exit } else { Exit::Done })
}

/// The profile file for the progress judge, if `--profile` names a file. Built-in profiles are for
/// conversations.
pub(super) fn progress_profile(judging: &Judging) -> Option<PathBuf> {
    let given = judging.profile.as_deref()?;
    (!Profile::built_in_names().contains(&given)).then(|| PathBuf::from(given))
}

/// Reads a whole file, or standard input for `-`.
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
            format!("cannot read {}: it is a directory", path.display()),
            "pass a file, or score a directory of labelled conversations with `satiety sweep`",
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failure::bad_input(
            format!("cannot read {}: file not found", path.display()),
            "pass the path of a transcript, trace, chat log or session log, or `-` for standard input",
        )),
        Err(error) => Err(Failure::environment(
            format!("cannot read {}: {}", path.display(), error.kind()),
            None,
        )),
    }
}

/// Report about a conversation.
#[derive(Serialize, JsonSchema)]
pub(super) struct ScoreOutput {
    /// Name of the judge that decides.
    judge: &'static str,
    #[serde(flatten)]
    scored: ScoreResponse,
    #[serde(skip)]
    at_every_round: bool,
}

/// A signal in color. The word carries the meaning, so plain output loses nothing.
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

/// The state of the conversation that the signal responds to.
fn state(report: &Report) -> &'static str {
    let blocked = report
        .readiness_by_round
        .last()
        .is_some_and(|round| !round.blockers.is_empty());
    match report.stop_recommendation.signal {
        Signal::Continue => "not converged yet",
        Signal::Ship => "converged",
        Signal::Stop if report.review.as_ref().is_some_and(|review| review.below_bar) => {
            "what remains is below your bar"
        }
        Signal::Stop => "converged, nothing to execute",
        Signal::Escalate if blocked => "blocked",
        Signal::Escalate => "stuck",
    }
}

/// The estimated share of claims not yet made, if its interval is narrow and supports the signal. Otherwise
/// it would be uninformative or appear to contradict the verdict; JSON always has it.
fn unseen_estimate(signal: Signal, last: Option<&RoundUnseen>) -> Option<String> {
    const WIDEST_INTERVAL: f64 = 0.3;
    let (share, interval) = last.and_then(|round| Some((round.unseen_share?, round.unseen_interval?)))?;
    let supports_signal = match signal {
        Signal::Ship | Signal::Stop => interval.high <= 0.5,
        Signal::Continue => interval.low >= 0.5,
        Signal::Escalate => false,
    };
    (supports_signal && interval.high - interval.low < WIDEST_INTERVAL).then(|| {
        format!(
            "the next claim is new with probability {:.0} % (95 % interval: {:.0} % to {:.0} %)",
            100.0 * share,
            100.0 * interval.low,
            100.0 * interval.high
        )
    })
}

/// The discovery curve of a review in one line: the weight of the new findings of its latest rounds.
fn review_line(review: &Review) -> String {
    const ROUNDS: usize = 12;
    let hidden = review.yield_by_round.len().saturating_sub(ROUNDS);
    let curve: Vec<String> = review.yield_by_round[hidden..]
        .iter()
        .map(|round| round.weighted_yield.to_string())
        .collect();
    let earlier = if hidden > 0 { "…, " } else { "" };
    let mut line = format!(
        "yield by round {earlier}{} (bar {})",
        curve.join(", "),
        review.bar
    );
    if let Some(share) = review.unseen_share {
        let _ = write!(
            line,
            "; the next finding is new with probability {:.0} %",
            100.0 * share
        );
    }
    line
}

impl Render for ScoreOutput {
    fn human(&self) -> String {
        let report = &self.scored.report;
        let stop = &report.stop_recommendation;
        let mut text = String::new();
        if let Some(topic) = &self.scored.topic {
            let _ = writeln!(text, "{}\n", topic.bold());
        }
        let _ = write!(
            text,
            "{}: {} (novelty {}, readiness {})",
            coloured(stop.signal),
            state(report),
            level(stop.novelty_classification),
            level(stop.readiness_classification)
        );
        for reason in &report.reasons {
            let _ = write!(text, "\n  - {reason}");
        }
        let _ = write!(text, "\nnext: {}", report.hint);
        if let Some(caveat) = &stop.caveat {
            let _ = write!(text, "\ncaveat: {caveat}");
        }
        let _ = write!(text, "\n\n{}", rounds(report, self.at_every_round));
        let curve: Vec<f64> = report
            .novelty_by_round
            .iter()
            .map(|round| round.novelty.unwrap_or(0.0))
            .collect();
        let _ = write!(text, "\n\nnovelty  {}", sparkline(&curve));
        if let Some(estimate) = unseen_estimate(stop.signal, report.unseen.by_round.last()) {
            let _ = write!(text, "\nunseen   {estimate}");
        }
        if let Some(review) = &report.review {
            let _ = write!(text, "\nreview   {}", review_line(review));
        }
        if self.at_every_round {
            let _ = match report.first_stop_round {
                Some(round) => write!(text, "\n\nfirst signal other than CONTINUE: round {round}"),
                None => write!(text, "\n\nevery round so far: CONTINUE"),
            };
        }
        for warning in &report.warnings {
            let _ = write!(text, "\n{}", render_warning(warning));
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
        let mut text = format!("### {}: {}\n\n", stop.signal, state(report));
        for reason in &report.reasons {
            let _ = writeln!(text, "- {reason}");
        }
        let _ = writeln!(text, "\n**Next:** {}", report.hint);
        if let Some(caveat) = &stop.caveat {
            let _ = writeln!(text, "\n**Caveat:** {caveat}");
        }
        text.push_str(
            "\n| round | claims | new | novelty | readiness | signal |\n|--:|--:|--:|--:|--:|---|\n",
        );
        for row in round_rows(report, true) {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        if let Some(estimate) = unseen_estimate(stop.signal, report.unseen.by_round.last()) {
            let _ = write!(text, "\nUnseen claims: {estimate}\n");
        }
        if let Some(review) = &report.review {
            let _ = write!(text, "\nReview: {}\n", review_line(review));
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

/// Report about a conversation in which some turns call tools: the fields of the dialogue report, and `progress`.
#[derive(Serialize, JsonSchema)]
pub(super) struct BothOutput<'a> {
    #[serde(flatten)]
    dialogue: ScoreOutput,
    /// Report of the progress judge.
    #[schemars(with = "ProgressJson<'a>")]
    progress: ProgressOutput<'a>,
    #[serde(skip)]
    progress_decides: bool,
}

impl BothOutput<'_> {
    /// Which judge decides and why, and what the other one says.
    fn judges(&self) -> String {
        let steps: Vec<_> = self
            .progress
            .judged
            .trajectories
            .iter()
            .flat_map(|run| &run.steps)
            .collect();
        let calling = steps.iter().filter(|step| step.has_calls()).count();
        let share = format!("{calling} of {} turns call tools", steps.len());
        if self.progress_decides {
            let signal = self.dialogue.scored.report.stop_recommendation.signal;
            format!(
                "the progress judge decides, because the agent is stuck although only {share}; the dialogue judge says {signal}: {}",
                state(&self.dialogue.scored.report)
            )
        } else {
            let progress = self.progress.judged.runs.first();
            let says = progress.map_or_else(String::new, |report| {
                format!("; the progress judge says {}: {}", report.signal, report.reason)
            });
            format!("the dialogue judge decides, because only {share}{says}")
        }
    }
}

impl Render for BothOutput<'_> {
    fn human(&self) -> String {
        let report = if self.progress_decides {
            self.progress.human()
        } else {
            self.dialogue.human()
        };
        format!("{report}\n{} {}", "judge:".bold(), self.judges())
    }

    fn markdown(&self) -> String {
        let report = if self.progress_decides {
            self.progress.markdown()
        } else {
            self.dialogue.markdown()
        };
        format!(
            "{}\n\n**Judge:** {}",
            report.trim_end(),
            markdown::escape(&self.judges(), usize::MAX)
        )
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

fn render_warning(warning: &Warning) -> String {
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
            let _ = write!(text, "\n    compared with \"{}\"{round}", shortened(against));
        }
    }
    text
}

/// Evidence cut to one terminal line; JSON has the full text.
fn shortened(text: &str) -> String {
    const WIDTH: usize = 96;
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    let start: String = text.chars().take(WIDTH - 1).collect();
    format!("{}…", start.trim_end())
}

#[cfg(test)]
mod tests {
    use satiety::stats::Interval;

    use super::*;

    fn estimate(signal: Signal, low: f64, high: f64) -> bool {
        let round = RoundUnseen {
            round: 4,
            claims: 40,
            distinct: 20,
            unseen_share: Some(f64::midpoint(low, high)),
            unseen_interval: Some(Interval {
                low,
                high,
                confidence: 0.95,
            }),
            total_estimate: None,
            total_interval: None,
            absent_because: None,
        };
        unseen_estimate(signal, Some(&round)).is_some()
    }

    #[test]
    fn the_unseen_estimate_is_printed_only_if_it_supports_the_signal() {
        assert!(estimate(Signal::Ship, 0.05, 0.2));
        assert!(estimate(Signal::Stop, 0.0, 0.29));
        assert!(estimate(Signal::Continue, 0.7, 0.95));
        // Too wide, on the wrong side, or about something else.
        assert!(!estimate(Signal::Ship, 0.35, 1.0));
        assert!(!estimate(Signal::Ship, 0.0, 0.31));
        assert!(!estimate(Signal::Ship, 0.4, 0.6));
        assert!(!estimate(Signal::Continue, 0.05, 0.2));
        assert!(!estimate(Signal::Escalate, 0.05, 0.2));
        assert_eq!(unseen_estimate(Signal::Ship, None), None);
    }
}
