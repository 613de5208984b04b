//! What can be wrong with a request about golden data or a replay.

/// A request that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoldenError {
    /// The corpus is empty.
    #[error("the evaluation corpus has no queries")]
    EmptyCorpus,
    /// A grade that is none.
    #[error("a grade is 0, 1, 2 or 3, and not {0}")]
    Grade(i32),
    /// Somebody without a name.
    #[error("an annotator needs a name")]
    NoAnnotator,
    /// A number that is out of range.
    #[error("{what} must be from {least} to {most}, and it is {value}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// The least it may be.
        least: f64,
        /// The most.
        most: f64,
        /// What it is.
        value: f64,
    },
    /// A share of common words that is none.
    #[error(transparent)]
    Threshold(#[from] satiety::text::ThresholdError),
    /// A query that is not in the corpus.
    #[error("query `{0}` is not in the evaluation corpus")]
    NoQuery(String),
    /// No run has that id.
    #[error("there is no run `{0}` with answers")]
    NoRun(String),
    /// A run that was measured already.
    #[error("run `{0}` has ended already")]
    RunEnded(String),
    /// A run of another system.
    #[error("run `{run}` asked {before}, and now it would ask {now}")]
    OtherSystem {
        /// The run.
        run: String,
        /// What it asked.
        before: String,
        /// What it would ask.
        now: String,
    },
    /// A template or a command that cannot be read.
    #[error("{what}: {reason}")]
    Template {
        /// What was typed, by its option.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A server that nobody knows by that name.
    #[error("no memory server is known as `{name}`; known are {known}")]
    NoPreset {
        /// What was asked for.
        name: String,
        /// Those that are.
        known: String,
    },
    /// No query could be answered.
    #[error("none of {queries} queries was answered; the first error: {first}")]
    AllFailed {
        /// How many.
        queries: usize,
        /// What the first one met.
        first: String,
    },
    /// Runs that answered no judged query in common.
    #[error("runs `{run}` and `{baseline}` answered no judged query in common")]
    NothingInCommon {
        /// The run.
        run: String,
        /// The other one.
        baseline: String,
    },
}

impl GoldenError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::EmptyCorpus => {
                "`satiety retrieval harvest` takes queries from the log, `satiety retrieval import FILE` from a file".into()
            }
            Self::Grade(_) => "0 not relevant, 1 marginal, 2 relevant, 3 highly relevant".into(),
            Self::NoAnnotator => "name one with --annotator".into(),
            Self::NoRun(_) | Self::RunEnded(_) => "`satiety retrieval runs` lists them".into(),
            Self::OtherSystem { .. } => "start a new run without --resume".into(),
            Self::AllFailed { .. } => {
                "nothing was measured; ask the system by hand with one of the queries".into()
            }
            Self::Template { .. } => "`satiety retrieval run --help` has examples".into(),
            Self::NothingInCommon { .. } => "compare runs over the same corpus".into(),
            Self::OutOfRange { .. } | Self::Threshold(_) | Self::NoQuery(_) | Self::NoPreset { .. } => return None,
        })
    }
}

/// A share that means something.
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
