//! `satiety worker`: runs queued cases until stopped or done, and returns unfinished ones to the queue.

use std::fmt::Write as _;
use std::time::Duration;

use satiety_engine::Engine;
use satiety_engine::bench::{
    DrainedWorkers, QueueStatus, WorkEnd, WorkEvent, WorkRequest, WorkResponse, WorkerStop,
};

use crate::args::{WorkArgs, WorkerArgs, WorkerCommand};
use crate::exit::Exit;
use crate::failure::{Failure, warn};
use crate::printer::{Printer, Render};
use crate::settings::Settings;

/// Valid leases in seconds: shorter ones would expire while a process is merely slow.
const VALID_LEASES: std::ops::RangeInclusive<f64> = 0.2..=86_400.0;
/// Valid grace periods in seconds.
const VALID_GRACE: std::ops::RangeInclusive<f64> = 0.0..=86_400.0;

pub(super) async fn run(
    arguments: WorkerArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    match arguments.command {
        None => Box::pin(work(arguments.work, engine, settings, printer)).await,
        Some(WorkerCommand::Status) => {
            printer.answer(&engine.bench().queue().await?)?;
            Ok(Exit::Done)
        }
        Some(WorkerCommand::Drain { name }) => {
            printer.answer(&engine.bench().drain_workers(&name).await?)?;
            Ok(Exit::Done)
        }
    }
}

async fn work(
    arguments: WorkArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    check("--lease", arguments.lease, &VALID_LEASES, 30)?;
    check("--grace", arguments.grace, &VALID_GRACE, 20)?;
    let end = if arguments.until_idle || arguments.wait {
        WorkEnd::NothingLeft
    } else if arguments.once {
        WorkEnd::NothingToTake
    } else {
        WorkEnd::Never
    };
    let name = arguments.name.unwrap_or_else(default_name);
    let place = arguments.root.display().to_string();
    printer.note(&format!(
        "worker {name}: running cases from {} for suites below {place}",
        settings.store
    ));
    let request = WorkRequest {
        root: arguments.root,
        concurrency: arguments.concurrency,
        lease: Duration::from_secs_f64(arguments.lease),
        name,
        end,
        run: arguments.run,
        max_cases: arguments.max_cases,
        grace: Duration::from_secs_f64(arguments.grace),
        judges: arguments.judge,
        environment: std::env::vars().collect(),
    };
    let stop = stop_on_signals();
    let mut joined = false;
    let work = engine.bench().work(request, &stop, |event| match event {
        WorkEvent::Joined { run_id, suite_id } => {
            joined = true;
            printer.note(&format!("joined run {run_id} of {suite_id}"));
        }
        WorkEvent::Declined { run_id, reason } => {
            warn(&format!("skipping run {run_id}: {reason}"));
        }
        WorkEvent::Ended { run_id } => printer.note(&format!("run {run_id} is complete")),
        WorkEvent::Draining { cases } => {
            printer.note(&format!("draining: {cases} running cases may finish"));
        }
        WorkEvent::Warning(warning) => warn(&warning),
    });
    let worked = Box::pin(work).await?;
    if !joined && end != WorkEnd::Never && !worked.interrupted {
        printer.note("no case is waiting");
    }
    printer.answer(&worked)?;
    // A job that was stopped is not done: its scheduler should start it again.
    Ok(if worked.interrupted && end != WorkEnd::Never {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

fn check(
    flag: &str,
    seconds: f64,
    valid: &std::ops::RangeInclusive<f64>,
    example: u32,
) -> Result<(), Failure> {
    if valid.contains(&seconds) {
        return Ok(());
    }
    Err(Failure::bad_input(
        format!("{flag} {seconds} is out of range"),
        format!(
            "use {} to {} seconds, such as {flag} {example}",
            valid.start(),
            valid.end()
        ),
    ))
}

/// Drains the worker on the first signal, stops it on the second, and the program on the third.
fn stop_on_signals() -> WorkerStop {
    let stop = WorkerStop::default();
    let asked = stop.clone();
    tokio::spawn(async move {
        super::serve::shutdown_signal().await;
        asked.drain.stop();
        super::serve::shutdown_signal().await;
        asked.now.stop();
        super::serve::shutdown_signal().await;
        #[expect(
            clippy::exit,
            reason = "third signal; leases expire and cases return to the queue"
        )]
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
    stop
}

/// Host name, if known, and process id.
fn default_name() -> String {
    let host = fs_err::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty());
    format!("{}-{}", host.unwrap_or("worker"), std::process::id())
}

impl Render for WorkResponse {
    fn human(&self) -> String {
        let mut text = format!("{}: {} results", self.name, self.kept);
        if self.late > 0 {
            let _ = write!(text, ", {} late results discarded", self.late);
        }
        if self.given_back > 0 {
            let _ = write!(text, ", {} cases returned to the queue", self.given_back);
        }
        text
    }
}

impl Render for QueueStatus {
    fn human(&self) -> String {
        let mut text = format!("{} cases waiting, {} in progress", self.waiting, self.in_progress);
        if let Some(age) = self.oldest_seconds {
            let _ = write!(text, "; oldest waiting case: {age:.0} s");
        }
        for run in &self.runs {
            let _ = write!(
                text,
                "\n  {} of {}: {} priority, {} waiting, {} in progress",
                run.run_id, run.suite_id, run.priority, run.waiting, run.in_progress
            );
        }
        if self.workers.is_empty() {
            text.push_str("\nno workers connected");
        }
        for worker in &self.workers {
            let _ = write!(
                text,
                "\nworker {}{}",
                worker.name,
                if worker.draining { " (draining)" } else { "" }
            );
        }
        text
    }
}

impl Render for DrainedWorkers {
    fn human(&self) -> String {
        let workers = if self.workers == 1 { "worker" } else { "workers" };
        format!(
            "asked {} {workers} named {} to finish their cases and exit",
            self.workers, self.name
        )
    }
}
