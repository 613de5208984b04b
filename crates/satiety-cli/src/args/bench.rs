//! Arguments of `satiety bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use satiety::bench::ColumnChoice;

/// Subcommands of `bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Run benchmark suites against a target, storing each result as it arrives
    Run(Box<BenchRunArgs>),
    /// Cancel a distributed run, keeping the results so far
    #[command(after_help = "Example:
  satiety bench cancel RUN")]
    Cancel {
        /// Id of the run
        run: String,
    },
    /// Compare two runs: pass, regression or inconclusive
    Compare(BenchCompareArgs),
    /// Accept a run as the baseline of its suite
    Baseline(BenchBaselineArgs),
    /// Compare variants of a target with a control, case by case
    Ablation(BenchAblationArgs),
    /// Show a run's metrics and failures, or export a report
    Report(BenchReportArgs),
    /// Validate suites and report every problem with file and field
    Check(BenchCheckArgs),
    /// List suites below a directory, or runs in the store
    List(BenchListArgs),
    /// Create a small working suite
    Init(BenchInitArgs),
    /// Import a promptfoo configuration as a suite, or results of other tools as a run
    Import(BenchImportArgs),
    /// Export a run as CSV, Parquet, `JUnit` XML or an Inspect log
    Export(BenchExportArgs),
    /// Label answers that need a human verdict
    Label(BenchLabelArgs),
    /// Create a regression case from a failed production record
    FromFailure(BenchFromFailureArgs),
    /// Remove personal data from recorded sessions
    Scrub(BenchScrubArgs),
}

/// Options of `bench run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench run suites/planner
  satiety bench run suites/planner --target exec:./agent --repeats 5 --gate --markdown pr.md --junit junit.xml
  satiety bench run suites/planner --until-decided --max-cost 2 --on-inconclusive fail
  satiety bench run --all suites --target target.toml --resume
  satiety bench run skills/shell --without-skill --judge ollama:llama3.2
  satiety bench run suites/planner --distributed     # cases are run by every `satiety worker` on the same store

A suite is a directory with suite.json, .yaml or .toml and cases/, or a skill with benchmarks/ or evals/evals.json. A target
is a file (type = \"exec\", command = \"…\"), or echo, exec:COMMAND, worker:COMMAND, chat:MODEL, http://…; without --target,
target.toml next to the suite is used.

With --gate: exit 0 pass, 1 regression, 3 inconclusive. Ctrl-C keeps finished results; --resume continues from there.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent command-line flag"
)]
pub(crate) struct BenchRunArgs {
    /// Suite files or directories
    #[arg(required_unless_present = "all")]
    pub(crate) suites: Vec<PathBuf>,
    /// Run every suite below this directory
    #[arg(long, value_name = "DIR", conflicts_with = "suites")]
    pub(crate) all: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) how: BenchHowArgs,
    /// Target to run: a file, or echo, exec:COMMAND, worker:COMMAND, chat:MODEL, http://…
    #[arg(long, short, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Repeats per case [default: the suite's setting, or 1]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: Option<u32>,
    /// Run only cases with this tag; repeatable
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Run only the cases that did not pass in this run: an id, or `latest`
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    pub(crate) failed_in: Option<String>,
    /// Resume the suite's last unfinished run, or the given one
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest")]
    pub(crate) resume: Option<String>,
    /// Compare the run with the suite's baseline and set the exit code
    #[arg(long)]
    pub(crate) gate: bool,
    #[command(flatten)]
    pub(crate) policy: GatePolicyArgs,
    /// What to do when the gate cannot decide
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnInconclusive::Report)]
    pub(crate) on_inconclusive: OnInconclusive,
    /// Stop as soon as a sequential test finds a regression from the baseline
    #[arg(long)]
    pub(crate) sequential: bool,
    #[command(flatten)]
    pub(crate) until_decided: UntilDecidedArgs,
    /// Also run a skill's cases without the skill
    #[arg(long)]
    pub(crate) without_skill: bool,
    /// Queue the cases for workers on the same store and wait; Ctrl-C stops waiting, not the run
    #[arg(long)]
    pub(crate) distributed: bool,
    /// Print the run's id and exit; the last worker finalizes and reports the run
    #[arg(long, requires = "distributed")]
    pub(crate) detach: bool,
    /// Share of the workers next to other runs: high gets four cases for each of a normal run [default: normal]
    #[arg(long, value_name = "PRIORITY", value_enum, requires = "distributed")]
    pub(crate) priority: Option<PriorityChoice>,
    /// Directory shared with the workers; suites and targets are relative to it [default: current directory]
    #[arg(long, value_name = "DIR", requires = "distributed")]
    pub(crate) root: Option<PathBuf>,
    /// Exit with 1 when the pass rate is below this share, from 0 to 1
    #[arg(long, value_name = "SHARE")]
    pub(crate) fail_under: Option<f64>,
    /// Print the differences the run could detect, without running it
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) files: ReportFiles,
}

