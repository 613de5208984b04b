//! Errors of memory requests.

use satiety::Hint;
use satiety::memory::{DraftError, NeedsPerson, PipelineError, ProjectError};

/// A memory request that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The memory to save is invalid.
    #[error(transparent)]
    Draft(#[from] DraftError),
    #[error("memory `{0}` not found")]
    NotFound(String),
    /// The memory belongs to a project outside the request's scope.
    #[error("memory `{id}` belongs to project `{project}`")]
    OtherProject { id: String, project: String },
    /// The action requires a person.
    #[error(transparent)]
    NeedsPerson(#[from] NeedsPerson),
    /// The project name is invalid.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// A memory cannot be saved to all projects at once.
    #[error("a memory belongs to one project, or to all of them as `global`")]
    NotOneProject,
    #[error("{what} too long: {bytes} bytes (limit {most})")]
    TooLong {
        what: &'static str,
        bytes: usize,
        most: usize,
    },
    /// The memory repeats an existing one, and the request rejects that.
    #[error("memory `{id}` ({title}) is {kind}")]
    Duplicate {
        id: String,
        title: String,
        kind: &'static str,
    },
    #[error("cannot link memory `{0}` to itself")]
    SelfLink(String),
    #[error("empty query")]
    EmptyQuery,
    /// The phrase to unlearn was never learned.
    #[error("memory `{id}` has no learned phrase `{phrase}`")]
    NotLearnt { id: String, phrase: String },
    #[error("{what} must be {range}, got {value}")]
    OutOfRange {
        what: &'static str,
        range: &'static str,
        value: String,
    },
    /// The search pipeline is invalid.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    #[error("task `{0}` not found")]
    NoTask(String),
    /// The task was already closed.
    #[error("task `{0}` is closed")]
    TaskClosed(String),
    /// The session has no open task.
    #[error("no open task in session `{0}`")]
    NoOpenTask(String),
    /// The request names neither a task nor a session.
    #[error("missing task or session")]
    WhichTask,
    #[error("session `{0}` not found")]
    NoSession(String),
    #[error("{0} is not a directory")]
    NoFolder(String),
}

impl MemoryError {
    /// Suggested action.
    pub fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotFound(_) => {
                Hint::with_command("list the memories to see their ids", "satiety memory list")
            }
            Self::OtherProject { .. } => Hint::with_command(
                "search in that project, or in all of them (project `all`)",
                "--all-projects",
            ),
            Self::NeedsPerson(_) => Hint::with_command(
                "tiers up to `critical` need no person; this one must be confirmed by a person at a terminal, or with an HTTP token of scope `admin`",
                "satiety memory",
            ),
            Self::Project(_) | Self::NotOneProject => {
                "name a project by its directory name, its id or a custom name".into()
            }
            Self::TooLong { .. } => {
                "shorten it; for queries, the setting `memory.max_query_bytes` is the limit".into()
            }
            Self::Duplicate { .. } => Hint::with_command(
                "nothing was saved; update the existing memory, or save with `on_duplicate` keep, update or merge",
                "--on-duplicate",
            ),
            Self::EmptyQuery => Hint::with_command("give a query", "satiety memory search \"why sqlite\""),
            Self::NoTask(_) | Self::NoSession(_) => {
                Hint::with_command("list the sessions and their tasks", "satiety memory sessions")
            }
            Self::TaskClosed(_) => Hint::with_command("start another task", "satiety memory preflight"),
            Self::NoOpenTask(_) | Self::WhichTask => {
                Hint::with_command("name the task, or start one", "satiety memory preflight")
            }
            Self::NotLearnt { .. } => Hint::with_command(
                "read the memory to see its learned phrases",
                "satiety memory list --id ID",
            ),
            Self::NoFolder(_) => "give a directory of Markdown files".into(),
            Self::Pipeline(_) => {
                "docs/guides/memory.md lists the search parameters with their defaults".into()
            }
            Self::Draft(_) | Self::SelfLink(_) | Self::OutOfRange { .. } => Hint::with_command(
                "nothing was changed; correct the arguments",
                "satiety memory --help",
            ),
        })
    }
}
