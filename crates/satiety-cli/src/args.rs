//! What can be typed. Only definitions and help texts: what it means is found out in `settings` and `commands`.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use satiety::retrieval::Measure;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Tells AI agents, and the people who build them, whether the next round still buys anything.
#[derive(Debug, Parser)]
#[command(name = "satiety", version, styles = STYLES, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Start with `satiety demo`. Every command has examples in its `--help`.")]
#[command(after_long_help = "Examples:
  satiety demo                          everything that works so far, on bundled examples
  satiety score conversation.json       CONTINUE, SHIP, STOP or ESCALATE, and why
  satiety watch trace.jsonl             the same, while the conversation goes on
  satiety db status                     what is in the store
  satiety doctor                        is everything there that the commands need?
  satiety config show                   every setting, and where its value comes from

Exit codes:
   0  done, and the answer is fine
   1  done, and the gate says no
   2  wrong usage or bad input
   3  inconclusive
   4  the environment failed: store, network, model or file system
  10, 11, 12  with --exit-code: SHIP, STOP, ESCALATE
  70  a bug in satiety itself")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The store: `sqlite:PATH` or `postgres://user:password@host/database` [env: `SATIETY_STORE_URL`]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// The configuration file, instead of the nearest `satiety.toml` upwards from here [env: `SATIETY_CONFIG`]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How answers are printed [default: human] [env: `SATIETY_OUTPUT_FORMAT`]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) format: Option<crate::settings::Format>,
    /// Print no answer for people, and no notes; errors and `--format json` are still printed
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Log more to stderr; twice for still more [env: `SATIETY_LOG_LEVEL`]
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colours; `NO_COLOR` is respected [default: auto] [env: `SATIETY_OUTPUT_COLOR`]
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<ColorWhen>,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// When the output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Play the bundled examples through everything that works so far, on a fresh store
    #[command(after_help = "Example:\n  satiety demo")]
    Demo,
    /// Say what to do about a conversation: CONTINUE, SHIP, STOP or ESCALATE, and why
    Score(ScoreArgs),
    /// Follow a conversation that is still being written, and say when to stop
    Watch(WatchArgs),
    /// Score a folder of labelled conversations: confusion matrix, and what other thresholds would change
    Sweep(SweepArgs),
    /// Measure search results against judgments, and say whether one system is really better than another
    #[command(subcommand)]
    Retrieval(Retrieval),
    /// Choose and check the sentence model
    #[command(subcommand)]
    Models(Models),
    /// Fit the threshold of a sentence model from pairs of texts that do or do not say the same
    Calibrate(CalibrateArgs),
    /// Look after the store: status, migrations, retention, export, import, backup
    #[command(subcommand)]
    Db(Db),
    /// Show the settings and where they come from
    #[command(subcommand)]
    Config(Config),
    /// Check that everything is there that the commands need, and say what to do where it is not
    #[command(after_help = "Example:\n  satiety doctor\n\nExits with 4 when something does not work.")]
    Doctor,
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  satiety completions bash > ~/.local/share/bash-completion/completions/satiety"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the reference pages and man pages into a folder (what `cargo xtask gen` calls)
    #[command(hide = true)]
    Reference {
        /// The folder
        folder: PathBuf,
    },
}

/// Options of `score`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety score examples/transcripts/queue-choice.json
  satiety score chat.json --format json | jq .stop_recommendation
  satiety score trace.jsonl --exit-code || echo \"exit $?\"
  my-agent --transcript | satiety score - --embedder none

Input: a transcript (a JSON object with `rounds`), a trace (JSON Lines of type `round`), a chat log (messages with
`role` and `content`) or a coding agent's session log. The shape is found out from the content.

With --exit-code: CONTINUE 0, SHIP 10, STOP 11, ESCALATE 12.")]
pub(crate) struct ScoreArgs {
    /// The conversation, or `-` for standard input
    pub(crate) file: PathBuf,
    /// Show the signal after every round, and where it would have stopped
    #[arg(long)]
    pub(crate) at_every_round: bool,
    /// Exit with the signal: CONTINUE 0, SHIP 10, STOP 11, ESCALATE 12
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// The shape of the input, instead of finding it out
    #[arg(long, value_name = "SHAPE")]
    pub(crate) input: Option<InputShape>,
    /// Who sorts plain messages into claims, questions and actions
    #[arg(long, value_name = "BY", default_value = "rules")]
    pub(crate) extract: ExtractWith,
    #[command(flatten)]
    pub(crate) judging: Judging,
    /// Keep the conversation and its verdicts in the store [env: `SATIETY_DIALOGUE_RECORD`]
    #[arg(long)]
    pub(crate) record: bool,
}

