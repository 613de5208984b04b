//! Why a use case could not be carried out, sorted by whose turn it is to do something.

use satiety_store::StoreError;

/// Whose fault it is, for exit codes and HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// What was asked cannot be done as asked.
    Request,
    /// The store, the network, a model or the file system failed.
    Environment,
}

/// A use case that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file named in the request.
    #[error("cannot {action} {path}: {cause}")]
    File {
        /// What was being done: "read".
        action: &'static str,
        /// The file as the user named it.
        path: String,
        /// The system's words.
        cause: std::io::Error,
    },
}

impl EngineError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::File { .. } => None,
        }
    }

    /// Whose turn it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Store(error) if error.is_bad_input() => Fault::Request,
            Self::File {
                action: "read",
                cause,
                ..
            } if cause.kind() == std::io::ErrorKind::NotFound => Fault::Request,
            Self::Store(_) | Self::File { .. } => Fault::Environment,
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads well in map_err")]
    pub(crate) fn file(action: &'static str, path: &std::path::Path, cause: std::io::Error) -> Self {
        // Only the kind: the path is in the message already, and fs_err would say it twice.
        Self::File {
            action,
            path: path.display().to_string(),
            cause: cause.kind().into(),
        }
    }
}
