//! What can be typed after `satiety evict`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Commands about what to drop from a context.
#[derive(Debug, Subcommand)]
pub(crate) enum Evict {
    /// Put items into a context, and note uses, pins and goals
    Add(EvictAddArgs),
    /// List contexts, or the items of one in the order in which they would go
    List(EvictListArgs),
    /// Say what could go so that the context meets a budget
    Propose(EvictProposeArgs),
    /// Answer a proposal: what is kept back stays, the rest goes
    Resolve(EvictResolveArgs),
    /// Ask the sentence model and the scorer model about items, beside the agent's work
    Refresh(EvictRefreshArgs),
    /// Show what became of the proposals of a context
    Timeline(EvictRefreshArgs),
    /// Show how often items are kept back, and how well that was foretold
    Feedback(EvictFeedbackArgs),
    /// Write feedback as JSON Lines, without words of the context
    Export(EvictExportArgs),
    /// Make a new version of the scorer from feedback; it is not put into force
    Calibrate(EvictCalibrateArgs),
    /// List versions of the scorer and what was in force, or print one
    Weights(EvictWeightsArgs),
    /// Write what an ablation of a version needs: suite, control, variant
    Variants(EvictVariantsArgs),
    /// Put a version into force, if an ablation shows that it does no harm
    Activate(EvictActivateArgs),
    /// Go back to the version that was in force before
    Rollback(EvictRollbackArgs),
    /// Replay a trace and compare policies with the best there could be
    Simulate(EvictSimulateArgs),
    /// Make a trace from a chat log or a coding agent's session log
    Convert(EvictConvertArgs),
    /// Make a trace up
    Generate(EvictGenerateArgs),
    /// Answer the cases of an ablation (what `variants` writes calls this)
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
    /// The context's name; it begins with its first item
    pub(crate) scope: String,
    /// Items as JSON, or `-` for standard input
    pub(crate) file: Option<PathBuf>,
    /// The present turn [default: the last known one]
    #[arg(long, value_name = "N")]
    pub(crate) turn: Option<u64>,
    /// What the agent is after from now on
    #[arg(long, value_name = "TEXT")]
    pub(crate) goal: Option<String>,
    /// An item that is used in this turn; may be repeated
    #[arg(long = "use", value_name = "ID")]
    pub(crate) uses: Vec<String>,
    /// An item never to be dropped; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) pin: Vec<String>,
    /// An item that may be dropped again; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) unpin: Vec<String>,
    /// An item that the agent took out by itself; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) remove: Vec<String>,
}

/// Options of `evict list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  satiety evict list\n  satiety evict list session-42 --explain")]
pub(crate) struct EvictListArgs {
    /// The context; all of them where absent
    pub(crate) scope: Option<String>,
    /// Say what each score is made of
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Options of `evict propose`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety evict propose session-42 --budget 24000
  satiety evict propose session-42 --free 4000 --format json | jq .view

The candidates are held until the proposal is answered with `satiety evict resolve`; after --timeout-ms they go at the next
call. Exits with 1 when the budget cannot be met, and says which pins prevent it.")]
pub(crate) struct EvictProposeArgs {
    /// The context
    pub(crate) scope: String,
    /// The tokens that the context may have afterwards
    #[arg(
        long,
        value_name = "TOKENS",
        required_unless_present = "free",
        conflicts_with = "free"
    )]
    pub(crate) budget: Option<u64>,
    /// The tokens that must come free
    #[arg(long, value_name = "TOKENS")]
    pub(crate) free: Option<u64>,
    /// The present turn [default: the last known one]
    #[arg(long, value_name = "N")]
    pub(crate) turn: Option<u64>,
    /// How long the agent may take to answer
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub(crate) timeout_ms: u64,
    /// How many items are proposed only to learn about them, as a share of those that must go
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub(crate) exploration: f64,
    /// The seed of that chance
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// Options of `evict resolve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety evict resolve prop-0199… --exclude readme --exclude 'plan=still needed for the release'
  satiety evict resolve prop-0199… --by user
  echo '{\"exclude_ctx_ids\": [\"readme\"]}' | satiety evict resolve prop-0199… --json -

Keep-backs are honoured in the order given, up to the quota; then a second pass without veto frees what is missing.
Unknown, repeated and late ids are refused, and nothing changes.")]
pub(crate) struct EvictResolveArgs {
    /// The proposal
    pub(crate) proposal: String,
    /// An item to keep back, with a reason after `=`; may be repeated
    #[arg(long, value_name = "ID[=WHY]")]
    pub(crate) exclude: Vec<String>,
    /// The answer as JSON: `exclude_ctx_ids`, `exclude_reasons`; a file, or `-`
    #[arg(long, value_name = "FILE", conflicts_with = "exclude")]
    pub(crate) json: Option<PathBuf>,
    /// Who answers [default: llm, or auto-accepted when nothing is kept back]
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<AnsweredBy>,
    /// The share of the proposal's tokens that may be kept back
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    pub(crate) quota: f64,
}

/// Who answers a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnsweredBy {
    /// The agent's model.
    Llm,
    /// A person.
    User,
    /// The agent, which keeps nothing back.
    AutoAccepted,
    /// Nobody in time: nothing is learned from it.
    Timeout,
}

