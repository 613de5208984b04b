//! Arguments of `satiety progress`, and how other commands choose a judge.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use satiety::trajectory::LogFormat;
use satiety_engine::judge_choice::Judge;

/// Options of `progress`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety progress examples/progress/looping.jsonl
  satiety progress session.jsonl --at-every-step
  satiety progress session.jsonl --format json | jq .first_stop_step
  my-agent --log | satiety progress - --exit-code || echo \"exit $?\"

A step is one turn of the agent with its tool calls and their results. NUDGE asks for a sentence in the agent's
context; STOP and ESCALATE ask to end the run. To follow a log while it is written, use `satiety watch`.

With --exit-code: CONTINUE and NUDGE 0, SHIP 10, STOP 11, ESCALATE 12. For several runs, the first of ESCALATE,
STOP, CONTINUE and SHIP that one of them has.")]
pub(crate) struct ProgressArgs {
    /// Log of an agent, or `-` for standard input
    pub(crate) log: PathBuf,
    /// Show every step with its verdict, and the use of tools
    #[arg(long)]
    pub(crate) at_every_step: bool,
    /// Run to show, by id or number, if the log has several
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Exit with the signal: CONTINUE and NUDGE 0, SHIP 10, STOP 11, ESCALATE 12
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// Format of the log [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = log_format_parser())]
    pub(crate) input: Option<LogFormat>,
    /// TOML file with thresholds of the progress judge [default: built in]
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Sentence model: `builtin`, `dir:PATH`, `ollama:MODEL`, `openai:MODEL` or `none` [env:
    /// `SATIETY_MODELS_EMBEDDER`]
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,
}

/// Judges of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JudgeWith {
    /// By content: logs with tool calls by `progress`, others by `dialogue`.
    Auto,
    /// What is said: claims, questions and actions.
    Dialogue,
    /// What is done: tool calls and their results.
    Progress,
}

impl From<JudgeWith> for Judge {
    fn from(judge: JudgeWith) -> Self {
        match judge {
            JudgeWith::Auto => Self::Auto,
            JudgeWith::Dialogue => Self::Dialogue,
            JudgeWith::Progress => Self::Progress,
        }
    }
}

/// Accepts the name of a log format.
pub(super) fn log_format_parser() -> impl TypedValueParser<Value = LogFormat> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let mut names: Vec<String> = LogFormat::all().map(LogFormat::name).collect();
        names.sort();
        names
    });
    PossibleValuesParser::new(NAMES.iter().map(String::as_str))
        .try_map(|name| serde_json::from_value::<LogFormat>(name.into()))
}
