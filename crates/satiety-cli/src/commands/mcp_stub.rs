//! `satiety mcp` in a build without the cargo feature `mcp`.

use crate::args::McpArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

pub(super) fn run(_arguments: &McpArgs, _settings: &Settings, _printer: &Printer) -> Result<Exit, Failure> {
    Err(Failure::environment(
        satiety_engine::feature_disabled("MCP", "mcp"),
        None,
    ))
}
