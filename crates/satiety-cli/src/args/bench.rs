//! What can be typed after `satiety bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands about benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Run suites against a target; every result is kept as it happens
    Run(Box<BenchRunArgs>),
    /// Take a run back from the workers; what was run is kept
    #[command(after_help = "Example:
  satiety bench cancel RUN")]
    Cancel {
        /// The run's id
        run: String,
    },
    /// Compare two runs: pass, regression or inconclusive
    Compare(BenchCompareArgs),
    /// Accept a run as the baseline of its suite
    Baseline(BenchBaselineArgs),
    /// Compare variants of a target with a control, case by case
    Ablation(BenchAblationArgs),
    /// Show a run: figures, failures, and reports for other programs
    Report(BenchReportArgs),
    /// Check suites: every problem, with file and field
    Check(BenchCheckArgs),
    /// List suites below a folder, or runs in the store
    List(BenchListArgs),
    /// Write a small suite that works
    Init(BenchInitArgs),
    /// Bring what you have: a promptfoo configuration as a suite, a log of Inspect as a run
    Import(BenchImportArgs),
    /// Say whether answers are right, where a person decides
    Label(BenchLabelArgs),
    /// Make a regression case of a failed record of production
    FromFailure(BenchFromFailureArgs),
    /// Take personal data out of records of real sessions
    Scrub(BenchScrubArgs),
}

/// Options of `bench run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench run suites/planner
  satiety bench run suites/planner --target exec:./agent --repeats 5 --gate --markdown pr.md --junit junit.xml
  satiety bench run --all suites --target target.toml --resume
  satiety bench run skills/shell --without-skill --judge ollama:llama3.2
  satiety bench run suites/planner --distributed     cases go to every `satiety worker` on the same store

A suite is a folder with suite.json, .yaml or .toml and cases/, or a skill with benchmarks/ or evals/evals.json. A target
is a file (type = \"exec\", command = \"…\"), or echo, exec:COMMAND, worker:COMMAND, chat:MODEL, http://…; without --target,
target.toml beside the suite.

With --gate: exit 0 pass, 1 regression, 3 inconclusive. Ctrl-C keeps what is done; --resume goes on from there.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, named where it is made"
)]
pub(crate) struct BenchRunArgs {
    /// Suites: files or folders
    #[arg(required_unless_present = "all")]
    pub(crate) suites: Vec<PathBuf>,
    /// Run every suite below a folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "suites")]
    pub(crate) all: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) how: BenchHowArgs,
    /// What to run: a file, or echo, exec:COMMAND, worker:COMMAND, chat:MODEL, http://…
    #[arg(long, short, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Run each case so often [default: what the suite says, or 1]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: Option<u32>,
    /// Only cases with this tag; may be repeated
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Go on with the last run of the suite that was not finished, or with the one named
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest")]
    pub(crate) resume: Option<String>,
    /// Judge the run by the baseline of the suite
    #[arg(long)]
    pub(crate) gate: bool,
    #[command(flatten)]
    pub(crate) policy: GatePolicyArgs,
    /// Stop as soon as a test that may be looked at any time has decided against the baseline
    #[arg(long)]
    pub(crate) sequential: bool,
    /// Also run a skill's cases without the skill
    #[arg(long)]
    pub(crate) without_skill: bool,
    /// Give the cases to workers on the same store, and wait for them; Ctrl-C ends the waiting, not the run
    #[arg(long)]
    pub(crate) distributed: bool,
    /// Do not wait: print the run's id; the worker that finishes it judges it and tells
    #[arg(long, requires = "distributed")]
    pub(crate) detach: bool,
    /// The folder that workers have, too: suites and targets are named relative to it [default: the current folder]
    #[arg(long, value_name = "FOLDER", requires = "distributed")]
    pub(crate) root: Option<PathBuf>,
    /// Exit with 1 when fewer pass
    #[arg(long, value_name = "SHARE")]
    pub(crate) fail_under: Option<f64>,
    /// Only say what the run could show
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) files: ReportFiles,
}

