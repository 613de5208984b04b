//! `satiety bench run`: runs suites with a progress bar; Ctrl-C loses no results.

use std::io::IsTerminal;
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use satiety::bench::{Priority, summarize, systems};
use satiety_engine::Engine;
use satiety_engine::bench::{
    DistributedRun, Progress, RunBenchRequest, RunBenchResponse, Stop, UntilDecided,
};
use satiety_report::documents::bench::RunReport;
use satiety_server::dashboard::Selection;

use super::{gate_exit, options, page_link, policy, show, suites_below, write_reports};
use crate::args::{BenchRunArgs, OnInconclusive, PriorityChoice, ReportFiles, UntilDecidedArgs};
use crate::exit::Exit;
use crate::failure::{Failure, warn_all};
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
    let on_inconclusive = arguments.on_inconclusive;
    let gated = arguments.gate
        || arguments.until_decided.until_decided.is_some()
        || on_inconclusive == OnInconclusive::Repeat;
    // Workers require a sandbox, so distributed runs do, too.
    let sandbox = if gated || arguments.distributed {
        Some(settings.sandbox.for_gates())
    } else {
        settings.sandbox.for_plain_runs()
    };
    let base = RunBenchRequest {
        target: arguments.target,
        repeats: arguments.repeats,
        tags: arguments.tag,
        failed_in: arguments.failed_in,
        resume: arguments.resume,
        gate: gated.then_some(gate),
        sequential: arguments.sequential,
        until_decided: until_decided(arguments.until_decided, arguments.on_inconclusive),
        inconclusive_passes: on_inconclusive == OnInconclusive::Pass,
        without_skill: arguments.without_skill,
        distributed: arguments.distributed,
        priority: arguments.priority.map(priority),
        accept_regression,
        ..options(arguments.how, sandbox)
    };
    // Address of the dashboard, for links in reports.
    let server = if arguments.dry_run {
        None
    } else {
        engine.database().page_address("").await
    };
    let stop = stop_on_interrupt();
    let (mut ran, mut distributed, mut worst) = (Vec::new(), Vec::new(), Exit::Done);
    let (last, mut cycle) = (suites.len().saturating_sub(1), None);
    for (place, suite) in suites.into_iter().enumerate() {
        let request = RunBenchRequest {
            suite,
            more_follow: place < last,
            ..base.clone()
        };
        let plan = engine.bench().plan(request).await?;
        if arguments.dry_run {
            printer.answer(&show::PlannedRun {
                power: plan.power().clone(),
                budget: plan.budget().cloned(),
            })?;
            continue;
        }
        match plan.budget() {
            Some(budget) => printer.note(&format!("budget: {}", budget.text)),
            None => printer.note(&plan.power().text),
        }
        if arguments.distributed {
            let root = arguments.root.as_deref().unwrap_or(Path::new("."));
            distributed.push(Box::pin(engine.bench().distribute(plan, root)).await?);
            continue;
        }
        let bar = Bar::new(printer);
        let mut outcome = engine.bench().execute(plan, &stop, |seen| bar.show(seen)).await?;
        bar.finish();
        cycle = outcome.post.cycle.take();
        let interrupted = outcome.interrupted;
        ran.push(outcome);
        worst = worse(
            worst,
            settle(
                &ran,
                &arguments.files,
                server.as_deref(),
                arguments.fail_under,
                on_inconclusive,
            )?,
        );
        if interrupted {
            break;
        }
    }
    if arguments.detach && !arguments.dry_run {
        let runs = distributed.iter().map(DistributedRun::summary).collect();
        printer.answer(&show::QueuedRuns { runs })?;
        return Ok(Exit::Done);
    }
    // All suites are queued before waiting for the first one.
    for run in distributed {
        let run_id = run.summary().run_id;
        let bar = Bar::new(printer);
        let waiting = engine.bench().wait(run, &stop, |seen| bar.show(seen));
        let outcome = Box::pin(waiting).await?;
        bar.finish();
        if outcome.interrupted {
            printer.note(&format!(
                "the workers continue the run; wait for it again with --distributed --resume {run_id}"
            ));
        }
        ran.push(outcome);
        worst = worse(
            worst,
            settle(
                &ran,
                &arguments.files,
                server.as_deref(),
                arguments.fail_under,
                on_inconclusive,
            )?,
        );
    }
    for outcome in &ran {
        if let Some(server) = &server {
            printer.note(&format!("page: {server}/bench/runs/{}", outcome.run.run_id));
        }
    }
    if let Some(directory) = &arguments.files.html {
        let several = ran.len() > 1;
        for outcome in &ran {
            // One directory per suite, since each has a first page.
            let directory = if several {
                directory.join(&outcome.run.suite_id)
            } else {
                directory.clone()
            };
            let selection = match &outcome.baseline {
                Some(baseline) if engine.bench().is_stored(&baseline.run_id).await? => {
                    Selection::Comparison(vec![baseline.run_id.clone(), outcome.run.run_id.clone()])
                }
                _ => Selection::Run(outcome.run.run_id.clone()),
            };
            super::export_pages(engine, &selection, &directory, printer).await?;
        }
    }
    match <[_; 1]>::try_from(ran) {
        Ok([only]) => printer.answer(&only)?,
        Err(several) if several.is_empty() => {}
        Err(several) => printer.answer(&show::RunTable { runs: several })?,
    }
    // Phase 4.5 of the bootstrap loop: after the evaluation, check whether the harness is still hard enough.
    if let Some(recorded) = cycle {
        let recorded = recorded?;
        worst = worse(
            worst,
            crate::commands::harness::cycle_after_gate(&recorded, printer),
        );
    } else if settings.harness.record
        && gated
        && arguments.distributed
        && worst != Exit::Interrupted
        && !arguments.dry_run
    {
        // The process that finished the run has recorded the cycle; its thresholds still decide the exit
        // code.
        let thresholds = crate::commands::harness::thresholds_now(engine, settings).await?;
        worst = worse(worst, thresholds);
    }
    Ok(worst)
}

