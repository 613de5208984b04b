//! Arguments of `satiety evict`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use satiety::trajectory::LogFormat;

use super::progress::log_format_parser;

/// Subcommands of `evict`.
#[derive(Debug, Subcommand)]
pub(crate) enum Evict {
    /// Add items to a context, and record uses, pins and goals
    Add(EvictAddArgs),
    /// List contexts, or the items of one in eviction order
    List(EvictListArgs),
    /// Propose evictions that bring a context within a budget
    Propose(EvictProposeArgs),
    /// Answer a proposal: excluded items stay, the others are evicted
    Resolve(EvictResolveArgs),
    /// Score items with the sentence model and the scorer model
    Refresh(EvictRefreshArgs),
    /// Show the proposals of a context and their outcomes
    Timeline(EvictRefreshArgs),
    /// Show exclusion rates and how well they were predicted
    Feedback(EvictFeedbackArgs),
    /// Export feedback as JSON Lines, without text from the context
    Export(EvictExportArgs),
    /// Fit a new scorer version from feedback, without activating it
    Calibrate(EvictCalibrateArgs),
    /// List scorer versions and their activation history, or print one
    Weights(EvictWeightsArgs),
    /// Write the suite, control and variant for an ablation of a version
    Variants(EvictVariantsArgs),
    /// Activate a version if an ablation shows that it is non-inferior
    Activate(EvictActivateArgs),
    /// Reactivate the previously active version
    Rollback(EvictRollbackArgs),
    /// Replay a trace and compare policies with the optimum
    Simulate(EvictSimulateArgs),
    /// Convert the log of an agent to a trace
    Convert(EvictConvertArgs),
    /// Generate a synthetic trace
    Generate(EvictGenerateArgs),
    /// Answer the cases of an ablation (called by the files that `variants` writes)
    #[command(hide = true)]
    Target(EvictTargetArgs),
}

/// Options of `evict add`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety evict add session-42 items.json --turn 7 --goal \"fix the login\"
  echo '{\"ctx_id\": \"readme\", \"zone\": \"workspace\", \"content\": \"…\"}' | satiety evict add session-42 -
  satiety evict add session-42 --turn 8 --use readme --pin rules

Items are a JSON object, an array, or JSON Lines: ctx_id, zone (system, chronicle, memory, workspace or your own), and
content or token_count; also kind, pinned, references, loss. Without token_count the content is counted (o200k_base).")]
pub(crate) struct EvictAddArgs {
    /// Name of the context, created on first use
    pub(crate) scope: String,
    /// Items as JSON, or `-` for standard input
    pub(crate) file: Option<PathBuf>,
    /// Current turn [default: the last known turn]
    #[arg(long, value_name = "N")]
    pub(crate) turn: Option<u64>,
    /// Agent's goal from now on
    #[arg(long, value_name = "TEXT")]
    pub(crate) goal: Option<String>,
    /// Record a use of this item in this turn; repeatable
    #[arg(long = "use", value_name = "ID")]
    pub(crate) uses: Vec<String>,
    /// Pin this item so that it is never evicted; repeatable
    #[arg(long, value_name = "ID")]
    pub(crate) pin: Vec<String>,
    /// Unpin this item; repeatable
    #[arg(long, value_name = "ID")]
    pub(crate) unpin: Vec<String>,
    /// Remove this item, which the agent dropped itself; repeatable
    #[arg(long, value_name = "ID")]
    pub(crate) remove: Vec<String>,
}