/// How targets are asked.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct BenchHowArgs {
    /// Only this case; may be repeated
    #[arg(long = "case", value_name = "ID")]
    pub(crate) cases: Vec<String>,
    /// A chat model that judges; may be repeated, and their agreement is told
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Vec<String>,
    /// Calls at a time
    #[arg(long, short = 'j', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: u32,
    /// Requests a minute at most
    #[arg(long, value_name = "N")]
    pub(crate) rpm: Option<u32>,
    /// Tokens a minute at most
    #[arg(long, value_name = "N")]
    pub(crate) tpm: Option<u64>,
    /// Further attempts when a service is busy or unreachable
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) retries: u32,
    /// How long an answer may take, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// Require a sandbox for the target's processes, and refuse to run without one
    #[arg(long, conflicts_with = "no_sandbox")]
    pub(crate) sandbox: bool,
    /// Run the target's processes without a sandbox; the result says so
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// Answers that were paid for may be used again; a repeat never gets another repeat's
    #[arg(long)]
    pub(crate) cache: bool,
    /// Seed that targets are given, by case and repeat
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Keep the working folders
    #[arg(long)]
    pub(crate) keep_workdirs: bool,
}

/// What a gate lets through.
#[derive(Debug, Args)]
pub(crate) struct GatePolicyArgs {
    /// The error rate: how often an unchanged system may be called worse
    #[arg(long, value_name = "RATE", default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// The largest drop of the pass rate that may stay unnoticed
    #[arg(long, value_name = "SHARE", default_value_t = 0.10)]
    pub(crate) margin: f64,
    /// Let a regression through, with the reason, which is kept
    #[arg(long, value_name = "REASON")]
    pub(crate) accept_regression: Option<String>,
    /// Who says so [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Reports for other programs and people.
#[derive(Debug, Args)]
pub(crate) struct ReportFiles {
    /// Write `JUnit` XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write metrics as Prometheus reads them
    #[arg(long, value_name = "FILE")]
    pub(crate) prometheus: Option<PathBuf>,
    /// Write Markdown for a pull request
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write the benchmark.json of the Agent Skills viewer
    #[arg(long, value_name = "FILE")]
    pub(crate) skill_json: Option<PathBuf>,
}

/// Options of `bench compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench compare suites/planner/baseline.json latest:planner
  satiety bench compare RUN1 RUN2 --format markdown

A run is an id, `latest`, `latest:SUITE`, or a file. Exit 0 pass, 1 regression, 3 inconclusive.")]
pub(crate) struct BenchCompareArgs {
    /// The run that was accepted
    pub(crate) baseline: String,
    /// The run that is judged
    pub(crate) candidate: String,
    #[command(flatten)]
    pub(crate) policy: GatePolicyArgs,
}

/// Options of `bench baseline`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench baseline latest:planner --suite suites/planner --reason \"first accepted run\"
  satiety bench baseline RUN --reason \"new model, see #12\"

With --suite, baseline.json is written beside the suite, to be committed with its cases.")]
pub(crate) struct BenchBaselineArgs {
    /// The run: an id, `latest`, `latest:SUITE`, or a file
    pub(crate) run: String,
    /// The suite's folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) suite: Option<PathBuf>,
    /// Why it is accepted
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Who accepts it [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `bench ablation`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench ablation control.toml treatment.toml --suite suites/scorer --runs 5
  satiety bench ablation control.toml a.toml b.toml --all suites --tag eviction

All variants are run side by side. A variant ships when being worse by the margin is excluded for every metric, after
Holm over all of them. Exit 0 when all ship, 1 when one is harmful, 3 otherwise.")]
pub(crate) struct BenchAblationArgs {
    /// Targets: the control first
    #[arg(required = true, num_args = 2..)]
    pub(crate) targets: Vec<String>,
    /// A suite; may be repeated
    #[arg(long, value_name = "SUITE", required_unless_present = "all")]
    pub(crate) suite: Vec<PathBuf>,
    /// Every suite below a folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "suite")]
    pub(crate) all: Option<PathBuf>,
    /// The component: only cases with this tag
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,
    /// Run each case so often with each variant
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// What may get how much worse: `pass=0.05`, `latency_ms=20%`; may be repeated
    #[arg(long, value_name = "METRIC=MARGIN")]
    pub(crate) metric: Vec<String>,
    #[command(flatten)]
    pub(crate) how: BenchHowArgs,
}

/// Options of `bench report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench report latest
  satiety bench report RUN --junit junit.xml --prometheus satiety.prom
  satiety bench report RUN --format json > run.json")]
pub(crate) struct BenchReportArgs {
    /// The run: an id, `latest`, `latest:SUITE`, or a file
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) files: ReportFiles,
}

/// Options of `bench check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench check suites
  satiety bench check --schema > suite.schema.json")]
pub(crate) struct BenchCheckArgs {
    /// A suite, or a folder with suites below
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Print the JSON Schema of suite files instead
    #[arg(long)]
    pub(crate) schema: bool,
}

/// Options of `bench list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench list suites
  satiety bench list --runs")]
pub(crate) struct BenchListArgs {
    /// A folder
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// List runs in the store instead
    #[arg(long)]
    pub(crate) runs: bool,
    /// Only runs of this suite
    #[arg(long, value_name = "SUITE", requires = "runs")]
    pub(crate) suite: Option<String>,
    /// How many runs at most
    #[arg(long, value_name = "N", default_value_t = 20, requires = "runs")]
    pub(crate) limit: u32,
}

/// Options of `bench init`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety bench init suites/greeter && satiety bench run suites/greeter")]
pub(crate) struct BenchInitArgs {
    /// The folder to write; it must not have a suite yet
    pub(crate) folder: PathBuf,
}

/// Options of `bench import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench import promptfooconfig.yaml --output suites/support
  satiety bench import logs/2026-08-01_arithmetic.eval
  satiety bench import log.json --scorer match --threshold 0.5

A promptfoo configuration becomes a suite. An assertion that cannot be carried out here makes its case skipped, with the
reason; nothing passes because it was not understood. A log of Inspect becomes a run in the store, for compare and report.")]
pub(crate) struct BenchImportArgs {
    /// promptfooconfig.yaml or .json, or a log of Inspect: .eval or .json
    pub(crate) file: PathBuf,
    /// The folder to write a suite to; it must not have one yet
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// The suite's id [default: the folder's name]
    #[arg(long, value_name = "ID")]
    pub(crate) suite_id: Option<String>,
    /// The scorer of a log that decides [default: the first by name]
    #[arg(long, value_name = "NAME")]
    pub(crate) scorer: Option<String>,
    /// From which value of the scorer on a sample passes
    #[arg(long, value_name = "VALUE", default_value_t = 1.0)]
    pub(crate) threshold: f64,
}

/// Options of `bench label`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench label latest
  satiety bench label latest:planner --all --calibrate
  satiety bench label RUN --file labels.jsonl

For each answer: p for pass, f for fail, s to skip, q to end. Every label is kept at once. A line of --file is
{\"case_id\": \"…\", \"repeat\": 0, \"variant\": \"…\", \"pass\": true}. A label settles what waits for a person, stands in for a
judge that was not asked, and overrules neither a check nor a judge: it is kept beside them.")]
pub(crate) struct BenchLabelArgs {
    /// The run: an id, `latest`, or `latest:SUITE`
    pub(crate) run: String,
    /// Also what is decided already, to hold judges against people
    #[arg(long)]
    pub(crate) all: bool,
    /// Labels from a file instead
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub(crate) file: Option<PathBuf>,
    /// The suite, where the run does not know it [default: as it was run]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) suite: Option<PathBuf>,
    /// Say how far the judge agrees with people; without --all and --file, only that
    #[arg(long)]
    pub(crate) calibrate: bool,
}

/// Options of `bench from-failure`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety bench from-failure failed-request.json --suite suites/planner

The record is a JSON object with what was asked (`goal`, `prompt`, `input`, `query` or `messages`). Where it has `expected`,
that is what counts; otherwise a person decides until somebody writes it down. Personal data is taken out.")]
pub(crate) struct BenchFromFailureArgs {
    /// The failed record
    pub(crate) record: PathBuf,
    /// The suite that gets the case
    #[arg(long, value_name = "FOLDER")]
    pub(crate) suite: PathBuf,
}

/// Options of `bench scrub`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety bench scrub sessions/*.jsonl --output organic.jsonl --i-have-consent

Lines are {\"goal\": \"…\", \"outcome\": …}. E-mail addresses, phone numbers, keys and tokens, names of home folders, internet
addresses and card numbers become placeholders. Rules find shapes, not names: let a person look before you share it.")]
pub(crate) struct BenchScrubArgs {
    /// Records of real sessions, one JSON object a line
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Where the scrubbed records go
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The people whose sessions these are have agreed
    #[arg(long)]
    pub(crate) i_have_consent: bool,
}
