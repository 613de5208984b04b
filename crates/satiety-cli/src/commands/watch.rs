//! `satiety watch`: follows a live conversation and reports when to stop.

use std::time::Duration;

use satiety::dialogue::Verdict;
use satiety_engine::Engine;
use satiety_engine::watch::{WatchEnd, WatchRequest};
use serde::Serialize;

use crate::args::WatchArgs;
use crate::commands::score::coloured;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::{Format, Settings};

pub(super) async fn run(
    arguments: WatchArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let request = WatchRequest {
        path: arguments.file,
        format: arguments.input.map(Into::into),
        profile: settings.profile.clone(),
        keep_going: arguments.keep_going,
        idle_limit: arguments.idle.map(Duration::from_secs),
        interval: Duration::from_millis(200),
    };
    let watching = engine
        .dialogue()
        .watch(&request, |verdict| printer.line(&Line(verdict)));
    let ended = tokio::select! {
        ended = watching => ended,
        _ = tokio::signal::ctrl_c() => {
            printer.note("stopped watching");
            return Ok(Exit::Interrupted);
        }
    };
    let (end, report) = ended.map_err(|error| match error {
        satiety_engine::watch::WatchError::Engine(error) => Failure::from(error),
        satiety_engine::watch::WatchError::Listener(failure) => failure,
    })?;
    if end == WatchEnd::Idle {
        printer.note("the file has not grown within the idle timeout");
    }
    let signal = report.map(|report| report.stop_recommendation.signal);
    Ok(match signal {
        Some(signal) if arguments.exit_code => Exit::of_signal(signal),
        _ => Exit::Done,
    })
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
