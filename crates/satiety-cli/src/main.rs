//! The `satiety` command: parses arguments, loads settings, calls the engine and prints the result.
//!
//! This crate knows clap, the terminal and exit codes. Decisions and storage are in `satiety-engine`.

mod args;
mod commands;
mod exit;
mod failure;
mod logging;
mod printer;
mod project;
mod settings;
mod table;

use std::panic;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use args::Cli;
use exit::Exit;
use failure::Failure;

/// Scoring a conversation allocates many small, short-lived strings, which mimalloc handles faster.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let started = Instant::now();
    // Re-executed as the sandbox helper of a target: it execs the target, so this must run first.
    if let Some(code) = satiety_engine::bench::sandbox::helper::run_if_requested(std::env::args_os().skip(1))
    {
        return ExitCode::from(code);
    }
    // Not even a usage error may reach an agent that calls a hook.
    if let Some(invocation) = commands::HookInvocation::recognize(std::env::args_os().skip(1)) {
        return commands::run_event(invocation, started);
    }
    // A panic is a bug: report it with a distinct exit code instead of Rust's 101.
    let exit = panic::catch_unwind(run).unwrap_or_else(|_| {
        failure::report_bug();
        Exit::Bug
    });
    exit.into()
}

fn run() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    match execute(cli) {
        Ok(exit) => exit,
        Err(Failure::BrokenPipe) => Exit::Done,
        Err(failure) => {
            failure.report();
            failure.exit()
        }
    }
}

fn execute(cli: Cli) -> Result<Exit, Failure> {
    let settings = settings::load(&cli)?;
    settings.warn_about_unknown_variables();
    settings.check_trust(&cli.command)?;
    // Held until exit, when dropping it flushes the last traces.
    let _traces = logging::start(&settings, cli.command.runs_long())?;
    let printer = printer::Printer::new(&settings, cli.global.quiet, cli.global.save);
    commands::run(cli.command, &settings, &printer)
}