/// How conversations are judged.
#[derive(Debug, Args)]
pub(crate) struct Judging {
    /// `default`, `spec`, or the path of a TOML file [env: `SATIETY_DIALOGUE_PROFILE`]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// The sentence model: `builtin`, `dir:FOLDER`, `ollama:MODEL`, `openai:MODEL` or `none` [env: `SATIETY_MODELS_EMBEDDER`]
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,
}

/// Options of `watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety watch trace.jsonl
  satiety watch session.jsonl --exit-code --idle 600 && echo go on

Ends at the first signal that is not CONTINUE, or with --idle when the file has not grown for so long.
With --format json, a line of JSON for each round.")]
pub(crate) struct WatchArgs {
    /// The file that is being written
    pub(crate) file: PathBuf,
    /// Go on after the first signal that is not CONTINUE
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// End when the file has not grown for this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) idle: Option<u64>,
    /// Exit with the last signal: CONTINUE 0, SHIP 10, STOP 11, ESCALATE 12
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// The shape of the input, instead of finding it out
    #[arg(long, value_name = "SHAPE")]
    pub(crate) input: Option<InputShape>,
    #[command(flatten)]
    pub(crate) judging: Judging,
}

/// Options of `sweep`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety sweep examples/calibration
  satiety sweep examples/calibration --k 1 --k 2 --k 3 --semantic 0.7 --semantic 0.75 --semantic 0.82

Tries each setting by itself around its usual values, or every combination of those that are given.

A label is the key `_expected` in a transcript: {\"stop_recommendation\": \"SHIP\", \"stop_round\": 4}.")]
pub(crate) struct SweepArgs {
    /// The folder
    pub(crate) folder: PathBuf,
    /// Rounds of low novelty in a row to try; may be repeated
    #[arg(long, value_name = "N")]
    pub(crate) k: Vec<u32>,
    /// Word-overlap thresholds to try; may be repeated
    #[arg(long, value_name = "SHARE")]
    pub(crate) jaccard: Vec<f64>,
    /// Meaning thresholds to try; may be repeated
    #[arg(long, value_name = "COSINE")]
    pub(crate) semantic: Vec<f64>,
    /// Borders of low novelty to try; may be repeated
    #[arg(long, value_name = "RATE")]
    pub(crate) low: Vec<f64>,
    #[command(flatten)]
    pub(crate) judging: Judging,
}

/// Commands about search results.
#[derive(Debug, Subcommand)]
pub(crate) enum Retrieval {
    /// Measure runs against judgments, as `trec_eval` does
    Eval(RetrievalEvalArgs),
    /// Compare runs with the first of them: better, worse, or no evidence either way
    Compare(RetrievalCompareArgs),
}

/// Options of `retrieval eval`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval eval --qrels examples/retrieval/qrels.txt --run examples/retrieval/bm25.txt
  satiety retrieval eval --qrels qrels.txt --run run.txt.gz --metrics ndcg_linear@10,map --compat trec --per-query

