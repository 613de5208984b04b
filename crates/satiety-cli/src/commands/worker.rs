//! `satiety worker`: runs queued cases until stopped, and returns unfinished ones to the queue.

use std::fmt::Write as _;
use std::time::Duration;

use satiety_engine::Engine;
use satiety_engine::bench::{Stop, WorkEvent, WorkRequest, WorkResponse};

use crate::args::WorkerArgs;
use crate::exit::Exit;
use crate::failure::{Failure, warn};
use crate::printer::{Printer, Render};
use crate::settings::Settings;

/// Valid leases in seconds: shorter ones would expire while a process is merely slow.
const VALID_LEASES: std::ops::RangeInclusive<f64> = 0.2..=86_400.0;

pub(super) async fn run(
    arguments: WorkerArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    if !VALID_LEASES.contains(&arguments.lease) {
        return Err(Failure::bad_input(
            format!("--lease {} is out of range", arguments.lease),
            "use 0.2 to 86400 seconds, such as --lease 30",
        ));
    }
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
        until_idle: arguments.until_idle,
        judges: arguments.judge,
        environment: std::env::vars().collect(),
    };
    let stop = stop_on_signal();
    let worked = engine
        .bench()
        .work(request, &stop, |event| match event {
            WorkEvent::Joined { run_id, suite_id } => {
                printer.note(&format!("joined run {run_id} of {suite_id}"));
            }
            WorkEvent::Declined { run_id, reason } => {
                warn(&format!("skipping run {run_id}: {reason}"));
            }
            WorkEvent::Ended { run_id } => printer.note(&format!("run {run_id} is complete")),
            WorkEvent::Warning(warning) => warn(&warning),
        })
        .await?;
    printer.answer(&worked)?;
    Ok(Exit::Done)
}

/// Stops the work on the first signal, the program on the second.
fn stop_on_signal() -> Stop {
    let stop = Stop::default();
    let asked = stop.clone();
    tokio::spawn(async move {
        super::serve::shutdown_signal().await;
        asked.stop();
        super::serve::shutdown_signal().await;
        #[expect(
            clippy::exit,
            reason = "second signal; leases expire and cases return to the queue"
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
