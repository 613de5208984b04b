//! `satiety hook EVENT`: answers an agent, and never breaks it.
//!
//! Hosts read meaning into everything: exit code 2 blocks, text on stdout may become part of the context, and
//! text on stderr is shown. So whatever goes wrong (arguments, settings, payload, store, a panic, time), the
//! answer is empty, the exit code is 0, and a line in the log file says why.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::panic;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Parser as _;
use etcetera::BaseStrategy as _;
use satiety_engine::agent_hooks::HookRequest;

use crate::args::{Cli, Command};
use crate::settings;
use crate::settings::trust::{make_private_directory, printable};

/// Time after which the answer is empty. The hosts' own limits are longer.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Maximum size of a payload in bytes.
const MAX_PAYLOAD_BYTES: u64 = 64 << 20;
/// Size of the log file at which it is renamed to `hooks.log.1`, in bytes.
const MAX_LOG_BYTES: u64 = 256 << 10;
/// Maximum length of a line in the log, in characters.
const MAX_LINE_CHARS: usize = 300;

/// Arguments that begin another command than an event.
const OTHER_COMMANDS: &[&str] = &["install", "uninstall", "status", "help"];
/// Options whose value is the next argument.
const OPTIONS_WITH_VALUE: &[&str] = &["--db", "--config", "--format", "--color", "--for"];

/// A call by an agent, recognized before the arguments are parsed: even a usage error must not reach it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HookInvocation {
    event: String,
}

impl HookInvocation {
    /// Recognizes `hook EVENT`, with options before, between and after.
    pub(crate) fn recognize(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let arguments: Vec<String> = arguments
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        if arguments
            .iter()
            .any(|argument| argument == "--help" || argument == "-h")
        {
            return None;
        }
        let mut skip = false;
        let mut words = arguments.into_iter().filter(|argument| {
            let is_value = std::mem::replace(&mut skip, OPTIONS_WITH_VALUE.contains(&argument.as_str()));
            !is_value && !argument.starts_with('-')
        });
        let command = words.next()?;
        let event = words.next()?;
        (command == "hook" && !OTHER_COMMANDS.contains(&event.as_str())).then_some(Self { event })
    }
}

/// Answers an agent. Always exits with 0.
pub(crate) fn run_event(invocation: HookInvocation, started: Instant) -> ExitCode {
    answer(invocation.event, started);
    ExitCode::SUCCESS
}

fn answer(event: String, started: Instant) {
    // The default handler would print to stderr. The message may quote the payload, so it is not logged.
    panic::set_hook(Box::new(|_| {}));
    let name = event.clone();
    let (sender, receiver) = mpsc::sync_channel(1);
    let work = move || {
        let outcome = panic::catch_unwind(|| decide(event, started)).unwrap_or_else(|_| Err("panic".into()));
        // Too late if the receiver has given up.
        let _ = sender.send(outcome);
    };
    let outcome = match std::thread::Builder::new().name("hook".into()).spawn(work) {
        Ok(_) => receiver
            .recv_timeout(TIME_LIMIT.saturating_sub(started.elapsed()))
            .unwrap_or_else(|_| Err(format!("no decision within {} s", TIME_LIMIT.as_secs()))),
        Err(error) => Err(format!("cannot start a thread: {error}")),
    };
    match outcome {
        Ok(output) if output.is_empty() => {}
        Ok(output) => {
            let mut stdout = std::io::stdout().lock();
            // A host that does not listen needs no answer.
            let _ = stdout.write_all(output.as_bytes()).and_then(|()| stdout.flush());
        }
        Err(reason) => log(&name, &reason),
    }
}

/// Returns the text for standard output, or the reason why there is none.
fn decide(event: String, started: Instant) -> Result<String, String> {
    let cli = Cli::try_parse().map_err(|error| format!("cannot read the arguments: {}", error.kind()))?;
    let Command::Hook(arguments) = &cli.command else {
        return Err("cannot read the arguments".into());
    };
    let host = arguments.host.map(Into::into);
    // A broken file in a cloned repository must not switch the hooks off.
    let settings = settings::load(&cli)
        .or_else(|failure| {
            log(&event, &failure.to_string());
            settings::load_without_project(&cli)
        })
        .map_err(|failure| failure.to_string())?;
    if !settings.hooks_enabled {
        return Ok(String::new());
    }
    let mut payload = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_PAYLOAD_BYTES + 1)
        .read_to_end(&mut payload)
        .map_err(|error| format!("cannot read the payload: {error}"))?;
    if payload.len() as u64 > MAX_PAYLOAD_BYTES {
        return Err("the payload is too large".into());
    }
    let request = HookRequest {
        event,
        host,
        payload,
        started,
    };
    // One event needs no pool of threads.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    runtime.block_on(async {
        let engine = settings.open_engine(None).await;
        let engine = engine.map_err(|failure| failure.to_string())?;
        let answer = engine.agent_hooks().answer(&request, &settings.hooks).await;
        engine.close_with_registry().await;
        answer
            .map(|answer| answer.output)
            .map_err(|error| error.to_string())
    })
}

/// Adds a line to the log file, if that is possible.
fn log(event: &str, reason: &str) {
    let Some(directory) = state_directory() else {
        return;
    };
    let line: String = printable(&format!("{} {event}: {reason}", jiff::Timestamp::now()))
        .chars()
        .take(MAX_LINE_CHARS)
        .collect();
    let path = directory.join("hooks.log");
    if fs_err::metadata(&path).is_ok_and(|about| about.len() > MAX_LOG_BYTES) {
        let _ = fs_err::rename(&path, directory.join("hooks.log.1"));
    }
    let _ = make_private_directory(&directory);
    let mut options = fs_err::OpenOptions::new();
    options.create(true).append(true);
    if let Ok(mut file) = options.open(&path) {
        let _ = writeln!(file, "{line}");
    }
}

/// Directory of the log and of the records of installed hooks.
pub(super) fn state_directory() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    let state = base.state_dir().unwrap_or_else(|| base.data_dir());
    Some(state.join("satiety"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_recognized_before_the_arguments_are_parsed() {
        let event = |line: &str| {
            let arguments = line.split_whitespace().map(OsString::from);
            HookInvocation::recognize(arguments).map(|invocation| invocation.event)
        };
        for line in [
            "hook Stop",
            "hook Stop --for claude",
            "hook --for claude Stop",
            "hook --for=claude Stop --unknown-option",
            "--db sqlite:x hook Stop",
            "-v --config hook hook Stop",
        ] {
            assert_eq!(event(line).as_deref(), Some("Stop"), "{line}");
        }
        for line in [
            "",
            "hook",
            "hook --help",
            "hook Stop --help",
            "hook install --for claude",
            "hook uninstall --for claude",
            "--db x hook status",
            "score hook Stop",
            "--config hook score x.json",
        ] {
            assert_eq!(event(line), None, "{line}");
        }
    }
}
