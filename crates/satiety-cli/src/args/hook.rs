//! Arguments of `satiety hook`.

use clap::{Args, Subcommand, ValueEnum};

/// Arguments of `hook`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  satiety hook install --for claude        # for all your projects; shows what it changes
  satiety hook status                      # what fired, what it decided, how long it took
  satiety hook uninstall --for claude
  satiety hook PostToolUse < payload.json  # what the agent runs after each tool call

A hook never breaks the agent: on any error it prints nothing and exits with 0. Errors are in hooks.log in your state
directory (XDG_STATE_HOME, or ~/.local/state/satiety). Switch all hooks off with SATIETY_HOOKS_ENABLED=false.")]
pub(crate) struct HookArgs {
    #[command(subcommand)]
    pub(crate) command: Option<HookCommand>,
    /// Event as the agent names it, such as `PostToolUse` or `AfterTool`; its JSON is read from standard input
    pub(crate) event: Option<String>,
    /// Agent that calls [default: detected from the JSON]
    #[arg(long = "for", value_name = "AGENT")]
    pub(crate) host: Option<AgentName>,
}

/// Subcommands of `hook`.
#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Add the hooks to the settings of an agent, and show the changes
    #[command(after_help = "Examples:
  satiety hook install --for claude,codex
  satiety hook install --for gemini --project --dry-run

Other settings and hooks in the files stay as they are, byte for byte. Installing twice changes nothing.")]
    Install {
        #[command(flatten)]
        target: HookTarget,
        /// Show the changes and write nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove the hooks from the settings of an agent, and restore the file
    #[command(after_help = "Example:
  satiety hook uninstall --for claude,codex,gemini,copilot

A file that was not changed in between is restored byte for byte. Otherwise only the entries of satiety are removed.")]
    Uninstall {
        #[command(flatten)]
        target: HookTarget,
        /// Show the changes and write nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Show which hooks fired, what they decided and how long they took
    #[command(after_help = "Example:\n  satiety hook status --format json")]
    Status,
}

/// Settings files that hooks are added to.
#[derive(Debug, Args)]
pub(crate) struct HookTarget {
    /// Agents, separated by commas
    #[arg(long = "for", value_name = "AGENTS", value_delimiter = ',', required = true)]
    pub(crate) hosts: Vec<AgentName>,
    /// Settings in your home directory, for all projects (default)
    #[arg(long)]
    pub(crate) user: bool,
    /// Settings of the project of the working directory
    #[arg(long, conflicts_with = "user")]
    pub(crate) project: bool,
}

/// Command-line agents with hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentName {
    /// Claude Code
    Claude,
    /// Codex CLI
    Codex,
    /// Gemini CLI
    Gemini,
    /// GitHub Copilot CLI
    Copilot,
}

impl From<AgentName> for satiety_engine::agent_hooks::Host {
    fn from(name: AgentName) -> Self {
        match name {
            AgentName::Claude => Self::Claude,
            AgentName::Codex => Self::Codex,
            AgentName::Gemini => Self::Gemini,
            AgentName::Copilot => Self::Copilot,
        }
    }
}
