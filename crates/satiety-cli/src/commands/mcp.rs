//! `satiety mcp`: MCP server on standard input and output, or a list of its tools with their token cost.

use std::fmt::Write as _;
use std::sync::Arc;

use owo_colors::OwoColorize;
use satiety_server::mcp::{Context, Cost, Profile, Registry, RegistryError, serve_stdio};

use super::block_on;
use crate::args::McpArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Settings;
use crate::table::table;

/// Maximum time that unfinished vectors delay the exit.
const EMBEDDING_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

pub(super) fn run(arguments: &McpArgs, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let registry = match &arguments.tools {
        Some(names) => Registry::from_names(names.iter().map(|name| name.trim())),
        None => arguments.profile.parse::<Profile>().map(Registry::from_profile),
    }
    .map_err(|error| bad(&error))?;
    if arguments.list {
        printer.answer(&registry.cost())?;
        return Ok(Exit::Done);
    }
    let session = arguments.session.clone().unwrap_or_else(new_session);
    block_on(async {
        let engine = Arc::new(settings.open_engine(arguments.project.as_deref()).await?);
        let context = Context {
            dialogue_profile: settings.profile.clone(),
            harness_folder: settings.harness.folder.clone(),
            harness_driver: settings.harness.driver,
            environment: std::env::vars().collect(),
            ..Context::new(Arc::clone(&engine))
        };
        let (shadows, embedding) = (super::spawn_shadow_runs(&engine), super::spawn_embedding(&engine));
        let served = Box::pin(serve_stdio(context, registry, session)).await;
        shadows.abort();
        embedding.abort();
        engine.memory().drain_embedding(EMBEDDING_TIMEOUT).await;
        engine.close_with_registry().await;
        served.map_err(|error| {
            Failure::environment(
                error.to_string(),
                Some("start this command from an MCP client; `satiety mcp --list` shows the tools".into()),
            )
        })?;
        Ok(Exit::Done)
    })
}

/// Unique session id: the time in microseconds and the process id.
fn new_session() -> String {
    let now = jiff::Timestamp::now().as_microsecond();
    format!("mcp-{now:x}-{:x}", std::process::id())
}

fn bad(error: &RegistryError) -> Failure {
    Failure::bad_input(
        error.to_string(),
        "run `satiety mcp --list --profile full` to see all tools",
    )
}

impl Render for Cost {
    fn human(&self) -> String {
        let rows = self.tools.iter().map(|tool| {
            let first = tool.description.split(". ").next().unwrap_or_default();
            vec![
                tool.name.clone(),
                tool.profile.name().into(),
                tool.tokens.to_string(),
                first.trim_end_matches('.').to_owned(),
            ]
        });
        let mut text = table(&["tool", "profile", "tokens", "description"], &[2], rows);
        let _ = write!(
            text,
            "\n{} tools, {} tokens in every request (name, description and arguments, counted with o200k_base)",
            self.tools.len(),
            self.tokens.bold()
        );
        text
    }
}
