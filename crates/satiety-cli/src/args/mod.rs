//! Command-line arguments: definitions and help texts only. `settings` and `commands` interpret them.

mod bench;
mod eviction;
mod experiment;
mod harness;
mod hook;
mod mcp;
mod memory;
mod progress;
mod research;
mod retrieval;
mod retrieval_golden;
mod serve;
mod tenant;
mod trust;
mod worker;

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use bench::*;
pub(crate) use eviction::*;
pub(crate) use experiment::*;
pub(crate) use harness::*;
pub(crate) use hook::*;
pub(crate) use mcp::*;
pub(crate) use memory::*;
pub(crate) use progress::*;
pub(crate) use research::*;
pub(crate) use retrieval::*;
pub(crate) use retrieval_golden::*;
pub(crate) use serve::*;
pub(crate) use tenant::*;
pub(crate) use trust::*;
pub(crate) use worker::*;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Tell AI agents, and the people who build them, when another round is no longer worth it.
#[derive(Debug, Parser)]
#[command(name = "satiety", version, styles = STYLES, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Start with `satiety demo`. Every command has examples in its `--help`.")]
#[command(after_long_help = "Examples:
  satiety demo                          # a tour on bundled examples
  satiety score conversation.json       # CONTINUE, SHIP, STOP or ESCALATE, and why
  satiety progress session.jsonl        # is an agent at work stuck, and since when?
  satiety watch session.jsonl           # the same for a live conversation or agent
  satiety hook install --for claude     # stop a coding agent that loops, as it happens
  satiety research TASK --in DIR        # search until results are no longer new, with sources
  satiety serve                         # HTTP API and dashboard, on loopback
  satiety db status                     # contents of the store
  satiety doctor                        # check that everything the commands need is available
  satiety config show                   # every setting and the source of its value

Exit codes:
   0  success
   1  check failed (regression, weakening, worse)
   2  usage error or invalid input
   3  inconclusive
   4  environment failure: store, network, model or file system
  10, 11, 12  with --exit-code: SHIP, STOP, ESCALATE
  70  internal error (a bug in satiety)")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options accepted by every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Store: `sqlite:PATH` or `postgres://HOST/NAME` [env: `SATIETY_STORE_URL`]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// Work on the store of a tenant [env: `SATIETY_TENANT`]
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) tenant: Option<String>,
    /// Configuration file [default: nearest satiety.toml] [env: `SATIETY_CONFIG`]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Output format [default: human] [env: `SATIETY_OUTPUT_FORMAT`]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) format: Option<crate::settings::Format>,
    /// Also write the result to a file in another format; repeatable
    ///
    /// For example `--save markdown=report.md --save json=report.json`.
    #[arg(long, global = true, value_name = "FORMAT=FILE", hide_short_help = true)]
    pub(crate) save: Vec<SavedFormat>,
    /// Suppress text output and notes; errors and `--format json` are printed
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Log more to stderr; repeat for more detail [env: `SATIETY_LOG_LEVEL`]
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colors; `NO_COLOR` is respected [default: auto] [env: `SATIETY_OUTPUT_COLOR`]
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<ColorWhen>,
}

/// File that a result is also written to, and its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedFormat {
    pub(crate) format: crate::settings::Format,
    pub(crate) file: PathBuf,
}

impl std::str::FromStr for SavedFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, file) = text
            .split_once('=')
            .filter(|(_, file)| !file.is_empty())
            .ok_or("expected FORMAT=FILE, such as markdown=report.md")?;
        Ok(Self {
            format: ValueEnum::from_str(format, false)?,
            file: file.into(),
        })
    }
}

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// When the output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Arguments of `satiety demo`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety demo                  # all seven scenes
  satiety demo dialogue         # one scene
  satiety demo --keep           # keep the results, for `satiety serve`")]
pub(crate) struct DemoArgs {
    /// Play only this scene
    pub(crate) scene: Option<DemoScene>,

    /// Keep the database and files of the demo in a new directory [default: satiety-demo]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "satiety-demo")]
    pub(crate) keep: Option<PathBuf>,
}

/// Scenes of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoScene {
    /// When a conversation should end
    Dialogue,
    /// Whether an agent at work is stuck
    Progress,
    /// Whether a change broke the agent, and whether the evals are still hard enough
    #[value(alias = "harness")]
    Bench,
    /// What an agent already knows, and how good its search is
    Memory,
    /// Whether one memory search is better than another
    Retrieval,
    /// Which context can be dropped
    Eviction,
    /// Whether another search is worth it
    Research,
}