fn priority(choice: PriorityChoice) -> Priority {
    match choice {
        PriorityChoice::Low => Priority::Low,
        PriorityChoice::Normal => Priority::Normal,
        PriorityChoice::High => Priority::High,
    }
}

/// Writes the reports about all runs so far; for the last one, warns about failed hooks and returns the exit code.
fn settle(
    ran: &[RunBenchResponse],
    files: &ReportFiles,
    server: Option<&str>,
    fail_under: Option<f64>,
    on_inconclusive: OnInconclusive,
) -> Result<Exit, Failure> {
    let reports = ran.iter().map(|outcome| RunReport {
        more: page_link(server, &outcome.run.run_id).into_iter().collect(),
        ..show::report(outcome)
    });
    write_reports(files, reports.collect())?;
    let Some(last) = ran.last() else {
        return Ok(Exit::Done);
    };
    warn_all(last.post.failures());
    Ok(exit_of(last, fail_under, on_inconclusive))
}

/// Limits of a run that is repeated until the gate decides.
fn until_decided(arguments: UntilDecidedArgs, on_inconclusive: OnInconclusive) -> Option<UntilDecided> {
    let default = UntilDecided::default();
    let repeat = (on_inconclusive == OnInconclusive::Repeat).then_some(default.times);
    Some(UntilDecided {
        times: arguments.until_decided.or(repeat)?,
        baseline_target: arguments.baseline_target,
        max_calls: arguments.max_calls,
        max_tokens: arguments.max_tokens,
        max_cost_usd: arguments.max_cost,
    })
}

fn exit_of(ran: &RunBenchResponse, fail_under: Option<f64>, on_inconclusive: OnInconclusive) -> Exit {
    if ran.interrupted {
        return Exit::Interrupted;
    }
    // A target that never answered is more likely missing than bad, so it gets a different exit code.
    let rates = systems(&ran.run).into_iter().map(|(_, results)| {
        let summary = summarize(results);
        let counts = &summary.counts;
        let answered = counts.pass + counts.fail + counts.timeout + counts.pending > 0;
        summary.pass_rate.filter(|_| answered)
    });
    // Each target of a run must reach the bar; one without a verdict leaves the run undecided.
    let rate = rates.reduce(|a, b| Some(a?.min(b?))).flatten();
    let gate = ran
        .gate
        .as_ref()
        .map_or(Exit::Done, |report| gate_exit(report, ran.accepted.is_some()));
    let gate = match (gate, on_inconclusive) {
        (Exit::Inconclusive, OnInconclusive::Fail) => Exit::CheckFailed,
        (Exit::Inconclusive, OnInconclusive::Pass) => Exit::Done,
        _ => gate,
    };
    let bar = match (rate, fail_under) {
        (Some(rate), Some(least)) if rate < least => Exit::CheckFailed,
        // Nothing was decided, so it must not count as a success.
        (None, _) => Exit::Inconclusive,
        // A configuration of another tool that was not taken over completely decides less than it should.
        _ if ran.loses_verdicts => Exit::Inconclusive,
        _ => Exit::Done,
    };
    worse(gate, bar)
}

/// The more severe of two exit codes.
fn worse(a: Exit, b: Exit) -> Exit {
    let rank = |exit| match exit {
        Exit::Interrupted => 3,
        Exit::CheckFailed => 2,
        Exit::Inconclusive => 1,
        _ => 0,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// Stops the run on the first Ctrl-C, the program on the second.
pub(in crate::commands) fn stop_on_interrupt() -> Stop {
    let stop = Stop::default();
    let asked = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            asked.stop();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            #[expect(clippy::exit, reason = "second Ctrl-C; stored results are durable")]
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
    });
    stop
}

/// Progress bar on stderr, if it is a terminal.
pub(in crate::commands) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(in crate::commands) fn new(printer: &Printer) -> Self {
        if printer.is_quiet() || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        // The message comes last and is cut off at the width of the terminal: a line that wraps is not redrawn.
        let style = ProgressStyle::with_template("{bar:14} {pos}/{len}  {eta} left  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(Some(bar))
    }

    pub(in crate::commands) fn show(&self, seen: Progress) {
        if let Some(bar) = &self.0 {
            bar.set_length(seen.planned as u64);
            bar.set_position(seen.done as u64);
            bar.set_message(format!(
                "{} passed, {} failed, {} undecided",
                seen.passed, seen.failed, seen.undecided
            ));
        }
    }

    pub(in crate::commands) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