/// Priority of a distributed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriorityChoice {
    /// One case for every four of a normal run
    Low,
    /// Equal shares
    Normal,
    /// Four cases for every case of a normal run
    High,
}

/// Options for calling targets.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent command-line flag"
)]
pub(crate) struct BenchHowArgs {
    /// Run only this case; repeatable
    #[arg(long = "case", value_name = "ID")]
    pub(crate) cases: Vec<String>,
    /// Chat model, or exec:COMMAND, that judges answers; repeat to report agreement between judges
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Vec<String>,
    /// Maximum concurrent calls
    #[arg(long, short = 'j', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: u32,
    /// Maximum requests per minute, of all workers together [default: unlimited]
    #[arg(long, value_name = "N")]
    pub(crate) rpm: Option<u32>,
    /// Maximum tokens per minute, of all workers together [default: unlimited]
    #[arg(long, value_name = "N")]
    pub(crate) tpm: Option<u64>,
    /// Retries when a service is busy or unreachable
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) retries: u32,
    /// Timeout per answer in seconds [default: the suite's setting]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// Require a sandbox for the target's processes; refuse to run without one
    #[arg(long, conflicts_with = "no_sandbox")]
    pub(crate) sandbox: bool,
    /// Run the target's processes without a sandbox; recorded in the result
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// Reuse cached model answers, separately for each repeat
    #[arg(long)]
    pub(crate) cache: bool,
    /// Seed passed to targets, varied by case and repeat
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Keep the working directories
    #[arg(long)]
    pub(crate) keep_workdirs: bool,
}

/// Repeats until the gate decides, and their budget.
#[derive(Debug, Args)]
pub(crate) struct UntilDecidedArgs {
    /// Repeat the cases until the gate decides, up to TIMES the planned repeats; implies --gate
    #[arg(
        long,
        value_name = "TIMES",
        num_args = 0..=1,
        default_missing_value = "4",
        value_parser = clap::value_parser!(u32).range(1..=100),
        conflicts_with_all = ["sequential", "without_skill", "distributed"]
    )]
    pub(crate) until_decided: Option<u32>,
    /// Also repeat the baseline, with this target
    #[arg(long, value_name = "TARGET", requires = "until_decided")]
    pub(crate) baseline_target: Option<String>,
    /// Budget of --until-decided in calls
    #[arg(long, value_name = "N", requires = "until_decided")]
    pub(crate) max_calls: Option<u64>,
    /// Budget of --until-decided in tokens
    #[arg(long, value_name = "N", requires = "until_decided")]
    pub(crate) max_tokens: Option<u64>,
    /// Budget of --until-decided in US dollars
    #[arg(long, value_name = "DOLLARS", requires = "until_decided")]
    pub(crate) max_cost: Option<f64>,
}

/// Exit code of a gate that cannot decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnInconclusive {
    /// Exit with 3
    Report,
    /// Exit with 1
    Fail,
    /// Exit with 0
    Pass,
    /// As --until-decided, then exit with 3
    Repeat,
}

