//! What can be typed after `satiety retrieval` about golden data and replays.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use satiety::retrieval::Measure;

use super::MemoryMode;
use super::retrieval::Source;

/// Options of `retrieval harvest`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval harvest --dry-run
  satiety retrieval harvest --share 0.2 --seed 7

Of queries that ask the same in the same or nearly the same words one is taken, the one about which most is known. They
are drawn by category and intent (280 queries in all with --share 1): categories that can hardly be filled choose first,
chance decides within one. What the corpus has stays and counts, so doing it again changes nothing.")]
pub(crate) struct HarvestArgs {
    /// The share of the targets of 280 queries to fill
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub(crate) share: f64,
    /// Share of common words from which on two queries ask the same
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    pub(crate) near_duplicate: f64,
    /// Seed of the choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Only say what would be taken
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Options of `retrieval judge`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval judge --from-feedback --dry-run
  satiety retrieval judge --from-feedback --min-confidence 0.8

Called useful 3, read 2, called not useful 0; what was passed over, used word for word, or read before the same was asked
again shifts that. A result with which nothing was done has no grade. What people judged is never touched, and where both
judged, how far they agree is shown.")]
pub(crate) struct JudgeArgs {
    /// Judge by what agents did with results
    #[arg(long, required = true)]
    pub(crate) from_feedback: bool,
    /// Below this confidence nothing is written
    #[arg(long, value_name = "SHARE", default_value_t = 0.6)]
    pub(crate) min_confidence: f64,
    /// Only say what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Options of `retrieval annotate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval annotate --annotator ann
  satiety retrieval annotate --annotator bo --double 0.2
  satiety retrieval annotate --documents corpus.jsonl

Shows a query and one result at a time, without ranks or systems: what the log and the latest runs put first. Type a grade
and Enter: 0 not relevant, 1 marginal, 2 relevant, 3 highly relevant; s you cannot say, u take the last one back, m show
all of the text, q end. Each grade is stored at once; the next call goes on where you stopped.")]
pub(crate) struct AnnotateArgs {
    /// Who judges [default: the user's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) annotator: Option<String>,
    /// The share of queries that two people judge, so that `retrieval agreement` can tell how far they agree
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) double: f64,
    /// How many results of the log and of each run are judged
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: u32,
    /// How many of the latest runs are looked at
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) runs: u32,
    /// What documents say that are no memories of this store: JSON Lines or a table
    #[arg(long, value_name = "FILE")]
    pub(crate) documents: Option<PathBuf>,
    /// Seed of the order and of what is judged twice; the same for all annotators
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Only say how far it is
    #[arg(long)]
    pub(crate) progress: bool,
}

/// Options of `retrieval agreement`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety retrieval agreement

Krippendorff's alpha with grades as an order, over everybody, and Cohen's kappa weighted by the square of the distance for
each two. From 0.8 on grades can be relied on, from 0.667 on for tentative conclusions (Krippendorff).")]
pub(crate) struct AgreementArgs {
    /// Resamples for the intervals
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) resamples: u64,
    /// Seed of the resamples
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// How many disagreements to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) show: usize,
}

/// Options of `retrieval runs`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety retrieval runs --limit 5")]
pub(crate) struct RunsArgs {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u32,
}

/// Options of `retrieval run`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("system").required(true).args(["memory", "mcp", "mcp_url", "http"]))]
#[command(after_help = "Examples:
  satiety retrieval run --memory
  satiety retrieval run --memory --pipeline candidate.toml --baseline last --fail-if-worse 0.01
  satiety retrieval run --mcp \"npx -y @modelcontextprotocol/server-memory\" --preset server-memory --documents notes.jsonl
  satiety retrieval run --mcp \"my-server --stdio\" --tool recall --args '{\"query\": \"{{query}}\", \"k\": \"{{limit}}\"}' --id-path '/hits/*/id'
  satiety retrieval run --http http://localhost:8080/search --body '{\"q\": \"{{query}}\"}' --id-path '/results/*/id'

