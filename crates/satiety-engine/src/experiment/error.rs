//! What can be wrong with a request about features.

use satiety::experiment::{FeatureError, OverrideError};
use satiety::memory::PipelineError;
use satiety::stats::StatsError;

/// A request that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A feature that makes no sense.
    #[error(transparent)]
    Feature(#[from] FeatureError),
    /// A change that does not fit the pipeline.
    #[error("the pipeline of `{feature}`: {problem}")]
    Override {
        /// The feature.
        feature: String,
        /// What does not fit.
        problem: OverrideError,
    },
    /// A change that makes no pipeline.
    #[error("the pipeline of `{feature}`: {problem}")]
    Pipeline {
        /// The feature.
        feature: String,
        /// What is wrong with it.
        problem: PipelineError,
    },
    /// A file or text that describes no feature.
    #[error("{name}: {problem}")]
    Unreadable {
        /// The file, or what was typed.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// No feature has that name.
    #[error("there is no feature `{0}`")]
    NotThere(String),
    /// A feature has that name already.
    #[error("there is a feature `{0}` already")]
    Exists(String),
    /// Something that cannot be done in this state.
    #[error("`{feature}` is {status}, so it cannot be {action}")]
    Status {
        /// The feature.
        feature: String,
        /// Its state.
        status: String,
        /// What was asked for.
        action: &'static str,
    },
    /// A test that cannot be computed.
    #[error("the test of `{feature}` cannot go on: {problem}")]
    Test {
        /// The feature.
        feature: String,
        /// Why.
        problem: StatsError,
    },
    /// A stored test that cannot be read.
    #[error("the stored test of `{feature}` cannot be read: {problem}")]
    State {
        /// The feature.
        feature: String,
        /// Why.
        problem: serde_json::Error,
    },
    /// Everybody else kept changing the same test.
    #[error("the test of `{0}` was changed by others again and again")]
    Contended(String),
}

impl ExperimentError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotThere(_) => "`satiety ab list` shows the names".into(),
            Self::Exists(name) => format!("its record stays; choose another name, such as `{name}-2`"),
            Self::Override { .. } | Self::Pipeline { .. } => {
                "docs/memory.md lists the knobs of a search with their defaults".into()
            }
            Self::Feature(_) | Self::Unreadable { .. } => "docs/ab.md shows what a feature may say".into(),
            Self::Status { .. } => "`satiety ab status NAME` shows where it stands".into(),
            Self::Contended(_) => "nothing was lost; try again".into(),
            Self::Test { .. } | Self::State { .. } => {
                "reject the feature and start it again under another name".into()
            }
        })
    }
}