/// Top-level commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take a tour of seven scenes on bundled examples
    Demo(DemoArgs),
    /// Score a conversation: CONTINUE, SHIP, STOP or ESCALATE, with reasons
    Score(ScoreArgs),
    /// Judge the log of an agent at work: does it still make progress, or is it stuck?
    Progress(ProgressArgs),
    /// Follow a live conversation or agent log and report when to stop
    Watch(WatchArgs),
    /// Score labelled conversations or agent runs and compare thresholds
    Sweep(SweepArgs),
    /// Evaluate search results and test whether one system is better
    #[command(subcommand)]
    Retrieval(Retrieval),
    /// Run, compare, gate and ablate benchmark suites for agents and skills
    #[command(subcommand)]
    Bench(Bench),
    /// Detect saturation of the eval harness and expand it with approval
    #[command(subcommand)]
    Harness(Harness),
    /// Choose which context to evict: propose, exclude, calibrate, simulate
    #[command(subcommand, alias = "eviction")]
    Evict(Box<Evict>),
    /// Watch over a command-line agent with hooks: stop loops, restore context, add memories
    Hook(HookArgs),
    /// Search in rounds until nothing is new, and report with sources
    Research(ResearchArgs),
    /// Decide per round whether your own search loop should continue
    Gate(GateArgs),
    /// Save, search and validate an agent's memories
    Memory(Box<MemoryArgs>),
    /// Test a change to memory search: shadow runs, sequential test, checklist
    #[command(subcommand, alias = "experiment")]
    Ab(Ab),
    /// Serve the HTTP API and dashboard, on loopback by default
    Serve(Box<ServeArgs>),
    /// Run queued cases of distributed benchmark runs
    Worker(WorkerArgs),
    /// Manage tenants of a server: stores, quotas and usage
    #[command(subcommand, visible_alias = "project")]
    Tenant(TenantCommand),
    /// Manage API tokens and read the audit log
    #[command(subcommand)]
    Token(Token),
    /// Serve an agent over the Model Context Protocol (stdio)
    Mcp(McpArgs),
    /// Choose and check the sentence model
    #[command(subcommand)]
    Models(Models),
    /// Fit a sentence model's similarity threshold from labelled pairs
    Calibrate(CalibrateArgs),
    /// Manage the store: status, migrations, retention, export, import, backup
    #[command(subcommand)]
    Db(Db),
    /// Show the settings and their sources
    #[command(subcommand)]
    Config(Config),
    /// Trust the nearest `satiety.toml`, so that its addresses, commands and paths apply
    Trust(TrustArgs),
    /// Check that everything the commands need is available, with fixes
    #[command(
        after_help = "Examples:\n  satiety doctor\n  satiety doctor --fleet\n  satiety doctor --sandbox\n\nExits with 4 when something does not work; with --fleet, with 1 when a check fails; with --sandbox, with 1 when an escape attempt succeeds."
    )]
    Doctor {
        /// Try to escape from the target sandbox and print the result of each attempt
        #[arg(long)]
        sandbox: bool,
        /// Check the database and all servers and workers on it: schema, clocks, leases, replicas, partitions
        #[arg(long, conflicts_with = "sandbox")]
        fleet: bool,
    },
    /// Print a shell completion script
    #[command(
        after_help = "Example:\n  satiety completions bash > ~/.local/share/bash-completion/completions/satiety"
    )]
    Completions {
        /// Shell to generate completions for
        shell: clap_complete::Shell,
    },
    /// Write the reference and man pages into a directory (called by `cargo xtask gen`)
    #[command(hide = true)]
    Reference {
        /// Directory to write to
        folder: PathBuf,
    },
}

impl Command {
    /// Whether the command runs as a service until stopped, so that traces are worth exporting.
    pub(crate) fn runs_long(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Mcp(_) | Self::Worker(_))
    }
}

/// Options of `score`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety score examples/transcripts/checkout.json
  satiety score chat.json --format json | jq .stop_recommendation
  satiety score trace.jsonl --exit-code || echo \"exit $?\"
  my-agent --transcript | satiety score - --embedder none

Input: a transcript (a JSON object with `rounds`), a trace (JSON Lines of type `round`), a chat log (messages with
`role` and `content`) or a coding agent's session log. The format is detected.

A log in which at least half of the turns call tools is judged as by `satiety progress`. If fewer turns call tools,
both judges report, and the progress judge decides if it says STOP or ESCALATE. With the progress judge, --profile
takes a profile of that judge.