/// Options of commands about one context.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict timeline session-42 --format html > story.html")]
pub(crate) struct EvictRefreshArgs {
    /// The context
    pub(crate) scope: String,
}

/// Options of `evict feedback`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  satiety evict feedback\n  satiety evict feedback session-42 --format html > reliability.html"
)]
pub(crate) struct EvictFeedbackArgs {
    /// The context; all of them where absent
    pub(crate) scope: Option<String>,
}

/// Options of `evict export`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict export > feedback.jsonl")]
pub(crate) struct EvictExportArgs {
    /// The context; all of them where absent
    pub(crate) scope: Option<String>,
    /// Also write snippets and reasons: words of the context
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

Makes a new version, which is not in force. Exits with 3 when the fit shows no gain on proposals that it has not seen.")]
pub(crate) struct EvictCalibrateArgs {
    /// Only from this context
    pub(crate) scope: Option<String>,
    /// From exported feedback in place of the store's
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// How strongly the weights in force hold
    #[arg(long, value_name = "RIDGE", default_value_t = 10.0)]
    pub(crate) ridge: f64,
    /// Variant C: weights that adjust themselves in small steps
    #[arg(long, conflicts_with = "prompt")]
    pub(crate) online: bool,
    /// Variant B: another prompt for the scorer model
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt: Option<PathBuf>,
}

/// Options of `evict weights`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  satiety evict weights\n  satiety evict weights heuristic > mine.toml")]
pub(crate) struct EvictWeightsArgs {
    /// The version to print; a list of all where absent
    pub(crate) version: Option<String>,
}

/// Options of `evict variants`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety evict variants scorer-0199… --out ablation

Writes a suite of made-up sessions, the version in force as the control and the version as the variant, and says how to run
the ablation. Put your own agent into the target files to measure it in earnest.")]
pub(crate) struct EvictVariantsArgs {
    /// The version
    pub(crate) version: String,
    /// The folder to write, which must not exist yet
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
}

/// Options of `evict activate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety evict activate scorer-0199… --ablation ablation-0199… --reason \"fewer re-reads\"

Refused, with exit code 1, unless the ablation compares this version with the one in force and shows it to be non-inferior
in retained relevance (retained_relevance), token efficiency (tokens_per_use or token_efficiency) and task results
(task_results or pass).")]
pub(crate) struct EvictActivateArgs {
    /// The version
    pub(crate) version: String,
    /// The ablation that permits it (`satiety bench ablation`)
    #[arg(long, value_name = "ID")]
    pub(crate) ablation: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Who does it [default: the user]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `evict rollback`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict rollback --reason \"drops plans too early\"")]
pub(crate) struct EvictRollbackArgs {
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Who does it [default: the user]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `evict simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety evict simulate examples/eviction/trace.jsonl --budget 25%
  satiety evict simulate trace.jsonl --policy heuristic --policy lru --policy scorer-0199… --policy belady-size
  satiety evict simulate held-out.jsonl --learn-from training.jsonl --format html > policies.html

Policies: heuristic, lru, fifo, size, gdsf, random, belady, belady-size, a version of the scorer, or a file with weights.
A line of a trace is a turn: {\"session\": …, \"turn\": …, \"add\": [items], \"use\": [ids]}.")]
pub(crate) struct EvictSimulateArgs {
    /// The trace, or `-` for standard input
    pub(crate) trace: PathBuf,
    /// A policy; may be repeated [default: all]
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Vec<String>,
    /// How big the context is: tokens, or a share of the session's (`25%`)
    #[arg(long, value_name = "TOKENS|SHARE", default_value = "25%")]
    pub(crate) budget: String,
    /// The share of the budget that a flush leaves free
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    pub(crate) headroom: f64,
    /// A trace to learn from first, with a simulated agent: adds the policy `calibrated`
    #[arg(long, value_name = "TRACE")]
    pub(crate) learn_from: Option<PathBuf>,
    /// Seed of chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Resamples for the intervals
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) resamples: u64,
}

/// Options of `evict convert`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety evict convert session.jsonl > trace.jsonl

What a turn used is inferred: it names the path or answers the call of an item, or shares rare words with it.")]
pub(crate) struct EvictConvertArgs {
    /// The log, or `-` for standard input
    pub(crate) log: PathBuf,
    /// Rare words in common that make a use
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) overlap: u32,
    /// Leave the words out
    #[arg(long)]
    pub(crate) without_content: bool,
}

/// Options of `evict generate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict generate --sessions 20 --seed 7 > trace.jsonl")]
pub(crate) struct EvictGenerateArgs {
    /// Sessions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) sessions: u32,
    /// Turns of each
    #[arg(long, value_name = "N", default_value_t = 250)]
    pub(crate) turns: u64,
    /// The seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Mean turns of a task
    #[arg(long, value_name = "N", default_value_t = 25.0)]
    pub(crate) task_turns: f64,
    /// The probability of a use that follows no rule, per turn
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub(crate) noise: f64,
}

/// Options of `evict target`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety evict target baseline.json")]
pub(crate) struct EvictTargetArgs {
    /// The scorer: a version, or a file that `variants` wrote
    pub(crate) scorer: String,
}