Metrics: mrr, ndcg (gain 2^grade - 1), ndcg_linear (trec_eval's ndcg), recall, p, map, success, rbp(0.8), judged, each
with @K for a cutoff; bpref. Without --metrics: mrr@5,10, ndcg@5,10,20, recall@5,10 and judged@10.

Judgments are lines of `query 0 document grade`, runs of `query Q0 document rank score tag`. Files that end in .csv or
.tsv are tables with a header, in .jsonl a query a line; a folder has BEIR's qrels/test.tsv. With .gz or .zst at the
end, they are decompressed.")]
pub(crate) struct RetrievalEvalArgs {
    #[command(flatten)]
    pub(crate) rankings: RankingArgs,
    /// Give the value of every query too
    #[arg(long)]
    pub(crate) per_query: bool,
    /// Resamples for the intervals; 0 leaves them out
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) resamples: u64,
    /// Seed of the resamples
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Options of `retrieval compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval compare --qrels examples/retrieval/qrels.txt --run examples/retrieval/bm25.txt --run examples/retrieval/fusion.txt
  satiety retrieval compare --qrels qrels.txt --run main.txt --run branch.txt --fail-if-worse 0.01

The first run is the control. The first metric decides; without --metrics: ndcg@10, mrr@10, recall@10.

With --fail-if-worse: exit 1 when a metric is worse beyond the margin, 3 when by the first metric such a loss can be
neither shown nor excluded, 0 when it can be excluded.")]
pub(crate) struct RetrievalCompareArgs {
    #[command(flatten)]
    pub(crate) rankings: RankingArgs,
    /// A gate: how much worse the others may be
    #[arg(long, value_name = "MARGIN")]
    pub(crate) fail_if_worse: Option<f64>,
    /// Resamples for the intervals
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) resamples: u64,
    /// Seed of resamples and sign patterns
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Judgments, runs, and what counts how much.
#[derive(Debug, Args)]
pub(crate) struct RankingArgs {
    /// The judgments
    #[arg(long, value_name = "FILE")]
    pub(crate) qrels: PathBuf,
    /// A run; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) run: Vec<PathBuf>,
    /// What to compute, separated by commas; may be repeated
    #[arg(long, visible_alias = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub(crate) metrics: Vec<Measure>,
    /// The grade from which on a document is relevant [default: 2; with --compat trec: 1]
    #[arg(long, value_name = "GRADE")]
    pub(crate) relevance_threshold: Option<i32>,
    /// What orders equal scores: document ids from the end, as `trec_eval` does, or the rank in the file
    #[arg(long, value_name = "BY", default_value = "trec")]
    pub(crate) ties: TiesBy,
    /// Keep one of documents that come twice for a query, instead of refusing them
    #[arg(long, value_name = "WHICH")]
    pub(crate) dedup: Option<DedupKeep>,
    /// A judged query that the run does not answer: 0, or left out [default: zero; with --compat trec: skip]
    #[arg(long, value_name = "AS")]
    pub(crate) missing: Option<ZeroOrSkip>,
    /// A query with nothing relevant to find: 0, or left out [default: skip; with --compat trec: zero]
    #[arg(long, value_name = "AS")]
    pub(crate) no_relevant: Option<ZeroOrSkip>,
    /// A result that nobody judged: irrelevant, or taken out of the list
    #[arg(long, value_name = "AS", default_value = "irrelevant")]
    pub(crate) unjudged: UnjudgedAs,
    /// Count as another program does
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) compat: Option<Compat>,
}

/// What orders equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TiesBy {
    /// By document id, from the end of the alphabet
    Trec,
    /// By the rank in the file
    Rank,
}

/// Which one is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DedupKeep {
    /// The best-ranked of a run, the first line of judgments
    First,
}

/// What a query counts about which little can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ZeroOrSkip {
    /// 0
    Zero,
    /// Left out of the mean
    Skip,
}

/// What an unjudged result counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnjudgedAs {
    /// As an irrelevant one
    Irrelevant,
    /// Taken out of the list before anything is measured
    Condensed,
}

/// Another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// `trec_eval` without options: grade 1 is relevant, missing queries are left out, nothing to find is 0
    Trec,
}

/// Commands about models.
#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// What can be chosen
    #[command(after_help = "Example:\n  satiety models list")]
    List,
    /// Check that the chosen sentence model does what it should
    #[command(after_help = "Example:\n  SATIETY_MODELS_EMBEDDER=ollama:all-minilm satiety models verify")]
    Verify,
    /// Choose a sentence model: writes `models.embedder` into satiety.toml
    #[command(after_help = "Example:\n  satiety models use ollama:nomic-embed-text")]
    Use {
        /// `builtin`, `dir:FOLDER`, `ollama:MODEL[@URL]`, `openai:MODEL[@URL]` or `none`
        spec: String,
    },
}

/// Options of `calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety calibrate
  satiety calibrate pairs.jsonl --embedder ollama:nomic-embed-text --write mine.toml

A line of the file is {\"a\": \"…\", \"b\": \"…\", \"same\": true}.")]
pub(crate) struct CalibrateArgs {
    /// JSON Lines of pairs, or `-`; without it, the pairs that come with satiety
    pub(crate) pairs: Option<PathBuf>,
    /// The share of different pairs that may be taken for the same
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub(crate) max_false_positives: f64,
    /// Write a profile with the fitted threshold
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// The sentence model [env: `SATIETY_MODELS_EMBEDDER`]
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,
}

