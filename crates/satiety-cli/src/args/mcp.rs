//! Arguments of `satiety mcp`.

use clap::Args;

/// Options of `mcp`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety mcp                                   # started by an MCP client
  satiety mcp --list                            # the tools and the token cost of their descriptions
  satiety mcp --profile memory
  satiety mcp --tools memory_search,memory_save,gate

In a client's configuration: {\"mcpServers\": {\"satiety\": {\"command\": \"satiety\", \"args\": [\"mcp\"]}}}")]
pub(crate) struct McpArgs {
    /// Tools to offer: `core` (verdicts and essential memory tools), `memory` (also all memory and task tools) or
    /// `full`
    #[arg(long, value_name = "NAME", default_value = "core")]
    pub(crate) profile: String,
    /// Offer exactly these tools, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "profile")]
    pub(crate) tools: Option<Vec<String>>,
    /// Session id of this connection [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Project whose memories the tools save and find: a directory or a name [default: the current
    /// repository]
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Print the tools with the token cost of their descriptions and exit
    #[arg(long)]
    pub(crate) list: bool,
}
