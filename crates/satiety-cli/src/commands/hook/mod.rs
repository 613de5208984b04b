//! `satiety hook`: hooks of command-line agents.

mod event;
mod install;
mod json_edit;
mod status;

pub(crate) use event::{HookInvocation, run_event};
pub(super) use install::HookChanges;

use crate::args::{HookArgs, HookCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

pub(super) fn run(arguments: HookArgs, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match arguments.command {
        // `main` runs events before it parses the arguments.
        None => {
            return Err(Failure::bad_input(
                "missing event or command",
                "run `satiety hook --help` to see examples",
            ));
        }
        Some(HookCommand::Install { target, dry_run }) => install::run(&target, dry_run, true, printer)?,
        Some(HookCommand::Uninstall { target, dry_run }) => install::run(&target, dry_run, false, printer)?,
        Some(HookCommand::Status) => {
            return super::with_engine(settings, async |engine| {
                printer.answer(&engine.agent_hooks().status().await?)?;
                Ok(Exit::Done)
            });
        }
    }
    Ok(Exit::Done)
}
