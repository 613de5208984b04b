//! What can be typed. Only definitions and help texts: what it means is found out in `settings` and `commands`.

mod bench;
mod eviction;
mod experiment;
mod harness;
mod mcp;
mod memory;
mod research;
mod retrieval;
mod retrieval_golden;
mod serve;
mod trust;
mod worker;

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use bench::*;
pub(crate) use eviction::*;
pub(crate) use experiment::*;
pub(crate) use harness::*;
pub(crate) use mcp::*;
pub(crate) use memory::*;
pub(crate) use research::*;
pub(crate) use retrieval::*;
pub(crate) use retrieval_golden::*;
pub(crate) use serve::*;
pub(crate) use trust::*;
pub(crate) use worker::*;

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
  satiety research TASK --in FOLDER     search until it stops being new, with sources
  satiety serve                         all of it over HTTP, on loopback
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
    /// Configuration file [default: nearest satiety.toml] [env: `SATIETY_CONFIG`]
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
    /// Score labelled conversations: confusion matrix, and what other thresholds change
    Sweep(SweepArgs),
    /// Measure search results against judgments; is one system really better than another?
    #[command(subcommand)]
    Retrieval(Retrieval),
    /// Benchmark suites for agents and skills: run, compare, gate, ablate
    #[command(subcommand)]
    Bench(Bench),
    /// Has the eval harness become too easy? A ratchet that only turns one way, and a person who must agree
    #[command(subcommand)]
    Harness(Harness),
    /// Which context to drop: propose, keep back, learn from it, simulate
    #[command(subcommand)]
    Evict(Box<Evict>),
    /// Search in rounds until nothing is new, and report with the source of every sentence
    Research(ResearchArgs),
    /// Decide for a search loop of your own, round by round: continue or stop
    Gate(GateArgs),
    /// An agent's memory: keep, search, learn
    Memory(Box<MemoryArgs>),
    /// Try a change of the memory's search before trusting it: shadow runs, test, checklist
    #[command(subcommand)]
    Ab(Ab),
    /// Serve everything over HTTP, on loopback unless told otherwise
    Serve(Box<ServeArgs>),
    /// Run cases of distributed benchmark runs, beside other workers on the same store
    Worker(WorkerArgs),
    /// Who may ask a server, and who wrote what
    #[command(subcommand)]
    Token(Token),
    /// Serve an agent over the Model Context Protocol, on standard input and output
    Mcp(McpArgs),
    /// Choose and check the sentence model
    #[command(subcommand)]
    Models(Models),
    /// Fit a sentence model's threshold from pairs of texts that do or do not say the same
    Calibrate(CalibrateArgs),
    /// Look after the store: status, migrations, retention, export, import, backup
    #[command(subcommand)]
    Db(Db),
    /// Show the settings and where they come from
    #[command(subcommand)]
    Config(Config),
    /// Trust the `satiety.toml` found here, so that its addresses, commands and paths count
    Trust(TrustArgs),
    /// Check that everything the commands need is there, and say what to do where it is not
    #[command(
        after_help = "Examples:\n  satiety doctor\n  satiety doctor --sandbox\n\nExits with 4 when something does not work; with --sandbox, with 1 when an attempt to break out succeeds."
    )]
    Doctor {
        /// Attempt to break out of the sandbox around targets, and print what each attempt came to
        #[arg(long)]
        sandbox: bool,
    },
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

impl Command {
    /// Whether it serves others until it is ended, and so has something to trace.
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
