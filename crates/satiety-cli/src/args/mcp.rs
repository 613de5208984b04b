//! What can be typed after `satiety mcp`.

use clap::Args;

/// Options of `mcp`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety mcp                                   what a client starts; it speaks the protocol and nothing else
  satiety mcp --list                            the tools, and what their descriptions cost in every request
  satiety mcp --profile memory
  satiety mcp --tools memory_search,memory_save,gate

In a client's configuration: {\"mcpServers\": {\"satiety\": {\"command\": \"satiety\", \"args\": [\"mcp\"]}}}")]
pub(crate) struct McpArgs {
    /// Which tools are offered: `core` (8 for remembering), `memory` (all about the memory) or `full`
    #[arg(long, value_name = "NAME", default_value = "core")]
    pub(crate) profile: String,
    /// These tools and no others
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "profile")]
    pub(crate) tools: Option<Vec<String>>,
    /// The session of this connection, instead of a new one
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The project whose memories tools keep and find: a directory or a name [default: the repository around here]
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Print the tools with the tokens that their descriptions cost, and serve nobody
    #[arg(long)]
    pub(crate) list: bool,
}