With --exit-code: CONTINUE 0, SHIP 10, STOP 11, ESCALATE 12; NUDGE counts as CONTINUE.")]
pub(crate) struct ScoreArgs {
    /// Conversation file, or `-` for standard input
    pub(crate) file: PathBuf,
    /// Show the signal after every round or step and where it would have stopped
    #[arg(long, visible_alias = "at-every-step")]
    pub(crate) at_every_round: bool,
    /// Exit with the signal: CONTINUE 0, SHIP 10, STOP 11, ESCALATE 12
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// Judge of the file
    #[arg(long, value_name = "JUDGE", default_value = "auto")]
    pub(crate) judge: JudgeWith,
    /// Input format [default: detected]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) input: Option<InputShape>,
    /// Method that classifies plain messages as claims, questions and actions
    #[arg(long, value_name = "METHOD", default_value = "rules")]
    pub(crate) extract: ExtractWith,
    #[command(flatten)]
    pub(crate) judging: Judging,
    /// Store the conversation and its verdicts [env: `SATIETY_DIALOGUE_RECORD`]
    #[arg(long)]
    pub(crate) record: bool,
}

/// Scoring options shared by several commands.
#[derive(Debug, Args)]
pub(crate) struct Judging {
    /// Scoring profile: `default`, `spec`, or the path of a TOML file [env: `SATIETY_DIALOGUE_PROFILE`]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Sentence model: `builtin`, `dir:PATH`, `ollama:MODEL`, `openai:MODEL` or `none` [env:
    /// `SATIETY_MODELS_EMBEDDER`]
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,
}

/// Options of `watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety watch trace.jsonl
  satiety watch session.jsonl --exit-code --idle 600 && echo continue

Exits at the first signal other than CONTINUE and NUDGE, or with --idle when the file has not grown for that long.
With --format json, one JSON line per round or step.

JSON Lines in which the first turn of an agent calls a tool are followed by the progress judge. It prints a line for
each NUDGE, SHIP, STOP and ESCALATE. With this judge, --profile takes a profile of that judge.")]
pub(crate) struct WatchArgs {
    /// Conversation or agent log that is being written
    pub(crate) file: PathBuf,
    /// Continue after the first signal other than CONTINUE and NUDGE
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Print every step of an agent log
    #[arg(long)]
    pub(crate) at_every_step: bool,
    /// Exit when the file has not grown for this many seconds [default: never]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) idle: Option<u64>,
    /// Exit with the last signal: CONTINUE 0, SHIP 10, STOP 11, ESCALATE 12
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// Judge of the file
    #[arg(long, value_name = "JUDGE", default_value = "auto")]
    pub(crate) judge: JudgeWith,
    /// Input format [default: detected]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) input: Option<InputShape>,
    #[command(flatten)]
    pub(crate) judging: Judging,
}

/// Options of `sweep`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety sweep examples/calibration
  satiety sweep examples/calibration --k 1 --k 2 --k 3 --semantic 0.7 --semantic 0.75 --semantic 0.82

Varies each setting on its own around its default, or tries every combination of the given values.

A label is the key `_expected` in a transcript: {\"stop_recommendation\": \"SHIP\", \"stop_round\": 4}.
`stop_signal` is accepted for `stop_recommendation`.

Without labelled conversations, the path may have logs of agents with outcomes (`solved`, or the outcome that a
benchmark records). They show how much waste the progress judge would have saved, and how many solved runs it would
have cut, over thresholds and compared with simple rules.")]
pub(crate) struct SweepArgs {
    /// Directory with labelled transcripts, or file or directory with agent logs
    #[arg(value_name = "PATH", required_unless_present = "stored")]
    pub(crate) folder: Option<PathBuf>,
    /// Use the conversations or agent runs in the database that people labelled, for example in the dashboard
    #[arg(long, conflicts_with = "folder")]
    pub(crate) stored: bool,
    /// Read agent logs, even if there are labelled transcripts
    #[arg(long)]
    pub(crate) work: bool,
    /// Levels at which the progress judge stops to try; repeatable
    #[arg(long, value_name = "LEVEL")]
    pub(crate) stop: Vec<f64>,
    /// Consecutive low-novelty rounds to try; repeatable
    #[arg(long, value_name = "N")]
    pub(crate) k: Vec<u32>,
    /// Word-overlap thresholds to try; repeatable
    #[arg(long, value_name = "SHARE")]
    pub(crate) jaccard: Vec<f64>,
    /// Semantic-similarity thresholds to try; repeatable
    #[arg(long, value_name = "COSINE")]
    pub(crate) semantic: Vec<f64>,
    /// Low-novelty thresholds to try; repeatable
    #[arg(long, value_name = "RATE")]
    pub(crate) low: Vec<f64>,
    #[command(flatten)]
    pub(crate) judging: Judging,
}

/// Subcommands of `models`.
#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// List the available models
    #[command(after_help = "Example:\n  satiety models list")]
    List,
    /// Check that the configured sentence model works
    #[command(after_help = "Example:\n  SATIETY_MODELS_EMBEDDER=ollama:all-minilm satiety models verify")]
    Verify,
    /// Choose a sentence model: writes `models.embedder` to satiety.toml
    #[command(after_help = "Example:\n  satiety models use ollama:nomic-embed-text")]
    Use {
        /// Model: `builtin`, `dir:PATH`, `ollama:MODEL[@URL]`, `openai:MODEL[@URL]` or `none`
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
    /// JSON Lines of labelled pairs, or `-` for standard input [default: the bundled pairs]
    pub(crate) pairs: Option<PathBuf>,
    /// Maximum share of different pairs classified as the same
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub(crate) max_false_positives: f64,
    /// Write a profile with the fitted threshold to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Sentence model [env: `SATIETY_MODELS_EMBEDDER`]
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,
}

/// Input formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputShape {
    /// JSON object with `rounds`.
    Transcript,
    /// JSON Lines of type `round`.
    Trace,
    /// Messages with `role` and `content`.
    Chat,
    /// Session log of a coding agent.
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

/// Format of an export of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DbExportTo {
    /// One row per line, for `db import`
    Jsonl,
    /// A directory of files by table and day, for analysis
    Parquet,
}

