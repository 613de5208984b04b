//! Context of an operation call: the caller and the paths that it may access.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use satiety::Hint;
use satiety::dialogue::Signal;
use satiety::harness::Driver;
use satiety::memory::Author;

use crate::Engine;
use crate::conversations::AppendedRounds;
use crate::memory::MemorySearch;
use crate::root_path::{self, OutsideRoot};
use crate::tokens::Scope;

/// Paths that a call may access.
#[derive(Debug, Clone, Default)]
pub enum Reach {
    /// Any path: the caller is on this machine.
    #[default]
    Machine,
    /// Only paths below this directory; `None` denies all paths.
    Below(Option<PathBuf>),
}

/// Eval harness from the settings.
#[derive(Debug, Clone, Default)]
pub struct HarnessSettings {
    pub folder: PathBuf,
    /// Score that the adaptive window follows.
    pub driver: Driver,
}

/// Observes results of operations, for metrics and live pages.
pub trait Observer: Send + Sync {
    /// Called after a memory search was answered.
    fn searched(&self, _search: &MemorySearch) {}
    /// Called after rounds were added to a stored conversation.
    fn appended(&self, _appended: &AppendedRounds) {}
    /// Called after a conversation was scored.
    fn decided(&self, _signal: Signal) {}
}

/// Context of a single call.
#[derive(Clone)]
pub struct Call {
    pub engine: Arc<Engine>,
    /// Highest scope that the caller has.
    pub scope: Scope,
    /// Caller identity, for decisions that are reserved for a person.
    pub author: Author,
    pub reach: Reach,
    /// Harness to use when a request names none.
    pub harness: HarnessSettings,
    /// Host of the operation, such as the server, for operations that the host adds.
    pub host: Option<Arc<dyn Any + Send + Sync>>,
    pub observer: Option<Arc<dyn Observer>>,
}

impl Call {
    /// Resolves a path from a request: unchanged for a local caller, otherwise below the root.
    pub(super) fn path(&self, named: &Path) -> Result<PathBuf, CallError> {
        match &self.reach {
            Reach::Machine => Ok(named.to_path_buf()),
            Reach::Below(None) => Err(CallError::NoRoot),
            Reach::Below(Some(root)) => {
                root_path::below(root, &named.to_string_lossy()).map_err(CallError::OutsideRoot)
            }
        }
    }

    /// Whether the caller may not see what the cases of a suite expect: the suite belongs to the locked harness, and the
    /// caller has no admin token, so that it may be the evaluated agent.
    pub fn hides_expectations(&self, suite_id: &str) -> bool {
        self.scope < Scope::Admin && crate::harness::is_locked_suite(&self.harness.folder, suite_id)
    }

    /// Whether the caller may be on another machine.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self.reach, Reach::Below(_))
    }
}

/// Call that is invalid or cannot be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// A field that is missing, unknown, of the wrong type or out of range.
    #[error("{message}")]
    Invalid {
        /// Path of the field, such as `rounds[1].agent`; `.` for the whole request.
        place: String,
        message: String,
    },
    /// A request named a path, but the server has no root directory.
    #[error("file access is disabled on this server")]
    NoRoot,
    #[error("{}", outside_root_message(.0))]
    OutsideRoot(OutsideRoot),
    /// Error of an operation that the host added.
    #[error("{0}")]
    Host(Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot write the response: {0}")]
    Response(serde_json::Error),
}

fn outside_root_message(error: &OutsideRoot) -> String {
    match error {
        OutsideRoot::Outside(named) => format!("path `{named}` is outside the server's root"),
        OutsideRoot::Missing(named) => format!("path `{named}` not found"),
        OutsideRoot::Root(_) => error.to_string(),
    }
}

impl CallError {
    pub(crate) fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoRoot => Some(Hint::with_command(
                "start the server with a root directory to allow access to paths below it",
                "satiety serve --root DIR",
            )),
            Self::OutsideRoot(OutsideRoot::Outside(_)) => {
                Some("use a path relative to the root, without `..`".into())
            }
            _ => None,
        }
    }
}
