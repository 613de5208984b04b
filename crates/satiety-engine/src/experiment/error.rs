//! Errors of requests about features.

use satiety::Hint;
use satiety::experiment::{FeatureError, OverrideError};
use satiety::memory::PipelineError;
use satiety::stats::StatsError;

/// A request about a feature that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The feature definition is invalid.
    #[error(transparent)]
    Feature(#[from] FeatureError),
    /// The pipeline change does not match the pipeline.
    #[error("invalid pipeline of `{feature}`: {problem}")]
    Override { feature: String, problem: OverrideError },
    /// The changed pipeline is invalid.
    #[error("invalid pipeline of `{feature}`: {problem}")]
    Pipeline { feature: String, problem: PipelineError },
    /// A file or text that is not a feature.
    #[error("{name}: {problem}")]
    Unreadable {
        /// Path of the file, or the text from the command line.
        name: String,
        problem: String,
    },
    #[error("feature `{0}` not found")]
    NotFound(String),
    #[error("feature `{0}` already exists")]
    Exists(String),
    /// The action is not allowed in this state.
    #[error("`{feature}` cannot be {action}: it is {status}")]
    Status {
        feature: String,
        status: String,
        /// Requested action as a participle, such as `paused`.
        action: &'static str,
    },
    /// The test cannot be computed.
    #[error("cannot continue the test of `{feature}`: {problem}")]
    Test { feature: String, problem: StatsError },
    /// The stored test cannot be parsed.
    #[error("cannot parse the stored test of `{feature}`: {problem}")]
    State {
        feature: String,
        problem: serde_json::Error,
    },
    /// Concurrent changes of the same test kept conflicting.
    #[error("too many concurrent changes to the test of `{0}`")]
    Contended(String),
}

impl ExperimentError {
    /// Suggested action.
    pub fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotFound(_) => Hint::with_command("list the features", "satiety ab list"),
            Self::Exists(name) => {
                format!("choose another name, such as `{name}-2`; records are permanent").into()
            }
            Self::Override { .. } | Self::Pipeline { .. } => {
                "docs/guides/memory.md lists the search parameters with their defaults".into()
            }
            Self::Feature(_) | Self::Unreadable { .. } => {
                "see docs/guides/experiments.md for the fields of a feature".into()
            }
            Self::Status { .. } => Hint::with_command("read its state", "satiety ab status NAME"),
            Self::Contended(_) => "nothing was lost; retry".into(),
            Self::Test { .. } | Self::State { .. } => {
                "reject the feature and start it again under another name".into()
            }
        })
    }
}
