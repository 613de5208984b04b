//! Which memories a request is about, who asks, and how much may be asked.

use crate::handles::MemoryOperations;
use satiety::memory::{Author, NeedsPerson, Project, Scope};
use satiety_store::memory::MemoryRow;

use super::MemoryError;
use crate::EngineError;

/// Longest name of a session or a task, in bytes: both are in every row of the log.
const LONGEST_NAME: usize = 256;
/// Longest folder that a request names, in bytes.
const LONGEST_FOLDER: usize = 1024;
/// Longest text in which trigger phrases are looked for, in bytes.
const LONGEST_TEXT: usize = 1 << 20;

/// How an engine's memory is used.
#[derive(Debug, Clone)]
pub struct MemorySettings {
    /// The project that requests are about when they name none; without one they are about all.
    pub project: Option<Project>,
    /// The largest question, in bytes.
    pub max_query_bytes: usize,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            project: None,
            max_query_bytes: 16 << 10,
        }
    }
}

impl MemoryOperations<'_> {
    /// What a request sees: what it asks for, else the engine's project, else everything.
    pub(super) fn scope(self, asked: Option<&Scope>) -> Scope {
        match (asked, &self.engine.memory_settings.project) {
            (Some(asked), _) => asked.clone(),
            (None, Some(project)) => Scope::Project(project.clone()),
            (None, None) => Scope::All,
        }
    }

    /// The project that something is kept in; none for what every project sees.
    pub(super) fn project(
        self,
        asked: Option<&Scope>,
        author: Author,
    ) -> Result<Option<Project>, MemoryError> {
        match asked {
            None => Ok(self.engine.memory_settings.project.clone()),
            Some(Scope::Project(project)) => Ok(Some(project.clone())),
            Some(Scope::Global) if author == Author::Person => Ok(None),
            Some(Scope::Global) => Err(NeedsPerson::Global.into()),
            Some(Scope::All) => Err(MemoryError::NotOneProject),
        }
    }

    /// A memory that a request may see.
    pub(super) async fn row_in(self, id: &str, asked: Option<&Scope>) -> Result<MemoryRow, EngineError> {
        let row = self.row(id).await?;
        if self.scope(asked).sees(row.project.as_deref()) {
            return Ok(row);
        }
        Err(MemoryError::OtherProject {
            id: id.to_owned(),
            project: row.project_label.unwrap_or_default(),
        }
        .into())
    }

    /// Refuses a question that is too long.
    pub(super) fn check_question(self, question: &str) -> Result<(), MemoryError> {
        within(
            "the question",
            question.len(),
            self.engine.memory_settings.max_query_bytes,
        )
    }

    /// Refuses lists of notes that are too long together.
    pub(super) fn check_notes(self, what: &'static str, notes: &[String]) -> Result<(), MemoryError> {
        let bytes = notes.iter().map(String::len).sum();
        within(what, bytes, self.engine.memory_settings.max_query_bytes)
    }
}

/// Refuses the name of a session, a task or a folder that is too long.
pub(super) fn check_names(
    session: Option<&str>,
    task: Option<&str>,
    folder: Option<&str>,
) -> Result<(), MemoryError> {
    within("the session's name", session.map_or(0, str::len), LONGEST_NAME)?;
    within("the task's id", task.map_or(0, str::len), LONGEST_NAME)?;
    within("the folder", folder.map_or(0, str::len), LONGEST_FOLDER)
}

/// Refuses a text that is too long to look for phrases in.
pub(super) fn check_text(text: &str) -> Result<(), MemoryError> {
    within("the text", text.len(), LONGEST_TEXT)
}

fn within(what: &'static str, bytes: usize, most: usize) -> Result<(), MemoryError> {
    if bytes > most {
        return Err(MemoryError::TooLong { what, bytes, most });
    }
    Ok(())
}

/// The project of a row, as it is shown.
pub(super) fn project_of(row: &MemoryRow) -> Option<Project> {
    let id = row.project.clone()?;
    Some(Project {
        label: row.project_label.clone().unwrap_or_else(|| id.clone()),
        id,
    })
}
