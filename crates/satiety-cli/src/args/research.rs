//! What can be typed after `satiety research` and `satiety gate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of `research`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety research \"how do heat pumps work in cold climates\" --in examples/research/heat-pumps
  satiety research \"flutter of heated wings\" --in arxiv --read-pages 0
  satiety research \"TASK\" --in searxng:https://search.example.org --read-pages 3 --format markdown > report.md
  satiety research \"TASK\" --in brave --record searches.jsonl     then again: --in replay:searches.jsonl
  satiety research --resume last

Sources: a folder (Markdown, text, HTML, PDF), searxng:URL, brave (BRAVE_API_KEY), tavily (TAVILY_API_KEY),
wikipedia[:LANGUAGE], arxiv, mcp:FILE (a tool of an MCP server), command:PROGRAM (query on stdin, results as JSON on
stdout), replay:FILE.

With a chat model (`models.chat`) it writes queries and the summary; without one, rules do. Findings are always sentences
of the sources, word for word.

Exits with 3 when nothing was found, 4 when every search failed.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that can be typed")]
pub(crate) struct ResearchArgs {
    /// What to find out
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) task: Vec<String>,
    /// Where to search: a folder or an engine [default: local:.] [env: `SATIETY_RESEARCH_SOURCE`]
    #[arg(long = "in", value_name = "SOURCE")]
    pub(crate) source: Option<String>,
    /// A query to begin with, in place of the task; may be repeated
    #[arg(long, value_name = "QUERY")]
    pub(crate) query: Vec<String>,
    /// Results to ask for in each search
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) results: u32,
    #[command(flatten)]
    pub(crate) gate: GateOptions,
    /// Pages to read whole at the end
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Reading pages")]
    pub(crate) read_pages: u32,
    /// Also read pages at private and loopback addresses
    #[arg(long, help_heading = "Reading pages")]
    pub(crate) allow_private: bool,
    /// Read pages without asking robots.txt
    #[arg(long, help_heading = "Reading pages")]
    pub(crate) ignore_robots: bool,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) max_seconds: Option<f64>,
    /// Stop after so many tokens of the chat model
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_tokens: Option<u64>,
    /// Stop when the chat model has cost so much; needs --price
    #[arg(long, value_name = "AMOUNT", requires = "price", help_heading = "Limits")]
    pub(crate) max_cost: Option<f64>,
    /// What a million tokens cost: read and written, as in 0.25,1.25
    #[arg(long, value_name = "IN,OUT", help_heading = "Limits")]
    pub(crate) price: Option<String>,
    /// Do without the chat model
    #[arg(long)]
    pub(crate) no_model: bool,
    /// The sentence model of `--novelty semantic` and `auto` [env: `SATIETY_MODELS_EMBEDDER`]
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,
    /// Write every search to this file, to be replayed
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Search anew, whatever was found in the last 24 hours
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Take up an interrupted run again: its id, or `last`
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,
}

/// How the gate decides.
#[derive(Debug, Args)]
#[command(next_help_heading = "The gate")]
pub(crate) struct GateOptions {
    /// Who says how new results are
    #[arg(long, value_name = "ASSESSOR", default_value = "claims")]
    pub(crate) novelty: NoveltyBy,
    /// Below this, results are no longer new: a score from 0 to 10, or a share such as 0.3
    #[arg(long, value_name = "SCORE", default_value = "3")]
    pub(crate) threshold: String,
    /// Rounds that are always made
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) min_rounds: u32,
    /// Rounds at most
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) max_rounds: u32,
    /// The chance that a round below the threshold passes
    #[arg(long, value_name = "CHANCE", default_value_t = 0.15)]
    pub(crate) epsilon: f64,
    /// Where chance comes from; without it, the task's or the run's name
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Stop after a round whose yield is below this, without paying for the next; 0 never does
    #[arg(long, value_name = "SHARE")]
    pub(crate) look_ahead: Option<f64>,
}

/// Who says how new results are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NoveltyBy {
    /// New claims against everything accepted.
    Claims,
    /// New words against the summary: the specification to the letter.
    Seed,
    /// Distance by meaning to everything accepted; needs a sentence model.
    Semantic,
    /// The chat model's score.
    Model,
    /// Claims and meaning, and the chat model where they are in doubt.
    Auto,
}

/// Options of `gate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety gate rounds.jsonl
  my-agent --log-rounds | satiety gate - --novelty seed --epsilon 0
  satiety gate rounds.jsonl --format json | jq -c '{round, decision, score, reason}'

Input, a line for each round:
  {\"run\": \"a\", \"query\": \"…\", \"results\": [{\"title\": \"…\", \"url\": \"…\", \"snippet\": \"…\"}], \"state\": \"…\"}
`state` is the loop's summary before the round; without it the gate keeps its own. `run` tells runs apart; `error` in place of
`results` is a search that failed. Other names are understood: href, body, content, knowledge_state.

Prints a decision for each line as it comes. With --exit-code: 0 while the last decision is to continue, 11 when it is to stop.")]
pub(crate) struct GateArgs {
    /// JSON Lines of rounds, or `-` for standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// The task, for rounds that name none
    #[arg(long, value_name = "TASK", default_value = "")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) gate: GateOptions,
    /// Exit with the last decision: 0 continue, 11 stop
    #[arg(long)]
    pub(crate) exit_code: bool,
}
