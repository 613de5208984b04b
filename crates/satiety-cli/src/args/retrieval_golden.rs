//! Arguments of `satiety retrieval` for golden data and replays.

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

Of near-duplicate queries only the one with the most feedback is taken. Queries
are sampled by category and intent (280 queries in all with --share 1), scarce categories first, at random within a category.
Queries already in the corpus stay and count, so running it again changes nothing.")]
pub(crate) struct HarvestArgs {
    /// Share of the target of 280 queries to fill, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub(crate) share: f64,
    /// Minimum share of common words at which two queries count as duplicates
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    pub(crate) near_duplicate: f64,
    /// Seed of the sampling
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print the selected queries without storing them
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Options of `retrieval judge`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval judge --from-feedback --dry-run
  satiety retrieval judge --from-feedback --min-confidence 0.6

Grades: useful 3, read 2, not useful 0, adjusted when a result was skipped, used verbatim, or read before the query was
repeated. A result without feedback gets no grade. Human judgments are never changed; where both
exist, their agreement is shown.")]
pub(crate) struct JudgeArgs {
    /// Judge by what agents did with results
    #[arg(long, required = true)]
    pub(crate) from_feedback: bool,
    /// Minimum confidence of a judgment to store, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.88)]
    pub(crate) min_confidence: f64,
    /// Print the judgments without storing them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Attribute all uses to queries again, and replace judgments from earlier feedback
    #[arg(long)]
    pub(crate) rederive: bool,
}

/// Options of `retrieval annotate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval annotate --annotator ann
  satiety retrieval annotate --annotator bo --double 0.2
  satiety retrieval annotate --documents corpus.jsonl

Shows a query and one result at a time, without ranks or systems: the top results of the log and the latest runs. Type a grade
and Enter: 0 not relevant, 1 marginal, 2 relevant, 3 highly relevant; s skip, u undo the last grade, m show
the full text, q quit. Each grade is stored at once; the next call resumes where you stopped.")]
pub(crate) struct AnnotateArgs {
    /// Name of the annotator [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) annotator: Option<String>,
    /// Share of queries judged by two people, for `retrieval agreement`
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) double: f64,
    /// Results to judge per query from the log and from each run
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: u32,
    /// Number of latest runs to pool
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) runs: u32,
    /// Texts of documents that are not in this store: JSON Lines or a table
    #[arg(long, value_name = "FILE")]
    pub(crate) documents: Option<PathBuf>,
    /// Seed of the order and of the queries judged twice; use the same for all annotators
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print the progress and exit
    #[arg(long)]
    pub(crate) progress: bool,
}

/// Options of `retrieval agreement`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety retrieval agreement

Ordinal Krippendorff's alpha over all annotators, and quadratically weighted Cohen's kappa for
each pair. Grades are reliable from 0.8, and allow tentative conclusions from 0.667 (Krippendorff).")]
pub(crate) struct AgreementArgs {
    /// Bootstrap resamples for the confidence intervals
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) resamples: u64,
    /// Seed of the resampling
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Number of disagreements to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) show: usize,
}

/// Options of `retrieval runs`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety retrieval runs --limit 5")]
pub(crate) struct RunsArgs {
    /// Maximum number of runs to list
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

Every answer is stored as it arrives; after Ctrl-C, --resume continues the run. Failed queries are left out of
all metrics and counted. Replays are not written to the query log. Results with unknown ids are matched
by text, if the store or --documents has it.

With --fail-if-worse: exit 1 when a metric is worse than the baseline by more than the margin, 3 when the first metric
can neither show nor rule out such a loss, 0 when it is ruled out. Exit 3 also when nothing is judged yet.")]
pub(crate) struct RunArgs {
    /// Search the memory of this store
    #[arg(long)]
    pub(crate) memory: bool,
    /// Start this MCP server and call one of its tools
    #[arg(long, value_name = "COMMAND")]
    pub(crate) mcp: Option<String>,
    /// Call a tool of a running MCP server (streamable HTTP)
    #[arg(long, value_name = "URL")]
    pub(crate) mcp_url: Option<String>,
    /// Post each query to this HTTP endpoint
    #[arg(long, value_name = "URL")]
    pub(crate) http: Option<String>,
    /// Known server: satiety, server-memory, mem0, basic-memory, graphiti, graphiti-facts, cognee,
    /// mcp-memory-service, spec-kit, memory-mcp
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Name of the search tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Arguments of the tool as JSON, with {{query}} and {{limit}} [default: {"query": "{{query}}"}]
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// Environment variable to pass to the server; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Environment variable with the bearer token for --mcp-url
    #[arg(long, value_name = "NAME")]
    pub(crate) token_env: Option<String>,
    /// Request body for --http as JSON, with {{query}} and {{limit}}
    #[arg(long, value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Request header for --http, such as `x-team: evals`; repeatable
    #[arg(long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Request header for --http with its value from an environment variable, such as `authorization=TOKEN`;
    /// repeatable
    #[arg(long, value_name = "HEADER=NAME")]
    pub(crate) secret_header: Vec<String>,
    /// Path of the ids in an answer, such as `/results/*/id`
    #[arg(long, value_name = "PATH")]
    pub(crate) id_path: Option<String>,
    /// Path of the texts in an answer, such as `/results/*/content`
    #[arg(long, value_name = "PATH")]
    pub(crate) text_path: Option<String>,
    /// Texts of documents that are not in this store: JSON Lines or a table
    #[arg(long, value_name = "FILE")]
    pub(crate) documents: Option<PathBuf>,
    /// Search depth of --memory
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) mode: MemoryMode,
    /// Maximum tokens of all results of --memory [default: no limit]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    /// Changed pipeline settings for --memory: a TOML or JSON file
    #[arg(long, value_name = "FILE")]
    pub(crate) pipeline: Option<PathBuf>,
    /// Results to request per query
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) depth: u32,
    /// Timeout per query in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub(crate) timeout: f64,
    /// Metrics to compute, separated by commas; repeatable
    #[arg(long, visible_alias = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub(crate) metrics: Vec<Measure>,
    /// Break metrics down by query fields, such as category or intent
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) by: Vec<String>,
    /// Also print the value for every query
    #[arg(long)]
    pub(crate) per_query: bool,
    /// Minimum grade of a relevant document
    #[arg(long, value_name = "GRADE", default_value_t = 2)]
    pub(crate) relevance_threshold: i32,
    /// Use only judgments from these sources, separated by commas
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) source: Vec<Source>,
    /// Use only judgments with at least this confidence, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) min_confidence: f64,
    /// Compare with an earlier run: its id, or `last`
    #[arg(long, value_name = "RUN")]
    pub(crate) baseline: Option<String>,
    /// Regression gate: maximum tolerated loss against the baseline
    #[arg(long, value_name = "MARGIN", requires = "baseline")]
    pub(crate) fail_if_worse: Option<f64>,
    /// Resume an interrupted run
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,
    /// Bootstrap resamples for the confidence intervals
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) resamples: u64,
    /// Seed of the resampling and the randomization test
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}
