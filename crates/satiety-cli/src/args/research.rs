//! Arguments of `satiety research` and `satiety gate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of `research`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety research \"how do heat pumps work in cold climates\" --in examples/research/heat-pumps
  satiety research \"flutter of heated wings\" --in arxiv --read-pages 0
  satiety research \"TASK\" --in searxng:https://search.example.org --read-pages 3 --format markdown > report.md
  satiety research \"TASK\" --in brave --record searches.jsonl     # replay later: --in replay:searches.jsonl
  satiety research --resume last

Sources: a directory (Markdown, text, HTML, PDF), searxng:URL, brave (BRAVE_API_KEY), tavily (TAVILY_API_KEY),
wikipedia[:LANGUAGE], arxiv, mcp:FILE (a tool of an MCP server), command:PROGRAM (query on stdin, results as JSON on
stdout), replay:FILE.

A chat model (`models.chat`) writes queries and the summary; without one, rules do. Findings are always verbatim sentences
from the sources.

Exits with 3 when nothing was found, 4 when every search failed.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent command-line flag"
)]
pub(crate) struct ResearchArgs {
    /// Question or task to research
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) task: Vec<String>,
    /// Source to search: a directory or an engine [default: local:.] [env: `SATIETY_RESEARCH_SOURCE`]
    #[arg(long = "in", value_name = "SOURCE")]
    pub(crate) source: Option<String>,
    /// First query, used instead of the task; repeatable
    #[arg(long, value_name = "QUERY")]
    pub(crate) query: Vec<String>,
    /// Results to request per search
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) results: u32,
    #[command(flatten)]
    pub(crate) gate: GateOptions,
    /// Pages to read in full at the end
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Reading pages")]
    pub(crate) read_pages: u32,
    /// Allow reading pages at private and loopback addresses
    #[arg(long, help_heading = "Reading pages")]
    pub(crate) allow_private: bool,
    /// Read pages without checking robots.txt
    #[arg(long, help_heading = "Reading pages")]
    pub(crate) ignore_robots: bool,
    /// Time limit in seconds [default: none]
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) max_seconds: Option<f64>,
    /// Token limit for the chat model [default: none]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_tokens: Option<u64>,
    /// Cost limit for the chat model, in the currency of --price [default: none]
    #[arg(long, value_name = "AMOUNT", requires = "price", help_heading = "Limits")]
    pub(crate) max_cost: Option<f64>,
    /// Price per million input and output tokens, such as 0.25,1.25
    #[arg(long, value_name = "IN,OUT", help_heading = "Limits")]
    pub(crate) price: Option<String>,
    /// Do not use the chat model
    #[arg(long)]
    pub(crate) no_model: bool,
    /// Sentence model for `--novelty semantic` and `auto` [env: `SATIETY_MODELS_EMBEDDER`]
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,
    /// Record every search to this file for replay
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Ignore search results cached in the last 24 hours
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Resume an interrupted run: its id, or `last`
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,
}

/// Options of the search gate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search gate")]
pub(crate) struct GateOptions {
    /// Rule that decides when to stop
    #[arg(long, value_name = "RULE", default_value = "novelty")]
    pub(crate) stop: StopBy,
    /// Share of the relevant results of ten searches that may be missed with `--stop missed`
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    pub(crate) max_missed: f64,
    /// Method of scoring novelty
    #[arg(long, value_name = "ASSESSOR", default_value = "claims")]
    pub(crate) novelty: NoveltyBy,
    /// Novelty threshold below which the search stops: a score from 0 to 10, or a share such as 0.3
    #[arg(long, value_name = "SCORE", default_value = "3")]
    pub(crate) threshold: String,
    /// Minimum number of rounds
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) min_rounds: u32,
    /// Maximum number of rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) max_rounds: u32,
    /// Probability that a round below the threshold continues anyway
    #[arg(long, value_name = "CHANCE", default_value_t = 0.15)]
    pub(crate) epsilon: f64,
    /// Seed of that probability [default: derived from the task or run name]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Stop after a round whose yield is below this share, before the next search; 0 disables it
    #[arg(long, value_name = "SHARE")]
    pub(crate) look_ahead: Option<f64>,
}

/// Rule that decides when to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StopBy {
    /// When results are no longer new, or another round is not expected to pay off.
    Novelty,
    /// When the estimate of what is missed is at most --max-missed.
    Missed,
    /// After --max-rounds.
    Fixed,
}

/// Method of scoring novelty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NoveltyBy {
    /// New claims compared with everything accepted.
    Claims,
    /// New words compared with the summary, exactly as specified.
    Seed,
    /// Semantic distance to everything accepted; needs a sentence model.
    Semantic,
    /// Score from the chat model.
    Model,
    /// Claims and semantic distance, and the chat model when they are inconclusive.
    Auto,
}

/// Options of `gate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety gate rounds.jsonl
  my-agent --log-rounds | satiety gate - --novelty seed --epsilon 0
  satiety gate rounds.jsonl --format json | jq -c '{round, decision, score, reason}'
  satiety gate loops.jsonl --recommend     # rounds with \"relevant\": [\"ADDRESS\"], or reports of `research --format json`

Input, one line per round:
  {\"run\": \"a\", \"query\": \"…\", \"results\": [{\"title\": \"…\", \"url\": \"…\", \"snippet\": \"…\"}], \"state\": \"…\"}
`state` is the loop's summary before the round; without it the gate keeps its own. `run` identifies the run; `error` instead of
`results` is a failed search. Accepted aliases: href, body, content, knowledge_state.

Prints one decision per line as it arrives. With --exit-code: 0 while the last decision is to continue, 11 when it is to stop.")]
pub(crate) struct GateArgs {
    /// JSON Lines of rounds, or `-` for standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// Task of rounds that do not name one
    #[arg(long, value_name = "TASK", default_value = "")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) gate: GateOptions,
    /// Exit with the last decision: 0 continue, 11 stop
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// Compare stop rules on recorded loops and recommend one
    #[arg(long, conflicts_with = "exit_code")]
    pub(crate) recommend: bool,
}