Every answer is stored as it comes; Ctrl-C ends the run, --resume goes on with it. A query without an answer is left out of
every figure and counted. Nothing of a replay is in the query log. Results with ids that the corpus does not know are told
by what they say, where the store or --documents has the text.

With --fail-if-worse: exit 1 when a metric is worse than the baseline beyond the margin, 3 when by the first metric such a
loss can be neither shown nor excluded, 0 when it can be excluded. Exit 3 also when nothing is judged yet.")]
pub(crate) struct RunArgs {
    /// Ask the memory of this store
    #[arg(long)]
    pub(crate) memory: bool,
    /// Start an MCP server and ask a tool of it
    #[arg(long, value_name = "COMMAND")]
    pub(crate) mcp: Option<String>,
    /// Ask a tool of an MCP server that is there (streamable HTTP)
    #[arg(long, value_name = "URL")]
    pub(crate) mcp_url: Option<String>,
    /// Post each query to an address
    #[arg(long, value_name = "URL")]
    pub(crate) http: Option<String>,
    /// A server that is known by name: satiety, server-memory, mem0, basic-memory, graphiti, graphiti-facts, cognee,
    /// mcp-memory-service, spec-kit, memory-mcp
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// The tool that searches
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// The tool's arguments as JSON, with {{query}} and {{limit}} [default: {"query": "{{query}}"}]
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// An environment variable that the server sees; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// The environment variable with the bearer token of --mcp-url
    #[arg(long, value_name = "NAME")]
    pub(crate) token_env: Option<String>,
    /// The body of --http as JSON, with {{query}} and {{limit}}
    #[arg(long, value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// A header of --http, such as `x-team: evals`; may be repeated
    #[arg(long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// A header of --http whose value is in an environment variable, such as `authorization=TOKEN`; may be repeated
    #[arg(long, value_name = "HEADER=NAME")]
    pub(crate) secret_header: Vec<String>,
    /// Where ids are in an answer, such as `/results/*/id`
    #[arg(long, value_name = "PATH")]
    pub(crate) id_path: Option<String>,
    /// Where texts are in an answer, such as `/results/*/content`
    #[arg(long, value_name = "PATH")]
    pub(crate) text_path: Option<String>,
    /// What documents say that are no memories of this store: JSON Lines or a table
    #[arg(long, value_name = "FILE")]
    pub(crate) documents: Option<PathBuf>,
    /// How deep the memory is searched
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) mode: MemoryMode,
    /// Tokens of all results of the memory [default: no limit, since the ranking is measured]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    /// What to change about the memory's search: a TOML or JSON file with some of its settings
    #[arg(long, value_name = "FILE")]
    pub(crate) pipeline: Option<PathBuf>,
    /// How many results are asked for
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) depth: u32,
    /// Seconds that an answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub(crate) timeout: f64,
    /// What to compute, separated by commas; may be repeated
    #[arg(long, visible_alias = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub(crate) metrics: Vec<Measure>,
    /// Break figures down by fields of the queries, such as category or intent
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) by: Vec<String>,
    /// Give the value of every query too
    #[arg(long)]
    pub(crate) per_query: bool,
    /// The grade from which on a document is relevant
    #[arg(long, value_name = "GRADE", default_value_t = 2)]
    pub(crate) relevance_threshold: i32,
    /// Only judgments from there; separated by commas
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) source: Vec<Source>,
    /// Only judgments that are at least so sure
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) min_confidence: f64,
    /// Compare with an earlier run: its id, or `last`
    #[arg(long, value_name = "RUN")]
    pub(crate) baseline: Option<String>,
    /// A gate: how much worse than the baseline it may be
    #[arg(long, value_name = "MARGIN", requires = "baseline")]
    pub(crate) fail_if_worse: Option<f64>,
    /// Go on with a run that was interrupted
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,
    /// Resamples for the intervals
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) resamples: u64,
    /// Seed of resamples and sign patterns
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}
