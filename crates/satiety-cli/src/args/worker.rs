//! Arguments of `satiety worker`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `worker`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  satiety --db postgres://me@db/satiety worker --root ~/agents -j 8
  satiety --db postgres://me@db/satiety bench run suites/planner --distributed     # elsewhere, in a checkout of the same repository
  satiety worker --once --run RUN --max-cases 100                                  # in a job of Slurm, Kubernetes or GitHub
  satiety worker status                                                            # waiting cases, runs and workers

Runs cases queued by `bench run --distributed` and stores each result exactly once. A
run is skipped when its suite or target differs from the one below --root. API keys and variables are this machine's; the
limits of a run (--rpm, --tpm) apply to all workers together. Runs take turns by priority.

On Ctrl-C or SIGTERM it takes no more cases, lets those that run finish within --grace and returns the others to the queue. A second
signal returns all of them at once, a third exits immediately. If a worker is killed or sends no heartbeat for --lease, its
cases return to the queue; a case that was started five times without finishing is recorded as an error.

Exits with 0 when it was stopped or is done; with --once and --until-idle: 0 when it is done (also if no case waited), 2 if
--run does not exist or does not match the files below --root, 4 if the database or the machine fails, 130 if it was stopped before.")]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    pub(crate) command: Option<WorkerCommand>,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
}

/// Subcommands of `worker`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// Show waiting cases, queued runs and connected workers
    #[command(after_help = "Example:\n  satiety worker status --format json")]
    Status,
    /// Ask the workers with this name to finish their cases and exit
    #[command(after_help = "Example:
  satiety worker drain gpu-7

The worker notices within a few seconds; its --grace applies.")]
    Drain {
        /// Name of the worker, as `satiety worker status` shows it
        name: String,
    },
}

/// Options of a worker.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Directory with the suites: a checkout of the directory that runs are started from
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
    /// Maximum concurrent cases
    #[arg(long, short = 'j', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// Seconds without a heartbeat after which a worker's cases return to the queue
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub(crate) lease: f64,
    /// Seconds that running cases may take after the first signal
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) grace: f64,
    /// Name of this worker [default: host name and process id]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Exit when no case is waiting that this worker can run
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: also wait for the cases of other workers, which may return to the queue
    #[arg(long, requires = "once")]
    pub(crate) wait: bool,
    /// Exit when no cases are left that this worker can run; the same as --once --wait
    #[arg(long, conflicts_with = "once")]
    pub(crate) until_idle: bool,
    /// Take only cases of this run
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Take at most this many cases, then exit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_cases: Option<u64>,
    /// Judge with a URL (`openai:MODEL@URL`) that runs may use with this machine's key; repeatable
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Vec<String>,
}
