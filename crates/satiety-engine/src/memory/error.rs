//! What can be wrong with a request to the memory.

use satiety::memory::{DraftError, MarkdownError, NeedsPerson, PipelineError, ProjectError};

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
    /// A memory of a project that the request is not about.
    #[error("`{id}` belongs to the project `{project}`")]
    OtherProject {
        /// Which memory.
        id: String,
        /// What its project is called.
        project: String,
    },
    /// Something that only a person may do.
    #[error(transparent)]
    NeedsPerson(#[from] NeedsPerson),
    /// A name that no project can have.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// Something should be kept in all projects at once.
    #[error("a memory is kept in one project, or for all of them as `global`")]
    NotOneProject,
    /// A text that is too long.
    #[error("{what} has {bytes} bytes, and at most {most} are allowed")]
    TooLong {
        /// Which text.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A memory linked to itself.
    #[error("`{0}` cannot be linked to itself")]
    SelfLink(String),
    /// A question that says nothing.
    #[error("the question is empty")]
    EmptyQuery,
    /// A phrase that was not learnt cannot be taken back.
    #[error("`{id}` has not learnt `{phrase}`")]
    NotLearnt {
        /// Which memory.
        id: String,
        /// The phrase.
        phrase: String,
    },
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
    /// No task has that id.
    #[error("there is no task `{0}`")]
    NoTask(String),
    /// A task that is over.
    #[error("the task `{0}` is closed")]
    TaskClosed(String),
    /// A session in which no task is open.
    #[error("no task is open in the session `{0}`")]
    NoOpenTask(String),
    /// Neither a task nor a session is named.
    #[error("neither a task nor a session is named")]
    WhichTask,
    /// No session of that name.
    #[error("nothing is known about a session `{0}`")]
    NoSession(String),
    /// A folder that is none.
    #[error("{0} is not a folder")]
    NoFolder(String),
}

impl MemoryError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotThere(_) => "`satiety memory list` shows the ids".into(),
            Self::OtherProject { .. } => {
                "ask in that project, or for all of them: `--all-projects`, or `project: all` in a request".into()
            }
            Self::NeedsPerson(_) => {
                "a person does this with `satiety memory` at a terminal and confirms it there, or over HTTP with a token of \
                 scope `admin`; the tiers up to `critical` are open to everybody"
                    .into()
            }
            Self::Project(_) | Self::NotOneProject => {
                "name a project by its directory's name, its id or a name of your own".into()
            }
            Self::TooLong { .. } => {
                "say it shorter; for questions, the setting `memory.max_query_bytes` is the limit".into()
            }
            Self::EmptyQuery => {
                "say what you are looking for, such as `satiety memory search \"why sqlite\"`".into()
            }
            Self::NoTask(_) | Self::NoSession(_) => {
                "`satiety memory sessions` shows sessions and their tasks".into()
            }
            Self::TaskClosed(_) => "begin another with task_preflight or `satiety memory preflight`".into(),
            Self::NoOpenTask(_) | Self::WhichTask => {
                "begin one with task_preflight or `satiety memory preflight`, or name the task".into()
            }
            Self::NotLearnt { .. } => {
                "memory_read or `satiety memory list --id` shows what it has learnt".into()
            }
            Self::NoFolder(_) => "name a folder of Markdown files".into(),
            Self::Markdown { .. } => "docs/memory.md shows what a front matter may say".into(),
            Self::Pipeline(_) => "docs/memory.md lists the knobs of a search with their defaults".into(),
            Self::Draft(_) | Self::SelfLink(_) | Self::OutOfRange { .. } => {
                "nothing was changed; `satiety memory --help` shows what is understood".into()
            }
        })
    }
}