/// Thresholds of the regression gate.
#[derive(Debug, Args)]
pub(crate) struct GatePolicyArgs {
    /// Significance level: probability of flagging an unchanged system
    #[arg(long, value_name = "RATE", default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// Largest drop in pass rate to tolerate, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.10)]
    pub(crate) margin: f64,
    /// Compare latencies although they were measured on another machine or in another sandbox
    #[arg(long)]
    pub(crate) latency_across_machines: bool,
    /// Accept a regression and record this reason
    #[arg(long, value_name = "REASON")]
    pub(crate) accept_regression: Option<String>,
    /// Name recorded with --accept-regression [default: $USER, or git's user.name]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Report files for other programs.
#[derive(Debug, Args)]
pub(crate) struct ReportFiles {
    /// Write `JUnit` XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write metrics in the Prometheus text format
    #[arg(long, value_name = "FILE")]
    pub(crate) prometheus: Option<PathBuf>,
    /// Write Markdown for a pull request
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write benchmark.json for the Agent Skills viewer
    #[arg(long, value_name = "FILE")]
    pub(crate) skill_json: Option<PathBuf>,
    /// Write the dashboard's pages as files that open without a server
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,
}

/// Options of `bench compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench compare suites/planner/baseline.json latest:planner
  satiety bench compare RUN1 RUN2 --format markdown
  satiety bench compare before.eval after.eval --scorer match

A run is an id, `latest`, `latest:SUITE`, or a file: a run, or results in any format that `bench import` reads.
Two files need no database, and nothing is stored. Exit 0 pass, 1 regression, 3 inconclusive.")]
pub(crate) struct BenchCompareArgs {
    /// Accepted baseline run
    pub(crate) baseline: String,
    /// Candidate run to compare with it
    pub(crate) candidate: String,
    /// Write the dashboard's pages of both runs as files that open without a server; both runs must be stored
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: GatePolicyArgs,
    #[command(flatten)]
    pub(crate) results: ResultFileArgs,
}

/// Options of `bench baseline`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench baseline latest:planner --suite suites/planner --reason \"first accepted run\"
  satiety bench baseline RUN --reason \"new model, see #12\"
  satiety bench baseline results.csv --suite-id desk --reason \"results of the old harness\"

With --suite, baseline.json is written next to the suite; commit it with the cases.")]
pub(crate) struct BenchBaselineArgs {
    /// Run: an id, `latest`, `latest:SUITE`, or a file, also one of another tool
    pub(crate) run: String,
    /// Directory of the suite
    #[arg(long, value_name = "DIR")]
    pub(crate) suite: Option<PathBuf>,
    /// Reason for accepting the run
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Name of the person who accepts it [default: $USER, or git's user.name]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Id of the suite that the results of another tool's file belong to [default: the one in the file]
    #[arg(long, value_name = "ID", conflicts_with = "suite")]
    pub(crate) suite_id: Option<String>,
    #[command(flatten)]
    pub(crate) results: ResultFileArgs,
}

/// Options of `bench ablation`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench ablation control.toml treatment.toml --suite suites/scorer --runs 5
  satiety bench ablation control.toml a.toml b.toml --all suites --tag eviction

All variants run side by side. A variant ships when a loss of at least the margin is ruled out for every metric, with a
Holm correction over all metrics. Exit 0 when all ship, 1 when one is harmful, 3 otherwise.")]
pub(crate) struct BenchAblationArgs {
    /// Targets, the control first
    #[arg(required = true, num_args = 2..)]
    pub(crate) targets: Vec<String>,
    /// Suite to run; repeatable
    #[arg(long, value_name = "SUITE", required_unless_present = "all")]
    pub(crate) suite: Vec<PathBuf>,
    /// Run every suite below this directory
    #[arg(long, value_name = "DIR", conflicts_with = "suite")]
    pub(crate) all: Option<PathBuf>,
    /// Run only cases with this tag, the component under test
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,
    /// Repeats per case and variant
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Non-inferiority margin of a metric, such as `pass=0.05` or `latency_ms=20%`; repeatable
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
  satiety bench report RUN --html report
  satiety bench report RUN --format json > run.json")]
pub(crate) struct BenchReportArgs {
    /// Run: an id, `latest`, `latest:SUITE`, or a file, also one of another tool
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) files: ReportFiles,
    #[command(flatten)]
    pub(crate) results: ResultFileArgs,
}

/// Options of `bench check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench check suites
  satiety bench check --schema > suite.schema.json")]
pub(crate) struct BenchCheckArgs {
    /// Suite, or a directory with suites below it
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
    /// Directory to search for suites
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// List runs in the store instead
    #[arg(long)]
    pub(crate) runs: bool,
    /// List only runs of this suite
    #[arg(long, value_name = "SUITE", requires = "runs")]
    pub(crate) suite: Option<String>,
    /// Maximum number of runs to list
    #[arg(long, value_name = "N", default_value_t = 20, requires = "runs")]
    pub(crate) limit: u32,
}

/// Options of `bench init`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety bench init suites/greeter && satiety bench run suites/greeter")]
pub(crate) struct BenchInitArgs {
    /// Directory to create; must not contain a suite yet
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Options of `bench import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench import promptfooconfig.yaml --output suites/support
  satiety bench import logs/2026-08-01_arithmetic.eval
  satiety bench import log.json --scorer match --threshold 0.5
  satiety bench import log.json --scorer suspicion --range 1..10 --threshold 3 --lower-is-better
  satiety bench import results.csv --map case=task_id,passed=success,score:quality=judge_score

A promptfoo configuration becomes a suite. A case with an unsupported assertion is skipped, with the
reason; it never passes by default. Results become runs in the store, for compare and report: of promptfoo, Inspect,
lm-evaluation-harness, HELM (run directory), DeepEval, pytest (--json-report, --report-log), JUnit XML, and tables (CSV,
JSON Lines, Parquet) whose columns are guessed and shown. All scorers are kept by name; one decides. Exit code 3:
something that decides was lost.")]
pub(crate) struct BenchImportArgs {
    /// File to import: promptfoo configuration, or results of another tool
    pub(crate) file: PathBuf,
    /// Directory for the imported suite; must not contain one yet
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Id of the imported suite [default: the directory's name]
    #[arg(long, value_name = "ID")]
    pub(crate) suite_id: Option<String>,
    #[command(flatten)]
    pub(crate) results: ResultFileArgs,
}

/// How to read result files of other tools.
#[derive(Debug, Args)]
#[command(next_help_heading = "Result files of other tools")]
pub(crate) struct ResultFileArgs {
    /// Scorer that decides pass or fail [default: the only one, or the task's headline]
    #[arg(long, value_name = "NAME")]
    pub(crate) scorer: Option<String>,
    /// Scorer value from which a sample passes, on the scorer's own scale [default: the best of its range]
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,
    /// Smallest and largest value of the scorer [default: 0..1, if all values lie there]
    #[arg(long, value_name = "MIN..MAX", value_parser = parse_range, allow_hyphen_values = true)]
    pub(crate) range: Option<(f64, f64)>,
    /// Let samples pass at or below the threshold
    #[arg(long)]
    pub(crate) lower_is_better: bool,
    /// Meaning of columns in CSV, JSON Lines or Parquet, such as `case=task_id,passed=success,score:quality=judge`
    #[arg(long, value_name = "ROLE=COLUMN", value_delimiter = ',')]
    pub(crate) map: Vec<ColumnChoice>,
}

/// Parses `MIN..MAX`.
fn parse_range(text: &str) -> Result<(f64, f64), String> {
    text.split_once("..")
        .and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)))
        .ok_or_else(|| "expected MIN..MAX, such as 1..10".to_owned())
}

/// Options of `bench export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench export latest results.parquet
  satiety bench export latest:planner junit.xml
  satiety bench export RUN log.json --to inspect

The extension gives the format: .csv and .parquet (one row per result), .xml (JUnit), .eval.json (log of Inspect), .json
(the run itself). A file that exists is overwritten.")]
pub(crate) struct BenchExportArgs {
    /// Run: an id, `latest`, `latest:SUITE`, or a file
    pub(crate) run: String,
    /// File to write
    pub(crate) file: PathBuf,
    /// Format of the file [default: by its extension]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: Option<ExportTo>,
}

/// Format of an exported run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportTo {
    /// One row per result, comma-separated
    Csv,
    /// One row per result, for data frames
    Parquet,
    /// Test report, one test per case
    Junit,
    /// Evaluation log of Inspect
    Inspect,
    /// The run itself
    Json,
}

/// Options of `bench label`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench label latest
  satiety bench label latest:planner --all --calibrate
  satiety bench label RUN --file labels.jsonl

For each answer: p for pass, f for fail, s to skip, q to quit. Every label is stored at once. A line of --file is
{\"case_id\": \"…\", \"repeat\": 0, \"variant\": \"…\", \"pass\": true}. A label decides answers that need a person and
replaces a judge that was not called. It never overrides a check or a judge; both are stored.")]
pub(crate) struct BenchLabelArgs {
    /// Run: an id, `latest`, or `latest:SUITE`
    pub(crate) run: String,
    /// Also label answers that are already decided, to measure agreement with judges
    #[arg(long)]
    pub(crate) all: bool,
    /// Read labels from this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub(crate) file: Option<PathBuf>,
    /// Directory of the suite, if the run does not record it
    #[arg(long, value_name = "DIR")]
    pub(crate) suite: Option<PathBuf>,
    /// Report how well the judge agrees with people; without --all and --file, do nothing else
    #[arg(long)]
    pub(crate) calibrate: bool,
}

/// Options of `bench from-failure`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety bench from-failure failed-request.json --suite suites/planner

The record is a JSON object with the request (`goal`, `prompt`, `input`, `query` or `messages`). Its `expected` field becomes
the check; without one, the case needs a human verdict until you add a check. Personal data is removed.")]
pub(crate) struct BenchFromFailureArgs {
    /// File with the failed record
    pub(crate) record: PathBuf,
    /// Directory of the suite to add the case to
    #[arg(long, value_name = "DIR")]
    pub(crate) suite: PathBuf,
}

/// Options of `bench scrub`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety bench scrub sessions/*.jsonl --output organic.jsonl --i-have-consent

Lines are {\"goal\": \"…\", \"outcome\": …}. E-mail addresses, phone numbers, keys and tokens, home directory names, IP
addresses and card numbers become placeholders. Rules match patterns, not people's names: review the output before sharing it.")]
pub(crate) struct BenchScrubArgs {
    /// Session records, one JSON object per line
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Output file for the scrubbed records
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Confirm that the people in these sessions have consented
    #[arg(long)]
    pub(crate) i_have_consent: bool,
}