/// Options of `evict list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  satiety evict list\n  satiety evict list session-42 --explain")]
pub(crate) struct EvictListArgs {
    /// Context to list [default: all contexts]
    pub(crate) scope: Option<String>,
    /// Show the components of each score
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Options of `evict propose`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety evict propose session-42                                   # what pays for itself, or nothing
  satiety evict propose session-42 --budget 24000
  satiety evict propose session-42 --budget 24000 --window 200000 --remaining-turns 40
  satiety evict propose session-42 --free 4000 --format json | jq .view

Dropping an item makes the provider write everything behind it to its prompt cache again. Without --budget and --free, and with them
while the context is within --window, nothing is proposed below break-even. The candidates are held until the proposal is answered with
`satiety evict resolve`; after --timeout-ms they are evicted on the next call. Exits with 1 when the budget cannot be met, and says
which pins prevent it.")]
pub(crate) struct EvictProposeArgs {
    /// Name of the context
    pub(crate) scope: String,
    /// Maximum tokens of the context after the eviction
    #[arg(long, value_name = "TOKENS", conflicts_with = "free")]
    pub(crate) budget: Option<u64>,
    /// Tokens to free
    #[arg(long, value_name = "TOKENS")]
    pub(crate) free: Option<u64>,
    /// Current turn [default: the last known turn]
    #[arg(long, value_name = "N")]
    pub(crate) turn: Option<u64>,
    /// Time to answer in milliseconds; an hour, because people answer at a shell (HTTP and MCP: 2000)
    #[arg(long, value_name = "MS", default_value_t = 3_600_000)]
    pub(crate) timeout_ms: u64,
    /// Tokens that the model accepts; up to them, a proposal that costs more than it saves waits
    #[arg(long, value_name = "TOKENS")]
    pub(crate) window: Option<u64>,
    /// Expected number of further requests [default: the turns so far, at least 10]
    #[arg(long, value_name = "N")]
    pub(crate) remaining_turns: Option<f64>,
    /// Seconds since the last request; the provider's cache expires
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) idle: u64,
    /// Provider whose cache prices apply [default: eviction.provider]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Share of extra items proposed only to learn about them, relative to those that must go
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub(crate) exploration: f64,
    /// Seed for choosing the exploration items
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// Options of `evict resolve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety evict resolve prop-0199… --exclude readme --exclude 'plan=still needed for the release'
  satiety evict resolve prop-0199… --by user
  echo '{\"exclude_ctx_ids\": [\"readme\"]}' | satiety evict resolve prop-0199… --json -

Exclusions are honoured in the order given, up to the quota; a second pass without exclusions then frees the rest.
Unknown, repeated and late ids are rejected, and nothing changes.")]
pub(crate) struct EvictResolveArgs {
    /// Id of the proposal
    pub(crate) proposal: String,
    /// Item to exclude from eviction, with an optional reason after `=`; repeatable
    #[arg(long, value_name = "ID[=WHY]")]
    pub(crate) exclude: Vec<String>,
    /// File with the answer as JSON (`exclude_ctx_ids`, `exclude_reasons`), or `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "exclude")]
    pub(crate) json: Option<PathBuf>,
    /// Who answers [default: llm, or auto-accepted without exclusions]
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<AnsweredBy>,
    /// Maximum share of the proposal's tokens that may be excluded
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    pub(crate) quota: f64,
}

/// Source of the answer to a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnsweredBy {
    /// The agent's model.
    Llm,
    /// A person.
    User,
    /// The agent, without excluding anything.
    AutoAccepted,
    /// No answer in time; ignored by calibration.
    Timeout,
}

/// Arguments of the commands that take one context.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict timeline session-42 --format html > story.html")]
pub(crate) struct EvictRefreshArgs {
    /// Name of the context
    pub(crate) scope: String,
}

/// Options of `evict feedback`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  satiety evict feedback\n  satiety evict feedback session-42 --format html > reliability.html"
)]
pub(crate) struct EvictFeedbackArgs {
    /// Context to report on [default: all contexts]
    pub(crate) scope: Option<String>,
}

/// Options of `evict export`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict export > feedback.jsonl")]
pub(crate) struct EvictExportArgs {
    /// Context to export [default: all contexts]
    pub(crate) scope: Option<String>,
    /// Also export snippets and reasons, which contain text from the context
    #[arg(long)]
    pub(crate) with_content: bool,
}

/// Options of `evict calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety evict calibrate
  satiety evict calibrate --from feedback.jsonl --ridge 30
  satiety evict calibrate --online
  satiety evict calibrate --prompt scorer.md

Creates a new version without activating it. The active score is rescaled freely; features are added only if they lower the log loss on
held-out sessions. Exits with 3 when neither shows a gain.")]
pub(crate) struct EvictCalibrateArgs {
    /// Use feedback of this context only [default: all contexts]
    pub(crate) scope: Option<String>,
    /// Read exported feedback from this file instead of the store
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Smallest ridge penalty on what features add to the rescaled score
    #[arg(long, value_name = "RIDGE", default_value_t = 10.0)]
    pub(crate) ridge: f64,
    /// Variant C: adjust the weights online, in small steps
    #[arg(long, conflicts_with = "prompt")]
    pub(crate) online: bool,
    /// Variant B: use this prompt for the scorer model
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt: Option<PathBuf>,
}

/// Options of `evict weights`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  satiety evict weights\n  satiety evict weights heuristic > mine.toml")]
pub(crate) struct EvictWeightsArgs {
    /// Version to print [default: list all versions]
    pub(crate) version: Option<String>,
}

