//! The `satiety` command: what was typed becomes settings, settings become an engine, the engine's answer is printed.
//!
//! This crate knows clap, the terminal and exit codes. It decides nothing and touches no store.

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

use clap::Parser;

use args::Cli;
use exit::Exit;
use failure::Failure;

/// A scored conversation is many small texts, most of them gone with the answer: much of the time goes to making room for them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Started again as a target's fence: becomes the target, so nothing else may come first.
    if let Some(code) = satiety_engine::bench::sandbox::helper::run_if_asked(std::env::args_os().skip(1)) {
        return ExitCode::from(code);
    }
    // A panic is a bug of ours: say so, with a code of its own instead of Rust's 101.
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
    settings.warn_about_strangers();
    settings.check_trust(&cli.command)?;
    // Held to the end: it sends the last traces.
    let _traces = logging::start(&settings, cli.command.runs_long())?;
    let printer = printer::Printer::new(&settings, cli.global.quiet);
    commands::run(cli.command, &settings, &printer)
}
