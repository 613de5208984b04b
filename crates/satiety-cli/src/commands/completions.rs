//! `satiety completions`: prints a shell completion script.

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

pub(super) fn run(shell: clap_complete::Shell, printer: &Printer) -> Result<Exit, Failure> {
    // Generated into memory first: the generator panics on a broken pipe, our printer does not.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "satiety", &mut script);
    printer.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
