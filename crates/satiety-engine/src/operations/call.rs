//! Who calls an operation, and what the call may reach.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use satiety::dialogue::Signal;
use satiety::harness::Driver;
use satiety::memory::Author;

use crate::Engine;
use crate::conversations::AppendedRounds;
use crate::memory::MemorySearch;
use crate::root_path::{self, OutsideRoot};

/// What calls may name on this machine.
#[derive(Debug, Clone, Default)]
pub enum Reach {
    /// Any path: the caller is on this machine.
    #[default]
    Machine,
    /// Only paths below this directory; none at all without it.
    Below(Option<PathBuf>),
}

/// The eval harness of the settings.
#[derive(Debug, Clone, Default)]
pub struct HarnessSettings {
    /// Its directory.
    pub folder: PathBuf,
    /// Which score its window follows.
    pub driver: Driver,
}

/// Learns what operations did, for metrics and live pages.
pub trait Observer: Send + Sync {
    /// A search of the memory was answered.
    fn searched(&self, _search: &MemorySearch) {}
    /// Rounds were added to a stored conversation.
    fn appended(&self, _appended: &AppendedRounds) {}
    /// A conversation was scored.
    fn decided(&self, _signal: Signal) {}
}

/// One call.
#[derive(Clone)]
pub struct Call {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Who calls, for what only a person may decide.
    pub author: Author,
    /// What the call may name.
    pub reach: Reach,
    /// The eval harness, where a request names none.
    pub harness: HarnessSettings,
    /// What runs the operation, for operations of its own.
    pub host: Option<Arc<dyn Any + Send + Sync>>,
    /// Who is told about results.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Call {
    /// A path that a request names: as it is for a local caller, otherwise below the root.
    pub(super) fn path(&self, named: &Path) -> Result<PathBuf, CallError> {
        match &self.reach {
            Reach::Machine => Ok(named.to_path_buf()),
            Reach::Below(None) => Err(CallError::NoRoot),
            Reach::Below(Some(root)) => {
                root_path::below(root, &named.to_string_lossy()).map_err(CallError::OutsideRoot)
            }
        }
    }

    /// Whether the caller need not be on this machine.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self.reach, Reach::Below(_))
    }
}

/// A call that cannot be carried out as it was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// A field that is missing, unknown, of the wrong type or out of bounds.
    #[error("{message}")]
    Invalid {
        /// The field, such as `rounds[1].agent`; `.` for the request as a whole.
        place: String,
        /// What is wrong with it.
        message: String,
    },
    /// A path was named, and the server has no root.
    #[error("this server lets nobody name files")]
    NoRoot,
    /// A path that is not below the root.
    #[error("{}", outside(.0))]
    OutsideRoot(OutsideRoot),
    /// What an operation of the host reports.
    #[error("{0}")]
    Host(Box<dyn std::error::Error + Send + Sync>),
    /// A response that cannot be written as JSON.
    #[error("cannot write the response: {0}")]
    Response(serde_json::Error),
}

fn outside(error: &OutsideRoot) -> String {
    match error {
        OutsideRoot::Outside(named) => format!("`{named}` is not a place below the server's root"),
        OutsideRoot::Missing(named) => format!("there is nothing at `{named}`"),
        OutsideRoot::Root(_) => error.to_string(),
    }
}

impl CallError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NoRoot => {
                Some("start it with `--root FOLDER` to let requests name what is below it".into())
            }
            Self::OutsideRoot(OutsideRoot::Outside(_)) => {
                Some("name it relative to the root, without `..`".into())
            }
            _ => None,
        }
    }
}
