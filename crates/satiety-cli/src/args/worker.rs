//! What can be typed after `satiety worker`.

use std::path::PathBuf;

use clap::Args;

/// Options of `worker`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety --db postgres://me@db/satiety worker --root ~/agents -j 8
  satiety --db postgres://me@db/satiety bench run suites/planner --distributed     elsewhere, in a checkout of the same
  satiety worker --until-idle                                                      ends when nothing is left

Takes cases of runs that were started with `bench run --distributed` and keeps each result once, whoever else works. A
run is left to others when its suite or target is another one below --root. Keys and variables are this machine's own; the
limits of a run (--rpm, --tpm) count for each worker.

Ends on Ctrl-C or SIGTERM and gives back what is not finished. A worker that is killed, or cannot be heard for --lease, gives
its cases back that way; a case that was taken five times and never finished gets an error.")]
pub(crate) struct WorkerArgs {
    /// The folder below which suites are looked for: a checkout of what runs are started from
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) root: PathBuf,
    /// Cases at a time
    #[arg(long, short = 'j', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// Seconds after which the cases of a worker that cannot be heard go to others
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub(crate) lease: f64,
    /// What to call this worker [default: the machine's name and the process]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// End when nothing is left of the runs that this worker can take part in
    #[arg(long)]
    pub(crate) until_idle: bool,
    /// A judge with an address (`openai:MODEL@URL`) that runs may name, because it gets this machine's key; may be repeated
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Vec<String>,
}