/// Method that classifies plain messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExtractWith {
    /// Fixed rules.
    Rules,
    /// The configured chat model.
    Model,
}

/// Subcommands of `db`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  satiety db status
  satiety db export store.jsonl
  satiety --db postgres://me@localhost/satiety db import store.jsonl
  satiety db retain --set journal=90d:archive --dry-run")]
pub(crate) enum Db {
    /// Show the contents of the store, without changing it
    #[command(after_help = "Example:\n  satiety db status --check")]
    Status {
        /// Also read the whole store and check for corruption
        #[arg(long)]
        check: bool,
    },
    /// Create the store or migrate its schema (other commands do this automatically)
    #[command(after_help = "Example:\n  satiety --db sqlite:team.db db migrate")]
    Migrate,
    /// Apply the retention rules: delete or archive expired rows
    #[command(after_help = "Examples:
  satiety db retain --dry-run
  satiety db retain --set journal=90d:archive
  satiety db retain --set conversations=keep

A rule is SUBJECT=DAYSd:ACTION or SUBJECT=keep. A subject is a table, or a table and a prefix of its keys
(`records:cache/`). Archives are JSONL files in `store.archive_folder`.")]
    Retain {
        /// Print what would be deleted or archived
        #[arg(long)]
        dry_run: bool,
        /// Set a rule first; repeatable
        #[arg(long, value_name = "RULE")]
        set: Vec<String>,
        /// List the rules and exit
        #[arg(long, conflicts_with = "dry_run")]
        list: bool,
    },
    /// Export the whole store as JSON Lines or Parquet
    #[command(after_help = "Examples:
  satiety db export store.jsonl
  satiety db export - | gzip > store.jsonl.gz
  satiety db export store --to parquet     # store/TABLE/day=2026-08-01/0000-HASH.parquet
  satiety db export store --to parquet     # again: writes only what has changed

JSON Lines can be imported again. Parquet is for analysis and for `bench compare`, `retrieval compare` and `progress`,
which read runs of it as DIRECTORY#ID.")]
    Export {
        /// File to write, or `-` for stdout; a new directory for Parquet, or one with an export to update
        file: PathBuf,
        /// Format of the export
        #[arg(long, value_enum, value_name = "FORMAT", default_value_t = DbExportTo::Jsonl)]
        to: DbExportTo,
        /// Also read past days that cannot have changed since the last export
        #[arg(long)]
        full: bool,
    },
    /// Import an export into an empty store, all or nothing
    #[command(after_help = "Example:\n  satiety --db postgres://me@localhost/satiety db import store.jsonl")]
    Import {
        /// File to read, or `-` for stdin
        file: PathBuf,
    },
    /// Back up the store while it is in use: a SQLite copy or a PostgreSQL export
    #[command(after_help = "Example:\n  satiety db backup satiety-backup.db")]
    Backup {
        /// File to write; must not exist yet
        file: PathBuf,
    },
}

/// Subcommands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every setting with its value and source
    #[command(after_help = "Examples:
  satiety config show
  satiety config show --default > satiety.toml

Precedence, lowest first: built-in default, satiety.toml, environment (SATIETY_*), flags.")]
    Show {
        /// Print the commented default file instead
        #[arg(long)]
        default: bool,
    },
}

#[cfg(test)]
mod documented_commands;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// Every argument has a help text, every command that does something an example.
    #[test]
    fn every_command_and_flag_has_help() {
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
