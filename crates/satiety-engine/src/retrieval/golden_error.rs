//! Errors of requests about golden data or replays.

use satiety::Hint;

/// A request about golden data that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoldenError {
    #[error("the evaluation corpus has no queries")]
    EmptyCorpus,
    /// The grade is out of range.
    #[error("invalid grade {0} (expected 0, 1, 2 or 3)")]
    Grade(i32),
    /// The annotator's name is empty.
    #[error("missing annotator name")]
    NoAnnotator,
    #[error("{what} must be from {least} to {most}, got {value}")]
    OutOfRange {
        what: &'static str,
        least: f64,
        most: f64,
        value: f64,
    },
    /// The threshold for near duplicates is out of range.
    #[error(transparent)]
    Threshold(#[from] satiety::text::ThresholdError),
    #[error("query `{0}` is not in the evaluation corpus")]
    NoQuery(String),
    #[error("run `{0}` not found, or it has no answers")]
    NoRun(String),
    #[error("run `{0}` is already complete")]
    RunEnded(String),
    /// The run was started with a different system.
    #[error("cannot resume run `{run}`: the system has changed from {before} to {now}")]
    OtherSystem {
        run: String,
        before: String,
        now: String,
    },
    /// A template or a command cannot be parsed.
    #[error("{what}: {reason}")]
    Template {
        /// Option that has the text.
        what: &'static str,
        reason: String,
    },
    /// The preset is unknown.
    #[error("unknown preset `{name}` (expected one of: {known})")]
    NoPreset { name: String, known: String },
    /// Every query failed.
    #[error("all {queries} queries failed; first error: {first}")]
    AllFailed { queries: usize, first: String },
    /// The runs have no judged query in common.
    #[error("runs `{run}` and `{baseline}` are not comparable: no judged query in common")]
    NothingInCommon { run: String, baseline: String },
}

impl GoldenError {
    /// Suggested action.
    pub fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::EmptyCorpus => Hint::with_command(
                "import queries, or harvest them from the query log",
                "satiety retrieval harvest",
            ),
            Self::Grade(_) => "0 not relevant, 1 marginal, 2 relevant, 3 highly relevant".into(),
            Self::NoAnnotator => Hint::with_command("give the name of the annotator", "--annotator NAME"),
            Self::NoRun(_) | Self::RunEnded(_) => {
                Hint::with_command("list the runs to see their ids", "satiety retrieval runs")
            }
            Self::OtherSystem { .. } => "start a new run instead".into(),
            Self::AllFailed { .. } => "nothing was measured; try one of the queries manually".into(),
            Self::Template { .. } => Hint::with_command("see the examples", "satiety retrieval run --help"),
            Self::NothingInCommon { .. } => "compare runs over the same corpus".into(),
            Self::OutOfRange { .. } | Self::Threshold(_) | Self::NoQuery(_) | Self::NoPreset { .. } => {
                return None;
            }
        })
    }
}

/// Checks that a share is from 0 to 1.
pub(super) fn share(what: &'static str, value: f64) -> Result<(), GoldenError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(GoldenError::OutOfRange {
        what,
        least: 0.0,
        most: 1.0,
        value,
    })
}
