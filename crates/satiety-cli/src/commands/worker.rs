//! `satiety worker`: takes cases until it is told to end, and gives back what it has not finished.

use std::fmt::Write as _;
use std::time::Duration;

use satiety_engine::Engine;
use satiety_engine::bench::{Stop, WorkEvent, WorkRequest, WorkResponse};

use crate::args::WorkerArgs;
use crate::exit::Exit;
use crate::failure::{Failure, warn};
use crate::printer::{Printer, Render};
use crate::settings::Settings;

/// Leases that make sense, in seconds: shorter ones end while a process is merely slow.
const LEASES: std::ops::RangeInclusive<f64> = 0.2..=86_400.0;

pub(super) async fn run(
    arguments: WorkerArgs,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    if !LEASES.contains(&arguments.lease) {
        return Err(Failure::bad_input(
            format!("a lease of {} seconds makes no sense", arguments.lease),
            "give seconds from 0.2 to 86400, such as --lease 30",
        ));
    }
    let name = arguments.name.unwrap_or_else(own_name);
    let place = arguments.root.display().to_string();
    printer.note(&format!(
        "{name} takes cases from {} for suites below {place}",
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
    let stop = stop_when_asked();
    let worked = engine
        .bench()
        .work(request, &stop, |event| match event {
            WorkEvent::Joined { run_id, suite_id } => {
                printer.note(&format!("takes cases of {suite_id}: {run_id}"));
            }
            WorkEvent::Declined { run_id, reason } => {
                warn(&format!("{run_id} is left to other workers: {reason}"));
            }
            WorkEvent::Ended { run_id } => printer.note(&format!("{run_id} is complete")),
            WorkEvent::Warning(warning) => warn(&warning),
        })
        .await?;
    printer.answer(&worked)?;
    Ok(Exit::Done)
}

/// Ends the work when it is asked for; asked twice, the program.
fn stop_when_asked() -> Stop {
    let stop = Stop::default();
    let asked = stop.clone();
    tokio::spawn(async move {
        super::serve::asked_to_end().await;
        asked.stop();
        super::serve::asked_to_end().await;
        #[expect(clippy::exit, reason = "asked twice; cases come back by themselves")]
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
    stop
}

/// The machine's name, where it has one, and the process.
fn own_name() -> String {
    let host = fs_err::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty());
    format!("{}-{}", host.unwrap_or("worker"), std::process::id())
}

impl Render for WorkResponse {
    fn human(&self) -> String {
        let mut text = format!("{}: {} results", self.name, self.kept);
        if self.late > 0 {
            let _ = write!(text, ", {} too late", self.late);
        }
        if self.given_back > 0 {
            let _ = write!(text, ", {} cases given back", self.given_back);
        }
        text
    }
}
