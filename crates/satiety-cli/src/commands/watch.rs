//! `satiety watch`: follows a live conversation or agent log and reports when to stop.

use std::time::Duration;

use satiety::dialogue::Verdict;
use satiety::progress::{ProgressSignal, StepVerdict};
use satiety::trajectory::Step;
use satiety_engine::Engine;
use satiety_engine::judge_choice::Judge;
use satiety_engine::watch::{WatchEnd, WatchError, WatchRequest};
use satiety_engine::watch_work::WatchWorkRequest;
use satiety_report::document::badge;
use satiety_report::documents::progress::{action, tone};
use satiety_report::{Text, markdown, terminal};
use serde::Serialize;

use crate::args::{InputShape, JudgeWith, WatchArgs};
use crate::commands::score::{coloured, progress_profile};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::{Format, Settings};

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(200);

const IDLE: &str = "the file has not grown within the idle timeout";

pub(super) async fn run(
    arguments: WatchArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let judge = match (arguments.judge, arguments.input) {
        (JudgeWith::Auto, Some(InputShape::Transcript | InputShape::Trace)) => Judge::Dialogue,
        (JudgeWith::Auto, _) => {
            let idle = arguments.idle.map(Duration::from_secs);
            let choosing = engine
                .progress()
                .choose_judge_of_growing_file(&arguments.file, idle, INTERVAL);
            tokio::select! {
                judge = choosing => judge?,
                _ = tokio::signal::ctrl_c() => return Ok(interrupted(printer)),
            }
        }
        (judge, _) => judge.into(),
    };
    if judge == Judge::Progress {
        return run_work(arguments, engine, printer).await;
    }
    let request = WatchRequest {
        path: arguments.file,
        format: arguments.input.map(Into::into),
        profile: settings.profile.clone(),
        keep_going: arguments.keep_going,
        idle_limit: arguments.idle.map(Duration::from_secs),
        interval: INTERVAL,
    };
    let watching = engine
        .dialogue()
        .watch(&request, |verdict| printer.line(&Line(verdict)));
    let ended = tokio::select! {
        ended = watching => ended,
        _ = tokio::signal::ctrl_c() => return Ok(interrupted(printer)),
    };
    let (end, report) = ended.map_err(failure)?;
    if end == WatchEnd::Idle {
        printer.note(IDLE);
    }
    let signal = report.map(|report| report.stop_recommendation.signal);
    Ok(match signal {
        Some(signal) if arguments.exit_code => Exit::of_signal(signal),
        _ => Exit::Done,
    })
}

/// Follows the log of an agent at work.
async fn run_work(arguments: WatchArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let request = WatchWorkRequest {
        profile: progress_profile(&arguments.judging),
        path: arguments.file,
        keep_going: arguments.keep_going,
        idle_limit: arguments.idle.map(Duration::from_secs),
        interval: INTERVAL,
    };
    let watching = engine.progress().watch(&request, |step, verdict| {
        if arguments.at_every_step || verdict.signal != ProgressSignal::Continue {
            printer.line(&StepLine { step, verdict })?;
        }
        Ok(())
    });
    let watched = tokio::select! {
        watched = watching => watched.map_err(failure)?,
        _ = tokio::signal::ctrl_c() => return Ok(interrupted(printer)),
    };
    if let Some(first) = watched.skipped.first.first() {
        printer.note(&format!(
            "{} records of the log skipped; the first in line {}: {}",
            watched.skipped.count, first.line, first.reason
        ));
    }
    if watched.idle {
        printer.note(IDLE);
    }
    Ok(match watched.signal {
        Some(signal) if arguments.exit_code => Exit::of_progress_signal(signal),
        _ => Exit::Done,
    })
}

fn interrupted(printer: &Printer) -> Exit {
    printer.note("stopped watching");
    Exit::Interrupted
}

fn failure(error: WatchError<Failure>) -> Failure {
    match error {
        WatchError::Engine(error) => Failure::from(error),
        WatchError::Listener(failure) => failure,
    }
}

/// One-line rendering of the verdict about a step.
#[derive(Serialize)]
struct StepLine<'a> {
    #[serde(skip)]
    step: &'a Step,
    #[serde(flatten)]
    verdict: &'a StepVerdict,
}

impl StepLine<'_> {
    /// The sentence for the agent if there is one, otherwise the reason.
    fn text(&self) -> &str {
        self.verdict.nudge.as_deref().unwrap_or(&self.verdict.reason)
    }
}

impl Render for StepLine<'_> {
    fn human(&self) -> String {
        let verdict = self.verdict;
        let line = Text::from(format!("step {:>3}  level {:.2}  ", verdict.step, verdict.level))
            .then(badge(tone(verdict.signal), format!("{:<8}", verdict.signal)))
            .then(format!("  {}  {}", action(self.step), self.text()));
        terminal::line(&line)
    }

    fn markdown(&self) -> String {
        format!(
            "- step {}: **{}** {}",
            self.verdict.step,
            self.verdict.signal,
            markdown::escape(self.text(), usize::MAX)
        )
    }
}

/// One-line rendering of a verdict.
#[derive(Serialize)]
#[serde(transparent)]
struct Line<'a>(&'a Verdict);

impl Render for Line<'_> {
    fn human(&self) -> String {
        let verdict = self.0;
        let novelty = verdict
            .novelty
            .novelty
            .map_or_else(|| "   -".into(), |value| format!("{value:.2}"));
        let reason = verdict.reasons.first().map_or("", String::as_str);
        format!(
            "round {:>3}  novelty {novelty}  {:<8}  {reason}",
            verdict.round,
            coloured(verdict.signal)
        )
    }

    fn markdown(&self) -> String {
        let reason = self.0.reasons.first().map_or("", String::as_str);
        format!("- round {}: **{}** {reason}", self.0.round, self.0.signal)
    }
}

impl Printer {
    /// Prints one of several results: a line of text or of JSON.
    pub(super) fn line(&self, answer: &impl Render) -> Result<(), Failure> {
        match self.format() {
            Format::Json => {
                let text = serde_json::to_string(answer)
                    .map_err(|error| Failure::environment(format!("cannot write JSON: {error}"), None))?;
                self.text(&text)
            }
            _ => self.answer(answer),
        }
    }
}
