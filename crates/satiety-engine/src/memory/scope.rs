//! Scope of memory requests and limits on their size.

use crate::handles::MemoryOperations;
use satiety::memory::{AttributionRule, Author, NeedsPerson, Project, Scope};
use satiety_store::memory::MemoryRow;

use super::MemoryError;
use crate::EngineError;

/// Maximum bytes of a session or task name: both are in every row of the log.
const MAX_NAME_BYTES: usize = 256;
/// Maximum bytes of a folder in a request.
const MAX_FOLDER_BYTES: usize = 1024;
/// Maximum bytes of a text that is matched against trigger phrases.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// Settings of an engine's memory.
#[derive(Debug, Clone)]
pub struct MemorySettings {
    /// Project of requests that name none; `None` for all projects.
    pub project: Option<Project>,
    /// Maximum bytes of a query.
    pub max_query_bytes: usize,
    /// Rule by which a use of a memory is credited to a query.
    pub attribution: AttributionRule,
    /// Directory for the index of a PostgreSQL database; `None` keeps it in memory only. The index of a SQLite
    /// database is next to its file.
    pub index_directory: Option<std::path::PathBuf>,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            project: None,
            max_query_bytes: 16 << 10,
            attribution: AttributionRule::default(),
            index_directory: None,
        }
    }
}

impl MemoryOperations<'_> {
    /// Returns the index at the current state of the database, with vectors of this embedder, or of any if
    /// none is given.
    pub(super) async fn current_index(
        self,
        wanted: super::index::Wanted<'_>,
    ) -> Result<std::sync::Arc<satiety::memory::MemoryIndex>, EngineError> {
        let place = super::index::FilePlace {
            store: self.engine.settings.store.clone(),
            cache: self.engine.memory_settings.index_directory.clone(),
        };
        let store = self.engine.store().await?;
        self.engine.memory.current(store, &place, wanted).await
    }

    /// Returns the effective scope: the request's, else the engine's project, else all.
    pub(super) fn scope(self, asked: Option<&Scope>) -> Scope {
        match (asked, &self.engine.memory_settings.project) {
            (Some(asked), _) => asked.clone(),
            (None, Some(project)) => Scope::Project(project.clone()),
            (None, None) => Scope::All,
        }
    }

    /// Returns the project to save to; `None` for a global memory.
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

    /// Loads a memory that is visible to a request.
    pub(super) async fn visible_row(self, id: &str, asked: Option<&Scope>) -> Result<MemoryRow, EngineError> {
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

    /// Rejects a query that is too long.
    pub(super) fn check_query(self, query: &str) -> Result<(), MemoryError> {
        check_length("query", query.len(), self.engine.memory_settings.max_query_bytes)
    }

    /// Rejects a list of notes whose total length is too long.
    pub(super) fn check_notes(self, what: &'static str, notes: &[String]) -> Result<(), MemoryError> {
        let bytes = notes.iter().map(String::len).sum();
        check_length(what, bytes, self.engine.memory_settings.max_query_bytes)
    }
}

/// Rejects a session, task or folder name that is too long.
pub(super) fn check_names(
    session: Option<&str>,
    task: Option<&str>,
    folder: Option<&str>,
) -> Result<(), MemoryError> {
    check_length("session name", session.map_or(0, str::len), MAX_NAME_BYTES)?;
    check_length("task id", task.map_or(0, str::len), MAX_NAME_BYTES)?;
    check_length("folder", folder.map_or(0, str::len), MAX_FOLDER_BYTES)
}

/// Rejects a text that is too long for trigger matching.
pub(super) fn check_text(text: &str) -> Result<(), MemoryError> {
    check_length("text", text.len(), MAX_TEXT_BYTES)
}

fn check_length(what: &'static str, bytes: usize, most: usize) -> Result<(), MemoryError> {
    if bytes > most {
        return Err(MemoryError::TooLong { what, bytes, most });
    }
    Ok(())
}

/// Returns the project of a row.
pub(super) fn project_of(row: &MemoryRow) -> Option<Project> {
    let id = row.project.clone()?;
    Some(Project {
        label: row.project_label.clone().unwrap_or_else(|| id.clone()),
        id,
    })
}
