//! What can be typed after `satiety ab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Commands about changes of the memory's search.
#[derive(Debug, Subcommand)]
pub(crate) enum Ab {
    /// Start trying a change
    Start(AbStartArgs),
    /// Where a feature stands: test, shadow runs, checklist
    #[command(after_help = "Example:
  satiety ab status rrf

Exits with 0 when the checklist allows graduation, 1 when it refuses, 3 when something is not known yet.")]
    Status {
        /// Which feature
        feature: String,
    },
    /// All features, and the pipeline that answers
    #[command(after_help = "Example:\n  satiety ab list --format json")]
    List,
    /// Change who gets a feature for real, and how many queries are run in the shadow
    #[command(
        after_help = "Example:\n  satiety ab rollout rrf --percent 20\n\nRaising the percentage never takes anybody out."
    )]
    Rollout {
        /// Which feature
        feature: String,
        /// Percent of sessions that get it
        #[arg(long, value_name = "PERCENT")]
        percent: Option<f64>,
        /// Percent of queries that are run in the shadow
        #[arg(long, value_name = "PERCENT")]
        shadow: Option<f64>,
    },
    /// Stop dealing and comparing, until it is resumed
    #[command(after_help = "Example:\n  satiety ab pause rrf --reason \"release week\"")]
    Pause(AbNamed),
    /// Go on where the test stood
    #[command(after_help = "Example:\n  satiety ab resume rrf")]
    Resume(AbNamed),
    /// Measure both pipelines on the stored corpus, and go through the checklist
    #[command(after_help = "Example:
  satiety ab check rrf

Exits with 0 when the checklist allows graduation, 1 when it refuses, 3 when something is not known yet.")]
    Check {
        /// Which feature
        feature: String,
    },
    /// Make a feature the default of all searches, if the whole checklist allows it
    #[command(after_help = "Example:
  satiety ab graduate rrf

The checklist is measured now: improvement on the corpus, the sequential test, the number of samples, the graduation
threshold, no loss of constitutional memories, p95 below +20 %, shadow runs that answer. There is no way around it.
Exits with 0 when it graduated, 1 when a condition fails, 3 when one cannot be told yet.")]
    Graduate(AbNamed),
    /// End a feature for good; one that had graduated is taken back
    #[command(after_help = "Example:\n  satiety ab reject rrf --reason \"slower on the big store\"")]
    Reject(AbNamed),
    /// Take back a feature that had graduated; its record stays and it can be resumed
    #[command(after_help = "Example:\n  satiety ab rollback rrf")]
    Rollback(AbNamed),
}

/// A feature, and why.
#[derive(Debug, Args)]
pub(crate) struct AbNamed {
    /// Which feature
    pub(crate) feature: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// Options of `ab start`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety ab start rrf --pipeline '{\"fusion\": {\"reciprocal_rank\": {\"k\": 60}}}'
  satiety ab start no-graph --pipeline no-graph.toml --rollout 10 --shadow 100 --description \"links off\"
  satiety ab start --file feature.toml

The pipeline names only what differs from the one in force; docs/memory.md lists the knobs. Nobody gets the change
unless --rollout says so; a tenth of the queries is run with both pipelines behind the asker's back.")]
pub(crate) struct AbStartArgs {
    /// Its name: letters, digits, `.`, `_` and `-`
    #[arg(required_unless_present = "file")]
    pub(crate) feature: Option<String>,
    /// What differs: JSON, or the path of a TOML or JSON file
    #[arg(long, value_name = "FILE|JSON", required_unless_present = "file")]
    pub(crate) pipeline: Option<String>,
    /// The whole feature from a TOML or JSON file, instead of everything else here
    #[arg(long, value_name = "FILE", conflicts_with_all = ["feature", "pipeline", "description", "rollout", "shadow", "min_samples", "threshold", "test", "alpha", "beta", "effect"])]
    pub(crate) file: Option<PathBuf>,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Percent of sessions that get it for real
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) rollout: f64,
    /// Percent of queries that are run in the shadow; 0 turns it off
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub(crate) shadow: f64,
    /// No decision before so many compared queries
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) min_samples: u64,
    /// The improvement of the reciprocal rank that is asked for
    #[arg(long, value_name = "DELTA", default_value_t = 0.03)]
    pub(crate) threshold: f64,
    /// Which sequential test decides
    #[arg(long, value_enum, default_value_t = AbTest::Betting)]
    pub(crate) test: AbTest,
    /// The probability of a wrong decision, however often one looks
    #[arg(long, default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// `sprt`: the probability of missing the effect
    #[arg(long, default_value_t = 0.2)]
    pub(crate) beta: f64,
    /// `sprt`: the effect that it looks for
    #[arg(long, default_value_t = 0.05)]
    pub(crate) effect: f64,
}

/// A sequential test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AbTest {
    /// An anytime-valid e-process for bounded differences.
    Betting,
    /// Wald's test for normal differences.
    Sprt,
}
