//! Arguments of `satiety worker`.

use std::path::PathBuf;

use clap::Args;

/// Options of `worker`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety --db postgres://me@db/satiety worker --root ~/agents -j 8
  satiety --db postgres://me@db/satiety bench run suites/planner --distributed     # elsewhere, in a checkout of the same repository
  satiety worker --until-idle                                                      # exits when no cases are left

Runs cases queued by `bench run --distributed` and stores each result exactly once. A
run is skipped when its suite or target differs from the one below --root. API keys and variables are this machine's; the
limits of a run (--rpm, --tpm) apply per worker.

Exits on Ctrl-C or SIGTERM and returns unfinished cases to the queue. If a worker is killed or sends no heartbeat for --lease,
its cases return to the queue; a case that was started five times without finishing is recorded as an error.")]
pub(crate) struct WorkerArgs {
    /// Directory with the suites: a checkout of the directory that runs are started from
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
    /// Maximum concurrent cases
    #[arg(long, short = 'j', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// Seconds without a heartbeat after which a worker's cases return to the queue
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub(crate) lease: f64,
    /// Name of this worker [default: host name and process id]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Exit when no cases are left that this worker can run
    #[arg(long)]
    pub(crate) until_idle: bool,
    /// Judge with a URL (`openai:MODEL@URL`) that runs may use with this machine's key; repeatable
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Vec<String>,
}
