//! What can be wrong with a request to the memory.

use satiety::memory::{DraftError, MarkdownError, PipelineError};

use crate::Fault;

/// A request that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// What should be kept is no memory.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// A file that is no memory.
    #[error("{file}: {problem}")]
    Markdown {
        /// The file as it was named.
        file: String,
        /// What is wrong with it.
        problem: MarkdownError,
    },
    /// No memory has that id.
    #[error("there is no memory `{0}`")]
    NotThere(String),
    /// A memory linked to itself.
    #[error("`{0}` cannot be linked to itself")]
    SelfLink(String),
    /// A question that says nothing.
    #[error("the question is empty")]
    EmptyQuery,
    /// A number that is out of range.
    #[error("{what} must be {range}, and it is {value}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it is.
        value: String,
    },
    /// A pipeline that no search can follow.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// A folder that is none.
    #[error("{0} is not a folder")]
    NoFolder(String),
}

impl MemoryError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotThere(_) => "`satiety memory list` shows the ids".into(),
            Self::EmptyQuery => {
                "say what you are looking for, such as `satiety memory search \"why sqlite\"`".into()
            }
            Self::NoFolder(_) => "name a folder of Markdown files".into(),
            Self::Markdown { .. } => "docs/memory.md shows what a front matter may say".into(),
            Self::Pipeline(_) => "docs/memory.md lists the knobs of a search with their defaults".into(),
            Self::Draft(_) | Self::SelfLink(_) | Self::OutOfRange { .. } => {
                "nothing was changed; `satiety memory --help` shows what is understood".into()
            }
        })
    }

    /// Always the request's.
    pub fn fault(&self) -> Fault {
        Fault::Request
    }
}