/// The shapes of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputShape {
    /// A JSON object with `rounds`.
    Transcript,
    /// JSON Lines of type `round`.
    Trace,
    /// Messages with `role` and `content`.
    Chat,
    /// A coding agent's session log.
    AgentLog,
}

impl From<InputShape> for satiety::dialogue::input::InputFormat {
    fn from(shape: InputShape) -> Self {
        match shape {
            InputShape::Transcript => Self::Transcript,
            InputShape::Trace => Self::Trace,
            InputShape::Chat => Self::Chat,
            InputShape::AgentLog => Self::AgentLog,
        }
    }
}

/// Who sorts plain messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExtractWith {
    /// Fixed rules.
    Rules,
    /// The chat model of the settings.
    Model,
}

/// Commands about the store.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  satiety db status
  satiety db export store.jsonl
  satiety --db postgres://me@localhost/satiety db import store.jsonl
  satiety db retain --set journal=90d:archive --dry-run")]
pub(crate) enum Db {
    /// What is in the store; changes nothing
    #[command(after_help = "Example:\n  satiety db status --check")]
    Status {
        /// Also read it whole and look for damage
        #[arg(long)]
        check: bool,
    },
    /// Create the store, or bring its schema up to date (other commands do this by themselves)
    #[command(after_help = "Example:\n  satiety --db sqlite:team.db db migrate")]
    Migrate,
    /// Carry out the retention rules: delete or archive what is past its time
    #[command(after_help = "Examples:
  satiety db retain --dry-run
  satiety db retain --set journal=90d:archive
  satiety db retain --set conversations=keep

A rule is SUBJECT=DAYSd:ACTION or SUBJECT=keep. A subject is a table, or a table and a prefix of its keys
(`records:cache/`). Archives are JSONL files in `store.archive_folder`.")]
    Retain {
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
        /// Set a rule first; may be repeated
        #[arg(long, value_name = "RULE")]
        set: Vec<String>,
        /// List the rules and do nothing else
        #[arg(long, conflicts_with = "dry_run")]
        list: bool,
    },
    /// Write the whole store as JSON Lines
    #[command(
        after_help = "Example:\n  satiety db export store.jsonl\n  satiety db export - | gzip > store.jsonl.gz"
    )]
    Export {
        /// The file, or `-` for stdout
        file: PathBuf,
    },
    /// Read an export into a new store: all of it, or nothing
    #[command(after_help = "Example:\n  satiety --db postgres://me@localhost/satiety db import store.jsonl")]
    Import {
        /// The file, or `-` for stdin
        file: PathBuf,
    },
    /// Make a backup while the store stays in use: a copy of a SQLite file, an export of a PostgreSQL database
    #[command(after_help = "Example:\n  satiety db backup satiety-backup.db")]
    Backup {
        /// The file to write, which must not exist yet
        file: PathBuf,
    },
}

/// Commands about the settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every setting with its value and where that comes from
    #[command(after_help = "Examples:
  satiety config show
  satiety config show --default > satiety.toml

Strength, from weak to strong: built-in default, satiety.toml, environment (SATIETY_*), flags.")]
    Show {
        /// Print the commented default file instead
        #[arg(long)]
        default: bool,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// Every argument has a help text, every command that does something an example.
    #[test]
    fn everything_is_explained() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some() || argument.get_id() == "help",
                    "{}: {} has no help",
                    command.get_name(),
                    argument.get_id()
                );
            }
            for subcommand in command
                .get_subcommands()
                .filter(|subcommand| !subcommand.is_hide_set())
            {
                assert!(
                    subcommand.get_about().is_some(),
                    "{} has no description",
                    subcommand.get_name()
                );
                if subcommand.get_subcommands().next().is_none() {
                    let after = subcommand
                        .get_after_help()
                        .map(ToString::to_string)
                        .unwrap_or_default();
                    assert!(
                        after.contains("xample"),
                        "{} has no example",
                        subcommand.get_name()
                    );
                }
                check(subcommand);
            }
        }
        let command = super::Cli::command();
        command.clone().debug_assert();
        check(&command);
    }
}
