//! `satiety bench run`: the run itself, with a bar while it goes on and a way to end it that loses nothing.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use satiety_engine::Engine;
use satiety_engine::bench::{Progress, RunBenchRequest, Stop};

use super::{alert, gate_exit, options, policy, show, suites_below, write_reports};
use crate::args::BenchRunArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

pub(super) async fn run(
    arguments: BenchRunArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let suites = match &arguments.all {
        Some(folder) => suites_below(engine, folder)?,
        None => arguments.suites,
    };
    let (gate, accept_regression) = policy(arguments.policy)?;
    let base = RunBenchRequest {
        target: arguments.target,
        repeats: arguments.repeats,
        tags: arguments.tag,
        resume: arguments.resume,
        gate: arguments.gate.then_some(gate),
        sequential: arguments.sequential,
        without_skill: arguments.without_skill,
        accept_regression,
        ..options(arguments.how)
    };
    let stop = stop_on_interrupt();
    let mut ran = Vec::new();
    let mut worst = Exit::Done;
    for suite in suites {
        let request = RunBenchRequest {
            suite,
            ..base.clone()
        };
        let plan = engine.bench_plan(request).await?;
        if arguments.dry_run {
            printer.answer(&show::Power(plan.power().clone()))?;
            continue;
        }
        printer.note(&plan.power().text);
        let bar = Bar::new(printer);
        let outcome = engine.bench_run_plan(plan, &stop, |seen| bar.show(seen)).await?;
        bar.finish();
        write_reports(
            &arguments.files,
            &outcome.run,
            outcome
                .gate
                .as_ref()
                .map(|report| (report, outcome.baseline.as_ref())),
        )?;
        if let (Some(report), None) = (&outcome.gate, &outcome.accepted) {
            alert(engine, settings, &outcome.run.suite_id, report).await;
        }
        worst = worse(worst, exit_of(&outcome, arguments.fail_under));
        let interrupted = outcome.interrupted;
        ran.push(outcome);
        if interrupted {
            break;
        }
    }
    match <[_; 1]>::try_from(ran) {
        Ok([only]) => printer.answer(&only)?,
        Err(several) if several.is_empty() => {}
        Err(several) => printer.answer(&show::Several { runs: several })?,
    }
    Ok(worst)
}

fn exit_of(ran: &satiety_engine::bench::BenchRan, fail_under: Option<f64>) -> Exit {
    if ran.interrupted {
        return Exit::Interrupted;
    }
    let rate = ran.run.summary.as_ref().and_then(|summary| summary.pass_rate);
    let gate = ran
        .gate
        .as_ref()
        .map_or(Exit::Done, |report| gate_exit(report, ran.accepted.is_some()));
    let bar = match (rate, fail_under) {
        (Some(rate), Some(least)) if rate < least => Exit::GateSaysNo,
        // Nothing could be decided: not a success that a script may build on.
        (None, _) => Exit::Inconclusive,
        _ => Exit::Done,
    };
    worse(gate, bar)
}

/// The one that a script must not miss.
fn worse(a: Exit, b: Exit) -> Exit {
    let rank = |exit| match exit {
        Exit::Interrupted => 3,
        Exit::GateSaysNo => 2,
        Exit::Inconclusive => 1,
        _ => 0,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// Ends the run at the first Ctrl-C; at the second, the program.
pub(in crate::commands) fn stop_on_interrupt() -> Stop {
    let stop = Stop::default();
    let asked = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            asked.stop();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            #[expect(clippy::exit, reason = "asked twice; nothing that is stored can be lost")]
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
    });
    stop
}

/// A bar on stderr, where somebody looks at it.
pub(super) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(super) fn new(printer: &Printer) -> Self {
        if printer.is_quiet() || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {per_sec}  {eta} left  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(Some(bar))
    }

    pub(super) fn show(&self, seen: Progress) {
        if let Some(bar) = &self.0 {
            bar.set_length(seen.planned as u64);
            bar.set_position(seen.done as u64);
            bar.set_message(format!(
                "{} passed, {} failed, {} undecided",
                seen.passed, seen.failed, seen.undecided
            ));
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
