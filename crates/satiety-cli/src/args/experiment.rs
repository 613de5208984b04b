//! Arguments of `satiety ab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Subcommands of `ab`.
#[derive(Debug, Subcommand)]
pub(crate) enum Ab {
    /// Start an experiment with a changed search pipeline
    Start(AbStartArgs),
    /// Propose channel weights that suit the judged queries, and start them as a feature with --start
    #[command(after_help = "Examples:
  satiety retrieval judge --from-feedback
  satiety ab propose
  satiety ab propose --start learnt-weights

Searches all judged queries with seven ratios of lexical to vector weight. The gain is cross-validated: measured on queries that
were not used to choose the weights. A started feature gets no sessions; shadow runs, the test and the checklist decide about it.
Exits with 0 when weights are proposed, 1 when none are better, 3 when fewer than 30 queries are judged.")]
    Propose {
        /// Start the proposed weights as a feature of this name
        #[arg(long, value_name = "NAME")]
        start: Option<String>,
    },
    /// Show the test, shadow runs and checklist of a feature
    #[command(after_help = "Example:
  satiety ab status rrf

Exits with 0 when the checklist allows graduation, 1 when it refuses, 3 when it is inconclusive.")]
    Status {
        /// Name of the feature
        feature: String,
    },
    /// List all features and the active pipeline
    #[command(after_help = "Example:\n  satiety ab list --format json")]
    List,
    /// Set the percentage of sessions and of shadow queries
    #[command(
        after_help = "Example:\n  satiety ab rollout rrf --percent 20\n\nRaising the percentage never removes a session."
    )]
    Rollout {
        /// Name of the feature
        feature: String,
        /// Percentage of sessions that get the feature
        #[arg(long, value_name = "PERCENT")]
        percent: Option<f64>,
        /// Percentage of queries that run in the shadow
        #[arg(long, value_name = "PERCENT")]
        shadow: Option<f64>,
    },
    /// Pause assignment and comparison until resumed
    #[command(after_help = "Example:\n  satiety ab pause rrf --reason \"release week\"")]
    Pause(AbNamed),
    /// Resume a paused experiment
    #[command(after_help = "Example:\n  satiety ab resume rrf")]
    Resume(AbNamed),
    /// Measure both pipelines on the stored corpus and run the checklist
    #[command(after_help = "Example:
  satiety ab check rrf

Exits with 0 when the checklist allows graduation, 1 when it refuses, 3 when it is inconclusive.")]
    Check {
        /// Name of the feature
        feature: String,
    },
    /// Make a feature the default for all searches, if the whole checklist passes
    #[command(after_help = "Example:
  satiety ab graduate rrf

The checklist is measured at this moment: improvement on the corpus, the sequential test, the number of samples, the graduation
threshold, no loss of constitutional memories, p95 below +20 %, working shadow runs. It cannot be skipped.
Exits with 0 when it graduated, 1 when a condition fails, 3 when one is inconclusive.")]
    Graduate(AbNamed),
    /// End an experiment permanently and revert the feature if it graduated
    #[command(after_help = "Example:\n  satiety ab reject rrf --reason \"slower on the big store\"")]
    Reject(AbNamed),
    /// Revert a graduated feature; its data is kept and it can be resumed
    #[command(after_help = "Example:\n  satiety ab rollback rrf")]
    Rollback(AbNamed),
}

/// Arguments of the commands that take a feature and a reason.
#[derive(Debug, Args)]
pub(crate) struct AbNamed {
    /// Name of the feature
    pub(crate) feature: String,
    /// Reason recorded in the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// Options of `ab start`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety ab start rrf --pipeline '{\"fusion\": {\"reciprocal_rank\": {\"k\": 60}}}'
  satiety ab start no-graph --pipeline no-graph.toml --rollout 10 --shadow 100 --description \"links off\"
  satiety ab start --file feature.toml

The pipeline contains only the differences from the active one; docs/concepts/memory-search.md lists the settings. No session gets the change
without --rollout; 10 % of queries also run with the new pipeline, asynchronously.")]
pub(crate) struct AbStartArgs {
    /// Name of the feature: letters, digits, `.`, `_` and `-`
    #[arg(required_unless_present = "file")]
    pub(crate) feature: Option<String>,
    /// Differences from the active pipeline: JSON, or the path of a TOML or JSON file
    #[arg(long, value_name = "FILE|JSON", required_unless_present = "file")]
    pub(crate) pipeline: Option<String>,
    /// Read the whole feature from a TOML or JSON file instead of flags
    #[arg(long, value_name = "FILE", conflicts_with_all = ["feature", "pipeline", "description", "rollout", "shadow", "min_samples", "threshold", "test", "alpha", "beta", "effect"])]
    pub(crate) file: Option<PathBuf>,
    /// Description shown in lists
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Percentage of sessions that get the feature
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) rollout: f64,
    /// Percentage of queries that run in the shadow; 0 disables shadow runs
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub(crate) shadow: f64,
    /// Minimum number of compared queries before a decision
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) min_samples: u64,
    /// Minimum improvement of the reciprocal rank
    #[arg(long, value_name = "DELTA", default_value_t = 0.03)]
    pub(crate) threshold: f64,
    /// Sequential test that decides
    #[arg(long, value_enum, default_value_t = AbTest::Betting)]
    pub(crate) test: AbTest,
    /// Probability of a wrong decision, valid at any number of interim analyses
    #[arg(long, default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// `sprt`: probability of missing the effect
    #[arg(long, default_value_t = 0.2)]
    pub(crate) beta: f64,
    /// `sprt`: effect size to detect
    #[arg(long, default_value_t = 0.05)]
    pub(crate) effect: f64,
}

/// Available sequential tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AbTest {
    /// Anytime-valid e-process for bounded differences.
    Betting,
    /// Wald's test for normal differences.
    Sprt,
}