/// Options of `evict variants`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety evict variants scorer-0199… --trace logs --out ablation

Writes a suite, the active version as the control and this version as the variant, and prints the command that runs the ablation. With
--trace the suite replays your own sessions, otherwise made-up ones. Edit the target files to measure your own agent.")]
pub(crate) struct EvictVariantsArgs {
    /// Scorer version to test
    pub(crate) version: String,
    /// Judge on these sessions: a trace, a log of an agent, or a directory of them [default: made-up sessions]
    #[arg(long, value_name = "PATH")]
    pub(crate) trace: Option<PathBuf>,
    /// Use the broad definition of use (content reappears) instead of the strict one (path or id is named again)
    #[arg(long, requires = "trace")]
    pub(crate) broad: bool,
    /// Directory to create; must not exist yet
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// Options of `evict activate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety evict activate scorer-0199… --ablation ablation-0199… --reason \"fewer re-reads\"

Refused with exit code 1 unless the ablation compares this version with the active one and shows it to be non-inferior
in retained relevance (retained_relevance), token efficiency (tokens_per_use or token_efficiency) and task results
(task_results or pass).")]
pub(crate) struct EvictActivateArgs {
    /// Scorer version to activate
    pub(crate) version: String,
    /// Id of the ablation that justifies it (`satiety bench ablation`)
    #[arg(long, value_name = "ID")]
    pub(crate) ablation: Option<String>,
    /// Reason recorded in the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Name recorded in the history [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `evict rollback`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict rollback --reason \"drops plans too early\"")]
pub(crate) struct EvictRollbackArgs {
    /// Reason recorded in the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Name recorded in the history [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `evict simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety evict simulate examples/eviction/trace.jsonl --budget 25%
  satiety evict simulate trace.jsonl --policy heuristic --policy lru --policy scorer-0199… --policy belady-size
  satiety evict simulate held-out.jsonl --learn-from training.jsonl --format html > policies.html

Policies: heuristic, priced (the heuristic with prices), lru, fifo, size, gdsf, random, belady, belady-size, none, a scorer version,
or a weights file. Traces with both definitions of use are replayed by both.
A line of a trace is a turn: {\"session\": …, \"turn\": …, \"add\": [items], \"use\": [ids]}.")]
pub(crate) struct EvictSimulateArgs {
    /// Trace file, or `-` for standard input
    pub(crate) trace: PathBuf,
    /// Policy to simulate; repeatable [default: all]
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Vec<String>,
    /// Context size: tokens, or a share of the session's tokens (`25%`)
    #[arg(long, value_name = "TOKENS|SHARE", default_value = "25%")]
    pub(crate) budget: String,
    /// Share of the budget that an eviction leaves free
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    pub(crate) headroom: f64,
    /// Training trace: adds the policy `calibrated`, fitted with a simulated agent
    #[arg(long, value_name = "TRACE")]
    pub(crate) learn_from: Option<PathBuf>,
    /// Seed of the random policy and the simulated agent
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Bootstrap resamples for the confidence intervals
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) resamples: u64,
    /// Provider whose cache prices the bill uses [default: eviction.provider]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
}

/// Options of `evict convert`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety evict convert session.jsonl > trace.jsonl

Reads every format that `satiety score` reads. Uses are inferred by two definitions: strict, a call names a path or an id again (`use`);
broad, content reappears (`use_broad`).")]
pub(crate) struct EvictConvertArgs {
    /// Log file, or `-` for standard input
    pub(crate) log: PathBuf,
    /// Format of the log [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = log_format_parser())]
    pub(crate) input: Option<LogFormat>,
    /// Shared rare words needed to count as a broad use
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) overlap: u32,
    /// Omit the text of items
    #[arg(long)]
    pub(crate) without_content: bool,
}

/// Options of `evict generate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict generate --sessions 20 --seed 7 > trace.jsonl")]
pub(crate) struct EvictGenerateArgs {
    /// Number of sessions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) sessions: u32,
    /// Turns per session
    #[arg(long, value_name = "N", default_value_t = 250)]
    pub(crate) turns: u64,
    /// Seed of the generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Mean number of turns per task
    #[arg(long, value_name = "N", default_value_t = 25.0)]
    pub(crate) task_turns: f64,
    /// Probability per turn of a use that follows no pattern
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub(crate) noise: f64,
}

/// Options of `evict target`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict target baseline.json")]
pub(crate) struct EvictTargetArgs {
    /// Scorer version, or a file written by `variants`
    pub(crate) scorer: String,
    /// Trace with the sessions that the cases name
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}
